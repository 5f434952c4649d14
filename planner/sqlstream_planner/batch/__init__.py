"""The whole pipeline as batch SQL for DuckDB: what the streaming result must equal."""
