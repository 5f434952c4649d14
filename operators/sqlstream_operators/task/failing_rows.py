"""Rows of a split over which an expression fails, such as a cast: found by halving, so that the others can be computed.

Only rows that fail by themselves are found. What fails over several (a sum that overflows) fails the task as it did.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.types import quote_identifier

from .io import BadRow, SplitReader

#: With more rows that fail than these, a split fails whole: to find one costs some twenty runs over parts of it.
MOST = 500

_NUMBER = "__row_number"
#: Computes the rows with the numbers from one to another, both included, and gives what failed.
Run = Callable[[int, int], DataError | None]


@dataclass(frozen=True, slots=True)
class FailingRow:
    """A row as JSON, what DuckDB says of it, and the SQL at which it points; a `BadRow` of the data `origin`."""

    raw: str
    reason: str
    expression: str | None
    origin: str
    line: int | None = None


@dataclass(slots=True)
class ChosenRows:
    """A reader that gives some of the rows that another can read of a split: those from a number to another, less some.

    The split is opened once, whatever is chosen of it.
    """

    reader: SplitReader
    first: int = 1
    last: int | None = None
    less: Sequence[int] = ()
    _opened: dict[str, Sequence[BadRow]] = field(default_factory=dict)

    def choose(self, first: int, last: int | None, less: Iterable[int] = ()) -> None:
        """What to give from now on; None: up to the last."""
        self.first, self.last, self.less = first, last, tuple(less)

    def open_strict(self, duck: DuckSession, relation: str, split: Any, *, queries: int) -> None:
        """As `open_lenient`: rows are numbered among the readable ones."""
        self.open_lenient(duck, relation, split)

    def open_lenient(self, duck: DuckSession, relation: str, split: Any) -> Sequence[BadRow]:
        """Make the chosen rows queryable; what can't be read is reported as ever."""
        every = f"{relation} with numbers"
        if every not in self._opened:
            self._opened[every] = self.reader.open_lenient(duck, every, split)
        where = f'"{_NUMBER}" >= {self.first}'
        where += f' AND "{_NUMBER}" <= {self.last}' if self.last is not None else ""
        where += f' AND "{_NUMBER}" NOT IN ({", ".join(map(str, self.less))})' if self.less else ""
        duck.view(
            relation,
            f'SELECT * EXCLUDE ("{_NUMBER}") FROM (SELECT *, row_number() OVER () AS "{_NUMBER}" '
            f"FROM {quote_identifier(every)}) WHERE {where}",
        )
        return self._opened[every]

    def as_json(
        self, duck: DuckSession, relation: str, columns: Iterable[str], numbers: Iterable[int]
    ) -> list[str]:
        """Rows of the opened split by their numbers, which ascend, with some columns, as JSON."""
        packed = ", ".join(f"{quote_identifier(name)} := {quote_identifier(name)}" for name in columns)
        found = duck.query(
            f'SELECT CAST(to_json(struct_pack({packed})) AS VARCHAR) AS "{_NUMBER}" FROM '
            f'(SELECT *, row_number() OVER () AS "{_NUMBER}" FROM {quote_identifier(f"{relation} with numbers")}) '
            f'WHERE "{_NUMBER}" IN ({", ".join(map(str, numbers))})'
        )
        return [str(text) for text in found.column(0).to_pylist()]


def failing(first: int, last: int, failed: DataError, run: Run) -> dict[int, DataError] | None:
    """The rows that fail by themselves, of those with the numbers from `first` to `last`, which `failed`.

    None if there are more than MOST, or if some fail together only.
    """
    if first == last:
        return {first: failed}
    middle = (first + last) // 2
    found: dict[int, DataError] = {}
    for low, high in ((first, middle), (middle + 1, last)):
        part = run(low, high)
        if part is None:
            continue
        inside = failing(low, high, part, run)
        if inside is None or len(found) + len(inside) > MOST:
            return None
        found |= inside
    return found or None


def message_and_sql(error: DataError) -> tuple[str, str | None]:
    """What DuckDB says, and the line of SQL that it points at.

    >>> message_and_sql(DataError('Conversion Error: no\\n\\nLINE 2:   CAST("s" AS INTEGER) AS "x",\\n   ^'))
    ('Conversion Error: no', 'CAST("s" AS INTEGER) AS "x"')
    """
    message, found, line = error.message.partition("\nLINE ")
    if not found:
        return message.strip(), None
    text = re.sub(r"^\d+: *(\.\.\.)?", "", line.split("\n")[0])
    return message.strip(), text.strip().rstrip(",").removesuffix("...") or None
