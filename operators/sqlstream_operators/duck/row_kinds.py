"""Weighted rows as the kinds of change that the world outside writes: '+I', '-U', '+U', '-D'."""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.schema import KIND_COLUMN, WEIGHT_COLUMN, RowKind, Schema
from sqlstream_operators.plan.types import quote_identifier

from .session import DuckSession

_ROW, _CHANGES = "__row", "__changes"


def to_kinds(table: pa.Table, key: tuple[str, ...] | None, schema: Schema) -> pa.Table:
    """The columns of `schema` and KIND_COLUMN, a row for each insertion and retraction of a row.

    `table` is consolidated, with WEIGHT_COLUMN; without it every row is inserted once, in the order given. With a
    `key`, rows are ordered by it, and a key that has one row before and one after gets '-U' and directly after
    it '+U', any other its '-D' and then its '+I'; the key () says that there is at most one row. Without one
    (None) all '-D' stand before all '+I', each ordered by all columns. NULLs stand first.
    """
    names = [column.name for column in schema]
    rows = table.select(names)
    if WEIGHT_COLUMN not in table.column_names:
        return rows.append_column(
            KIND_COLUMN, pa.repeat(pa.scalar(RowKind.INSERT.value, pa.string()), len(rows))
        )
    weights = table.column(WEIGHT_COLUMN)
    if weights.null_count or pc.any(pc.equal(weights, 0)).as_py():
        raise InternalError("a weight is NULL or 0")
    if not rows.num_rows:
        return rows.append_column(KIND_COLUMN, pa.array([], pa.string()))
    order = _ordered(rows, weights, key, schema)
    times = np.abs(order.column(WEIGHT_COLUMN).to_numpy())
    taken = np.repeat(np.arange(len(times)), times)
    numbers = order.column(_ROW).to_numpy()[taken]
    kinds = order.column(KIND_COLUMN).combine_chunks().take(pa.array(taken))
    return rows.take(pa.array(numbers)).append_column(KIND_COLUMN, kinds)


def count_changes(table: pa.Table) -> int:
    """How many times rows come or go: the sum of the weights without their signs.

    >>> count_changes(pa.table({"x": [1, 2], WEIGHT_COLUMN: [-2, 1]}))
    3
    """
    if WEIGHT_COLUMN not in table.column_names or not table.num_rows:
        return int(table.num_rows)
    return int(pc.sum(pc.abs(table.column(WEIGHT_COLUMN))).as_py())


def _ordered(
    rows: pa.Table, weights: pa.ChunkedArray, key: tuple[str, ...] | None, schema: Schema
) -> pa.Table:
    """Place, WEIGHT_COLUMN and KIND_COLUMN of each row, in the order in which they are to be written.

    A name in ORDER BY means what the SELECT list gives first, so that has no name which a column can have.
    """
    numbered = rows.append_column(WEIGHT_COLUMN, weights)
    numbered = numbered.append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    comes = f"({WEIGHT_COLUMN} > 0)"
    if key is not None:
        by = f"PARTITION BY {', '.join(quote_identifier(name) for name in key)}" if key else ""
        once = f"count(*) OVER k = 2 AND min({WEIGHT_COLUMN}) OVER k = -1 AND max({WEIGHT_COLUMN}) OVER k = 1"
        kind = f"CASE WHEN {once} THEN CASE WHEN {comes} THEN '+U' ELSE '-U' END "
        kind += f"WHEN {comes} THEN '+I' ELSE '-D' END"
        window, first = f" WINDOW k AS ({by})", [*map(quote_identifier, key), comes]
    else:
        kind, window, first = f"CASE WHEN {comes} THEN '+I' ELSE '-D' END", "", [comes]
    terms = [*first, *(quote_identifier(column.name) for column in schema), _ROW]
    order = ", ".join(f"{term} ASC NULLS FIRST" for term in dict.fromkeys(terms))
    duck = _session()
    duck.register(_CHANGES, numbered)  # not with their SQL types: text orders as well as JSON
    try:
        return duck.query(
            f"SELECT {_ROW}, {WEIGHT_COLUMN}, {kind} AS {KIND_COLUMN} FROM {_CHANGES}{window} ORDER BY {order}"
        )
    finally:
        duck.drop(_CHANGES)


@functools.cache
def _session() -> DuckSession:
    """The connection of this process for ordering; the fragments' own may be in use."""
    return DuckSession(prepares=True)
