"""The type oracle of this process, which has one DuckDB."""

from __future__ import annotations

import atexit

from sqlstream.type_oracle.duckdb_types import DuckDbTypes
from sqlstream.type_oracle.remembered import RememberedTypes, default_file, first_file

TYPES = RememberedTypes(DuckDbTypes(), default_file(), first_file())
atexit.register(TYPES.save)
