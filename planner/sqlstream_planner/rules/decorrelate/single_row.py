"""SELECT (SELECT b.x FROM b WHERE b.k = a.k) FROM a  ->  its value and how many rows there are: more than one stop the run.

Only outer rows that have several stop it: they are counted below the join, and the error is above it.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, INTEGER, UNKNOWN, struct
from sqlstream_planner.logical import Aggregate, AggregateCall, Apply, Field, Node, Project, column
from sqlstream_planner.sql.datatypes import nulls_as

_MANY = "a sub-query that stands for a value gives more than one row: take one value of it, such as MAX(x): rows: "


def can_be_counted(apply: Apply) -> bool:
    """Whether the value has a type that state can keep."""
    type_ = apply.query.fields[0].type
    return type_ != UNKNOWN and nulls_as(type_, INTEGER) == type_


def counted(apply: Apply) -> Apply:
    """The same sub-query as one row: a struct of its least value, which is its only one, and of how many rows it has."""
    value = apply.query.fields[0]
    name = apply.result.id
    rows = Field(f"{name}.rows", "rows", BIGINT, nullable=False)
    least = Field(f"{name}.least", "least", value.type)
    calls = (
        AggregateCall(rows, "count", (), ()),
        AggregateCall(least, "any_value", (column(value.id),), (value.type,)),
    )
    groups = Aggregate(apply.query, (), (), ((),), None, calls, at=apply.at)
    both = Field(f"{name}.both", "both", struct(("n", BIGINT), ("x", value.type)))
    packed = exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(part, quoted=True), expression=column(f.id))
            for part, f in (("n", rows), ("x", least))
        ]
    )
    query = Project(groups, (both,), (packed,))
    return replace(apply, query=query, result=replace(apply.result, id=f"{name}.counted", type=both.type))


def only_value(apply: Apply, node: Node) -> Project:
    """The rows of `node`, which have what `counted` made last, with the value of `apply` in its place."""
    both = node.fields[-1]
    rows, value = (
        exp.Dot(this=column(both.id), expression=exp.to_identifier(part, quoted=True)) for part in ("n", "x")
    )
    message = exp.DPipe(
        this=exp.Literal.string(_MANY),
        expression=exp.cast(rows.copy(), exp.DataType.build("VARCHAR", dialect="duckdb")),
    )
    many = exp.If(
        this=exp.GT(this=rows, expression=exp.Literal.number(1)),
        true=exp.Anonymous(this="error", expressions=[message]),
    )
    fields = apply.fields
    return Project(node, fields, (*(column(f.id) for f in fields[:-1]), exp.Case(ifs=[many], default=value)))
