"""The pipeline of the trials with kills: its versions, what there must be in the end, and what a reader finds.

The rows of each partition are in order of time, those of all are not: none is late while each has its own watermark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from tests.connectors.kafka.topics import Topics

Rows = Counter[tuple[Any, ...]]
#: Columns of the topics that are read.
COLUMNS = "id INT, k INT, g INT, v INT, ts TIMESTAMP(3)"
TOP = (
    "SELECT k, place, id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS place FROM t) "
    "WHERE place <= 3"
)


@dataclass(frozen=True)
class Out:
    """A table that is written: by which connector, its columns and key, its query, and the same in DuckDB's words."""

    name: str
    connector: str
    columns: str
    key: str
    query: str
    expected: str

    def ddl(self, broker: str, topic: str) -> str:
        columns = self.columns + (f", PRIMARY KEY ({self.key}) NOT ENFORCED" if self.key else "")
        options = {
            "duckdb": "'path' = 'out/results.duckdb'",
            "kafka": f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker}', 'format' = 'json', "
            "'sink.parallelism' = '3'",
            "upsert-kafka": f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker}', "
            "'key.format' = 'json', 'value.format' = 'json'",
        }
        return (
            f"CREATE TABLE {self.name} ({columns}) WITH ('connector' = '{self.connector}', "
            f"{options[self.connector]});"
        )


WINDOWS = (
    "SELECT window_start, k, COUNT(*), CAST(SUM(v) AS BIGINT) FROM "
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k"
)
WINDOWS_EXPECTED = "SELECT date_trunc('minute', ts), k, count(*), sum(v)::BIGINT FROM t GROUP BY ALL"
PAIRS = (
    "SELECT t.id, u.id FROM t JOIN u ON t.k = u.k "
    "AND u.ts BETWEEN t.ts - INTERVAL '20' SECOND AND t.ts + INTERVAL '20' SECOND"
)
TOP_EXPECTED = "SELECT k, row_number() OVER (PARTITION BY k ORDER BY v DESC, id) AS place, id, v FROM t QUALIFY place <= 3"
WINDOW_COLUMNS = "window_start TIMESTAMP(3), k INT, n BIGINT, total BIGINT"
TOP_COLUMNS = "k INT, place BIGINT, id INT, v INT"

#: What the pipeline writes at first: each kind of query to topics and to tables.
FIRST = (
    Out("minutes", "kafka", WINDOW_COLUMNS, "", WINDOWS, WINDOWS_EXPECTED),
    Out("minutes_table", "duckdb", WINDOW_COLUMNS, "", WINDOWS, WINDOWS_EXPECTED),
    Out("pairs", "kafka", "t_id INT, u_id INT", "", PAIRS, PAIRS),
    Out("pairs_table", "duckdb", "t_id INT, u_id INT", "", PAIRS, PAIRS),
    Out("best", "upsert-kafka", TOP_COLUMNS, "k, place", TOP, TOP_EXPECTED),
    Out("best_table", "duckdb", TOP_COLUMNS, "", TOP, TOP_EXPECTED),
    Out(
        "sums",
        "duckdb",
        "k INT, g INT, n BIGINT, total BIGINT",
        "k, g",
        "SELECT k, g, COUNT(*), CAST(SUM(v) AS BIGINT) FROM t GROUP BY k, g",
        "SELECT k, g, count(*), sum(v)::BIGINT FROM t GROUP BY ALL",
    ),
)
#: What edits add, by the verdict that `plan` has for it.
ADDED = {
    "KEEP": (
        Out("best_again", "upsert-kafka", TOP_COLUMNS, "k, place", TOP.replace("place", "p"), TOP_EXPECTED),
    ),
    "ADAPT": (
        Out(
            "per_key",
            "upsert-kafka",
            "k INT, n BIGINT, total BIGINT",
            "k",
            "SELECT k, COUNT(*), CAST(SUM(v) AS BIGINT) FROM t GROUP BY k",
            "SELECT k, count(*), sum(v)::BIGINT FROM t GROUP BY k",
        ),
    ),
    "BACKFILL": (
        Out(
            "different",
            "upsert-kafka",
            "k INT, n BIGINT, largest INT",
            "k",
            "SELECT k, COUNT(DISTINCT v), MAX(id) FROM t GROUP BY k",
            "SELECT k, count(DISTINCT v), max(id) FROM t GROUP BY k",
        ),
        Out(
            "fives",
            "kafka",
            "window_start TIMESTAMP(3), g INT, largest INT",
            "",
            "SELECT window_start, g, MAX(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) "
            "GROUP BY window_start, window_end, g",
            "SELECT time_bucket(INTERVAL 5 MINUTE, ts), g, max(v) FROM t GROUP BY ALL",
        ),
    ),
}
#: What needs the rows from the beginning when they are gone.
REFUSED = Out(
    "least",
    "upsert-kafka",
    "g INT, least INT",
    "g",
    "SELECT g, MIN(id) FROM t GROUP BY g",
    "SELECT g, min(id) FROM t GROUP BY g",
)


