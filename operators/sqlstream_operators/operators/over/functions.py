"""The values of window functions over Arrow rows, by DuckDB's own window SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.sort_keys import order_sql, tie_sql
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.plan.equal_values import differing
from sqlstream_operators.plan.over_spec import BY_PEER, BY_ROW, COPY, PART, POSITION, OverCall
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.top_n_spec import Ordering
from sqlstream_operators.plan.types import BIGINT, BOOLEAN, quote_identifier

_ROWS = "__over_rows"
_AT, _OLD, _CHANGED = "__at", "__old", "__changed"


@dataclass(frozen=True, slots=True)
class WindowFunctions:
    """The `calls` over rows of `columns` in their order: by `order`, then by all columns, then by their copies."""

    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    calls: tuple[OverCall, ...]

    @property
    def given(self) -> Schema:
        """The columns that the calls give."""
        return tuple(call.column for call in self.calls)

    def values(self, duck: DuckSession, rows: pa.Table, part: Int64s) -> pa.Table:
        """What the calls give for each row (columns and `COPY`), in partitions that are numbered."""
        found, _ = self.changed(duck, rows, part, None)
        return found

    def changed(
        self, duck: DuckSession, rows: pa.Table, part: Int64s, old: pa.Table | None
    ) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
        """The same, and for which rows that is another value than in `old`, of any of them."""
        if not rows.num_rows:
            return conformed(_empty(self.given), self.given, "values"), np.zeros(0, bool)
        schema = [*self.columns, Column(COPY, BIGINT), Column(PART, BIGINT), Column(_AT, BIGINT)]
        arrays = [rows.column(c.name) for c in (*self.columns, Column(COPY, BIGINT))]
        arrays += [_chunked(part), _chunked(np.arange(rows.num_rows))]
        if old is not None:
            schema += [Column(f"{_OLD}_{n}", c.type) for n, c in enumerate(self.given)]
            arrays += [old.column(c.name) for c in self.given]
        table = pa.Table.from_arrays(arrays, names=[c.name for c in schema])
        duck.register(_ROWS, table, schema)
        try:
            found = duck.query(self._sql(compared=old is not None))
        finally:
            duck.drop(_ROWS)
        at = found.column(_AT).to_numpy()
        index = np.empty(len(at), np.int64)
        index[at] = np.arange(len(at))
        changed = (Column(_CHANGED, BOOLEAN, False),)
        found = conformed(found.take(pa.array(index)), (*self.given, *changed), "values of OVER")
        differs = found.column(_CHANGED).to_numpy(zero_copy_only=False)
        return found.drop_columns([_CHANGED]), differs

    def _sql(self, *, compared: bool) -> str:
        order = order_sql(self.order)
        places = ", ".join([*order, *tie_sql(self.order, self.columns, self.partition), COPY])
        peers = f" ORDER BY {', '.join(order)}" if order else ""
        items = [
            f"CAST({call.sql} AS {call.column.type}) AS {quote_identifier(call.column.name)}"
            for call in self.calls
        ]
        differs = [
            differing(quote_identifier(c.name), f"{_OLD}_{n}", c.type) for n, c in enumerate(self.given)
        ]
        given = ", ".join(quote_identifier(c.name) for c in self.given)
        return (
            f"SELECT {_AT}, {given}, {' OR '.join(differs) if compared else 'TRUE'} AS {_CHANGED} FROM (\n"
            f"  SELECT *, {', '.join(items)} FROM (\n"
            f"    SELECT *, row_number() OVER (PARTITION BY {PART} ORDER BY {places}) AS {POSITION} FROM {_ROWS})\n"
            f"  WINDOW {BY_ROW} AS (PARTITION BY {PART} ORDER BY {POSITION}), "
            f"{BY_PEER} AS (PARTITION BY {PART}{peers}))"
        )


def _chunked(values: npt.NDArray[np.int64]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values)])


def _empty(schema: Sequence[Column]) -> pa.Table:
    return pa.table({c.name: pa.nulls(0) for c in schema})
