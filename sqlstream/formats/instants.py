"""TIMESTAMP_LTZ as text."""

from __future__ import annotations


def instant_text(value: str) -> str:
    """SQL of an instant in UTC as Flink's SQL formats write it: `2024-01-01 00:00:00.5Z`.

    DuckDB writes `+00`, which Flink's JSON and CSV can't read. An infinite one stays as DuckDB writes it.
    """
    return f"CAST(CAST({value} AS TIMESTAMP) AS VARCHAR) || CASE WHEN isfinite({value}) THEN 'Z' ELSE '' END"
