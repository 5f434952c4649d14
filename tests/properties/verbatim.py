"""Queries that DuckDB takes as they are written: run as a stream in several cuts, in the referee's SQL, and verbatim.

The referee's SQL is written by the planner, so a mistake of the binder's stands in it too; the verbatim query is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import batch_of, collecting, fetched

#: Column -> its type as the pipeline declares it, and as DuckDB does.
COLUMNS = {
    "k": ("INT", "INTEGER"),
    "s": ("STRING", "VARCHAR"),
    "v": ("BIGINT", "BIGINT"),
    "d": ("DECIMAL(10, 2)", "DECIMAL(10, 2)"),
    "x": ("DOUBLE", "DOUBLE"),
    "b": ("BOOLEAN", "BOOLEAN"),
    "a": ("ARRAY<INT>", "INTEGER[]"),
    "c": ("ARRAY<INT>", "INTEGER[]"),
    "aa": ("ARRAY<ARRAY<INT>>", "INTEGER[][]"),
    "m": ("MAP<STRING, INT>", "MAP(VARCHAR, INTEGER)"),
    "r": ("ROW<f INT, g STRING>", "STRUCT(f INTEGER, g VARCHAR)"),
    "rs": ("ARRAY<ROW<f INT, g STRING>>", "STRUCT(f INTEGER, g VARCHAR)[]"),
    "ts": ("TIMESTAMP(3)", "TIMESTAMP"),
}
ROWS: tuple[Mapping[str, Any], ...] = tuple(
    {
        "k": i % 3,
        "s": [None, "a", "b", "cd"][i % 4],
        "v": (i * 7) % 5 if i != 4 else None,
        "d": f"{i}.25",
        "x": i / 4,
        "b": i % 2 == 0,
        "a": [None, [], [1], [1, 2], [3, None, 1]][i % 5],
        "c": [[5], [6, 7, 8], None, []][i % 4],
        "aa": [None, [[1], [2, 3]], [[], None, [4]]][i % 3],
        "m": [{"p": 1, "q": 2}, None, {}][i % 3],
        "r": [{"f": i, "g": "z"}, None][i % 2],
        "rs": [[{"f": 1, "g": "y"}, {"f": i, "g": None}], [], None][i % 3],
        "ts": f"2024-01-01 00:00:{i * 5:02d}",
    }
    for i in range(9)
)


def declared(rows: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """`CREATE TABLE t` over `rows`, which are written into `folder`."""
    (folder / "input").mkdir(parents=True, exist_ok=True)
    (folder / "input" / "0.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    return (
        f"CREATE TABLE t ({columns}, WATERMARK FOR ts AS ts - INTERVAL '100' SECOND)\n"
        "WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');\n"
    )


def check_verbatim(
    folder: Path,
    query: str,
    rows: Sequence[Mapping[str, Any]] = ROWS,
    *,
    duckdb_says: str | None = None,
    cuts: Sequence[int | None] = (3, None),
) -> None:
    """A stream in epochs of so many rows (None: of all) and the referee give what DuckDB does for the query itself.

    `duckdb_says` is the query for DuckDB where its spelling differs.
    """
    text = declared(rows, folder) + f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};\n"
    (folder / "p.sql").write_text(text)
    planned = plan_file(folder / "p.sql")
    expected = verbatim(duckdb_says or query, rows, folder)
    assert_same(batch_of(to_duckdb(planned, lambda _: [str(folder / "input" / "0.json")])), expected)
    for cut in cuts:
        with collecting() as collected:
            run_here(planned, folder, state=f"state-{cut}", rows_per_epoch=cut)
            assert_same(collected.folded("out"), expected)


def verbatim(query: str, rows: Sequence[Mapping[str, Any]], folder: Path) -> Rows:
    """What DuckDB gives for `query` over the table `t` with `rows`. Raises duckdb.Error."""
    file = folder / "verbatim.json"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with empty_duckdb() as con:
        con.execute(f"CREATE TABLE t ({', '.join(f'{n} {type_}' for n, (_, type_) in COLUMNS.items())})")
        typed = ", ".join(f"'{n}': '{type_}'" for n, (_, type_) in COLUMNS.items())
        con.execute(f"INSERT INTO t SELECT * FROM read_json('{file}', columns = {{{typed}}})")
        return fetched(con, query)
