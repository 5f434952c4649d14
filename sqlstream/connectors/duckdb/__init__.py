"""The `duckdb` connector: a table in a DuckDB file, kept up to date (what it does is in `database`)."""
