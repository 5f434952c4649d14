"""Group aggregates over a made-up table: plans, random epochs of rows that come and go, and two ways to run them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import BIGINT, SqlType, parse_type, quote_identifier
from sqlstream_planner.aggregates.batch import in_any_order
from sqlstream_planner.catalog.source_identity import ColumnIdentity, SourceIdentity
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import Aggregate, AggregateCall, Field, Scan, column
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.operators.group_aggregate import GroupPlan, plan_group
from sqlstream_planner.streaming import GroupAggregate, GroupExpiry

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
    columns = tuple(ColumnIdentity(n, str(t), name=n) for n, t in COLUMNS.items())
    return Scan(_SOURCE, SourceIdentity("rows", (), columns), _FIELDS)


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
        meaning = Aggregate(scan(), fields, expressions, sets, grouping, tuple(calls))
        return GroupAggregate(
            meaning.input, fields, expressions, sets, grouping, tuple(calls), meaning, expiry
        )

    def batch(self, calls: Sequence[AggregateCall]) -> str:
        """The query over relation `folded`, as a person would write it."""
        items = [f"({k}) AS key{i}" for i, k in enumerate(self.keys)]
        if self.sets is not None:
            items.append(f"grouping({', '.join(self.keys)}) AS gid" if self.keys else "0::BIGINT AS gid")
        items += [f"{in_any_order(c)} AS {quote_identifier(c.field.id)}" for c in calls]
        text = f"SELECT {', '.join(items)} FROM folded"
        if self.sets is not None:
            sets = ", ".join(f"({', '.join(self.keys[i] for i in s)})" for s in self.sets)
            return f"{text} GROUP BY GROUPING SETS ({sets})"
        return f"{text} GROUP BY {', '.join(self.keys)}" if self.keys else text


def plan(
    shape: Shape, calls: Sequence[AggregateCall], *, retracting: bool, expiry: GroupExpiry | None = None
) -> GroupPlan:
    """The plan of a shape and calls."""
    return plan_group(Meanings(), shape.node(calls, expiry), retracting=retracting)


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
    rows, columns = DUCK.query_typed(text)
    assert columns == tuple(Column(c.name, c.type) for c in schema)
    return rows


def expected(shape: Shape, calls: Sequence[AggregateCall], epochs: Sequence[Epoch]) -> list[Row]:
    """What DuckDB gives over the rows that are left after all epochs."""
    load("every", [pair for epoch in epochs for pair in epoch])
    names = ", ".join(COLUMNS)
    DUCK.connection.execute(
        f"CREATE OR REPLACE TEMP VIEW folded AS SELECT {names} FROM (SELECT {names}, unnest(range(n)) FROM "
        f"(SELECT {names}, sum({WEIGHT_COLUMN})::BIGINT AS n FROM every GROUP BY {names}))"
    )
    rows: list[Row] = DUCK.connection.sql(shape.batch(calls)).fetchall()
    return rows


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
