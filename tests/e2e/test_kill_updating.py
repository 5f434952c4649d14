"""Restart of what changes what it gave: early and late windows, Top-N, ON CONFLICT, changelog files, state with a TTL."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.killing import Killer, Order, steps_within
from tests.runtime.support import manifests

KILLS = 3
SQL = """
SET 'table.exec.emit.allow-lateness' = '4 s';
CREATE TABLE t (id INT, k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');

CREATE TABLE early (e TIMESTAMP(3), k INT, n BIGINT, kinds BIGINT, PRIMARY KEY (e, k) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'early', 'format' = 'debezium-json');
CREATE TABLE corrected (s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT, total BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'corrected', 'format' = 'changelog-json');
CREATE TABLE places (place BIGINT, k INT, total BIGINT, PRIMARY KEY (place) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'places', 'format' = 'debezium-json');
CREATE TABLE firsts (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'results.duckdb');
CREATE TABLE lasts (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'lasts', 'format' = 'changelog-json');
CREATE TABLE once (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'results.duckdb');
CREATE TABLE best (e TIMESTAMP(3), id INT) WITH ('connector' = 'filesystem', 'path' = 'best', 'format' = 'json');

EXECUTE STATEMENT SET BEGIN
INSERT INTO early SELECT window_end, k, COUNT(*), COUNT(DISTINCT v)
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k EMIT CHANGES;
INSERT INTO corrected SELECT window_start, window_end, COUNT(*), CAST(SUM(v) AS BIGINT)
  FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
INSERT INTO places SELECT place, k, total FROM (
  SELECT k, total, ROW_NUMBER() OVER (ORDER BY total DESC, k) AS place
  FROM (SELECT k, CAST(SUM(v) AS BIGINT) AS total FROM t GROUP BY k)) WHERE place <= 4;
INSERT INTO firsts SELECT k, v FROM t ON CONFLICT DO NOTHING;
INSERT INTO lasts SELECT k, v FROM t ON CONFLICT DO DEDUPLICATE;
INSERT INTO once SELECT id, v FROM t WHERE v > 7 ON CONFLICT DO ERROR;
INSERT INTO best SELECT window_end, id FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, id) AS place
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))) WHERE place <= 2 EMIT ON WINDOW CLOSE;
END;
"""
#: What is there in the end, written independently of the pipeline; times are seconds since the first row's minute.
EXPECTED = {
    "early": "SELECT DATE_TRUNC('minute', ts) + to_seconds(20 * (second(ts) // 20 + 1)) AS e, k, COUNT(*), "
    "COUNT(DISTINCT v) FROM t GROUP BY ALL",
    "corrected": "SELECT s, s + to_seconds(6) AS e, COUNT(*), SUM(v) FROM t, "
    "(SELECT TIMESTAMP '2023-12-31 23:59:00' + to_seconds(2 * i) AS s FROM range(200) AS r(i)) "
    "WHERE ts >= s AND ts < s + to_seconds(6) GROUP BY ALL",
    "places": "SELECT row_number() OVER (ORDER BY total DESC, k), k, total FROM "
    "(SELECT k, SUM(v) AS total FROM t GROUP BY k) ORDER BY total DESC, k LIMIT 4",
    "lasts": "SELECT k, arg_max(v, id) FROM t GROUP BY k",
}
TABLES = {
    "firsts": "SELECT k, arg_min(v, id) FROM t GROUP BY k",
    "once": "SELECT id, v FROM t WHERE v IN (8, 9)",
}
COLUMNS = "{id: 'INTEGER', k: 'INTEGER', v: 'INTEGER', ts: 'TIMESTAMP'}"
ROWS, ROWS_PER_EPOCH = 200, 40


@pytest.fixture
def rng() -> random.Random:
    """Draws the rows and the steps; KILL_SEED draws others."""
    return random.Random(int(os.environ.get("KILL_SEED", "0")))


def _input(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "in").mkdir(parents=True)
    for number in range(2):
        half = rows[number * len(rows) // 2 : (number + 1) * len(rows) // 2]
        (folder / "in" / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in half))


def _kill_and_finish(
    killer: Killer, folder: Path, rng: random.Random, steps: int, clock: Iterator[dict[str, str]]
) -> None:
    """Kill drivers at steps of the first `steps` that they make, then let one run to the end."""
    for step in steps_within(rng, steps, KILLS):
        shards = rng.choice([1, 1, 2])
        killer.kill(Order(str(folder), ROWS_PER_EPOCH, shards, step=step, environment=next(clock)))
    killer.finish(Order(str(folder), ROWS_PER_EPOCH, 1, environment=next(clock)))


def _lines(folder: Path, sink: str) -> dict[int, Counter[str]]:
    """The lines of a sink's files by epoch."""
    found: dict[int, Counter[str]] = {}
    for file in sorted((folder / sink).glob("part-*.json")):
        found.setdefault(int(file.name[5:11]), Counter()).update(file.read_text().splitlines())
    return found


