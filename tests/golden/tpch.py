"""TPC-H's queries as a person wrote them for DuckDB (tpch.sql), and its tables: nothing of our planner takes part."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import duckdb

ROOT = Path(__file__).parent.parent.parent
PIPELINES = ROOT / "pipelines" / "tpch"
DATA = PIPELINES / "data"

#: q1 … q22 -> its SQL.
QUERIES: Mapping[str, str] = {
    name: text.strip()
    for name, text in re.findall(
        r"^-- (q\d+)\n(.*?)(?=^-- q\d|\Z)",
        Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
}

#: Table -> its columns as DuckDB declares them.
TABLES: Mapping[str, str] = {
    name: columns.replace("STRING", "VARCHAR").replace("NOT ENFORCED", "")
    for name, columns in re.findall(
        r"CREATE TABLE (\w+) \((.*?)\) \{\{",
        (PIPELINES / "macros" / "tpch.sql").read_text(encoding="utf-8"),
        re.DOTALL,
    )
}


def all_in_one(sink: str) -> str:
    """A pipeline of all queries, into sinks that are called q1 to q22, each `WITH` the options `sink`."""
    texts = [(PIPELINES / "macros" / "tpch.sql").read_text(encoding="utf-8")]
    for name in QUERIES:
        text = (PIPELINES / f"{name}.sql").read_text(encoding="utf-8")
        text = re.sub(r"\{% .*? %\}", "", text)
        texts.append(re.sub(r"\{\{ answer\(.*?\) \}\}", f"CREATE TABLE {name} WITH ({sink}) AS", text))
    return "\n".join(texts)


def lines(table: str) -> list[str]:
    """The lines of a table's files, in the order in which they are read."""
    files = sorted((DATA / table).glob("*.csv"), key=lambda file: file.name)
    return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def load(con: duckdb.DuckDBPyConnection, rows: Mapping[str, int] | None = None) -> None:
    """Make the tables, with all their rows or so many of each."""
    with tempfile.TemporaryDirectory() as folder:
        for table, columns in TABLES.items():
            con.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
            kept = lines(table)[: None if rows is None else rows.get(table, 0)]
            if kept:
                file = Path(folder) / f"{table}.csv"
                file.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
                con.execute(f"COPY {table} FROM '{file}' (HEADER false)")
