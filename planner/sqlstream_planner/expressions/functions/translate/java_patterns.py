"""Java's date patterns (`yyyy-MM-dd HH:mm`) as DuckDB's strftime formats (`%Y-%m-%d %H:%M`).

Letters as documented for java.time.format.DateTimeFormatter. A letter without an exact counterpart is
refused: a pattern must not silently mean something else.
"""

from __future__ import annotations

import re

_FORMATS = {
    "y": "%Y",
    "yyyy": "%Y",
    "u": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "uu": "%y",
    "M": "%-m",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "L": "%-m",
    "LL": "%m",
    "d": "%-d",
    "dd": "%d",
    "D": "%-j",
    "DDD": "%j",
    "H": "%-H",
    "HH": "%H",
    "h": "%-I",
    "hh": "%I",
    "m": "%-M",
    "mm": "%M",
    "s": "%-S",
    "ss": "%S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "a": "%p",
    "E": "%a",
    "EE": "%a",
    "EEE": "%a",
    "EEEE": "%A",
}
_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|.", re.DOTALL)


def strftime_format(pattern: str) -> str:
    """The strftime format of a Java pattern. Raises ValueError with the letters that have none.

    >>> strftime_format("yyyy-MM-dd'T'HH:mm:ss.SSS")
    '%Y-%m-%dT%H:%M:%S.%g'
    >>> strftime_format("h 'o''clock' a, 100%")
    "%-I o'clock %p, 100%%"
    """
    parts = []
    for found in _TOKEN.finditer(pattern):
        token = found.group(0)
        if token == "''":
            parts.append("'")
        elif token == "'":
            raise ValueError(f"the quote in '{pattern}' is not closed")
        elif token.startswith("'"):
            parts.append(token[1:-1].replace("''", "'").replace("%", "%%"))
        elif token[0].isascii() and token[0].isalpha():
            if token not in _FORMATS:
                raise ValueError(f"`{token}` in '{pattern}' has no counterpart in DuckDB")
            parts.append(_FORMATS[token])
        else:
            parts.append(token.replace("%", "%%"))
    return "".join(parts)
