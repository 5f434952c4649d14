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
    LateralJoin,
    OrderLimit,
    OverWindow,
    Project,
    Scan,
    SessionFunction,
    SetOperation,
    Sink,
    Unnest,
    Values,
    WindowFunction,
    union_all,
)
from sqlstream_planner.logical.as_of import (
    AsOfJoin,
    Equality,
    Versions,
)
from sqlstream_planner.logical.columns import (
    ColumnId,
    EventTime,
    Field,
    Fields,
    WindowColumn,
    time_column,
)
from sqlstream_planner.logical.epoch_values import EpochKind, EpochValue, EpochValues
from sqlstream_planner.logical.expressions import (
    column,
    columns_of,
    order_term,
    raw,
    sql,
    substitute,
)
from sqlstream_planner.logical.lookup import LookupJoin, dimension_scan
from sqlstream_planner.logical.node import Node
from sqlstream_planner.logical.operator import StreamingOperator
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
from sqlstream_planner.logical.time_bounds import TimeBound, Waits, joined_fields
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
    "AsOfJoin",
    "ColumnId",
    "ConflictAction",
    "Emission",
    "EmitOnClose",
    "EpochKind",
    "EpochValue",
    "EpochValues",
    "Equality",
    "EventTime",
    "Field",
    "Fields",
    "Filter",
    "Join",
    "JoinKind",
    "LateralJoin",
    "LookupJoin",
    "Node",
    "OrderLimit",
    "OrderTerm",
    "OverWindow",
    "Project",
    "Scan",
    "SessionFunction",
    "SetOperation",
    "SetOperator",
    "Sink",
    "StreamingOperator",
    "SubqueryKind",
    "TimeBound",
    "Unnest",
    "Values",
    "Versions",
    "Waits",
    "WindowCall",
    "WindowColumn",
    "WindowFunction",
    "column",
    "columns_of",
    "consumers",
    "dimension_scan",
    "joined_fields",
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
