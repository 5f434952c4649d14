"""A PostgreSQL server that goes away while a run writes to it, at each step of an epoch, and comes back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sqlstream.connectors.exactly_once import sink
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.loop.restarts import Restart, RestartStrategy
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_server import Stoppable, run_server

SOON = RestartStrategy(delay_s=0.01, longest_s=0.01)
ROWS = [{"k": "abc"[n % 3], "v": n} for n in range(60)]
SUMS = Counter({"a": sum(range(0, 60, 3)), "b": sum(range(1, 60, 3)), "c": sum(range(2, 60, 3))})


@pytest.fixture(scope="module")
def server() -> Iterator[Stoppable]:
    yield from run_server()


@dataclass
class Job:
    """A pipeline into two tables, one that is kept up to date and one that is appended to."""

    folder: Path
    server: Stoppable
    watched: bool
    restarts: list[Restart] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "in").mkdir()
        for number in range(6):
            text = "".join(json.dumps(row) + "\n" for row in ROWS[number * 10 : number * 10 + 10])
            (self.folder / f"in/{number}.json").write_text(text)
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            for table in ("sums", "all_rows", "sqlstream_epochs"):
                connection.execute(f"DROP TABLE IF EXISTS {table}".encode())

    @property
    def sql(self) -> str:
        watch = ", 'source.monitor-interval' = '10 ms', 'source.settle-time' = '0 ms'" if self.watched else ""
        to = f"WITH ('connector' = 'postgres', 'url' = '{self.server.url()}')"
        return f"""
            CREATE TABLE t (k STRING, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json'{watch});
            CREATE TABLE sums (k STRING, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) {to};
            CREATE TABLE all_rows (k STRING, v BIGINT) {to};
            INSERT INTO sums SELECT k, CAST(SUM(v) AS BIGINT) FROM t GROUP BY k;
            INSERT INTO all_rows SELECT k, v FROM t;
        """

    def run(self, **options: Any) -> RunResult:
        planned = plan_file(self.sql, file="p.sql")
        return run_pipeline(
            RunRequest(
                planned.physical,
                secrets=planned.secrets,
                state_dir=self.folder / "state",
                base_dir=self.folder,
                local_dir=self.folder / "cache",
                runner=InProcessRunner(2),
                max_rows_per_epoch=10,
                sync=False,
                poll_s=0.01,
                on_restart=options.pop("on_restart", self.restarts.append),
                **options,
            )
        )

    def check(self) -> None:
        """Every row is there once, and the sums are those of all rows."""
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            assert Counter(dict(connection.execute("SELECT k, v FROM sums").fetchall())) == SUMS
            found = connection.execute("SELECT k, v FROM all_rows ORDER BY v").fetchall()
            assert found == [(row["k"], row["v"]) for row in ROWS]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost connection is made anew at once; the run is given up after four attempts, as it is."""
    monkeypatch.setattr(sink, "PAUSE_S", 0.0)


@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed"])
@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.sampled(2)
def test_a_run_outlives_its_database(tmp_path: Path, server: Stoppable, point: str, watched: bool) -> None:
    job = Job(tmp_path, server, watched)
    stop = StopFlag()
    went: list[int] = []

    def away(at: str, epoch: int) -> None:
        if (at, epoch) == (point, 3) and not went:
            went.append(epoch)
            server.stop()

    def again(restart: Restart) -> None:
        job.restarts.append(restart)
        if len(job.restarts) == 3:
            server.start()

    def until_all(report: Any) -> None:
        if report.epoch >= 6:
            stop.request()

    # A run that watches waits without being asked; delays of seconds are for people.
    strategy = {} if watched else {"restart": SOON}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "sqlstream.runtime.loop.restarts.WATCHING", RestartStrategy(None, 0.01, 0.01, once_up=True)
        )
        result = job.run(stop=stop, faults=away, on_restart=again, on_epoch=until_all, **strategy)
    assert [restart.attempt for restart in job.restarts] == [1, 2, 3]
    assert {d.code for restart in job.restarts for d in restart.diagnostics} == {"ENV006"}
    assert "not-to-be-shown" not in str(job.restarts)
    assert result.rows_read == {"t": 60}
    job.check()


@pytest.mark.parametrize("point", ["planned", "prepared", "published"])
def test_a_run_that_is_not_to_wait_ends_and_the_next_one_goes_on(
    tmp_path: Path, server: Stoppable, point: str
) -> None:
    job = Job(tmp_path, server, watched=False)

    def away(at: str, epoch: int) -> None:
        if (at, epoch) == (point, 3):
            server.stop()

    with pytest.raises(DiagnosticError) as caught:
        job.run(faults=away)
    assert (caught.value.exit_code, caught.value.diagnostics[0].code, job.restarts) == (5, "ENV006", [])
    with pytest.raises(DiagnosticError):
        job.run(restart=RestartStrategy(2, 0.01, 0.01))
    assert [restart.attempt for restart in job.restarts] == [1, 2]
    server.start()
    assert job.run().outcome == "exhausted"
    job.check()
