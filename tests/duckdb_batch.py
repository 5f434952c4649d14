"""One DuckDB for the answers that tests compare with: to open one costs more than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import duckdb


@cache
def _opened() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(config={"threads": 1})
    con.execute("SET TimeZone = 'UTC'")
    return con


@contextmanager
def empty_duckdb() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database in UTC; what is made in it is gone afterwards."""
    con = _opened()
    con.begin()
    try:
        yield con
    finally:
        con.rollback()
