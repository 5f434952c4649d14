"""Random ranked queries over small domains with NULLs and ties, their batch answers, and shards that run them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.codec.keys import key_groups, shard_of
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.operators.operator import Operator, OperatorContext
from sqlstream_operators.plan.schema import SLICE_COLUMN, WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import Layout, StateField, StateSchema, StateTable
from sqlstream_operators.plan.top_n_spec import RANKS, Ordering
from sqlstream_operators.plan.types import BIGINT, BLOB, JSON, VARCHAR, SqlType, decimal
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.state_tables import StateTables
from sqlstream_operators.state.version import ShardVersion
from tests.operators.arrow_strategies import columns, scalar_types
from tests.rows_given import note

DUCK = DuckSession()
REFERENCE = duckdb.connect(config={"threads": 1})
GROUPS = 16

#: Two columns are called as the state's own fields are in the spec.
COLUMNS: Schema = (
    Column("p", BIGINT),
    Column("count", BIGINT),
    Column("row", VARCHAR),
    Column("d", decimal(6, 2)),
)
NAMES = [column.name for column in COLUMNS]
RANK = Column("rn", BIGINT)

Row = tuple[Any, ...]
Change = tuple[Row, int]

rows = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, -1, 0, 1]),
    st.sampled_from([None, "", "a", "a\0", "b"]),
    st.sampled_from([None, Decimal("0.50"), Decimal("-1.00")]),
)


#: Changes that only come, and where epochs end.
inserts = st.lists(st.tuples(rows, st.sampled_from([1, 1, 2])), max_size=24)
cuts = st.lists(st.integers(0, 24), max_size=4)


@dataclass(frozen=True)
class Case:
    """A ranked query: `output` are the columns it gives, the rank first if `rank`."""

    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    function: str
    offset: int
    limit: int
    rank: bool
    output: tuple[str, ...]

    @property
    def columns(self) -> Schema:
        """The columns of the output."""
        named = {column.name: column for column in COLUMNS}
        return (*([RANK] if self.rank else []), *(named[name] for name in self.output))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    def some(names: Sequence[str], most: int) -> tuple[str, ...]:
        return tuple(draw(st.lists(st.sampled_from(names), max_size=most, unique=True)))

    partition = some(NAMES, 2)
    order = tuple(Ordering(name, draw(st.booleans()), draw(st.booleans())) for name in some(NAMES, 3))
    whole = draw(st.booleans())
    return Case(
        partition,
        order,
        draw(st.sampled_from(RANKS)),
        draw(st.sampled_from([0, 0, 1, 2])),
        draw(st.sampled_from([0, 1, 2, 3, 10])),
        draw(st.booleans()),
        tuple(draw(st.permutations(NAMES)))
        if whole
        else draw(st.sampled_from([("row",), ("p", "d"), ("count", "p")])),
    )


def ranked_state(case: Case, layout: Layout = "key") -> StateSchema:
    """The state of a Top-N over COLUMNS; fingerprints are not in the order of names."""
    fields = {c.name: StateField(c.name, c.type, f"of {c.name[::-1]}") for c in COLUMNS}
    table = StateTable.of(
        "rows",
        layout,
        key=[fields[name] for name in case.partition],
        sub_key=[StateField("$sort", BLOB, "0: sort"), StateField("$row", BLOB, "1: row")],
        value=[
            StateField("$count", BIGINT, "$count"),
            *(fields[name] for name in NAMES if name not in case.partition),
        ],
    )
    return StateSchema("top", "TopN", "", (table,))


def answer(case: Case, there: Mapping[Row, int]) -> Counter[Row]:
    """The rows of the batch query over the rows that are there more than 0 times."""
    listed = [row for row, count in there.items() for _ in range(count)]
    columns = ", ".join(f'"{name}"' for name in NAMES)
    order = [
        f'"{term.column}" {"DESC" if term.descending else "ASC"} NULLS {"FIRST" if term.nulls_first else "LAST"}'
        for term in case.order
    ]
    if case.function == "row_number":
        order += [f'"{name}" ASC NULLS FIRST' for name in NAMES]
    partition = ", ".join(f'"{name}"' for name in case.partition)
    terms = [f"PARTITION BY {partition}"] if partition else []
    terms += [f"ORDER BY {', '.join(order)}"] if order else []
    output = ", ".join(f'"{column.name}"' for column in case.columns)
    found = duckdb_rows(
        f"SELECT {output} FROM (SELECT {columns}, {case.function}() OVER ({' '.join(terms)}) AS rn FROM t) "
        f"WHERE rn > {case.offset} AND rn <= {case.offset + case.limit}",
        table_of(listed),
    )
    return Counter(found)


def duckdb_rows(sql: str, table: pa.Table) -> list[Row]:
    """The rows of a query over relation `t`, by a DuckDB that operators do not use."""
    REFERENCE.register("t", table)
    found: list[Row] = REFERENCE.sql(sql).fetchall()
    REFERENCE.unregister("t")
    return found


def table_of(listed: Sequence[Row], columns: Schema = COLUMNS) -> pa.Table:
    """Rows as an Arrow table."""
    arrays = [pa.array([row[i] for row in listed], to_arrow(column.type)) for i, column in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def changes_of(changes: Sequence[Change], *, weighted: bool) -> pa.Table:
    """Changes as an operator's input; without a column of weights, rows that come."""
    if not weighted:
        return table_of([row for row, weight in changes for _ in range(weight)])
    table = table_of([row for row, _ in changes])
    return table.append_column(WEIGHT_COLUMN, pa.array([weight for _, weight in changes], pa.int64()))


