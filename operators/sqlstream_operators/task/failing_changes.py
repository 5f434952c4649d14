"""Rows that operators give and over which an expression fails: which they are, and what there is without them.

A row is retracted as it was given, so it may only be set aside if it fails whenever it comes: by itself, in any number, and
whatever comes with it. DuckDB may evaluate what stands in OR in any order, and another one in another epoch; a join or a
sub-query may find other rows. SQL with one of these is never computed without a row. The terms of an AND are no
danger: a row that one of them drops and one that another of them fails over are both away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sqlstream_operators.duck.relations import Relations
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Schema

from .failing_rows import failing

#: Where one of these words stands in SQL, another evaluation of a row may end otherwise.
_UNSURE = re.compile(r"\b(OR|IN|ANY|SOME|ALL|EXISTS|JOIN|OVER|LIMIT|VALUES|getvariable)\b")
#: What has none of its own: text and names, a UNION ALL, and conditions on groups, which are about finished aggregates.
_HARMLESS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\bUNION ALL\b|^HAVING .*$""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FailingChange:
    """A row of the relation `of` (one row of a table), and what failed over it. `taken_back`: it goes."""

    of: str
    row: pa.Table
    error: DataError
    taken_back: bool


def without_failing(
    relations: Relations, name: str
) -> tuple[pa.Table, Schema, Sequence[FailingChange]] | None:
    """A relation without the rows that can't be computed, its columns, and these rows; None: it can't be had so."""
    made_of = relations.made_of(name)
    if not made_of or _UNSURE.search(_HARMLESS.sub("", relations.text(name))):
        return None
    found: list[FailingChange] = []
    kept = {}
    try:
        for of, table in made_of.items():
            numbers = _alone(relations, name, made_of, of)
            if numbers is None:
                return None
            left = [n for n in range(len(table)) if n + 1 not in numbers]
            kept[of] = table.take(pa.array(left, pa.int64()))
            for number, error in numbers.items():
                row = table.slice(number - 1, 1)
                if not all(_fails(relations, name, made_of, of, other) for other in _both_ways(row)):
                    return None
                found.append(FailingChange(of, row, error, _weight(row) < 0))
        rows, schema = relations.computed_over(name, kept)
    except DataError:
        return None
    return rows, schema, found


def one_failing(relations: Relations, name: str) -> FailingChange | None:
    """A row over which a relation can't be computed; None if no row alone is to blame."""
    for of, table in (relations.made_of(name) or {}).items():
        rows = table
        error = _error(relations, name, {of: rows}) if len(rows) else None
        while error is not None and len(rows) > 1:
            half = len(rows) // 2
            for part in (rows.slice(0, half), rows.slice(half)):
                error = _error(relations, name, {of: part})
                if error is not None:
                    rows = part
                    break
        if error is not None and _error(relations, name, {of: table.slice(0, 0)}) is None:
            return FailingChange(of, rows, error, _weight(rows) < 0)
    return None


def _alone(
    relations: Relations, name: str, made_of: dict[str, pa.Table], of: str
) -> dict[int, DataError] | None:
    """The rows of one relation that fail, by their numbers from 1; None if not all that fails is rows that do so alone."""
    table = made_of[of]
    empty = {other: rows.slice(0, 0) for other, rows in made_of.items() if other != of}

    def run(first: int, last: int) -> DataError | None:
        return _error(relations, name, {**empty, of: table.slice(first - 1, last - first + 1)})

    failure = run(1, len(table)) if len(table) else None
    return {} if failure is None else failing(1, len(table), failure, run)


def _fails(relations: Relations, name: str, made_of: dict[str, pa.Table], of: str, row: pa.Table) -> bool:
    empty = {other: rows.slice(0, 0) for other, rows in made_of.items() if other != of}
    return _error(relations, name, {**empty, of: row}) is not None


def _error(relations: Relations, name: str, over: dict[str, pa.Table]) -> DataError | None:
    try:
        relations.computed_over(name, over)
    except InputFileError:
        raise
    except DataError as error:
        return error
    return None


def _weight(row: pa.Table) -> int:
    return row.column(WEIGHT_COLUMN)[0].as_py() if WEIGHT_COLUMN in row.column_names else 1


def _both_ways(row: pa.Table) -> list[pa.Table]:
    """The row as it comes once, and as it goes once."""
    if WEIGHT_COLUMN not in row.column_names:
        return [row]
    at = row.column_names.index(WEIGHT_COLUMN)
    field = row.schema.field(at)
    return [row.set_column(at, field, pa.array([weight], field.type)) for weight in (1, -1)]