@dataclass(frozen=True)
class Places:
    """The topics of a trial: those that are read, and what those that are written begin with."""

    topics: Topics
    name: str

    def topic(self, table: str) -> str:
        return f"{self.name}-{table}"

    def create(self, outs: Iterable[Out], partitions: int) -> None:
        for out in outs:
            if out.connector != "duckdb":
                compact = {"cleanup.policy": "compact"} if out.key else {}
                self.topics.create(partitions, name=self.topic(out.name), config=compact)

    def text(self, outs: Iterable[Out], settings: Mapping[str, str]) -> str:
        """The pipeline that writes these."""
        broker = self.topics.bootstrap
        parts = [f"SET '{name}' = '{value}';" for name, value in settings.items()]
        parts += [
            f"CREATE TABLE {table} ({COLUMNS}, WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', "
            f"'topic' = '{self.topic(table)}', 'properties.bootstrap.servers' = '{broker}', "
            "'scan.startup.mode' = 'earliest-offset', 'format' = 'json');"
            for table in ("t", "u")
        ]
        outs = tuple(outs)
        parts += [out.ddl(broker, self.topic(out.name)) for out in outs]
        inserts = [f"INSERT INTO {out.name} {out.query};" for out in outs]
        return "\n".join([*parts, "EXECUTE STATEMENT SET BEGIN", *inserts, "END;", ""])


def expected(outs: Iterable[Out], rows: Mapping[str, list[bytes]], folder: Path) -> dict[str, Rows]:
    """What each table must have, of the records of `t` and `u`."""
    with duckdb.connect() as connection:
        for table, records in rows.items():
            path = folder / f"{table}.produced.json"
            path.write_bytes(b"".join(record + b"\n" for record in records))
            columns = "{id: 'INTEGER', k: 'INTEGER', g: 'INTEGER', v: 'INTEGER', ts: 'TIMESTAMP'}"
            connection.execute(f"CREATE TABLE {table} AS FROM read_json('{path}', columns={columns})")
        return {out.name: Counter(connection.execute(out.expected).fetchall()) for out in outs}


def found(out: Out, places: Places, folder: Path) -> Rows:
    """What a reader of committed records, or of the table, finds."""
    if out.connector == "duckdb":
        with duckdb.connect(str(folder / "out" / "results.duckdb"), read_only=True) as connection:
            return Counter(connection.execute(f"FROM {out.name}").fetchall())
    records = places.topics.records(places.topic(out.name))
    values = [record.value for record in records]
    if out.key:  # the last one of each key; without a value there is none
        values = list({record.key: record.value for record in records}.values())
    path = folder / "consumed.json"
    path.write_bytes(b"".join(value + b"\n" for value in values if value is not None))
    types = {name: type_.partition("(")[0] for name, type_ in (c.split() for c in out.columns.split(", "))}
    with duckdb.connect() as connection:
        return Counter(
            connection.execute(f"FROM read_json('{path}', columns={json.dumps(types)})").fetchall()
        )
