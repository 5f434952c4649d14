"""DuckDB over Arrow: the session of a worker, named relations, relations with weights."""
