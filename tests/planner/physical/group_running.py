"""Two ways to run a group plan: its SQL put together naively in DuckDB tables, and the real operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa

from sqlstream_operators.codec.keys import key_groups, shard_of
from sqlstream_operators.operators.aggregate.distinct_values import DistinctValues
from sqlstream_operators.operators.aggregate.group_aggregate import GroupAggregate as GroupOperator
from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.types import BIGINT, BOOLEAN, quote_identifier
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.operators.distinct_values import DistinctPlan
from sqlstream_planner.physical.operators.group_aggregate import GroupPlan
from tests.planner.physical.group_cases import DUCK, GROUPS, Epoch, Row, blocks, union


def interpreted(plan_: GroupPlan, epochs: Sequence[Epoch]) -> list[Row]:
    """What a plan's SQL gives after all epochs, put together naively in DuckDB tables."""
    spec, connection = plan_.spec, DUCK.connection
    _create("partials", plan_.partial_schema)
    for counted, schema in zip(spec.multisets, plan_.multiset_schemas, strict=True):
        _create(counted.name, schema)
    seen: list[Counter[Row]] = [Counter() for _ in plan_.distinct]
    for epoch in epochs:
        parts = blocks(epoch, retracting=plan_.retracting)
        _insert("partials", union([plan_.partial_sql(b) for b in parts], plan_.partial_schema))
        for position, counted in enumerate(spec.multisets):
            texts = [plan_.multiset_sql(b, position) for b in parts]
            _insert(counted.name, union(texts, plan_.multiset_schemas[position]))
        for distinct, known in zip(plan_.distinct, seen, strict=True):
            _distinct(distinct, parts, known)
    if spec.seed is not None:
        connection.execute(f"INSERT INTO partials {spec.seed}")
    keys = [quote_identifier(c.name) for c in spec.keys]
    items = [
        *keys,
        *(f"{m} AS {quote_identifier(c.name)}" for m, c in zip(spec.merge, spec.accumulators, strict=True)),
    ]
    by = f"GROUP BY {', '.join(keys)}" if keys else "HAVING count(*) > 0"
    merged = f"SELECT {', '.join(items)}, count(*) AS __rows FROM partials {by}"
    there = f"{quote_identifier(spec.presence)} > 0" if spec.presence is not None else "TRUE"
    if spec.seed is not None:
        same = " AND ".join(f"m.{k} IS NOT DISTINCT FROM s.{k}" for k in keys) or "TRUE"
        there += f" OR EXISTS (SELECT 1 FROM ({spec.seed}) AS s WHERE {same})"
    joined = f"(SELECT * FROM ({merged}) AS m WHERE {there}) AS m"
    for number, counted in enumerate(spec.multisets):
        values = [quote_identifier(c.name) for c in counted.values]
        group = ", ".join([*keys, *values])
        order = ", ".join(
            f"{v} {'DESC NULLS LAST' if counted.pick == 'last' else 'ASC NULLS FIRST'}" for v in values
        )
        rows = f"SELECT {group}, sum({WEIGHT_COLUMN})::BIGINT AS count FROM {counted.name} GROUP BY {group}"
        rows = f"SELECT * FROM ({rows}) WHERE count > 0"
        if counted.pick != "all":
            over = f"PARTITION BY {', '.join(keys)} " if keys else ""
            rows += f" QUALIFY row_number() OVER ({over}ORDER BY {order}) = 1"
        listed = ", ".join(
            [
                *keys,
                *(
                    f"{a} AS {quote_identifier(c.name)}"
                    for a, c in zip(counted.aggregates, counted.columns, strict=True)
                ),
            ]
        )
        by = f"GROUP BY {', '.join(keys)}" if keys else "HAVING count(*) > 0"
        same = " AND ".join(f"m.{k} IS NOT DISTINCT FROM c{number}.{k}" for k in keys) or "TRUE"
        joined += f" LEFT JOIN (SELECT {listed} FROM ({rows}) {by}) AS c{number} ON {same}"
    columns = [f"m.{quote_identifier(c.name)}" for c in (*spec.keys, *spec.accumulators)]
    columns += [
        f"c{n}.{quote_identifier(c.name)}"
        for n, counted in enumerate(spec.multisets)
        for c in counted.columns
    ]
    connection.execute(f"CREATE OR REPLACE TEMP VIEW merged AS SELECT {', '.join(columns)} FROM {joined}")
    assert DUCK.describe(spec.emit) == [(c.name, c.type) for c in spec.output]
    emitted: list[Row] = connection.sql(spec.emit).fetchall()
    return emitted


def _create(name: str, schema: Schema) -> None:
    columns = ", ".join(f"{quote_identifier(c.name)} {c.type}" for c in schema)
    DUCK.connection.execute(f"CREATE OR REPLACE TABLE {quote_identifier(name)} ({columns})")


def _insert(name: str, rows: pa.Table) -> None:
    DUCK.connection.register("inserted", rows)
    DUCK.connection.execute(f"INSERT INTO {quote_identifier(name)} SELECT * FROM inserted")
    DUCK.connection.unregister("inserted")


