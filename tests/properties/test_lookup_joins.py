"""Lookup joins: each row beside what the table had when its epoch was planned, however the run is cut or broken off."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.faults import Point
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same

#: Rows of the stream: key, value, second of the event time.
ROWS = [
    (1, 10, 1),
    (2, 20, 2),
    (None, 30, 3),
    (3, 40, 4),
    (1, 50, 5),
    (9, 60, 6),
    (2, 70, 7),
    (1, 80, 20),
    (4, 90, 2),
]
#: What the table has, one after the other: key, name, factor.
TABLES: Sequence[Sequence[tuple[int | None, str | None, int]]] = (
    [(1, "one", 1), (2, "two", 2), (None, "none", 0)],
    [(1, "ONE", 10), (3, "three", 3), (1, "uno", 11)],
    [],
    [(1, "eins", 100), (2, None, 200), (9, "neun", 900), (4, "vier", 4)],
)
STREAM = (
    "CREATE TABLE l (k INT, v INT, p AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) "
    "WITH ('connector' = 'filesystem', 'path' = 'l', 'format' = 'json');\n"
)
COLUMNS = "id BIGINT, name STRING, factor INT, twice AS factor * 2"
#: Of CSV is the side table of pipelines/nexmark/q13_lookup.sql.
PLACES = {
    "json": "'connector' = 'filesystem', 'path' = 'd', 'format' = 'json'",
    "parquet": "'connector' = 'filesystem', 'path' = 'd', 'format' = 'parquet'",
    "duckdb": "'connector' = 'duckdb', 'path' = 'd.duckdb', 'table-name' = 'things'",
}
#: The query, and what DuckDB is asked for the rows `l` of one epoch and the table `d` that it met.
QUERIES = {
    "inner": (
        "SELECT l.k, v, name, factor FROM l JOIN d FOR SYSTEM_TIME AS OF l.p ON l.k = d.id",
        "SELECT k, v, name, factor FROM l JOIN d ON k = id",
    ),
    "left": (
        "SELECT v, q.name, twice, v * factor AS vf FROM l LEFT JOIN d FOR SYSTEM_TIME AS OF l.p AS q ON l.k = q.id",
        "SELECT v, name, factor * 2, v * factor FROM l LEFT JOIN d ON k = id",
    ),
    "more conditions": (
        "SELECT v, name FROM l LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON d.id = l.k + 1 AND d.factor > 1 "
        "AND v < 60 WHERE v > 10",
        "SELECT v, name FROM l LEFT JOIN d ON id = k + 1 AND factor > 1 AND v < 60 WHERE v > 10",
    ),
    "using, a view": (
        "SELECT k, v, name FROM l JOIN small FOR SYSTEM_TIME AS OF l.p AS s USING (k)",
        "SELECT k, v, lower(name) FROM l JOIN d ON k = id WHERE factor < 100",
    ),
    "twice": (
        "SELECT v, a.name AS one, b.name AS other FROM l LEFT JOIN d FOR SYSTEM_TIME AS OF l.p AS a ON l.k = a.id "
        "JOIN d FOR SYSTEM_TIME AS OF l.p AS b ON b.id = a.factor",
        "SELECT v, a.name, b.name FROM l LEFT JOIN d AS a ON k = a.id JOIN d AS b ON b.id = a.factor",
    ),
}
WINDOWS = "TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '5' SECOND))"
VIEW = "CREATE VIEW small AS SELECT id AS k, lower(name) AS name FROM d WHERE factor < 100;\n"


@dataclass
class Shop:
    """A stream and a table in a folder; `run` notes what rows of which epoch met which state of the table."""

    folder: Path
    place: str
    queries: Sequence[str]
    options: str = ""
    columns: str = COLUMNS
    sink: str = "'connector' = 'filesystem', 'path' = 'out_{n}', 'format' = 'parquet'"
    version: int = 0
    met: list[tuple[int, int]] = field(default_factory=list)
    change_after: Callable[[EpochReport], bool] = lambda report: True

    def __post_init__(self) -> None:
        (self.folder / "l").mkdir()
        lines = (json.dumps({"k": k, "v": v, "ts": f"1970-01-01 00:00:{s:02}"}) for k, v, s in ROWS)
        (self.folder / "l" / "0.json").write_text("".join(f"{line}\n" for line in lines))
        self.fill(0)

    def fill(self, version: int) -> None:
        """Give the table other rows."""
        self.version = version
        target = self.folder / ("d.duckdb" if self.place == "duckdb" else f"d/rows.{self.place}")
        target.parent.mkdir(exist_ok=True)
        with duckdb.connect() as con:
            con.execute(
                f"ATTACH '{self.folder / 'd.duckdb'}' AS db"
                if self.place == "duckdb"
                else "ATTACH ':memory:' AS db"
            )
            con.execute(
                "CREATE OR REPLACE TABLE db.things (id BIGINT, name VARCHAR, factor INTEGER, other VARCHAR)"
            )
            for row in TABLES[version]:
                con.execute("INSERT INTO db.things VALUES (?, ?, ?, 'x')", row)
            if self.place != "duckdb":
                con.execute(
                    f"COPY (SELECT id, name, factor FROM db.things) TO '{target}' (FORMAT {self.place})"
                )

    def sql(self) -> str:
        table = f"CREATE TABLE d ({self.columns}) WITH ({PLACES[self.place]}{self.options});\n"
        made = (
            f"CREATE TABLE out_{n} WITH ({self.sink.format(n=n)}) AS {query};\n"
            for n, query in enumerate(self.queries)
        )
        return STREAM + table + (VIEW if any("small" in q for q in self.queries) else "") + "".join(made)

    def run(self, **options: Any) -> RunResult:
        (self.folder / "p.sql").write_text(self.sql())

        def done(report: EpochReport) -> None:
            self.met.append((report.rows_read["l"], self.version))
            if self.change_after(report):
                self.fill((self.version + 1) % len(TABLES))

        return run_here(
            plan_file(self.folder / "p.sql"),
            self.folder,
            on_epoch=options.pop("on_epoch", done),
            rows_per_epoch=options.pop("rows_per_epoch", 2),
            **options,
        )

    def given(self, number: int = 0) -> Rows:
        if not list((self.folder / f"out_{number}").glob("*.parquet")):
            return []
        with duckdb.connect() as con:
            found: Rows = con.execute(f"SELECT * FROM '{self.folder}/out_{number}/*.parquet'").fetchall()
            return found


def wanted(sql: str, met: Sequence[tuple[int, int]]) -> Rows:
    """What DuckDB finds for the rows of each epoch in the table of that time."""
    found: Rows = []
    at = 0
    for count, version in met:
        with empty_duckdb() as con:
            con.execute("CREATE TABLE l (k INTEGER, v INTEGER, s INTEGER)")
            con.execute("CREATE TABLE d (id BIGINT, name VARCHAR, factor INTEGER)")
            for row in ROWS[at : at + count]:
                con.execute("INSERT INTO l VALUES (?, ?, ?)", row)
            for looked_up in TABLES[version]:
                con.execute("INSERT INTO d VALUES (?, ?, ?)", looked_up)
            found += con.execute(sql).fetchall()
        at += count
    assert at <= len(ROWS)
    return found


@pytest.mark.parametrize("place", PLACES)
def test_each_row_meets_the_table_of_its_epoch(tmp_path: Path, place: str) -> None:
    """The table is another one after every epoch; all queries at once share one copy of it."""
    # How the rows are read makes no difference to what is asked of them.
    chosen = [*QUERIES.values()] if place == "duckdb" else [QUERIES["left"], QUERIES["using, a view"]]
    shop = Shop(tmp_path, place, [query for query, _ in chosen])
    shop.run()
    assert len({version for _, version in shop.met}) > 2
    assert sum(count for count, _ in shop.met) == len(ROWS)
    for number, (_, sql) in enumerate(chosen):
        assert_same(shop.given(number), wanted(sql, shop.met))


#: What may stand around a lookup join; the table stays as it is.
FORMS = {
    "of windows": f"SELECT window_end, name, COUNT(*) AS n FROM {WINDOWS} AS w JOIN d FOR SYSTEM_TIME AS OF w.p "
    "ON w.k = d.id GROUP BY window_start, window_end, name",
    "of groups of windows": f"SELECT q.k, n, name FROM (SELECT window_end, k, COUNT(*) AS n FROM {WINDOWS} "
    "GROUP BY window_start, window_end, k) AS q LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON q.n = d.id",
    "beside a stream": "SELECT l.v, name, m.v AS other FROM l JOIN d FOR SYSTEM_TIME AS OF l.p ON l.k = d.id "
    "JOIN l AS m ON m.k = l.k AND m.v < l.v",
    "in time": "SELECT a.v, name, m.v AS other FROM (SELECT l.ts, l.k, v, name FROM l LEFT JOIN d "
    "FOR SYSTEM_TIME AS OF l.p ON l.k = d.id) AS a JOIN l AS m ON a.k = m.k "
    "AND m.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND",
    "behind a stream": "SELECT l.v, m.v AS other, name FROM l JOIN l AS m ON m.k = l.k AND m.v < l.v "
    "JOIN d FOR SYSTEM_TIME AS OF l.p ON m.k = d.id",
    "a union": "SELECT q.k, name FROM (SELECT k FROM l UNION ALL SELECT v / 10 FROM l) AS q "
    "LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON q.k = d.id",
    "unnested": "SELECT v, name, u.x FROM l CROSS JOIN UNNEST([1, k]) AS u (x) "
    "JOIN d FOR SYSTEM_TIME AS OF l.p ON u.x = d.id",
    "the newest": "SELECT name, v FROM (SELECT name, v, ROW_NUMBER() OVER (PARTITION BY name ORDER BY l.v DESC) AS r "
    "FROM l JOIN d FOR SYSTEM_TIME AS OF l.p ON l.k = d.id) WHERE r = 1",
    "in a sub-query": "SELECT v FROM l WHERE k IN (SELECT m.k FROM l AS m JOIN d FOR SYSTEM_TIME AS OF m.p ON m.k = d.id)",
    "the table as a stream": "SELECT l.v, a.name, b.name AS same FROM l JOIN d FOR SYSTEM_TIME AS OF l.p AS a ON l.k = a.id "
    "JOIN d AS b ON a.id = b.id",
    "nothing compared": "SELECT v, name FROM l JOIN d FOR SYSTEM_TIME AS OF l.p ON l.v > 40 AND factor < 2",
    "written rows": "SELECT x, name FROM (VALUES (1), (7)) AS q (x) LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON x = id",
}


def test_what_may_stand_around_a_lookup_join(tmp_path: Path) -> None:
    changes = "'connector' = 'filesystem', 'path' = 'out_{n}', 'format' = 'changelog-json'"
    shop = Shop(tmp_path, "json", list(FORMS.values()), sink=changes, change_after=lambda report: False)
    rows = (tmp_path / "l" / "0.json").read_text().splitlines()
    (tmp_path / "l" / "0.json").write_text("".join(f"{row}\n" for row in rows[:-1]))  # without the late one
    shop.run(rows_per_epoch=4)
    script = to_duckdb(
        plan_file(tmp_path / "p.sql"), lambda source: [str(next((tmp_path / source.name).iterdir()))]
    )
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        for (sink, text), form in zip(script.sinks, FORMS, strict=True):
            expected = con.execute(text).fetchall()
            assert expected, form
            given = [tuple(map(str, row)) for row in folded(tmp_path / sink)]
            assert sorted(given) == sorted(tuple(map(shown, row)) for row in expected), form


def shown(value: object) -> str:
    """A value as JSON's reader gives it, as text."""
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)


