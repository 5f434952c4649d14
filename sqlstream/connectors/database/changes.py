"""What an epoch does to a table, put together from what its tasks staged.

A row may come in one task's part and go in another's, so parts are consolidated before they are applied: each row or key
stands in the changes once. DuckDB does it, from a stream of batches into a temporary table that it spills to disk.
There are four ways to apply rows, by whether the table has a PRIMARY KEY and whether rows are updating:

- APPEND: the rows as they came; nothing is consolidated.
- UPSERT: appended rows, one for each key; CHANGE_COLUMN is 1.
- KEYED: for each key one row: it is new (CHANGE_COLUMN 1), it replaces the key's row (0), or the key goes (-1).
- MULTISET: for each row how many copies of it come (CHANGE_COLUMN positive) or go (negative).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlstream_operators.duck import memory
from sqlstream_operators.duck.arrow_values import is_lossy
from sqlstream_operators.errors import RefusedRowError
from sqlstream_operators.plan.spec import WEIGHT_COLUMN, Column, SinkSpec
from sqlstream_operators.plan.types import quote_identifier

#: What a row of an epoch's changes does, BIGINT; see the module's docstring.
CHANGE_COLUMN = "__sq_change"
#: Runs SQL in DuckDB and returns its rows.
Run = Callable[[str], Sequence[tuple[Any, ...]]]

_SEVERAL = "__sq_several"


def memory_bytes() -> int:
    """What DuckDB may use on the driver to apply an epoch; beyond it, it spills to disk."""
    return max(256 << 20, memory.available() // 4)


class Mode(Enum):
    """How rows are applied to the table."""

    APPEND = "append"
    UPSERT = "upsert"
    KEYED = "keyed"
    MULTISET = "multiset"

    @classmethod
    def of(cls, spec: SinkSpec) -> Mode:
        """The mode of a sink."""
        retracting = spec.changelog == "retract"
        if spec.primary_key:
            return cls.KEYED if retracting else cls.UPSERT
        return cls.MULTISET if retracting else cls.APPEND


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows an epoch's changes take away, replace and bring; for MULTISET with their copies."""

    go: int
    change: int
    come: int


def consolidate(run: Run, spec: SinkSpec, source: str, into: str) -> Counts:
    """Make the temporary table `into` with the sink's columns and CHANGE_COLUMN from the rows of `source`.

    `source` is SQL to stand after FROM, read once from beginning to end. Raises RefusedRowError if a key has two rows or
    is NULL.
    """
    mode = Mode.of(spec)
    names = [column.name for column in spec.schema]
    if mode is Mode.MULTISET:
        run(f"CREATE OR REPLACE TEMP TABLE {into} AS {_net(names, source)}")
        go, change, come = f"-{CHANGE_COLUMN}", "0", CHANGE_COLUMN
    else:
        run(f"CREATE OR REPLACE TEMP TABLE {into} AS {_by_key(spec, mode, source)}")
        _check_keys(run, spec, into)
        go, change, come = "1", "1", "1"
    ((gone, changed, came),) = run(
        f"SELECT sum({go}) FILTER (WHERE {CHANGE_COLUMN} < 0), sum({change}) FILTER (WHERE {CHANGE_COLUMN} = 0), "
        f"sum({come}) FILTER (WHERE {CHANGE_COLUMN} > 0) FROM {into}"
    )
    return Counts(int(gone or 0), int(changed or 0), int(came or 0))


def restored(relation: str, columns: Sequence[Column]) -> str:
    """SQL to stand after FROM: an Arrow relation whose columns have the types again that Arrow loses."""
    if not any(is_lossy(column.type) for column in columns):
        return quote_identifier(relation)
    items = (
        f"CAST({quote_identifier(c.name)} AS {c.type}) AS {quote_identifier(c.name)}"
        if is_lossy(c.type)
        else quote_identifier(c.name)
        for c in columns
    )
    return f"(SELECT {', '.join(items)} FROM {quote_identifier(relation)})"


def _net(names: Sequence[str], source: str) -> str:
    """Each distinct row with how often it comes or goes."""
    columns = _list(names)
    return (
        f"SELECT {columns}, CAST(sum({WEIGHT_COLUMN}) AS BIGINT) AS {CHANGE_COLUMN} FROM {source} "
        f"GROUP BY {columns} HAVING sum({WEIGHT_COLUMN}) <> 0"
    )


def _by_key(spec: SinkSpec, mode: Mode, source: str) -> str:
    names = [column.name for column in spec.schema]
    columns, key = _list(names), _list(spec.primary_key)
    rows = (
        f"SELECT {columns}, CAST(1 AS BIGINT) AS {CHANGE_COLUMN} FROM {source}"
        if mode is Mode.UPSERT
        else _net(names, source)
    )
    return (
        f"SELECT {columns}, CAST(CASE WHEN __sq_goes = 0 THEN 1 WHEN __sq_comes = 0 THEN -1 ELSE 0 END AS BIGINT) "
        f"AS {CHANGE_COLUMN}, __sq_comes > 1 OR __sq_goes > 1 AS {_SEVERAL} FROM ("
        f"SELECT *, sum(greatest({CHANGE_COLUMN}, 0)) OVER k AS __sq_comes, sum(greatest(-{CHANGE_COLUMN}, 0)) OVER k "
        f"AS __sq_goes FROM ({rows}) WINDOW k AS (PARTITION BY {key})) "
        f"WHERE {CHANGE_COLUMN} > 0 OR __sq_comes = 0"
    )


def _check_keys(run: Run, spec: SinkSpec, changes: str) -> None:
    columns = [column.name for column in spec.schema]
    row = ", ".join(f"CAST({quote_identifier(name)} AS VARCHAR)" for name in columns)
    for name in spec.primary_key:
        found = run(f"SELECT {row} FROM {changes} WHERE {quote_identifier(name)} IS NULL LIMIT 1")
        if found:
            raise without_key(spec, name, f": {shown(columns, found[0])}")
    texts = ", ".join(f"CAST({quote_identifier(name)} AS VARCHAR)" for name in spec.primary_key)
    several = run(f"SELECT {texts} FROM {changes} WHERE {_SEVERAL} LIMIT 1")
    if several:
        raise RefusedRowError(
            f"table {spec.name}: two rows have the PRIMARY KEY {shown(spec.primary_key, several[0])}",
            "the query must give one row for each key: GROUP BY it, or keep one row with "
            f"ROW_NUMBER() OVER (PARTITION BY {', '.join(spec.primary_key)} ORDER BY …) = 1",
        )


def without_key(spec: SinkSpec, column: str, row: str = "") -> RefusedRowError:
    """The error for a row with NULL in a column of the key; `row` is added to the message."""
    return RefusedRowError(
        f"table {spec.name}: a row has NULL in {column}, which belongs to the PRIMARY KEY{row}",
        f"leave such rows out (WHERE {column} IS NOT NULL), or choose another key",
    )


def shown(names: Sequence[str], values: Sequence[object]) -> str:
    """A row as text for people: `name = value`, cut to a length that fits a message."""
    pairs = zip(names, values, strict=True)
    return short(", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in pairs))


def short(text: str, limit: int = 300) -> str:
    """A row's text, cut to a length that fits a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _list(names: Sequence[str]) -> str:
    return ", ".join(quote_identifier(name) for name in names)
