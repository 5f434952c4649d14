"""NOW(), RANDOM() and their like: given to a row by the epoch that reads it, the same again when it is replayed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.edits.consent import ConsentNeededError
from sqlstream.runtime.loop.faults import Point
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.test_lookup_joins import folded

#: Key, value, minute of the event time.
ROWS = [
    (1, 10, 1),
    (2, 20, 2),
    (None, 30, 3),
    (3, 40, 50),
    (1, 50, 70),
    (2, 60, 80),
    (1, 70, 200),
    (3, 80, 210),
]
BEGINS = datetime(2024, 5, 1, 0, 10, 0, 123456, tzinfo=UTC)
TABLE = (
    "CREATE TABLE t (k INT, v INT, p AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
    "WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');\n"
)
PARQUET = "'connector' = 'filesystem', 'path' = 'out_{n}', 'format' = 'parquet'"
CHANGES = "'connector' = 'filesystem', 'path' = 'out_{n}', 'format' = 'changelog-json'"
WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))"


@dataclass
class Run:
    """A table that is read some rows per epoch, while the wall clock goes on by 40 minutes an epoch that reads."""

    folder: Path
    queries: Sequence[str]
    sink: str = PARQUET
    settings: str = ""
    clock: datetime = BEGINS
    #: Of each row that was read, the clock of its epoch.
    clocks: list[datetime] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "t").mkdir(parents=True)
        at = datetime(2024, 5, 1)
        lines = (json.dumps({"k": k, "v": v, "ts": str(at + timedelta(minutes=m))}) for k, v, m in ROWS)
        (self.folder / "t" / "0.json").write_text("".join(f"{line}\n" for line in lines))

    def planned(self) -> Planned:
        sinks = (
            f"CREATE TABLE out_{n} WITH ({self.sink.format(n=n)}) AS {query};\n"
            for n, query in enumerate(self.queries)
        )
        (self.folder / "p.sql").write_text(self.settings + TABLE + "".join(sinks))
        return plan_file(self.folder / "p.sql")

    def run(self, **options: Any) -> None:
        def done(report: EpochReport) -> None:
            self.clocks += [self.clock] * report.rows_read["t"]
            if report.rows_read["t"]:
                self.clock += timedelta(minutes=40)

        run_here(
            self.planned(),
            self.folder,
            on_epoch=done,
            wall_clock=lambda: self.clock.timestamp(),
            **{"rows_per_epoch": 3, **options},
        )

    def given(self, number: int = 0) -> Rows:
        if not list((self.folder / f"out_{number}").glob("*.parquet")):
            return []
        with duckdb.connect() as con:
            con.execute("SET TimeZone = 'UTC'")
            found: Rows = con.execute(f"SELECT * FROM '{self.folder}/out_{number}/*.parquet'").fetchall()
            return found

    def wanted(self, sql: str) -> Rows:
        """What DuckDB says of all rows, `clock` being a column of theirs."""
        with empty_duckdb() as con:
            con.execute("CREATE TABLE t (k INTEGER, v INTEGER, ts TIMESTAMP, clock TIMESTAMPTZ)")
            for (k, v, minute), clock in zip(ROWS, self.clocks, strict=True):
                con.execute(
                    "INSERT INTO t VALUES (?, ?, ?, ?)",
                    [k, v, datetime(2024, 5, 1) + timedelta(minutes=minute), clock],
                )
            found: Rows = con.execute(sql).fetchall()
            return found


def at_clock(sql: str) -> str:
    """A query of DuckDB's with the column `clock` for each function of the clock."""
    local = "(clock AT TIME ZONE 'UTC')"
    for name, instead in (
        ("NOW()", "clock"),
        ("LOCALTIMESTAMP", local),
        ("CURRENT_DATE", f"CAST({local} AS DATE)"),
        ("LOCALTIME", f"CAST({local} AS TIME)"),
        ("UNIX_TIMESTAMP()", "CAST(epoch(clock) // 1 AS BIGINT)"),
        ("AGE(ts)", f"age(CAST(CAST({local} AS DATE) AS TIMESTAMP), ts)"),
        ("ago(", "(clock - "),
        ("FROM t", "FROM t"),
    ):
        sql = sql.replace(name, instead)
    return sql


