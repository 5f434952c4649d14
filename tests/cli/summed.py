"""A pipeline that sums by a key and has run, for what looks at its state."""

from __future__ import annotations

from pathlib import Path

from sqlstream.planning import plan_file
from tests.properties.in_process import run_here

SOURCE = """\
CREATE TABLE t (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""
#: `{path}` is the database of its table.
PIPELINE = f"""\
{SOURCE}\
CREATE TABLE o (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = '{{path}}');
INSERT INTO o SELECT k, SUM(v) FROM t GROUP BY k;
"""


def row(key: str) -> str:
    """A line of input, 1 for a key; the key is JSON without its quotes."""
    return f'{{"k": "{key}", "v": 1, "ts": "2026-01-01 00:00:00"}}\n'


def ran(folder: Path, *keys: str, parallelism: int = 2) -> Path:
    """The pipeline's file; its input, a row for each of `keys`, was read, and its state is where `run` has it."""
    (folder / "in").mkdir()
    (folder / "in/1.json").write_text("".join(map(row, keys)))
    file = folder / "p.sql"
    file.write_text(PIPELINE.format(path="a.duckdb"))
    planned = plan_file(file)
    run_here(planned, folder, state=".sqlstream/p", sql=planned.masked_sql, parallelism=parallelism)
    return file
