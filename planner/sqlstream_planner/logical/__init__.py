"""Plans as frozen nodes over columns with unique ids: relational algebra, and the streaming plan that rules make of it.

Expressions are sqlglot ASTs in DuckDB's meaning whose columns are `exp.Column`s named by column *id* (never
by the user's alias), so that a node can be moved or merged by substitution. ASTs inside a plan are never
mutated; rewrites copy.
"""

from __future__ import annotations

from sqlstream_planner.logical.algebra import (
    Aggregate,
    Apply,
    EmitOnClose,
    Filter,
    Join,
    OrderLimit,
    OverWindow,
    Project,
    Scan,
    SetOperation,
    Sink,
    Unnest,
    Values,
    WindowFunction,
    union_all,
)
from sqlstream_planner.logical.columns import (
    EventTime,
    Field,
    Fields,
    WindowColumn,
    time_column,
)
from sqlstream_planner.logical.expressions import (
    column,
    columns_of,
    order_term,
    raw,
    sql,
    substitute,
)
from sqlstream_planner.logical.node import (
    ColumnId,
    Node,
)
from sqlstream_planner.logical.parts import (
    AggregateCall,
    ConflictAction,
    Emission,
    JoinKind,
    OrderTerm,
    SetOperator,
    SubqueryKind,
    WindowCall,
)
from sqlstream_planner.logical.streaming import (
    ChangelogNormalize,
    EqualKey,
    FirstRow,
    GroupAggregate,
    GroupExpiry,
    Operator,
    RegularJoin,
    SuppressUntilClose,
    TopN,
    WindowAggregate,
)
from sqlstream_planner.logical.tree import (
    consumers,
    rebuild,
    transform,
    walk,
)

__all__ = [
    "Aggregate",
    "AggregateCall",
    "Apply",
    "ChangelogNormalize",
    "ColumnId",
    "ConflictAction",
    "Emission",
    "EmitOnClose",
    "EqualKey",
    "EventTime",
    "Field",
    "Fields",
    "Filter",
    "FirstRow",
    "GroupAggregate",
    "GroupExpiry",
    "Join",
    "JoinKind",
    "Node",
    "Operator",
    "OrderLimit",
    "OrderTerm",
    "OverWindow",
    "Project",
    "RegularJoin",
    "Scan",
    "SetOperation",
    "SetOperator",
    "Sink",
    "SubqueryKind",
    "SuppressUntilClose",
    "TopN",
    "Unnest",
    "Values",
    "WindowAggregate",
    "WindowCall",
    "WindowColumn",
    "WindowFunction",
    "column",
    "columns_of",
    "consumers",
    "order_term",
    "raw",
    "rebuild",
    "sql",
    "substitute",
    "time_column",
    "transform",
    "union_all",
    "walk",
]
