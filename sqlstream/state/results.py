"""The result of a query as people and tools read it: a table, CSV, or a JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlstream_planner.text.visible import visible

_CUT = "…"


@dataclass(frozen=True, slots=True)
class Result:
    """The columns of a query's result, and its rows as DuckDB writes them: text, None for NULL."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
class Shown:
    """What was written: how many rows, and whether there are more of them."""

    rows: int
    more: bool = False

    @property
    def text(self) -> str:
        """The count as a line says it.

        >>> Shown(1).text, Shown(1000, more=True).text
        ('1 row', 'the first 1,000 rows; there are more')
        """
        count = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        return f"the first {count}; there are more" if self.more else count


def write_result(result: Result, form: str, out: Any) -> None:
    """Write a result in a form: `table` with a line for the count, `csv`, or `json` (its only column is the row)."""
    if form == "json":
        write_json(result, out)
    elif form == "csv":
        write_csv(result, out)
    else:
        out.write(f"({write_table(result, out).text})\n")


def write_json(result: Result, out: Any) -> Shown:
    """Write the only column of each row, which is a JSON object, on a line."""
    count = 0
    for (text,) in result.rows:
        out.write(f"{text}\n")
        count += 1
    return Shown(count)


def write_csv(result: Result, out: Any) -> Shown:
    """Write CSV with the names of the columns: NULL is nothing, an empty text is in quotes, as DuckDB writes them."""
    out.write(_csv_line(result.columns))
    count = 0
    for row in result.rows:
        out.write(_csv_line(row))
        count += 1
    return Shown(count)


def write_table(result: Result, out: Any, *, most: int | None = None, width: int | None = None) -> Shown:
    """Write columns that are as wide as their values need: `most` rows, in lines of `width` characters at most.

    Where a line has not room for all, the widest columns are cut, and what is cut ends with `…`.
    """
    found = list(islice(result.rows, None if most is None else most + 1))
    more = most is not None and len(found) > most
    rows = [["NULL" if cell is None else visible(cell) for cell in row] for row in found[:most]]
    names = [visible(name) for name in result.columns]
    widths = fitting([max(map(len, column)) for column in zip(names, *rows, strict=True)], width)
    for row in (names, *rows):
        cells = [_cut(cell, room).ljust(room) for cell, room in zip(row, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        out.write((line if width is None else _cut(line, width)) + "\n")
    return Shown(len(rows), more)


def write_expanded(result: Result, out: Any, *, most: int | None = None) -> Shown:
    """Write a line for each column, and one with its number before each row."""
    names = [visible(name) for name in result.columns]
    room = max(map(len, names), default=0)
    count = 0
    for row in result.rows:
        if count == most:
            return Shown(count, more=True)
        count += 1
        out.write(f"-- row {count:,}\n")
        for name, cell in zip(names, row, strict=True):
            out.write(f"{name.ljust(room)}  {'NULL' if cell is None else visible(cell)}".rstrip() + "\n")
    return Shown(count)


def fitting(widths: Sequence[int], width: int | None) -> list[int]:
    """The widths of columns, two spaces between them, where a line has `width` characters: the widest give way.

    >>> fitting([4, 30, 10], 30), fitting([4, 30], None)
    ([4, 12, 10], [4, 30])
    """
    found = list(widths)
    if width is None:
        return found
    excess = sum(found) + 2 * (len(found) - 1) - width
    while excess > 0 and max(found) > _LEAST:
        widest = max(found)
        second = max((w for w in found if w < widest), default=_LEAST)
        places = [i for i, w in enumerate(found) if w == widest]
        step = max(min(widest - max(second, _LEAST), excess // len(places)), 1)
        for place in places:
            cut = min(step, excess)
            found[place] -= cut
            excess -= cut
    return found


#: A column is not cut below this.
_LEAST = 6


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + _CUT


def _csv_line(row: Sequence[str | None]) -> str:
    return ",".join(_csv_cell(cell) for cell in row) + "\n"


def _csv_cell(cell: str | None) -> str:
    if cell is None:
        return ""
    if cell == "" or any(c in cell for c in ',"\r\n'):
        return '"' + cell.replace('"', '""') + '"'
    return cell