#: Given once; each is asked of DuckDB with the clock of each row's epoch.
APPENDED = [
    "SELECT k, NOW() AS n, CURRENT_DATE AS d, LOCALTIMESTAMP AS l, LOCALTIME AS c FROM t",
    "SELECT v, CAST(AGE(ts) AS VARCHAR) AS a, UNIX_TIMESTAMP() AS u, ago(INTERVAL '1' DAY) AS y FROM t",
    "SELECT v FROM t WHERE ts > LOCALTIMESTAMP - INTERVAL '30' MINUTE",
    "SELECT v, x FROM (SELECT v, extract(minute FROM NOW()) AS x FROM t) WHERE x > 20",
]
#: Kept up to date: a row that is taken back goes with the clock that it came with.
CHANGING = {
    "SELECT k, MAX(at) AS last, MIN(at) AS first, COUNT(*) AS n FROM (SELECT k, LOCALTIMESTAMP AS at FROM t) GROUP BY k": (
        "SELECT k, MAX(clock AT TIME ZONE 'UTC'), MIN(clock AT TIME ZONE 'UTC'), COUNT(*) FROM t GROUP BY k"
    ),
    "SELECT LOCALTIMESTAMP AS at, SUM(v) AS s FROM t GROUP BY LOCALTIMESTAMP": (
        "SELECT clock AT TIME ZONE 'UTC', SUM(v) FROM t GROUP BY ALL"
    ),
    "SELECT a.v, at, b.v AS w FROM (SELECT *, LOCALTIMESTAMP AS at FROM t) AS a "
    "LEFT JOIN t AS b ON a.k = b.k AND b.v > a.v": (
        "SELECT a.v, a.clock AT TIME ZONE 'UTC', b.v FROM t AS a LEFT JOIN t AS b ON a.k = b.k AND b.v > a.v"
    ),
    "SELECT COUNT(*) FILTER (WHERE ts > LOCALTIMESTAMP - INTERVAL '30' MINUTE) AS n, SUM(v) AS s FROM t": (
        "SELECT COUNT(*) FILTER (WHERE ts > clock AT TIME ZONE 'UTC' - INTERVAL 30 MINUTE), SUM(v) FROM t"
    ),
    "SELECT k, v, CAST(p AS TIMESTAMP) AS p FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) = 1": (
        "SELECT k, v, clock AT TIME ZONE 'UTC' FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) = 1"
    ),
}


def test_the_clock_is_that_of_the_epoch_which_reads_a_row(tmp_path: Path) -> None:
    made = Run(tmp_path, APPENDED)
    made.run()
    assert len(set(made.clocks)) == 3
    for number, query in enumerate(APPENDED):
        assert_same(made.given(number), made.wanted(at_clock(query)))


def test_what_goes_goes_with_the_clock_that_it_came_with(tmp_path: Path) -> None:
    made = Run(tmp_path, list(CHANGING), CHANGES)
    made.run(max_epochs=2)
    made.run()
    for number, sql in enumerate(CHANGING.values()):
        given = [tuple(map(str, row)) for row in folded(tmp_path / f"out_{number}")]
        assert sorted(given) == sorted(tuple(map(str, row)) for row in made.wanted(sql)), sql


def test_windows_and_pairs_have_the_clock_of_the_epoch_that_gives_them(tmp_path: Path) -> None:
    windows = f"SELECT window_end, COUNT(*) AS n, LOCALTIMESTAMP AS at FROM {WINDOWS} GROUP BY window_start, window_end"
    pairs = "SELECT a.v, b.v AS w FROM t AS a JOIN t AS b ON a.v + 40 = b.v "
    pairs += "AND LOCALTIMESTAMP > TIMESTAMP '2024-05-01 00:55:00'"
    made = Run(tmp_path, [windows, pairs])
    made.run()
    ends = {row[0].hour: row[2] for row in made.given()}
    clocks = [clock.replace(tzinfo=None) for clock in dict.fromkeys(made.clocks)]
    # The first two close when the rows of the last epoch have been seen, which is when it has ended.
    assert set(ends) == {1, 2, 4}
    assert ends[4] >= clocks[-1]
    assert all(at in (*clocks, clocks[-1] + timedelta(minutes=40)) for at in ends.values())
    # Of 10 and 50, and of 20 and 60, the second came in the second epoch, whose clock said 00:50.
    assert sorted(made.given(1)) == [(30, 70), (40, 80)]


