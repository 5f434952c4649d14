"""Group aggregates over a made-up table: plans, random epochs of rows that come and go, and two ways to run them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from sqlstream_operators.arrow_types import to_arrow
from sqlstream_operators.distinct_values import DistinctValues
from sqlstream_operators.fragment import DuckSession
from sqlstream_operators.group_aggregate import GroupAggregate as GroupOperator
from sqlstream_operators.keys import key_groups, shard_of
from sqlstream_operators.operator import OperatorContext, Watermarks
from sqlstream_operators.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.spec import SourceSpec
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.types import BIGINT, SqlType, parse_type, quote_identifier
from sqlstream_planner.block import Block
from sqlstream_planner.fingerprint import Provenance
from sqlstream_planner.group_batch import batch_call
from sqlstream_planner.group_plan import GroupPlan, plan_group
from sqlstream_planner.logical import AggregateCall, Field, GroupAggregate, GroupExpiry, Scan, column

COLUMNS: dict[str, SqlType] = {
    name: parse_type(type_)
    for name, type_ in {
        "k": "INTEGER",
        "g": "VARCHAR",
        "x": "INTEGER",
        "y": "BIGINT",
        "d": "DECIMAL(6,2)",
        "f": "DOUBLE",
        "z": "DOUBLE",
        "s": "VARCHAR",
        "b": "BOOLEAN",
        "t": "TIMESTAMP",
        "l": "INTEGER[]",
        "r": 'STRUCT("p" INTEGER, "q" VARCHAR)',
    }.items()
}
GROUPS = 128
Row = tuple[Any, ...]
#: One epoch: rows with their weights.
Epoch = Sequence[tuple[Row, int]]

DUCK = DuckSession()
_FIELDS = tuple(Field(name, name, type_) for name, type_ in COLUMNS.items())
_SOURCE = SourceSpec(
    "rows", "filesystem", {}, tuple(Column(n, t) for n, t in COLUMNS.items()), tuple(COLUMNS)
)


def scan() -> Scan:
    """The table."""
    return Scan(_SOURCE, "rows", _FIELDS)


def _typed(text: str) -> SqlType:
    relation = f"(SELECT {', '.join(f'CAST(NULL AS {t}) AS {n}' for n, t in COLUMNS.items())})"
    [(found,)] = DUCK.connection.sql(f"SELECT typeof({text}) FROM {relation}").fetchall()
    return parse_type(found)


_AGGREGATE_TYPES = {"collect": "list"}


def call(text: str) -> AggregateCall:
    """`name([DISTINCT] arguments [ORDER BY …]) [FILTER (WHERE …)]` as a call; columns are those of the table."""
    inside, _, condition = text.partition(" FILTER ")
    name, _, rest = inside.partition("(")
    body = rest.rpartition(")")[0]
    body, _, order = body.partition(" ORDER BY ")
    distinct = body.startswith("DISTINCT ")
    arguments = tuple(
        a.copy() for a in _expressions(f"f({body.removeprefix('DISTINCT ')})") if not isinstance(a, exp.Star)
    )
    terms: list[tuple[exp.Expr, bool, bool]] = []
    if order:
        parsed = sqlglot.parse_one(f"SELECT 1 ORDER BY {order}", read="duckdb").args["order"]
        terms = [
            (o.this, bool(o.args.get("desc")), bool(o.args.get("nulls_first"))) for o in parsed.expressions
        ]
    filter_ = (
        sqlglot.parse_one(condition.removeprefix("(WHERE ").removesuffix(")"), read="duckdb")
        if condition
        else None
    )
    written = "*" if not arguments else ", ".join(a.sql(dialect="duckdb") for a in arguments)
    if name == "count":
        written = "*"
    type_ = _typed(f"{_AGGREGATE_TYPES.get(name, name)}({written})")
    return AggregateCall(
        Field(text, text, type_),
        name,
        arguments,
        tuple(_typed(a.sql(dialect="duckdb")) for a in arguments),
        distinct,
        filter_,
        tuple(terms),
        tuple(_typed(e.sql(dialect="duckdb")) for e, _, _ in terms),
    )


def _expressions(text: str) -> list[exp.Expr]:
    found: list[exp.Expr] = sqlglot.parse_one(text, read="duckdb").expressions
    return found


@dataclass(frozen=True)
class Shape:
    """A GROUP BY: key expressions, and the grouping sets if it has several."""

    keys: tuple[str, ...]
    sets: tuple[tuple[int, ...], ...] | None = None

    @property
    def has_total(self) -> bool:
        """Whether there is a group of everything, which is there without any row."""
        return not self.keys if self.sets is None else () in self.sets

    def node(self, calls: Sequence[AggregateCall], expiry: GroupExpiry | None = None) -> GroupAggregate:
        """The logical node over the table."""
        expressions = tuple(sqlglot.parse_one(k, read="duckdb") for k in self.keys)
        fields = tuple(Field(f"key{i}", f"key{i}", _typed(k)) for i, k in enumerate(self.keys))
        grouping = Field("gid", "grouping_id", BIGINT, False) if self.sets is not None else None
        sets = self.sets if self.sets is not None else (tuple(range(len(self.keys))),)
        return GroupAggregate(scan(), fields, expressions, sets, grouping, tuple(calls), expiry)

    def batch(self, calls: Sequence[AggregateCall]) -> str:
        """The query over relation `folded`, as a person would write it."""
        items = [f"({k}) AS key{i}" for i, k in enumerate(self.keys)]
        if self.sets is not None:
            items.append(f"grouping({', '.join(self.keys)}) AS gid" if self.keys else "0::BIGINT AS gid")
        items += [f"{batch_call(c)} AS {quote_identifier(c.field.id)}" for c in calls]
        text = f"SELECT {', '.join(items)} FROM folded"
        if self.sets is not None:
            sets = ", ".join(f"({', '.join(self.keys[i] for i in s)})" for s in self.sets)
            return f"{text} GROUP BY GROUPING SETS ({sets})"
        return f"{text} GROUP BY {', '.join(self.keys)}" if self.keys else text


def plan(
    shape: Shape, calls: Sequence[AggregateCall], *, retracting: bool, expiry: GroupExpiry | None = None
) -> GroupPlan:
    """The plan of a shape and calls."""
    return plan_group(shape.node(calls, expiry), Provenance(), retracting=retracting)


# ------------------------------------------------------------------------------------------------ rows


def load(name: str, rows: Epoch, *, suffix: str = "") -> None:
    """A DuckDB table of rows with their weights."""
    schema = (*(Column(f"{n}{suffix}", t) for n, t in COLUMNS.items()), Column(WEIGHT_COLUMN, BIGINT))
    lists = zip(*[(*row, weight) for row, weight in rows], strict=True) if rows else [() for _ in schema]
    arrays = [pa.array(values, to_arrow(c.type)) for values, c in zip(lists, schema, strict=True)]
    DUCK.register("loaded", pa.table(arrays, names=[c.name for c in schema]), schema)
    DUCK.connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM loaded")
    DUCK.drop("loaded")


def blocks(rows: Epoch, *, retracting: bool) -> list[Block]:
    """The rows of an epoch as two blocks, whose source columns are not called as the plan's columns."""
    made = []
    for number in (0, 1):
        load(f"part{number}", rows[number::2], suffix="_src")
        columns: dict[str, exp.Expr] = {n: column(f"{n}_src") for n in COLUMNS}
        if retracting:
            columns[WEIGHT_COLUMN] = column(WEIGHT_COLUMN)
        made.append(Block("place", f"part{number}", (f"part{number}",), columns))
    return made


