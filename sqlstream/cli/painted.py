"""Colours of a terminal, and which parts of a plan have which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream_planner.explain.graph_text import Part
    from sqlstream_planner.pipeline import Planned

RESET, BOLD, DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN = (f"\x1b[{number}m" for number in range(31, 37))
BOLD_RED, BOLD_YELLOW, BOLD_BLUE = "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m"

_PARTS: Mapping[Part, str] = MappingProxyType(
    {
        "lane": DIM,
        "source": BLUE,
        "dimension": BLUE,
        "sql": "",
        "operator": BOLD,
        "sink": MAGENTA,
        "place": DIM,
        "label": CYAN,
    }
)
#: What becomes of a state by an edit, as the dashboard colours it: kept, computed of it, computed anew, begun empty.
_VERDICTS = {"KEEP": GREEN, "ADAPT": CYAN, "BACKFILL": YELLOW, "FRESH": RED, "DROP": RED}

_HEADING = re.compile(r"== .* ==")
_NAMED = re.compile(r"(source|dimension|stage|sink) (\S+)(.*)")
_STATE = re.compile(r"([0-9a-f]{16}\S*) (\w+)(:.*)")
_KEYWORDS = re.compile(
    r"\b(SELECT|DISTINCT|FROM|WHERE|GROUP BY|ORDER BY|HAVING|LIMIT|UNION ALL|LEFT|INNER|JOIN|ON|AS|AND|OR|NOT|"
    r"CASE|WHEN|THEN|ELSE|END|CAST|IN|IS|NULL|WITH|INTERVAL|EXISTS|OVER|PARTITION BY)\b"
)
_SQL_LINE = re.compile(
    r" {4,}(SELECT|FROM|WHERE|GROUP BY|ORDER BY|HAVING|WITH|UNION ALL|LEFT|INNER|JOIN| {2,}\S).*"
)


def painted(style: str, text: str) -> str:
    """The text in a style; as it is without one, or where there is nothing to see.

    >>> painted(BOLD, "sink"), painted("", "sink"), painted(BOLD, "  ")
    ('\\x1b[1msink\\x1b[0m', 'sink', '  ')
    """
    return f"{style}{text}{RESET}" if style and text.strip() else text


def graph_paint(part: Part, text: str) -> str:
    """A piece of a plan's graph in its colour."""
    return painted(_VERDICTS.get(text.strip(), "") if part == "verdict" else _PARTS[part], text)


def explained(planned: Planned, *, colour: bool) -> str:
    """The plan of a pipeline as `sqlstream explain` shows it."""
    from sqlstream_planner.explain.plan import explain_text

    if not colour:
        return explain_text(planned)
    return "\n".join(map(_explained_line, explain_text(planned, graph_paint).split("\n")))


def _explained_line(line: str) -> str:
    if "\x1b" in line:
        return line
    if _HEADING.fullmatch(line):
        return painted(BOLD, line)
    named = _NAMED.fullmatch(line)
    if named:
        return f"{painted(DIM, named[1])} {painted(BOLD, named[2])}{named[3]}"
    state = _STATE.fullmatch(line)
    if state:
        return f"{painted(DIM, state[1])} {painted(BOLD, state[2])}{state[3]}"
    if _SQL_LINE.fullmatch(line):
        return _KEYWORDS.sub(lambda found: painted(BLUE, found[0]), line)
    return line
