"""An operator over changes, run by itself on the stores of several shards, and multisets of rows to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.codec.exchange import partition
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.operators.operator import KeepsAnswer, OperatorContext
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.spec import OperatorSpec
from sqlstream_operators.plan.types import BIGINT
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.version import ShardVersion
from tests.rows_given import note

GROUPS = 16
DUCK = DuckSession()
BATCH = duckdb.connect(config={"threads": 1})
Multiset = Counter[tuple[Any, ...]]


def table(schema: Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows of plain values as a table of these columns."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table(
        {
            column.name: pa.array(list(values), to_arrow(column.type))
            for column, values in zip(schema, columns, strict=True)
        }
    )


def weighted_table(schema: Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """As `table`, with the last value of each row its weight."""
    return table((*schema, Column(WEIGHT_COLUMN, BIGINT)), rows)


def plain(value: Any) -> Any:
    """A value that can be hashed, and is equal to another where SQL says so."""
    if isinstance(value, float) and value != value:
        return "NaN"
    if isinstance(value, pa.MonthDayNano):
        months, days, nanos = value
        return "interval", (months * 30 + days) * 86_400_000_000 + nanos // 1000
    if isinstance(value, list):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, plain(item)) for key, item in value.items())
    return value


def rows_of(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(plain(value) for value in row.values()) for row in rows.to_pylist()]


def batch(sql: str, schema: Schema, rows: Multiset) -> Multiset:
    """What DuckDB answers over the multiset `rows`, as relation `t`."""
    BATCH.register("t", table(schema, list(rows.elements())))
    return Counter(rows_of(BATCH.sql(sql).to_arrow_table()))


def partials(sql: str, schema: Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """A partial aggregate of one split, whose rows have a weight, as relation `t`."""
    return DUCK.query(sql, {"t": weighted_table(schema, rows)})


class Folded:
    """The multiset that an operator's output adds up to; each output must be consolidated.

    `once`: a row stands in it once; else no two changes of one cancel out.
    """

    def __init__(self, *, once: bool = True) -> None:
        self.rows: Multiset = Counter()
        self._once = once

    def add(self, output: pa.Table) -> Multiset:
        names = [name for name in output.column_names if name != WEIGHT_COLUMN]
        if WEIGHT_COLUMN not in output.column_names:
            self.rows.update(rows_of(output))
            return self.rows
        weights = output.column(WEIGHT_COLUMN).to_pylist()
        rows = rows_of(output.select(names))
        stands = {(row, weight > 0) for row, weight in zip(rows, weights, strict=True)}
        assert len(set(rows)) == (len(rows) if self._once else len(stands)), "a row stands twice"
        assert 0 not in weights
        for row, weight in zip(rows, weights, strict=True):
            self.rows[row] += weight
            if not self.rows[row]:
                del self.rows[row]
        assert all(count > 0 for count in self.rows.values()), "a row went that was not there"
        return self.rows


class Shards:
    """An operator's shards: inputs are partitioned by `keys` as the exchange does, one call is one epoch."""

    def __init__(
        self, spec: OperatorSpec, shards: int, keys: Sequence[str], *, directory: Path | None = None
    ) -> None:
        self.spec = spec
        self.operator = operator_of(spec)
        self.shards = shards
        self.keys = list(keys)
        self.epoch = 0
        self.metrics: list[dict[str, int]] = []
        #: Whether the state's answer is compared with what was emitted; it reads all of the state.
        self.compares = spec.facts.keeps_answer and spec.ttl_us is None
        self._emitted: Multiset = Counter()
        self._kept: Multiset = Counter()
        self._memory = [MemoryShardStore(spec.state, shard, shards, GROUPS) for shard in range(shards)]
        self._directory = directory
        self._versions = [ShardVersion.empty() for _ in range(shards)]

    def run(self, inputs: Sequence[pa.Table], marks: Watermarks | None = None) -> list[pa.Table]:
        """One epoch; the output of each shard. Where `idle` says so it is checked that nothing would happen."""
        self.epoch += 1
        note(sum(rows.num_rows for rows in inputs))
        pieces = [dict(partition(rows, self.keys, GROUPS, self.shards)) for rows in inputs]
        outputs = []
        for shard in range(self.shards):
            own = [part.get(shard, rows.slice(0, 0)) for part, rows in zip(pieces, inputs, strict=True)]
            outputs.append(self._run(shard, own, marks or Watermarks()))
        if self.compares:
            for output in outputs:
                _add(self._emitted, output)
            assert self._kept == self._emitted, "the state's answer is not what was emitted"
            self._kept = Counter()
        return outputs

    def rescale(self, shards: int) -> None:
        """Go on with another number of shards; only on RocksDB."""
        assert self._directory is not None
        self.shards = shards

    def go_on(self, spec: OperatorSpec) -> None:
        """Go on with the same state and another operator."""
        self.spec, self.operator = spec, operator_of(spec)
        self.compares = False

    def state_rows(self) -> int:
        """The rows of all tables in all shards."""
        if self._directory is not None:
            return sum(version.rows for version in self._versions)
        return sum(
            store.scan_all(place.name).num_rows for store in self._memory for place in self.spec.state.tables
        )

    def _run(self, shard: int, inputs: list[pa.Table], marks: Watermarks) -> pa.Table:
        if self._directory is None:
            store = self._memory[shard]
            output = self._process(shard, inputs, marks, store)
            store.commit()
            return output
        if shard == 0:
            self._before, self._versions = self._versions, []
        same = len(self._before) == self.shards
        with ShardStore.open(
            self.spec.state,
            shard,
            self.shards,
            GROUPS,
            self._before[shard] if same else self._before,
            checkpoint=CheckpointStore(self._directory / "checkpoint", sync=False),
            local_dir=self._directory / "local",
            epoch=self.epoch,
        ) as rocks:
            output = self._process(shard, inputs, marks, rocks)
            self._versions.append(rocks.commit())
        return output

    def _process(
        self, shard: int, inputs: list[pa.Table], marks: Watermarks, store: MemoryShardStore | ShardStore
    ) -> pa.Table:
        idle = self.epoch > 1 and self.operator.idle(inputs, marks, stateless=not store.has_rows())
        context = OperatorContext(shard, self.shards, GROUPS, marks, store, DUCK)
        result = self.operator.process(inputs, context)
        if idle:
            assert result.output.num_rows == 0
            assert not store.overlay.rows
            assert not store.overlay.ranges
        assert result.metrics["emitted_rows"] == result.output.num_rows
        names = [column.name for column in self.spec.output]
        assert [name for name in result.output.column_names if name != WEIGHT_COLUMN] == names
        self.metrics.append(dict(result.metrics))
        if self.compares:
            _add(self._kept, cast(KeepsAnswer, self.operator).answer(context))
        return result.output


def _add(into: Multiset, changes: pa.Table) -> None:
    weighted = WEIGHT_COLUMN in changes.column_names
    weights = changes.column(WEIGHT_COLUMN).to_pylist() if weighted else [1] * changes.num_rows
    rows = changes.drop_columns([WEIGHT_COLUMN]) if weighted else changes
    for row, weight in zip(rows_of(rows), weights, strict=True):
        into[row] += weight
        if not into[row]:
            del into[row]
