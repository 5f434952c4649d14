"""Wraps paragraphs and items of lists that have too long a line: `python -m tests.docs.wrap docs/sql/joins.md …`.

Code, tables and headings stay as they are.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

WIDEST = 110
_ITEM = re.compile(r"\s*([-*]|\d+\.)\s+")


def wrapped(text: str) -> str:
    """The text, with its long paragraphs wrapped at WIDEST.

    >>> wrapped("- " + "word " * 30).splitlines()[0][:11]
    '- word word'
    >>> wrapped("- " + "word " * 30).splitlines()[1]
    '  word word word word word word word word word'
    """
    done: list[str] = []
    block: list[str] = []
    fence = False
    for line in text.split("\n"):
        ends = fence or not line.strip() or line.startswith(("|", "#", ">", "```")) or _ITEM.match(line)
        if ends:
            done += _filled(block)
            block = []
        fence ^= line.startswith("```")
        if not ends or (not fence and _ITEM.match(line)):
            block.append(line)
        else:
            done.append(line)
    return "\n".join([*done, *_filled(block)])


def _filled(block: list[str]) -> list[str]:
    if all(len(line) <= WIDEST for line in block):
        return block
    item = _ITEM.match(block[0])
    first = item[0] if item else ""
    words = " ".join(line.strip() for line in block)[len(first.strip()) :].lstrip()
    return textwrap.wrap(
        words,
        WIDEST,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(wrapped(page.read_text(encoding="utf-8")), encoding="utf-8")
