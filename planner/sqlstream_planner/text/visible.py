"""Text of the data as a terminal may show it: what would move its cursor, or hide text, is written out."""

from __future__ import annotations

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
#: C0, DEL, C1, the ends of lines and paragraphs, and what turns the direction of the text round it.
_CODES = (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_ESCAPES = {
    code: _SHORT.get(chr(code), f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}") for code in _CODES
}


def visible(text: str) -> str:
    """A text on one line, its control characters as escapes.

    >>> print(visible("a\\x1b[31m b\\n" + chr(0x202E) + "ü"))
    a\\x1b[31m b\\n\\u202eü
    """
    return text.translate(_ESCAPES)