def _changes(line: str) -> Iterator[tuple[tuple[Any, ...], int]]:
    message = json.loads(line)
    if "data" in message:
        yield tuple(message["data"].values()), 1 if message["op"][0] == "+" else -1
    elif message["op"] == "c":
        yield tuple(message["after"].values()), 1
    else:
        assert message["op"] == "d"
        yield tuple(message["before"].values()), -1


def _folded(folder: Path, sink: str) -> Counter[tuple[Any, ...]]:
    """What is there after all changes; after no epoch a row may be there less than no time."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for epoch in sorted(lines := _lines(folder, sink)):
        for line, times in lines[epoch].items():
            for row, weight in _changes(line):
                rows[row] += weight * times
        assert min(rows.values()) >= 0, f"{sink}, epoch {epoch}: {rows}"
    return +rows


def _by_duckdb(folder: Path, query: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW t AS FROM read_json('{folder}/in/*.json', columns={COLUMNS})")
        rows = connection.execute(query).fetchall()
    return Counter(tuple(v.isoformat(" ") if isinstance(v, datetime) else v for v in row) for row in rows)


def _tables(folder: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    with duckdb.connect(str(folder / "results.duckdb"), read_only=True) as connection:
        names = (*TABLES, "sqlstream_epochs")
        return {n: Counter(connection.execute(f"FROM {n}").fetchall()) for n in names}


@pytest.mark.kill
def test_early_late_ranked_and_conflicting_rows_after_kills(tmp_path: Path, rng: random.Random) -> None:
    rows = []
    for number in range(ROWS):
        moment = datetime(2024, 1, 1) + timedelta(milliseconds=100 * number - rng.randrange(3000))
        ts = moment.isoformat(sep=" ", timespec="milliseconds")
        rows.append({"id": number, "k": rng.randrange(12), "v": rng.randrange(10), "ts": ts})
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    for folder in (killed, undisturbed):
        _input(folder, rows)
        (folder / "pipeline.sql").write_text(SQL)
    with Killer.running(tmp_path) as killer:
        whole = killer.finish(Order(str(undisturbed), ROWS_PER_EPOCH, 1, counted=True))
        _kill_and_finish(killer, killed, rng, whole.steps // 3, itertools.repeat({}))

    for sink in ("early", "corrected", "places", "lasts", "best"):
        # An epoch that is given up, as it was begun with another number of shards, only leaves out its number.
        given, expected = (list(_lines(folder, sink).values()) for folder in (killed, undisturbed))
        assert given == expected != [], sink
    for sink, query in EXPECTED.items():
        assert _folded(killed, sink) == _by_duckdb(killed, query), sink
    found, last = _tables(killed), max(manifests(killed / "state"))
    assert {row[0]: row[-1] for row in found.pop("sqlstream_epochs")} == {"firsts": last, "once": last}
    assert found == {table: _by_duckdb(killed, query) for table, query in TABLES.items()}


AGING = """
SET 'table.exec.state.ttl' = '4 h';
CREATE TABLE t (id INT, k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE counts (k INT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'counts', 'format' = 'changelog-json');
CREATE TABLE seen (k INT) WITH ('connector' = 'filesystem', 'path' = 'seen', 'format' = 'json');
EXECUTE STATEMENT SET BEGIN
INSERT INTO counts SELECT k, COUNT(*) FROM t GROUP BY k;
INSERT INTO seen SELECT /*+ STATE_TTL('t' = '12 h') */ DISTINCT k FROM t;
END;
"""
HOUR_US = 3_600_000_000


def _hours() -> Iterator[dict[str, str]]:
    """The clock of each run: an hour more each time it is asked, and 50 hours between the starts of two runs."""
    for number in itertools.count():
        begin = 1_700_000_000 + number * 50 * 3600
        yield {"CLOCK_FROM": str(begin), "CLOCK_STEP": "3600", "RETAINED_EPOCHS": "1000"}


class Aging:
    """Keys that are forgotten when nothing touched them for so long, as docs/sql/time-to-live.md says."""

    def __init__(self, ttl_us: int) -> None:
        self.ttl_us, self.grain_us = ttl_us, ttl_us // 64
        self.counts: dict[int, int] = {}
        self.touched: dict[int, int] = {}
        self.forgotten = 0

    def add(self, key: int, times: int, now_us: int) -> tuple[int, int]:
        """Count a key of an epoch; its count before and after."""
        now_us -= now_us % self.grain_us
        if key in self.counts and self.touched[key] <= now_us - self.ttl_us - self.grain_us:
            del self.counts[key]
            self.forgotten += 1
        before = self.counts.get(key, 0)
        self.counts[key], self.touched[key] = before + times, now_us
        return before, before + times


@pytest.mark.kill
def test_state_with_a_time_to_live_after_kills(tmp_path: Path, rng: random.Random) -> None:
    # Ever rarer keys: of some rows come in every epoch, of others they are hours apart.
    rows = [{"id": n, "k": int(rng.paretovariate(0.5)) % 200, "v": 1} for n in range(ROWS)]
    _input(tmp_path, rows)
    (tmp_path / "pipeline.sql").write_text(AGING)
    with Killer.running(tmp_path) as killer:
        # Two epochs, but of a folder of their own: how many steps they make.
        (tmp_path / "first").mkdir()
        _input(tmp_path / "first", rows)
        (tmp_path / "first" / "pipeline.sql").write_text(AGING)
        first = killer.run(Order(str(tmp_path / "first"), ROWS_PER_EPOCH, 1, "collected", 2, counted=True))
        _kill_and_finish(killer, tmp_path, rng, first.steps, _hours())

    counts, seen = Aging(4 * HOUR_US), Aging(12 * HOUR_US)
    given = {sink: _lines(tmp_path, sink) for sink in ("counts", "seen")}
    read = 0
    for epoch, manifest in manifests(tmp_path / "state").items():
        now_us = json.loads((tmp_path / "state" / "epochs" / f"{epoch:06d}.plan.json").read_text())["now_us"]
        count = 0 if manifest["void"] else min(ROWS_PER_EPOCH, ROWS - read)
        keys = Counter(row["k"] for row in rows[read : read + count])
        read += count
        changes: Counter[str] = Counter()
        new: Counter[str] = Counter()
        for key, times in keys.items():
            before, after = counts.add(key, times, now_us)
            if before:
                changes[f'{{"data":{{"k":{key},"n":{before}}},"op":"-U"}}'] += 1
            changes[f'{{"data":{{"k":{key},"n":{after}}},"op":"{"+U" if before else "+I"}"}}'] += 1
            if seen.add(key, times, now_us)[0] == 0:
                new[f'{{"k":{key}}}'] += 1
        assert given["counts"].pop(epoch, Counter()) == changes, f"epoch {epoch}"
        assert given["seen"].pop(epoch, Counter()) == new, f"epoch {epoch}"
    assert read == ROWS
    assert given == {"counts": {}, "seen": {}}
    assert counts.forgotten > 0