RANDOM = [
    "SELECT v, RANDOM() AS r, RAND() AS q, UUID() AS u, uuidv7() AS o, RAND(7) AS s, RAND(7) AS t, "
    "RAND_INTEGER(10) AS i FROM t",
    "SELECT window_end, COUNT(*) AS n, SUM(v) AS s FROM "
    f"{WINDOWS.replace('TABLE t', '(SELECT * FROM t WHERE RAND() < 0.6)')} GROUP BY window_start, window_end",
    "SELECT u, COUNT(*) AS n FROM (SELECT UUID() AS u FROM t UNION ALL SELECT UUID() AS u FROM t) GROUP BY u",
]


def random_rows(folder: Path, **options: Any) -> list[Any]:
    made = Run(folder, RANDOM, CHANGES)
    made.run(**options)
    return [sorted(folded(folder / f"out_{n}"), key=str) for n in range(len(RANDOM))]


def test_random_values_are_of_the_row(tmp_path: Path) -> None:
    rows, windows, ids = random_rows(tmp_path / "one")
    assert len(rows) == len(ROWS)
    assert len(ids) == 2 * len(ROWS)
    values = [(r, q) for _, r, q, *_ in rows]
    assert len({x for pair in values for x in pair}) == 2 * len(ROWS)
    assert all(0 <= x < 1 for pair in values for x in pair)
    assert all(u[14] == "4" and u[19] in "89ab" and o[14] == "7" for *_, u, o, _, _, _ in rows)
    # The first 48 bits are milliseconds.
    assert {int(o[:8] + o[9:13], 16) for *_, o, _, _, _ in rows} == {
        int((BEGINS + timedelta(minutes=40 * n)).timestamp() * 1000) for n in range(3)
    }
    assert all(s == t for *_, s, t, _ in rows)
    assert all(0 <= i < 10 for *_, i in rows)
    assert 0 < sum(n for _, n, _ in windows) < len(ROWS)
    # Neither the number of shards nor the order in which tasks run matters.
    assert random_rows(tmp_path / "other", parallelism=3, tasks=1) == [rows, windows, ids]


POINTS: tuple[Point, ...] = ("planned", "run", "prepared", "published", "committed")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.sampled(2)
def test_a_replay_gives_the_same(tmp_path: Path, point: Point) -> None:
    """The run ends at a step of its second epoch, and it is another time when it goes on."""
    queries = [RANDOM[0], *list(CHANGING)[:1]]
    made, whole = Run(tmp_path / "broken", queries, CHANGES), Run(tmp_path / "whole", queries, CHANGES)

    def crash(at: Point, epoch: int) -> None:
        if (at, epoch) == (point, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.run(faults=crash)
    later = made.clock + timedelta(minutes=40)
    made.clock += timedelta(days=3)
    made.run(max_epochs=1)
    made.clock = later if point in ("planned", "run", "prepared") else made.clock
    whole.run(max_epochs=2)
    if point in ("planned", "run", "prepared"):
        for number in range(2):
            given, wanted = (sorted(map(str, folded(r.folder / f"out_{number}"))) for r in (made, whole))
            assert given == wanted


def test_the_clock_is_never_set_back(tmp_path: Path) -> None:
    made = Run(tmp_path, ["SELECT v, NOW() AS n FROM t"])
    made.run(max_epochs=1)
    latest = made.clocks[-1]
    made.clock -= timedelta(days=1)
    made.run(max_epochs=1)
    assert {n.timestamp() for _, n in made.given()} == {latest.timestamp()}
    made.clock = latest + timedelta(seconds=1)
    made.run()
    assert max(n.timestamp() for _, n in made.given()) > latest.timestamp()


def test_what_the_clock_was_is_not_computed_again(tmp_path: Path) -> None:
    """A state or a table that an edit adds begins now, by consent; what is kept goes on."""
    former = (
        "SELECT k, MAX(at) AS last, COUNT(*) AS n FROM (SELECT k, LOCALTIMESTAMP AS at FROM t) GROUP BY k"
    )
    made = Run(tmp_path, [former], CHANGES)
    made.run(max_epochs=1)
    made.queries = [former.replace("MAX(at)", "MIN(at)"), "SELECT DISTINCT v, CURRENT_DATE AS d FROM t"]
    with pytest.raises(ConsentNeededError) as caught:
        made.run()
    assert all("the clock times" in consent.why.message for consent in caught.value.consents)
    made.queries = [f"{former} HAVING COUNT(*) > 0"]
    made.run()
    given = [tuple(map(str, row)) for row in folded(tmp_path / "out_0")]
    wanted = made.wanted("SELECT k, MAX(clock AT TIME ZONE 'UTC'), COUNT(*) FROM t GROUP BY k")
    assert sorted(given) == sorted(tuple(map(str, row)) for row in wanted)
