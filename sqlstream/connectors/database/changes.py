"""What an epoch does to a table, put together from what its tasks reported.

Tasks hand their rows to the driver with their reports; the driver consolidates them, so that what is applied is
small and each row or key stands in it once. There are four ways to apply rows, by whether the table has a
PRIMARY KEY and whether rows can go:

- APPEND: the rows as they came.
- UPSERT: appended rows, one for each key; CHANGE_COLUMN is 1.
- KEYED: for each key one row: it is new (CHANGE_COLUMN 1), it replaces the key's row (0), or the key goes (-1).
- MULTISET: for each row how many copies of it come (CHANGE_COLUMN positive) or go (negative).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import pyarrow as pa

from sqlstream.connectors.api import SinkPart
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InternalError
from sqlstream_operators.plan.spec import WEIGHT_COLUMN, SinkSpec
from sqlstream_operators.plan.types import quote_identifier

#: What a row of an epoch's changes does, BIGINT; see the module's docstring.
CHANGE_COLUMN = "__change"

_ROWS = "sink_rows"


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


def changes_of(duck: DuckSession, spec: SinkSpec, parts: Sequence[SinkPart]) -> pa.Table:
    """The changes of an epoch: the sink's columns, and CHANGE_COLUMN unless the mode is APPEND.

    Raises DataError if a key has two rows or is NULL.
    """
    if any(part.table is None and part.rows for part in parts):
        raise InternalError(f"the rows of a task for sink {spec.name} did not reach the driver")
    tables = [part.table for part in parts if part.table is not None and part.table.num_rows]
    mode = Mode.of(spec)
    names = [column.name for column in spec.schema]
    if not tables:
        return _nothing(duck, spec, mode)
    rows = pa.concat_tables(tables)
    if mode is Mode.APPEND:
        return rows.select(names)
    duck.register(_ROWS, rows, [c for c in spec.schema if c.name in rows.column_names])
    try:
        if mode is Mode.MULTISET:
            return duck.query(_net(names))
        _check_no_null_key(duck, spec)
        return _by_key(duck, spec, mode)
    finally:
        duck.drop(_ROWS)


def _nothing(duck: DuckSession, spec: SinkSpec, mode: Mode) -> pa.Table:
    columns = [f"CAST(NULL AS {c.type}) AS {quote_identifier(c.name)}" for c in spec.schema]
    if mode is not Mode.APPEND:
        columns.append(f"CAST(NULL AS BIGINT) AS {CHANGE_COLUMN}")
    return duck.query(f"SELECT {', '.join(columns)} WHERE false")


def _net(names: Sequence[str]) -> str:
    """Each distinct row with how often it comes or goes."""
    columns = _list(names)
    return (
        f"SELECT {columns}, CAST(sum({WEIGHT_COLUMN}) AS BIGINT) AS {CHANGE_COLUMN} FROM {_ROWS} "
        f"GROUP BY {columns} HAVING sum({WEIGHT_COLUMN}) <> 0"
    )


def _check_no_null_key(duck: DuckSession, spec: SinkSpec) -> None:
    for name in spec.primary_key:
        null = duck.query(f"SELECT 1 FROM {_ROWS} WHERE {quote_identifier(name)} IS NULL LIMIT 1")
        if null.num_rows:
            raise DataError(
                f"table {spec.name}: a row has NULL in {name}, which belongs to the PRIMARY KEY. "
                f"Filter such rows out (WHERE {name} IS NOT NULL) or choose another key"
            )


def _by_key(duck: DuckSession, spec: SinkSpec, mode: Mode) -> pa.Table:
    names = [column.name for column in spec.schema]
    columns, key = _list(names), _list(spec.primary_key)
    source = (
        f"SELECT {columns}, CAST(1 AS BIGINT) AS {CHANGE_COLUMN} FROM {_ROWS}"
        if mode is Mode.UPSERT
        else _net(names)
    )
    found = duck.query(
        f"SELECT {columns}, CAST(CASE WHEN goes = 0 THEN 1 WHEN comes = 0 THEN -1 ELSE 0 END AS BIGINT) "
        f"AS {CHANGE_COLUMN}, comes > 1 OR goes > 1 AS __several FROM ("
        f"SELECT *, sum(greatest({CHANGE_COLUMN}, 0)) OVER k AS comes, sum(greatest(-{CHANGE_COLUMN}, 0)) OVER k "
        f"AS goes FROM ({source}) WINDOW k AS (PARTITION BY {key})) "
        f"WHERE {CHANGE_COLUMN} > 0 OR comes = 0"
    )
    several = found.filter(found["__several"])
    if several.num_rows:
        raise DataError(
            f"table {spec.name}: two rows have the PRIMARY KEY {shown(duck, several, spec, spec.primary_key)}. "
            f"The query must give one row for each key: GROUP BY it, or keep one row with "
            f"ROW_NUMBER() OVER (PARTITION BY {', '.join(spec.primary_key)} ORDER BY …) = 1"
        )
    return found.drop_columns(["__several"])


def shown(duck: DuckSession, rows: pa.Table, spec: SinkSpec, names: Sequence[str]) -> str:
    """The first of `rows` as text for people: `name = value` of the columns `names`."""
    columns = [c for c in spec.schema if c.name in names]
    duck.register("shown_rows", rows.select([c.name for c in columns]).slice(0, 1), columns)
    try:
        texts = ", ".join(f"CAST({quote_identifier(c.name)} AS VARCHAR)" for c in columns)
        values = duck.query(f"SELECT {texts} FROM shown_rows")
    finally:
        duck.drop("shown_rows")
    found = {c.name: values.column(i)[0].as_py() for i, c in enumerate(columns)}
    text = ", ".join(f"{n} = {'NULL' if found[n] is None else found[n]}" for n in names)
    return short(text)


def short(text: str, limit: int = 300) -> str:
    """A row's text, cut to a length that fits a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _list(names: Sequence[str]) -> str:
    return ", ".join(quote_identifier(name) for name in names)
