"""The columns of a state table as a relation has them."""

from __future__ import annotations

from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import TIME, StateTable
from sqlstream_operators.plan.types import BIGINT


def columns_of(table: StateTable) -> Schema:
    """The key and value columns of a table."""
    time = (Column(TIME, BIGINT, nullable=False),) if table.layout == "time" else ()
    return (*time, *(Column(f.name, f.type) for f in (*table.key, *table.sub_key, *table.value)))
