"""A pipeline over numbered rows in one file, its state after each epoch, and what DuckDB says of the rows read so far."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb

from sqlstream.planning import plan_file
from sqlstream.state.committed import find_committed
from sqlstream.state.query import StateDatabase
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.properties.in_process import run_here

ROWS_PER_EPOCH = 100

TABLE = """
CREATE TABLE t (n BIGINT, k STRING, c STRING, v DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '20' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""


class World:
    """A pipeline in `folder` whose sink is `o`, with `columns`; `query` reads `t`."""

    def __init__(
        self, folder: Path, query: str, columns: str, *, rows: int = 500, settings: str = ""
    ) -> None:
        self.folder = folder
        self.state = folder / "state"
        chance = random.Random(5)
        self.rows = [
            {
                "n": n,
                "k": chance.choice(["a", "b", "c", "it's", None]),
                "c": chance.choice(["x", "y", 'q"'] + [f"c{i}" for i in range(20)]),
                "v": round(chance.uniform(-9, 99), 2),
                "ts": f"2026-01-01 00:{second // 60:02}:{second % 60:02}",
            }
            for n, second in enumerate(n + chance.randrange(15) for n in range(rows))
        ]
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in/1.json").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        self.file = folder / "p.sql"
        sink = "WITH ('connector' = 'blackhole')"
        self.file.write_text(f"{settings}{TABLE}CREATE TABLE o ({columns}) {sink};\nINSERT INTO o {query};\n")

    def run(self, on_epoch: Callable[[int], object] = lambda epoch: None, **options: Any) -> None:
        """Run until the input ends, or `max_epochs`; `on_epoch` is called while the run goes on."""
        planned = plan_file(self.file)
        run_here(
            planned,
            self.folder,
            sql=planned.masked_sql,
            rows_per_epoch=ROWS_PER_EPOCH,
            on_epoch=lambda report: on_epoch(report.epoch),
            **{"parallelism": 3, **options},
        )

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(self.state, sync=False)

    def select(self, sql: str, at: str | None = None) -> list[tuple[str | None, ...]]:
        """The rows of a SELECT over the state, as text, in an order of their own."""
        with StateDatabase(find_committed(self.store, at)) as database:
            return _sorted(database.query(sql).rows)

    def batch(self, sql: str, epoch: int) -> list[tuple[str | None, ...]]:
        """The rows of a SELECT of DuckDB's over what was read of `t` up to an epoch, as text, ordered alike."""
        connection = duckdb.connect()
        columns = "{n: 'BIGINT', k: 'VARCHAR', c: 'VARCHAR', v: 'DECIMAL(10, 2)', ts: 'TIMESTAMP'}"
        connection.execute(
            f"CREATE TABLE t AS SELECT * FROM read_json('{self.folder}/in/*.json', columns = {columns}, "
            f"format = 'newline_delimited') WHERE n < {epoch * ROWS_PER_EPOCH}"
        )
        return _sorted(connection.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql})").fetchall())


def _sorted(rows: Any) -> list[tuple[str | None, ...]]:
    return sorted(rows, key=lambda row: [(cell is not None, cell or "") for cell in row])


def only(rows: Sequence[tuple[str | None, ...]]) -> str | None:
    """The only value of the only row."""
    [[value]] = rows
    return value
