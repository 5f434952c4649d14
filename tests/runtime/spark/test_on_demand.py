"""Spark starts for the first epoch and not before, and what is no master is told before anything else."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.spark import on_demand
from sqlstream.runtime.spark.masters import _machine_cores, check_answers, check_master, cores
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.runtime.tasks.paces import Paces
from sqlstream_planner.diagnostics import DiagnosticError

NOWHERE = "spark://localhost:1"
DISTRIBUTED = "SET 'execution.single-task-rows' = '0';\n"


def pipeline(
    folder: Path, *, watched: bool = False, sink: str = "'connector' = 'blackhole'", settings: str = ""
) -> Path:
    interval = ", 'source.monitor-interval' = '10 ms'" if watched else ""
    (folder / "in").mkdir(exist_ok=True)
    (folder / "p.sql").write_text(
        f"{settings}CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json'{interval});\n"
        f"CREATE TABLE o WITH ({sink}) AS SELECT a FROM t;"
    )
    return folder / "p.sql"


def run(file: Path, **options: object) -> RunResult:
    given = {"state_dir": file.parent / "state", "base_dir": file.parent, "sync": False, **options}
    return run_pipeline(RunRequest(plan_file(file).physical, **given))  # type: ignore[arg-type]


def no_spark(*_: object) -> None:
    raise AssertionError("Spark is started")


def test_nothing_new_starts_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = pipeline(tmp_path)
    (tmp_path / "in/1.json").write_text('{"a": 1}\n')
    assert run(file, runner=InProcessRunner(2)).outcome == "exhausted"
    monkeypatch.setattr(on_demand.SparkOnDemand, "_started", no_spark)
    monkeypatch.setattr("sqlstream.runtime.spark.session.begin", no_spark)
    for master in ("local[*]", "local[7]", NOWHERE, "yarn"):
        assert run(file, master=master).outcome == "nothing new"


def test_a_run_that_watches_starts_spark_when_there_is_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pipeline(tmp_path, watched=True, settings=DISTRIBUTED)
    phases: list[str] = []
    stop = StopFlag()
    waits = itertools.count()
    since = time.monotonic()

    def wait(self: StopFlag, seconds: float) -> None:
        if next(waits) == 3:
            (tmp_path / "in/1.json").write_text('{"a": 1}\n')
            os.utime(tmp_path / "in/1.json", (1, 1))  # long complete
        assert time.monotonic() - since < 60
        time.sleep(0.02)

    def started(runner: on_demand.SparkOnDemand) -> None:
        runner._on_start()
        raise Started

    monkeypatch.setattr(StopFlag, "wait", wait)
    monkeypatch.setattr(on_demand.SparkOnDemand, "_started", started)
    with pytest.raises(Started):
        run(file, stop=stop, on_phase=phases.append, master="local[2]")
    assert phases == ["waiting for files in 'in'", "starting Spark"]
    assert next(waits) > 3
    assert not list((tmp_path / "state/epochs").glob("*")), "no epoch is begun that could not run"


class Started(Exception):  # noqa: N818
    """Spark was needed."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is no more than the news that it was needed."""

    def started(_: object) -> None:
        raise Started

    monkeypatch.setattr(on_demand.SparkOnDemand, "_started", started)


@pytest.mark.usefixtures("counted")
def test_what_is_done_before_spark_would_be_there_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand, "BEFORE_SPARK_ROWS", 10)
    file = pipeline(tmp_path, sink="'connector' = 'filesystem', 'path' = 'out', 'format' = 'json'")
    given: dict[str, object] = {"master": "local[2]", "max_rows_per_epoch": 100, "parallelism": 5}

    def more(name: str) -> None:
        (tmp_path / "in" / name).write_text('{"a": 1}\n' * 100)
        os.utime(tmp_path / "in" / name, (1, 1))

    more("1.json")
    more("2.json")
    done = run(file, **given)
    assert (done.outcome, done.epochs, done.rows_written) == ("exhausted", 2, {"o": 200})
    for number in range(3, 6):
        more(f"{number}.json")
    # Files of 900 bytes count as 4 rows, and with five shards no epoch is small; what was committed stays.
    with monkeypatch.context() as unknown:
        unknown.setattr(Paces, "is_sooner_here", lambda *_, **__: False)
        with pytest.raises(Started):
            run(file, **given)
    assert run(file, **{**given, "runner": InProcessRunner(2)}).rows_read == {"t": 100}
    more("6.json")
    for other in ({"conf": {"spark.executorEnv.A": "b"}}, {"master": "spark://a:7077"}):
        with pytest.raises(Started):
            run(file, **{**given, **other})
    pipeline(tmp_path, settings=DISTRIBUTED)
    with pytest.raises(Started):
        run(file, **given)


