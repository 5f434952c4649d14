"""Small pieces of Markdown, and what differs between GitHub's and Python-Markdown's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_CODE = re.compile(r"`[^`]*`")
_ITEM = re.compile(r" *([-*]|\d+\.) +")


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, ended by a line break.

    >>> print(table(("a", "b"), [("1|2", "")]), end="")
    | a | b |
    |---|---|
    | 1\\|2 |  |
    """
    lines = [heading, *rows]
    shown = ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines]
    return "\n".join([shown[0], "|" + "---|" * len(heading), *shown[1:]]) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\|", " ".join(text.split()))


def fenced(language: str, text: str) -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def slug(text: str) -> str:
    """A name for a file: `INTERSECT [ALL], EXCEPT` is `intersect-all-except`.

    >>> slug("ORDER BY … LIMIT")
    'order-by-limit'
    """
    return "-".join(re.findall(r"[a-z0-9_]+", text.lower()))


def for_python_markdown(text: str) -> str:
    """A page that GitHub reads, for Python-Markdown.

    What belongs to an item of a list must be four columns in; GitHub takes what begins below the item's text, which is two
    or three. In code in a table GitHub wants `\\|`, where Python-Markdown shows the backslash.

    >>> print(for_python_markdown("1. one\\n   more\\n\\n   another\\n\\nend"))
    1. one
        more
    <BLANKLINE>
        another
    <BLANKLINE>
    end
    >>> print(for_python_markdown("| `a \\\\| b` | c \\\\| d |"))
    | `a | b` | c \\| d |
    """
    done: list[str] = []
    inside = fence = False
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        item = None if fence else _ITEM.match(line)
        if not fence:
            inside = bool(item) or (inside and (indent > 0 or not line))
        if line.strip().startswith("```"):
            fence = not fence
        elif not fence and line.startswith("|"):
            line = _CODE.sub(lambda code: code[0].replace("\\|", "|"), line)
        if inside and 0 < indent < 4 and not (item and indent == 0):
            line = "    " + line[min(indent, 3) :]
        elif item and indent == 0 and done and done[-1] and not _in_list(done):
            done.append("")
        done.append(line)
    return "\n".join(done)


def _in_list(lines: Sequence[str]) -> bool:
    """Whether the last line belongs to an item of a list."""
    return bool(_ITEM.match(lines[-1])) or lines[-1].startswith(" ")
