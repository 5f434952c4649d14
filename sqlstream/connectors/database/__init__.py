"""Sinks that keep a table of a database equal to the query's result: `duckdb` and `postgres`."""