def union(texts: Sequence[str], schema: Schema) -> pa.Table:
    """The rows of several queries together, which must have the columns of `schema`."""
    text = "\nUNION ALL\n".join(texts)
    described = DUCK.describe(text)
    assert described == [(c.name, c.type) for c in schema]
    return DUCK.query(text)


def expected(shape: Shape, calls: Sequence[AggregateCall], epochs: Sequence[Epoch]) -> list[Row]:
    """What DuckDB gives over the rows that are left after all epochs."""
    load("every", [pair for epoch in epochs for pair in epoch])
    names = ", ".join(COLUMNS)
    DUCK.connection.execute(
        f"CREATE OR REPLACE TEMP VIEW folded AS SELECT {names} FROM (SELECT {names}, unnest(range(n)) FROM "
        f"(SELECT {names}, sum({WEIGHT_COLUMN})::BIGINT AS n FROM every GROUP BY {names}))"
    )
    return DUCK.connection.sql(shape.batch(calls)).fetchall()


# ------------------------------------------------------------------------------------------------ running


def interpreted(plan_: GroupPlan, epochs: Sequence[Epoch]) -> list[Row]:
    """What a plan's SQL gives after all epochs, put together naively in DuckDB tables."""
    spec, connection = plan_.spec, DUCK.connection
    _create("partials", plan_.partial_schema)
    for counted, schema in zip(spec.counted, plan_.counted_schemas, strict=True):
        _create(counted.name, schema)
    seen: list[Counter[Row]] = [Counter() for _ in plan_.distinct]
    for epoch in epochs:
        parts = blocks(epoch, retracting=plan_.retracting)
        _insert("partials", union([plan_.partial_sql(b) for b in parts], plan_.partial_schema))
        for position, counted in enumerate(spec.counted):
            texts = [plan_.counted_sql(b, position) for b in parts]
            _insert(counted.name, union(texts, plan_.counted_schemas[position]))
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
    for number, counted in enumerate(spec.counted):
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
        f"c{n}.{quote_identifier(c.name)}" for n, counted in enumerate(spec.counted) for c in counted.columns
    ]
    connection.execute(f"CREATE OR REPLACE TEMP VIEW merged AS SELECT {', '.join(columns)} FROM {joined}")
    assert DUCK.describe(spec.emit) == [(c.name, c.type) for c in spec.output]
    return connection.sql(spec.emit).fetchall()


