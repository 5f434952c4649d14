"""What a table on `spark` says is to be read."""

from __future__ import annotations

from pathlib import Path

from sqlstream.connectors.api import SparkRead
from sqlstream_operators.plan.spec import SourceSpec

#: What options of Spark's DataFrameReader begin with.
PASSED_ON = "options."


def spark_read(spec: SourceSpec, base_dir: str) -> SparkRead:
    """The table of Spark's catalog, or the format with its paths and options; a relative path begins in `base_dir`."""
    options = {
        key.removeprefix(PASSED_ON): value for key, value in spec.options.items() if key.startswith(PASSED_ON)
    }
    table = spec.options.get("table-name", "")
    if table:
        return SparkRead(f"table {table} of Spark's catalog", options=options, table=table)
    format_ = spec.options["format"]
    path = spec.options.get("path")
    if path is None:
        return SparkRead(f"what Spark's format '{format_}' reads", format_, options)
    whole = path if "://" in path else str(Path(base_dir) / path)
    return SparkRead(f"'{path}', as Spark's format '{format_}'", format_, options, paths=(whole,))