def _distinct(plan_: DistinctPlan, parts: list[Block], known: Counter[Row]) -> None:
    spec = plan_.spec
    rows = union([plan_.partial_sql(b) for b in parts], plan_.input_schema)
    width = len(spec.keys) + len(spec.values)
    came: Counter[tuple[str, str]] = Counter()
    keys: dict[str, Row] = {}  # by their text: a NaN is not equal to another
    columns = [rows.column(i).to_pylist() for i in range(rows.num_columns)]
    for row in zip(*columns, strict=True):
        key = tuple(v + 0.0 if isinstance(v, float) else v for v in row[:width])  # -0.0 is 0.0
        for number, flag in enumerate(spec.flags):
            keys.setdefault(repr(key), key)
            came[(repr(key), flag)] += row[width + number]
    changes: dict[str, tuple[Row, dict[str, tuple[bool, bool]]]] = {}
    for (text, flag), count in came.items():
        before = known[(text, flag)] > 0
        known[(text, flag)] += count
        changes.setdefault(text, (keys[text], {}))[1][flag] = (before, known[(text, flag)] > 0)
    group: Schema = (*spec.keys, *spec.values)
    _create(
        "changed",
        (
            *group,
            *(Column(f"{f}.{w}", BOOLEAN) for f in spec.flags for w in ("before", "after")),
        ),
    )
    for key, flags in changes.values():
        listed = [*key, *(value for f in spec.flags for value in flags[f])]
        if any(a != b for a, b in flags.values()):
            marks = ", ".join("?" for _ in listed)
            DUCK.connection.execute(f"INSERT INTO changed VALUES ({marks})", listed)
    assert DUCK.describe(spec.emit) == [(c.name, c.type) for c in spec.output]
    _insert("partials", DUCK.query(spec.emit))
    DUCK.connection.execute("DROP TABLE changed")


class Running:
    """A plan run by the real operators over state in memory, on several shards."""

    def __init__(self, plan_: GroupPlan, shards: int = 1) -> None:
        self._plan = plan_
        self._shards = shards
        self._group = GroupOperator(plan_.spec)
        self._epochs = 0
        self._distinct = [DistinctValues(d.spec) for d in plan_.distinct]
        self.stores = [MemoryShardStore(plan_.spec.state, i, shards, GROUPS) for i in range(shards)]
        self.distinct_stores = [
            [MemoryShardStore(d.spec.state, i, shards, GROUPS) for i in range(shards)] for d in plan_.distinct
        ]
        self.rows: Counter[str] = Counter()
        self.values: dict[str, Row] = {}

    def epoch(self, rows: Epoch, watermarks: Watermarks | None = None) -> list[Row]:
        """Runs one epoch; the folded output after it. Every row that goes must have been there."""
        plan_, marks = self._plan, watermarks or Watermarks()
        parts = blocks(rows, retracting=plan_.retracting)
        partials = [union([plan_.partial_sql(b) for b in parts], plan_.partial_schema)]
        for distinct, operator, stores in zip(
            plan_.distinct, self._distinct, self.distinct_stores, strict=True
        ):
            given = union([distinct.partial_sql(b) for b in parts], distinct.input_schema)
            for store, [own] in self._shared([given], [list(distinct.exchange_keys)], stores):
                result = operator.process([own], self._context(store, marks))
                store.commit()
                partials.append(result.output.select(partials[0].column_names).cast(partials[0].schema))
        inputs = [pa.concat_tables(partials)]
        for position in range(len(plan_.spec.multisets)):
            texts = [plan_.multiset_sql(b, position) for b in parts]
            inputs.append(union(texts, plan_.multiset_schemas[position]))
        keys = [f.name for f in plan_.spec.state.table("acc").key]
        for store, own_inputs in self._shared(inputs, [keys] * len(inputs), self.stores):
            # As the runtime does: whether it is idle is only asked after its first epoch.
            idle = self._epochs > 0 and self._group.idle(own_inputs, marks, stateless=not store.has_rows())
            if not idle:
                self._fold(self._group.process(own_inputs, self._context(store, marks)).output)
            store.commit()
        self._epochs += 1
        return list(self)

    def __iter__(self) -> Iterator[Row]:
        for text, count in self.rows.items():
            yield from [self.values[text]] * count

    def _context(self, store: MemoryShardStore, marks: Watermarks) -> OperatorContext:
        shard = next(
            i for stores in (self.stores, *self.distinct_stores) for i, s in enumerate(stores) if s is store
        )
        return OperatorContext(shard, self._shards, GROUPS, marks, store, DUCK)

    def _shared(
        self, inputs: list[pa.Table], keys: list[list[str]], stores: list[MemoryShardStore]
    ) -> Iterator[tuple[MemoryShardStore, list[pa.Table]]]:
        for number, store in enumerate(stores):
            own = []
            for table, names in zip(inputs, keys, strict=True):
                groups = key_groups([table.column(n) for n in names], GROUPS, rows=table.num_rows)
                own.append(table.filter(pa.array(shard_of(groups, self._shards, GROUPS) == number)))
            yield store, own

    def _fold(self, output: pa.Table) -> None:
        DUCK.register("output", output, (*self._plan.spec.output, Column(WEIGHT_COLUMN, BIGINT)))
        for *values, weight in DUCK.connection.sql("SELECT * FROM output").fetchall():
            text = repr(values)
            self.values[text] = tuple(values)
            self.rows[text] += weight
            if not self.rows[text]:
                del self.rows[text]
        DUCK.drop("output")
        assert all(count > 0 for count in self.rows.values())