def _create(name: str, schema: Schema) -> None:
    columns = ", ".join(f"{quote_identifier(c.name)} {c.type}" for c in schema)
    DUCK.connection.execute(f"CREATE OR REPLACE TABLE {quote_identifier(name)} ({columns})")


def _insert(name: str, rows: pa.Table) -> None:
    DUCK.connection.register("inserted", rows)
    DUCK.connection.execute(f"INSERT INTO {quote_identifier(name)} SELECT * FROM inserted")
    DUCK.connection.unregister("inserted")


def _distinct(plan_: Any, parts: list[Block], known: Counter[Row]) -> None:
    spec = plan_.spec
    rows = union([plan_.partial_sql(b) for b in parts], plan_.input_schema)
    width = len(spec.keys) + len(spec.values)
    came: Counter[Row] = Counter()
    columns = [rows.column(i).to_pylist() for i in range(rows.num_columns)]
    for row in zip(*columns, strict=True):
        key = tuple(v + 0.0 if isinstance(v, float) else v for v in row[:width])  # -0.0 is 0.0
        for number, flag in enumerate(spec.flags):
            came[(repr(key), key, flag)] += row[width + number]
    changes: dict[str, tuple[Row, dict[str, tuple[bool, bool]]]] = {}
    for (text, key, flag), count in came.items():
        before = known[(text, flag)] > 0
        known[(text, flag)] += count
        changes.setdefault(text, (key, {}))[1][flag] = (before, known[(text, flag)] > 0)
    group: Schema = (*spec.keys, *spec.values)
    _create(
        "changed",
        (
            *group,
            *(Column(f"{f}.{w}", parse_type("BOOLEAN")) for f in spec.flags for w in ("before", "after")),
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
        for position in range(len(plan_.spec.counted)):
            texts = [plan_.counted_sql(b, position) for b in parts]
            inputs.append(union(texts, plan_.counted_schemas[position]))
        keys = [f.name for f in plan_.spec.state.table("acc").key]
        for store, own_inputs in self._shared(inputs, [keys] * len(inputs), self.stores):
            if not self._group.idle(own_inputs, marks, stateless=not store.has_rows()):
                self._fold(self._group.process(own_inputs, self._context(store, marks)).output)
            store.commit()
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


# ---------------------------------------------------------------------------------------------- comparing


def assert_same(got: Sequence[Row], wanted: Sequence[Row]) -> None:
    """The same rows in any order; floats equal but for the rounding of sums."""
    left, right = sorted(got, key=_order), sorted(wanted, key=_order)
    assert len(left) == len(right), (left, right)
    for one, other in zip(left, right, strict=True):
        assert _close(one, other), f"\n{one}\nis not\n{other}"


def _order(row: Row) -> str:
    return repr(row[:3])


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-7) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_close(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[k], other[k]) for k in one)
    return type(one) is type(other) and bool(one == other)