def tuples(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table."""
    return [tuple(row.values()) for row in table.to_pylist()]


def fold(into: Counter[Row], table: pa.Table, columns: Schema) -> None:
    """Add an operator's changes to rows, checking that no row becomes negative."""
    assert table.column_names == [*(column.name for column in columns), WEIGHT_COLUMN]
    assert [field.type for field in table.schema] == [*(to_arrow(c.type) for c in columns), pa.int64()]
    for *row, weight in tuples(table):
        assert weight != 0
        into[tuple(row)] += weight
        assert into[tuple(row)] >= 0
        if not into[tuple(row)]:
            del into[tuple(row)]


def _add(into: Counter[Row], changes: pa.Table) -> None:
    """Add changes to rows; NaN is equal to itself, and a list can be compared."""
    names = [name for name in changes.column_names if name != WEIGHT_COLUMN]
    weights = changes.column(WEIGHT_COLUMN).to_pylist()
    for row, weight in zip(changes.select(names).to_pylist(), weights, strict=True):
        key = tuple(map(repr, row.values()))
        into[key] += weight
        if not into[key]:
            del into[key]


def assert_consolidated(changes: pa.Table) -> None:
    """Each row stands once in a shard's changes; rows without weights may stand there several times."""
    if WEIGHT_COLUMN in changes.column_names:
        found = [repr(row[:-1]) for row in tuples(changes)]
        assert len(set(found)) == len(found)


class Shards:
    """An operator in several shards, over epochs; in memory, or with `root` in RocksDB, where it may be rescaled."""

    def __init__(
        self,
        operator: Operator,
        schema: StateSchema,
        shards: int = 1,
        root: Path | None = None,
    ) -> None:
        self.operator, self.schema, self.shards, self.root = operator, schema, shards, root
        self.keys = [field.name for field in schema.tables[0].key]  # their order decides the shard
        self.memory: dict[int, MemoryShardStore] = {}
        self.versions: list[ShardVersion] = []
        self.epoch = 0
        self.emitted: Counter[Row] = Counter()

    def run(self, table: pa.Table, marks: Watermarks | None = None) -> pa.Table:
        """One epoch; gives what all shards emit."""
        self.epoch += 1
        note(table.num_rows)
        groups = key_groups([table.column(name) for name in self.keys], GROUPS, rows=table.num_rows)
        shards = shard_of(groups, self.shards, GROUPS)
        outputs, versions, kept = [], [], Counter[Row]()
        for shard in range(self.shards):
            with self.store(shard) as store:
                context = OperatorContext(shard, self.shards, GROUPS, marks or Watermarks(), store, DUCK)
                part = table.filter(pa.array(shards == shard))
                if not self.operator.idle([part], context.watermarks, stateless=not store.has_rows()):
                    result = self.operator.process([part], context)
                    assert result.metrics.get("emitted_rows", 0) == result.output.num_rows
                    assert_consolidated(result.output)
                    outputs.append(result.output)
                if hasattr(self.operator, "answer"):
                    _add(kept, self.operator.answer(context))
                versions.append(store.commit())
        self.versions = versions
        if hasattr(self.operator, "answer"):
            for output in outputs:
                _add(self.emitted, output)
            assert kept == self.emitted, "the state's answer is not what was emitted"
        return pa.concat_tables(outputs) if outputs else None

    @contextmanager
    def store(self, shard: int) -> Iterator[Any]:
        """The state of one shard."""
        if self.root is None:
            yield self.memory.setdefault(shard, MemoryShardStore(self.schema, shard, self.shards, GROUPS))
            return
        same = len(self.versions) == self.shards
        with ShardStore.open(
            self.schema,
            shard,
            self.shards,
            GROUPS,
            self.versions[shard] if same else self.versions or ShardVersion.empty(),
            checkpoint=CheckpointStore(str(self.root / "checkpoint")),
            local_dir=self.root / "local",
            epoch=self.epoch,
        ) as opened:
            yield opened

    def stored(self) -> list[dict[str, Any]]:
        """All rows of state."""
        found: list[dict[str, Any]] = []
        self.epoch += 1
        for shard in range(self.shards):
            with self.store(shard) as store:
                assert isinstance(store, StateTables)
                for table in self.schema.tables:
                    found += store.scan_all(table.name).to_pylist()
        self.epoch -= 1
        return found

    def bytes(self) -> list[dict[bytes, bytes]]:
        """What the shards hold in memory, byte by byte."""
        return [self.memory[shard]._memory.rows for shard in sorted(self.memory)]


def cut(changes: Iterable[Change], cuts: Sequence[int]) -> list[list[Change]]:
    """Changes in epochs; `cuts` are where one ends."""
    listed = list(changes)
    bounds = [0, *sorted(min(c, len(listed)) for c in cuts), len(listed)]
    return [listed[a:b] for a, b in itertools.pairwise(bounds)]


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[SqlType, list[pa.Array]]:
    """A type, and the values of some epochs."""
    type_ = draw(scalar_types().filter(lambda type_: type_ != JSON))  # what is drawn is no JSON
    return type_, [draw(columns(type_, draw(st.integers(1, 6)))) for _ in range(draw(st.integers(1, 3)))]


def outcome_of(
    job: Shards, epochs: Iterable[Sequence[Change]], *, weighted: bool = False
) -> tuple[list[list[str] | None], object]:
    """What a job gives for each epoch, in some order, and the bytes of its state."""
    outputs = []
    for epoch in epochs:
        output = job.run(changes_of(epoch, weighted=weighted))
        outputs.append(None if output is None else sorted(map(repr, output.to_pylist())))
    return outputs, job.bytes()


def shuffled(changes: Sequence[Change], seed: int) -> list[Change]:
    """The same changes in another order."""
    order = np.random.default_rng(seed).permutation(len(changes)).tolist()
    return [changes[i] for i in order]


def windowed(listed: Sequence[tuple[int, Row]]) -> pa.Table:
    """Rows behind the end of their window."""
    columns = (Column(SLICE_COLUMN, BIGINT), *COLUMNS)
    return table_of([(end, *row) for end, row in listed], columns)