POINTS: tuple[Point, ...] = ("planned", "run", "prepared", "published", "committed", "collected")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", POINTS)
def test_an_epoch_that_is_replayed_finds_the_same_rows(tmp_path: Path, point: Point) -> None:
    """The run ends at every step of an epoch, and the table is another one before the next run."""
    query, sql = QUERIES["left"]
    shop = Shop(tmp_path, "json", [query], change_after=lambda report: False)

    def crash(at: Point, epoch: int) -> None:
        if (at, epoch) == (point, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shop.run(faults=crash)
    shop.fill(1)
    begun = sum(count for count, _ in shop.met)
    shop.met, before = [], shop.met
    shop.run(parallelism=2)
    replayed = [] if point in ("published", "committed", "collected") else [(shop.met.pop(0)[0], 0)]
    lost = [] if replayed else [(2, 0)]
    assert begun == 2
    assert_same(shop.given(), wanted(sql, [*before, *lost, *replayed, *shop.met]))


def test_a_table_that_is_as_it_was_is_read_once(tmp_path: Path) -> None:
    query, sql = QUERIES["inner"]
    shop = Shop(tmp_path, "parquet", [query], change_after=lambda report: report.epoch == 2)
    seen: list[int] = []

    def copies(report: EpochReport) -> None:
        shop.met.append((report.rows_read["l"], shop.version))
        seen.append(len(list((tmp_path / "state" / "dimensions").iterdir())))
        if report.epoch == 2:
            shop.fill(1)

    shop.run(on_epoch=copies, rows_per_epoch=1, retained_epochs=2)
    assert_same(shop.given(), wanted(sql, shop.met))
    # The old copy goes with the last manifest that names it.
    assert seen[:5] == [1, 1, 2, 1, 1]


@pytest.mark.parametrize("cache", ["FULL", "PARTIAL"])
def test_a_copy_is_as_old_as_it_may_be(tmp_path: Path, cache: str) -> None:
    key = {"FULL": "full-cache.periodic-reload.interval", "PARTIAL": "partial-cache.expire-after-write"}[
        cache
    ]
    query, sql = QUERIES["inner"]
    shop = Shop(tmp_path, "json", [query], f", 'lookup.cache' = '{cache}', 'lookup.{key}' = '1 h'")
    shop.run(max_epochs=3)
    assert_same(shop.given(), wanted(sql, [(count, 0) for count, _ in shop.met]))
    # A new run begins with what is there.
    first, shop.met, version = shop.met, [], shop.version
    shop.run()
    assert version == 3
    assert_same(shop.given(), wanted(sql, [(n, 0) for n, _ in first] + [(n, version) for n, _ in shop.met]))


def test_windows_and_late_rows_above(tmp_path: Path) -> None:
    """Rows are late by their own time, and told of with all of their columns, though a join is between."""
    windows = (
        "SELECT window_end, name, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE((SELECT l.ts, v, name FROM l "
        "LEFT JOIN d FOR SYSTEM_TIME AS OF l.p ON l.k = d.id), DESCRIPTOR(ts), INTERVAL '5' SECOND)) "
        "GROUP BY window_start, window_end, name"
    )
    shop = Shop(tmp_path, "json", [windows], change_after=lambda report: False)
    result = shop.run()
    sql = (
        "SELECT CAST('1970-01-01' AS TIMESTAMP) + (s // 5 + 1) * INTERVAL 5 SECOND, name, count(*), sum(v) "
        "FROM l LEFT JOIN d ON k = id WHERE v <> 90 GROUP BY ALL"
    )
    assert_same(shop.given(), wanted(sql, [(len(ROWS), 0)]))
    assert result.dead_letters == {"late": 1}
    letters = (tmp_path / "state" / "dead-letter").iterdir()
    assert '"k":4' in "".join(file.read_text() for file in letters).replace(" ", "").replace("\\", "")


def test_groups_and_joins_above_keep_what_was_found(tmp_path: Path) -> None:
    """Of rows that were looked up a stream's operators keep state; the result of an earlier operator can be looked up."""
    queries = [
        "SELECT name, COUNT(*) AS n, SUM(v) AS s FROM l LEFT JOIN d FOR SYSTEM_TIME AS OF l.p ON l.k = d.id GROUP BY name",
        "SELECT q.k, name FROM (SELECT DISTINCT k FROM l) AS q JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON q.k = d.id",
    ]
    shop = Shop(
        tmp_path,
        "duckdb",
        queries,
        sink="'connector' = 'filesystem', 'path' = 'out_{n}', 'format' = 'changelog-json'",
    )
    shop.run()
    looked_up = wanted("SELECT name, v FROM l LEFT JOIN d ON k = id", shop.met)
    with empty_duckdb() as con:
        con.execute("CREATE TABLE found (name VARCHAR, v INTEGER)")
        for row in looked_up:
            con.execute("INSERT INTO found VALUES (?, ?)", row)
        expected = con.execute("SELECT name, count(*), sum(v) FROM found GROUP BY name").fetchall()
    assert_same(folded(tmp_path / "out_0"), expected)
    first: dict[int, int] = {}
    for number, (k, _, _) in enumerate(ROWS):
        first.setdefault(-1 if k is None else k, number)
    at, rows = 0, []
    for count, version in shop.met:
        new = [ROWS[n][0] for n in range(at, at + count) if n in first.values()]
        rows += [(k, name) for k in new for id_, name, _ in TABLES[version] if k is not None and k == id_]
        at += count
    assert_same(folded(tmp_path / "out_1"), rows)


def folded(folder: Path) -> Rows:
    """What changes leave."""
    left: list[tuple[Any, ...]] = []
    for file in sorted(folder.glob("*.json")):
        for line in file.read_text().splitlines():
            change = json.loads(line)
            row = tuple(change["data"].values())
            left.append(row) if change["op"] in ("+I", "+U") else left.remove(row)
    return left


@pytest.mark.parametrize("place", ["json", "duckdb"])
def test_the_primary_key_of_a_table_is_checked(tmp_path: Path, place: str) -> None:
    shop = Shop(tmp_path, place, [QUERIES["inner"][0]], columns=f"{COLUMNS}, PRIMARY KEY (id) NOT ENFORCED")
    with pytest.raises(DiagnosticError) as caught:
        shop.run()
    [found] = caught.value.diagnostics
    assert (found.code, "2 rows with the PRIMARY KEY (id = 1)" in found.message) == ("DAT009", True)
