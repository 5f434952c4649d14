"""What every test and doctest has: the types of the DuckDB that is installed."""

from __future__ import annotations

from sqlstream.type_oracle.installed import TYPES
from sqlstream_planner.expressions import oracle

oracle.use(TYPES)
