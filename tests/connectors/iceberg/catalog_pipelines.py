"""Pipelines that fill an Iceberg table of some catalog, and count what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.catalog import Catalog

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import RunResult
from tests.properties.in_process import run_here

SOURCE = (
    "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
)


def add(folder: Path, number: int, count: int = 40) -> list[int]:
    """A file of rows of `t`; all keys that there are then."""
    (folder / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"k": k, "v": f"v{k % 3}"}) for k in range(number * count, number * count + count)]
    (folder / "in" / f"{number}.json").write_text("\n".join(lines) + "\n")
    return [*range(number * count + count)]


def written(options: str) -> str:
    """A pipeline that adds the rows of `t` to a table."""
    return f"{SOURCE}CREATE TABLE o (k INT, v STRING) WITH ({options});\nINSERT INTO o SELECT k, v FROM t;\n"


def counted(options: str, more: str = "") -> str:
    """A pipeline that reads a table into counts by `v`."""
    return (
        f"CREATE TABLE r (k INT, v STRING) WITH ({options}{more});\n"
        "CREATE TABLE c (v STRING, n BIGINT, PRIMARY KEY (v) NOT ENFORCED)\n"
        "WITH ('connector' = 'duckdb', 'path' = 'c.duckdb');\n"
        "INSERT INTO c SELECT v, COUNT(*) FROM r GROUP BY v;\n"
    )


def counts(folder: Path) -> list[tuple[Any, ...]]:
    """What `counted` has counted."""
    with duckdb.connect(str(folder / "c.duckdb"), read_only=True) as found:
        return sorted(found.sql("FROM c").fetchall())


def run(folder: Path, text: str, **options: Any) -> RunResult:
    """Run a pipeline in this process, a few rows per epoch."""
    return run_here(plan_file(text, file="p.sql"), folder, **{"rows_per_epoch": 10, **options})


def keys_in(catalog: Catalog, name: str) -> list[int]:
    """What another program finds in the table."""
    return sorted(catalog.load_table(("db", name)).scan().to_arrow().column("k").to_pylist())
