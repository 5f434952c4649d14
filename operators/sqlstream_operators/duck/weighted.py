"""Adding up relations whose rows have WEIGHT_COLUMN, and what turns one relation into another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.plan.equal_values import exactly
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.types import BIGINT, quote_identifier

from .relations import conformed
from .session import DuckSession

_ROWS = "__weighted"


def with_weight(schema: Schema) -> Schema:
    """The columns, and WEIGHT_COLUMN behind them."""
    return (*schema, Column(WEIGHT_COLUMN, BIGINT))


def empty(schema: Schema) -> pa.Table:
    """A table with these columns and no rows."""
    return pa.schema([(column.name, to_arrow(column.type)) for column in schema]).empty_table()


def names_of(schema: Schema) -> list[str]:
    """The names of the columns."""
    return [column.name for column in schema]


def quoted(schema: Schema) -> list[str]:
    """The names of the columns, quoted for DuckDB."""
    return [quote_identifier(column.name) for column in schema]


def concatenated(pieces: Sequence[pa.Table]) -> pa.Table:
    """The rows of at least one table of one schema, one after the other; empty ones cost nothing."""
    return pa.concat_tables([piece for piece in pieces if piece.num_rows] or list(pieces[:1]))


def chosen(rows: pa.Table, names: Sequence[str], index: npt.NDArray[np.int64]) -> pa.Table:
    """Some rows of some columns; without columns a table that still has as many rows, as `take` does not."""
    if not names:
        return pa.table({"x": pa.nulls(len(index))}).select([])
    return rows.select(list(names)).take(pa.array(index))


def consolidated_sql(rows: str, schema: Schema) -> str:
    """SQL over the SELECT `rows` (of `schema` and WEIGHT_COLUMN): weights of the same rows added up, no 0 among them.

    Rows that are equal and not the same stay two: one would be retracted for the other.
    """
    columns = quoted(schema)
    total = f"sum({WEIGHT_COLUMN})"
    listed = ", ".join([*columns, f"CAST({total} AS BIGINT) AS {WEIGHT_COLUMN}"])
    by = f" GROUP BY {', '.join(exactly(schema))}" if columns else ""
    return f"SELECT {listed} FROM ({rows}){by} HAVING {total} <> 0"


def consolidated(duck: DuckSession, rows: pa.Table, schema: Schema) -> pa.Table:
    """Rows of `schema` and WEIGHT_COLUMN with the weights of the same rows added up, those that are 0 left out."""
    if not rows.num_rows:
        return empty(with_weight(schema))
    source = duck.source(_ROWS, rows, with_weight(schema))
    try:
        merged = duck.query(consolidated_sql(f"SELECT * FROM {source}", schema))
    finally:
        duck.drop(_ROWS)
    return conformed(merged, with_weight(schema), "consolidated rows")


def negated(rows: pa.Table) -> pa.Table:
    """Changes that take back what `rows` give; without weights they come once each."""
    if WEIGHT_COLUMN not in rows.column_names:
        return rows.append_column(WEIGHT_COLUMN, pa.array(np.full(rows.num_rows, -1)))
    at = rows.column_names.index(WEIGHT_COLUMN)
    return rows.set_column(at, rows.schema.field(at), pc.negate_checked(rows.column(at)))
