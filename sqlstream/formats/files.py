"""What a format is where its rows are in files: plain data that a connector of files goes by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream.formats.boundaries import RangeEnd


class Unit(StrEnum):
    """What a range of a file counts: bytes of text, which may be compressed; rows; or nothing, as it is read whole."""

    TEXT = "text"
    ROWS = "rows"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format in files.

    `ending` is that of the names of files that are written; `written`: whether there are any. `tails` are what a whole file
    of no text ends with. `appendable`: what comes behind a file leaves the rows before it as they were. `smallest_range`: a
    smaller one is not worth a task of its own, bytes; None: files are not cut. `range_end` (of text) makes, of a table's
    options, what finds where a record ends. `halved`: a compressed file is divided, too, to find a row in it.
    """

    unit: Unit
    ending: str = ".json"
    written: bool = True
    tails: tuple[bytes, ...] | None = None
    appendable: bool = False
    smallest_range: int | None = None
    range_end: Callable[[Mapping[str, str]], RangeEnd] | None = None
    halved: bool = False


def line_ends(options: Mapping[str, str]) -> RangeEnd:
    """Every line is a record."""
    from sqlstream.formats.boundaries import json_range_end

    return json_range_end


def csv_ends(options: Mapping[str, str]) -> RangeEnd:
    """A record may go over several lines."""
    import functools

    from sqlstream.formats.boundaries import csv_range_end
    from sqlstream.formats.csv.shape import CsvShape

    return functools.partial(csv_range_end, CsvShape.of(options))


#: A line is a record of JSON.
JSON_LINES = FileFormat(Unit.TEXT, appendable=True, smallest_range=8 << 20, range_end=line_ends, halved=True)
