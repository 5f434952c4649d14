"""Checks what pipelines give against DuckDB's answer for the same SQL, kept as files under `golden/`."""
