"""SQL text to plan: dialect, binding, logical and physical plan, state schemas, DuckDB SQL, explain."""

from sqlstream_planner.sql.interpreted import from_sources

from_sources("sqlglot")  # before any of it is imported
