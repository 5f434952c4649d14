"""Deduplication: the first row of each key by an order, over input that only comes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .changelog_spec import DeduplicateSpec
from .errors import InternalError
from .fragment import DuckSession
from .operator import OperatorContext, OperatorResult, Watermarks
from .ranking import Int64s, projects
from .relations import conformed
from .schema import WEIGHT_COLUMN, Column, Schema
from .sort_keys import order_sql, tie_sql
from .state_schema import FOUND
from .types import BIGINT, Kind
from .weighted import consolidated, empty, with_weight

TABLE = "row"

_ROWS = "__deduplicated_rows"


class Deduplicate:
    """Runs a `DeduplicateSpec`: see there for its input, its state and its output.

    The epoch's first row of each key is found, then compared with the stored one, each in one DuckDB query.
    """

    def __init__(self, spec: DeduplicateSpec) -> None:
        self._spec = spec
        table = spec.state.table(TABLE)
        self._values: Schema = tuple(c for c in spec.columns if c.name not in spec.partition)
        if (
            table.layout != "key"
            or table.sub_key
            or {field.name for field in table.key} != set(spec.partition)
            or {field.name for field in table.value} != {column.name for column in self._values}
        ):
            raise InternalError(
                f"state {spec.state.state_id}: table {TABLE} has not the columns of the operator: {table}"
            )
        if spec.ttl_us is not None:
            raise InternalError(f"state {spec.state.state_id}: deduplication does not forget by time")

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No rows came."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Keep the first row of each key; raises InternalError if changes come instead of rows."""
        started = time.perf_counter_ns()
        spec, state = self._spec, context.state
        [rows] = inputs
        if WEIGHT_COLUMN in rows.column_names:
            raise InternalError(f"state {spec.state.state_id}: changes came, the plan says appended rows")
        if not rows.num_rows:
            return OperatorResult(empty(with_weight(spec.output)), {"emitted_rows": 0})
        rows = conformed(rows, spec.columns, f"state {spec.state.state_id}")
        rows = _taken(rows, self._first(context.duck, rows))
        merge_us = (time.perf_counter_ns() - started) // 1000
        started = time.perf_counter_ns()
        stored = state.get(TABLE, rows)
        state_us = (time.perf_counter_ns() - started) // 1000
        started = time.perf_counter_ns()
        found = stored.column(FOUND).to_numpy()
        before = np.flatnonzero(found)
        better = self._better(context.duck, _taken(rows, before), _taken(stored, before))
        replaced = before[better]
        comes = ~found
        comes[replaced] = True
        new = _taken(rows, np.flatnonzero(comes))
        output = self._changes(_taken(rows, replaced), _taken(stored, replaced), new)
        if projects(spec):
            output = consolidated(context.duck, output, spec.output)
        merge_us += (time.perf_counter_ns() - started) // 1000
        started = time.perf_counter_ns()
        state.put(TABLE, new)
        state_us += (time.perf_counter_ns() - started) // 1000
        metrics = {
            "emitted_rows": output.num_rows,
            "read_rows": len(before),
            "state_rows_added": rows.num_rows - len(before),
            "merge_us": merge_us,
            "state_us": state_us,
        }
        return OperatorResult(output, metrics)

    def _first(self, duck: DuckSession, rows: pa.Table) -> Int64s:
        """The index of each key's first row, ascending."""
        names = {column.name: f"c{number}" for number, column in enumerate(self._spec.columns)}
        table = rows.rename_columns(list(names.values()))
        table = table.append_column("i", pa.array(np.arange(rows.num_rows)))
        schema = [Column(names[column.name], column.type) for column in self._spec.columns]
        by = ", ".join(names[name] for name in self._spec.partition)
        sql = f"SELECT arg_min(i, {self._key(names)}) FROM {_ROWS}{f' GROUP BY {by}' if by else ''}"
        duck.register(_ROWS, table, [*schema, Column("i", BIGINT)])
        try:
            found: Int64s = duck.query(sql).column(0).to_numpy()
        finally:
            duck.drop(_ROWS)
        return np.sort(found)

    def _better(self, duck: DuckSession, rows: pa.Table, stored: pa.Table) -> npt.NDArray[np.bool_]:
        """For each new row whether it comes before the stored one of its key."""
        if not rows.num_rows or not self._values:
            return np.zeros(rows.num_rows, bool)
        sides: list[str] = []
        arrays: list[pa.ChunkedArray] = []
        schema: list[Column] = []
        for side, table in (("n", rows), ("o", stored)):
            names = {column.name: f"{side}{number}" for number, column in enumerate(self._values)}
            arrays += [table.column(column.name) for column in self._values]
            schema += [Column(names[column.name], column.type) for column in self._values]
            sides.append(self._key(names))
        table = pa.Table.from_arrays(arrays, names=[column.name for column in schema])
        duck.register(_ROWS, table, schema)
        try:
            better = duck.query(f"SELECT {sides[0]} < {sides[1]} FROM {_ROWS}").column(0)
        finally:
            duck.drop(_ROWS)
        found: npt.NDArray[np.bool_] = better.to_numpy()
        return found

    def _key(self, names: dict[str, str]) -> str:
        """DuckDB SQL of a value that orders the rows of a key as the spec does."""
        spec = self._spec
        # Unlike ORDER BY, create_sort_key does not take a month for 30 days.
        intervals = {column.name for column in spec.columns if column.type.kind is Kind.INTERVAL}
        names = {c: f"normalized_interval({sql})" if c in intervals else sql for c, sql in names.items()}
        terms = order_sql([term for term in spec.order if term.column not in spec.partition], names)
        terms += tie_sql(spec.order, spec.columns, spec.partition, names)
        pairs = [f"{column}, '{how}'" for column, _, how in (term.partition(" ") for term in terms)]
        return f"create_sort_key({', '.join(pairs)})" if pairs else "0"

    def _changes(self, rows: pa.Table, stored: pa.Table, new: pa.Table) -> pa.Table:
        """The stored rows of the keys of `rows` go, `new` come."""
        names = [column.name for column in self._spec.output]
        keys = self._spec.partition
        old = [(rows if name in keys else stored).column(name) for name in names]
        gone = pa.Table.from_arrays(old, names=names)
        changes = pa.concat_tables([gone, new.select(names).cast(gone.schema)]) if old else rows.slice(0, 0)
        weight = np.concatenate([np.full(rows.num_rows, -1), np.ones(new.num_rows, np.int64)])
        return changes.append_column(WEIGHT_COLUMN, pa.array(weight))


def _taken(table: pa.Table, index: Int64s) -> pa.Table:
    """Rows by ascending index."""
    return table if len(index) == table.num_rows else table.take(pa.array(index))