@pytest.mark.usefixtures("counted")
def test_epochs_that_were_quick_here_go_on_without_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand, "BEFORE_SPARK_ROWS", 10)
    file = pipeline(tmp_path)
    for name in range(6):
        (tmp_path / f"in/{name}.json").write_text('{"a": 1}\n' * 100)
        os.utime(tmp_path / f"in/{name}.json", (1, 1))
    done = run(file, master="local[2]", max_rows_per_epoch=100, parallelism=5)
    assert (done.outcome, done.epochs, done.rows_read) == ("exhausted", 6, {"t": 600})


GROUPS = """{settings}CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o (n BIGINT, k STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'x.db');
INSERT INTO o SELECT {n} AS n, k FROM t GROUP BY k{having};"""


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("shards", [2, 16])
def test_an_edit_of_little_state_needs_no_spark(tmp_path: Path, shards: int) -> None:
    """States adapted and backfilled, answers given, taken back and given again: each was an epoch on Spark."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"k": "a", "v": 7}\n{"k": "a", "v": 5}\n{"k": "b", "v": 1}\n')
    file = tmp_path / "p.sql"

    def edited(n: str, having: str = "", settings: str = "") -> list[tuple[object, ...]]:
        file.write_text(GROUPS.format(n=n, having=having, settings=settings))
        run(file, parallelism=shards, master="local[2]")
        with duckdb.connect(str(tmp_path / "x.db")) as connection:
            found: list[tuple[object, ...]] = connection.execute("SELECT n, k FROM o ORDER BY k").fetchall()
            return found

    assert edited("COUNT(v)") == [(2, "a"), (1, "b")]
    assert edited("MAX(v)") == [(7, "a"), (1, "b")]  # read again
    assert edited("MAX(v)", " HAVING MAX(v) > 1") == [(7, "a")]  # the same state
    with pytest.raises(Started):
        edited("SUM(v)", settings=DISTRIBUTED)
    assert edited("SUM(v)") == [(12, "a"), (1, "b")]


def test_what_needs_no_spark_is_told_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_demand.SparkOnDemand, "_started", no_spark)
    gone = "'connector' = 'postgres', 'url' = 'postgresql://me@127.0.0.1:1/db?connect_timeout=1'"
    monkeypatch.setattr("sqlstream.connectors.exactly_once.sink.PAUSE_S", 0.0)
    file = pipeline(tmp_path, sink=gone, settings=DISTRIBUTED)
    (tmp_path / "in/1.json").write_text('{"a": 1}\n')
    with pytest.raises(DiagnosticError) as caught:
        run(file)
    assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (5, "ENV006")


def test_a_table_with_other_columns_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pipeline(tmp_path, sink="'connector' = 'duckdb', 'path' = 'x.db'", settings=DISTRIBUTED)
    (tmp_path / "in/1.json").write_text('{"a": 1}\n')
    with duckdb.connect(str(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE o (a VARCHAR)")
    with monkeypatch.context() as patch:
        patch.setattr(on_demand.SparkOnDemand, "_started", no_spark)
        with pytest.raises(DiagnosticError) as caught:
            run(file)
    [reported] = caught.value.diagnostics
    assert (reported.code, reported.message) == (
        "STA030",
        "the table of `o` has other columns than the pipeline writes",
    )
    assert [note.partition(" (")[2] for note in reported.notes] == ["a VARCHAR)", "a INTEGER)"]
    with duckdb.connect(str(tmp_path / "x.db")) as connection:
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("o",)], (
            "nothing is made"
        )
        connection.execute("DROP TABLE o")
    assert run(file, runner=InProcessRunner(2)).rows_written == {"o": 1}


@pytest.mark.parametrize(
    ("master", "hint"),
    [
        ("lokal", "did you mean --master 'local'?"),
        ("local[]", None),
        ("local[0]", None),
        ("local[two]", None),
        ("spark://host", "did you mean --master 'spark://host:7077'?"),
        ("spark://:7077", "did you mean --master 'spark://host:7077'?"),
        ("mesos://host:5050", "leave --master out to run on this machine"),
        ("sc://host:15002", None),
        ("", "leave --master out to run on this machine"),
    ],
)
def test_what_is_no_master_is_told_at_once(tmp_path: Path, master: str, hint: str | None) -> None:
    with pytest.raises(DiagnosticError) as caught:
        run(pipeline(tmp_path), master=master)
    assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (2, "ENV002")
    assert hint is None or caught.value.diagnostics[0].help == hint
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[3]",
        "local[*]",
        "local[*,4]",
        "local[ 2 , 3 ]".replace(" ", ""),
        "local-cluster[2,1,512]",
        "spark://a:7077",
        "spark://a:1,b:2",
        "yarn",
        "k8s://https://host:443",
    ],
)
def test_masters_of_sparks(master: str) -> None:
    check_master(master)


def test_a_master_that_does_not_answer_is_told_in_seconds(tmp_path: Path) -> None:
    file = pipeline(tmp_path)
    (tmp_path / "in/1.json").write_text('{"a": 1}\n')
    since = time.monotonic()
    with pytest.raises(DiagnosticError) as caught:
        run(file, master=NOWHERE, parallelism=2)
    assert time.monotonic() - since < 5
    assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (5, "ENV003")
    assert caught.value.diagnostics[0].message == f"no Spark master answers at {NOWHERE}"
    assert "refused" in caught.value.diagnostics[0].notes[0]
    assert run(file, runner=InProcessRunner(2)).rows_read == {"t": 1}


#: What Spark 4.1's master sent when it was asked for a file that it does not have.
OF_A_MASTER = (
    b"\x00\x00\x00\x00\x00\x00\x00G\x08\x00\x00\x00\x0ffiles/sqlstream"
    b"\x00\x00\x00'Stream 'files/sqlstream' was not found."
)


@contextmanager
def server(answer: bytes | None) -> Iterator[str]:
    """The address of a server that gives an answer to whoever connects and asks: None, silence; empty, it hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1)
                    if answer is None:
                        connection.recv(100)  # the rest
                        connection.recv(1)  # the other end hangs up
                    else:
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_one_of_several_masters_is_enough() -> None:
    with server(OF_A_MASTER) as address:
        check_answers(f"spark://localhost:1,{address}", 1.0)
    check_answers("local[2]")
    with pytest.raises(DiagnosticError):
        check_answers("spark://name.invalid:7077", 1.0)


