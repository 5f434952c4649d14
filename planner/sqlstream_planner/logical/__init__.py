"""The logical plan: frozen relational nodes over columns with unique ids.

Expressions are sqlglot ASTs in DuckDB's meaning whose columns are `exp.Column`s named by column *id* (never
by the user's alias), so that a node can be moved or merged by substitution. ASTs inside a plan are never
mutated; rewrites copy.
"""

from __future__ import annotations

from sqlstream_planner.logical.columns import EventTime, Field, Fields, WindowColumn
from sqlstream_planner.logical.expressions import column, columns_of, order_term, raw, sql, substitute
from sqlstream_planner.logical.nodes import (
    AggregateCall,
    Filter,
    GroupAggregate,
    GroupExpiry,
    KeepFirst,
    Node,
    Normalize,
    OrderTerm,
    Project,
    Rank,
    Scan,
    Sink,
    TopN,
    Union,
    Unnest,
    Window,
    WindowAggregate,
    WindowGate,
)
from sqlstream_planner.logical.tree import consumers, transform, walk, with_inputs

__all__ = [
    "AggregateCall",
    "EventTime",
    "Field",
    "Fields",
    "Filter",
    "GroupAggregate",
    "GroupExpiry",
    "KeepFirst",
    "Node",
    "Normalize",
    "OrderTerm",
    "Project",
    "Rank",
    "Scan",
    "Sink",
    "TopN",
    "Union",
    "Unnest",
    "Window",
    "WindowAggregate",
    "WindowColumn",
    "WindowGate",
    "column",
    "columns_of",
    "consumers",
    "order_term",
    "raw",
    "sql",
    "substitute",
    "transform",
    "walk",
    "with_inputs",
]
