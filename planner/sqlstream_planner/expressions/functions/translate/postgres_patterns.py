"""PostgreSQL's date patterns (`YYYY-MM-DD HH24:MI`) as DuckDB's strftime formats.

As documented for to_char, to_date and to_timestamp. What has no exact counterpart is refused: a pattern must not silently
mean something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Change(StrEnum):
    """What is done to a part of the text after it was formatted."""

    NONE = ""
    UPPER = "upper"
    LOWER = "lower"
    QUARTER = "quarter"  # no format at all, but the quarter's number


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a pattern: its strftime format, what is done to the text, and to how many characters it is filled up."""

    format: str
    change: Change = Change.NONE
    width: int = 0


_NUMBERS = {
    "YYYY": "%Y", "YY": "%y", "IYYY": "%G", "MM": "%m", "DDD": "%j", "DD": "%d", "IW": "%V", "ID": "%u",
    "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M", "SS": "%S", "MS": "%g", "US": "%f",
    "FF3": "%g", "FF6": "%f",
}  # fmt: skip
_WORDS = {
    "MONTH": ("%B", 9),
    "MON": ("%b", 0),
    "DAY": ("%A", 9),
    "DY": ("%a", 0),
    "AM": ("%p", 0),
    "PM": ("%p", 0),
}
#: Numbers whose leading zeros FM takes away.
_UNPADDED = {
    "%m": "%-m",
    "%d": "%-d",
    "%j": "%-j",
    "%H": "%-H",
    "%I": "%-I",
    "%M": "%-M",
    "%S": "%-S",
    "%y": "%-y",
}
_NAMES = sorted([*_NUMBERS, *_WORDS, "Q"], key=len, reverse=True)
_HOUR_AND_MONTH = re.compile(r"HH(?:12|24)?\W?MM", re.IGNORECASE)
_TOKEN = re.compile(rf'"([^"]*)"|(FM)?({"|".join(_NAMES)})(TH)?|([A-Za-z]+)|(.)', re.IGNORECASE | re.DOTALL)


def pieces_of(pattern: str) -> list[Piece]:
    """The parts of a pattern, one where no part is changed. Raises ValueError with the letters that have no counterpart.

    >>> pieces_of('FMDD. YYYY-MM-DD"T"HH24:MI:SS.MS')
    [Piece(format='%-d. %Y-%m-%dT%H:%M:%S.%g', change=<Change.NONE: ''>, width=0)]
    >>> [(p.format, p.change.value, p.width) for p in pieces_of("MON Day")]
    [('%b', 'upper', 0), (' ', '', 0), ('%A', '', 9)]
    """
    if ("MM" in pattern and "mm" in pattern) or _HOUR_AND_MONTH.search(pattern):
        raise ValueError(f"`mm` in '{pattern}' is the month, as `MM` is: MI are the minutes")
    found: list[Piece] = []
    for token in _TOKEN.finditer(pattern):
        quoted, fill, name, ordinal, letters, other = token.groups()
        if ordinal is not None or letters is not None:
            raise ValueError(
                f"`{token.group()}` in '{pattern}' has no counterpart in DuckDB: put letters that stand for "
                "themselves in double quotes"
            )
        if name is None:
            piece = Piece((quoted if quoted is not None else other).replace("%", "%%"))
        else:
            piece = _named(name, fill is not None)
        if found and _is_plain(found[-1]) and _is_plain(piece):
            found[-1] = Piece(found[-1].format + piece.format)
        else:
            found.append(piece)
    return found


def parse_format(pattern: str) -> str:
    """The strptime format of a pattern, which takes names in any case.

    >>> parse_format("DD-Mon-YYYY HH12:MI AM")
    '%d-%b-%Y %I:%M %p'
    """
    pieces = pieces_of(pattern)
    if any(piece.change is Change.QUARTER for piece in pieces):
        raise ValueError(f"`Q` in '{pattern}' is no part of a date that can be read")
    return "".join(piece.format for piece in pieces)


def _is_plain(piece: Piece) -> bool:
    return piece.change is Change.NONE and not piece.width


def _named(name: str, unfilled: bool) -> Piece:
    upper = name.upper()
    if upper == "Q":
        return Piece("", Change.QUARTER)
    if upper in _NUMBERS:
        format_ = _NUMBERS[upper]
        return Piece(_UNPADDED.get(format_, format_) if unfilled else format_)
    format_, width = _WORDS[upper]
    change = Change.NONE
    if name == upper and upper not in ("AM", "PM"):
        change = Change.UPPER
    elif name == name.lower():
        change = Change.LOWER
    return Piece(format_, change, 0 if unfilled else width)