@pytest.mark.parametrize(
    "answer", [OF_A_MASTER, b"", b"\x15\x03\x03\x00\x02\x02\x0a....."], ids=["master", "none", "TLS"]
)
def test_what_may_be_a_master_is_let_through(answer: bytes) -> None:
    with server(answer) as address:
        check_answers(f"spark://{address}", 1.0)


@pytest.mark.parametrize(
    ("answer", "fragment"),
    [
        (None, "something takes connections there, and has not answered for 0.1 s"),
        (b"HTTP/1.1 400 Bad Request\r\n", "a web server is there; the port of a master is usually 7077"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "something else than Spark is there"),
    ],
)
def test_a_server_that_is_no_master_is_told(answer: bytes | None, fragment: str) -> None:
    """Spark would try for 78 seconds, and then speak of a stopped SparkContext."""
    with server(answer) as address, pytest.raises(DiagnosticError) as caught:
        check_answers(f"spark://{address}", 1.0, 0.1)
    [diagnostic] = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == (
        "ENV003",
        f"no Spark master answers at spark://{address}",
    )
    assert diagnostic.notes == (f"{address}: {fragment}",)


def test_yarn_without_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(DiagnosticError) as caught:
        check_answers("yarn")
    assert caught.value.diagnostics[0].code == "ENV003"
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop/conf")
    check_answers("yarn")


def test_cores_are_those_of_the_affinity_and_the_control_group(tmp_path: Path) -> None:
    here = len(os.sched_getaffinity(0))
    assert _machine_cores(tmp_path) == here
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    for text, expected in (
        ("max 100000", here),
        ("150000 100000", min(here, 2)),
        ("50000 100000", 1),
        ("", here),
    ):
        (group / "cpu.max").write_text(text)
        assert _machine_cores(tmp_path) == expected


@pytest.mark.spark
def test_spark_counts_the_same_cores(spark_runner: object) -> None:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    assert active is not None
    java = active.sparkContext._jvm.java.lang.Runtime.getRuntime().availableProcessors()
    assert cores("local[*]", {}) == java
    assert cores("local[2]", {}) == active.sparkContext.defaultParallelism
