from __future__ import annotations

import resource
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.database.duckdb_file import DuckFile
from sqlstream.connectors.database.duckdb_table import DuckTable
from sqlstream.connectors.exactly_once.sink import ExactlyOnceSink
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.restarts import Restart, RestartStrategy
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.types import parse_type
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.staged_parts import Row, come, go
from tests.connectors.table_sinks import SIMPLE, Backend, TableSinkContract, TableWorld
from tests.properties.in_process import run_here
from tests.runtime.support import Crash, crash_at

#: A type and values of it that must come back as they are.
VALUES: list[tuple[str, list[Any]]] = [
    ("BOOLEAN", [True, False]),
    ("TINYINT", [-128, 127]),
    ("SMALLINT", [-32768, 32767]),
    ("INTEGER", [-(2**31), 2**31 - 1]),
    ("BIGINT", [-(2**63), 2**63 - 1]),
    ("HUGEINT", [10**38 - 1, -(10**38) + 1]),
    ("UTINYINT", [255]),
    ("USMALLINT", [65535]),
    ("UINTEGER", [2**32 - 1]),
    ("UBIGINT", [2**64 - 1]),
    ("FLOAT", [1.5, float("inf")]),
    ("DOUBLE", [0.1, 1e300, -1e-300, float("-inf")]),
    ("DECIMAL(10,2)", [Decimal("12345678.90"), Decimal("-0.01")]),
    ("DECIMAL(38,10)", [Decimal("1234567890123456789012345678.0123456789")]),
    ("VARCHAR", ["", "ü\n"]),
    ("BLOB", [b"", b"\x00\xff\\"]),
    ("DATE", [date(1, 1, 1), date(9999, 12, 31)]),
    ("TIME", [time(0, 0), time(23, 59, 59, 999999)]),
    ("TIMESTAMP", [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29)]),
    ("TIMESTAMP WITH TIME ZONE", [datetime(2024, 7, 1, 12, tzinfo=UTC)]),
    ("INTERVAL", [timedelta(days=3, hours=-1, microseconds=5)]),
    ("UUID", ["6ccd780c-baba-1026-9564-5b8c656024db"]),
    ("JSON", ['{"a": [1, null, "ü"]}', "null"]),
    ("BIGINT[]", [[], [1, None, 3]]),
    ("VARCHAR[]", [["", "a,b", None, '"{}\\']]),
    ("INTEGER[][]", [[[1], [], None]]),
    ('STRUCT("a" BIGINT, "b" STRUCT("c" VARCHAR[]))', [{"a": 1, "b": {"c": ["x", None]}}]),
    ("TUPLE(BIGINT, VARCHAR[])", [(1, ["x", None])]),
    ("MAP(VARCHAR, BIGINT)", [[("k", 1), ("l", None)], []]),
]


@dataclass
class DuckBackend:
    folder: Path
    connector: str = "duckdb"

    @property
    def path(self) -> Path:
        return self.folder / "out" / "results.duckdb"

    @property
    def options(self) -> Mapping[str, str]:
        return {"path": "out/results.duckdb"}

    def rows(self, sql: str) -> list[Row]:
        """As the sink reads it: nothing else in this process can open a file that a sink has open."""
        self.path.parent.mkdir(exist_ok=True)
        with closing(DuckFile(self.path)) as file:
            return list(file.open().execute(sql).fetchall())


class TestDuckdb(TableSinkContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> DuckBackend:
        return DuckBackend(tmp_path)


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    return DuckBackend(tmp_path)


contract = TableSinkContract()


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=[type_ for type_, _ in VALUES])
@pytest.mark.sampled(3)
def test_values_come_back_as_they_are(backend: Backend, type_: str, values: list[Any]) -> None:
    job = contract.job(backend, {"n": "BIGINT", "v": type_})
    rows = list(enumerate([*values, None]))
    job.epoch(come(*rows))
    readers: dict[str, Callable[[Any], Any]] = {"UUID": uuid.UUID, "MAP(VARCHAR, BIGINT)": dict}
    expected = [readers[type_](value) for value in values] if type_ in readers else values
    assert job.rows() == list(enumerate([*expected, None]))
    job.start()  # the table is there now, and is looked at
    changed = [(n, value) for (n, _), (_, value) in zip(rows, rows[1:] + rows[:1], strict=True)]
    job.epoch(go(*rows), come(*changed))
    job.epoch(go(*changed))
    assert job.rows() == []
    ((there,),) = backend.rows("SELECT data_type FROM duckdb_columns() WHERE column_name = 'v'")
    assert parse_type(there) == parse_type(type_)


def test_values_of_all_types_are_replaced_by_key(backend: Backend) -> None:
    job = contract.job(backend, {"n": "BIGINT"} | {f"v{i}": t for i, (t, _) in enumerate(VALUES)}, key=("n",))
    first, last = (tuple(values[at] for _, values in VALUES) for at in (0, -1))
    nothing = (None,) * len(VALUES)
    job.epoch(come((1, *first), (2, *nothing)))
    job.epoch(go((1, *first), (2, *nothing)), come((1, *nothing), (2, *last)))
    assert [row[:1] + row[1:][:5] for row in job.rows()] == [(1, *nothing[:5]), (2, *last[:5])]
    texts = backend.rows("SELECT CAST(COLUMNS('v.*') AS VARCHAR) FROM target WHERE n = 2")
    job.epoch(go((2, *last)), come((3, *last)))
    assert backend.rows("SELECT CAST(COLUMNS('v.*') AS VARCHAR) FROM target WHERE n = 3") == texts
    job.epoch(go((1, *nothing), (3, *last)))
    assert job.rows() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", [type_ for type_, _ in VALUES])
def test_every_type_can_be_a_key(backend: Backend, type_: str) -> None:
    values = dict(VALUES)[type_]
    job = contract.job(backend, {"k": type_, "v": "BIGINT"}, key=("k",))
    if type_.startswith(("STRUCT", "TUPLE", "MAP", "INTERVAL")) or type_.endswith("[]"):
        with pytest.raises(DataError, match="DuckDB has no PRIMARY KEY over a column of type"):
            job.start()
        return
    job.epoch(come(*((value, 1) for value in values)))
    job.epoch(go(*((value, 1) for value in values)), come(*((value, 2) for value in values)))
    assert [v for _, v in job.rows()] == [2] * len(values)
    job.epoch(go(*((value, 2) for value in values)))
    assert job.rows() == []


def test_not_a_number_and_minus_zero_are_values_like_others(backend: Backend) -> None:
    job = contract.job(backend, {"v": "DOUBLE"})
    job.epoch(come((float("nan"),), (float("nan"),), (-0.0,)))
    assert len(job.rows()) == 3
    job.epoch(go((float("nan"),), (0.0,)))
    assert [str(v) for (v,) in job.rows()] == ["nan"]


def test_the_file_can_be_read_between_epochs(tmp_path: Path) -> None:
    backend = DuckBackend(tmp_path)
    job = contract.job(backend)
    job.epoch(come((1, "a")))
    other = (
        "import duckdb, sys; print(duckdb.connect(sys.argv[1], read_only=True).sql('FROM target').fetchall())"
    )
    done = subprocess.run(
        [sys.executable, "-c", other, backend.path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[(1, 'a')]\n"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the file open until its input ends."""
    path = DuckBackend(tmp_path).path
    path.parent.mkdir()
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.communicate()


def test_a_file_that_another_process_has_open(tmp_path: Path, reader: subprocess.Popen[str]) -> None:
    backend = DuckBackend(tmp_path)
    job = contract.job(backend)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3 and patient:
            reader.communicate()

    context = ConnectorContext(job.store, str(tmp_path))
    patient = False
    table = DuckTable(job.spec, str(tmp_path), patience_s=5, clock=lambda: sum(waits), wait=wait)
    sink = ExactlyOnceSink(job.spec, context, table)
    parts = [job.part(come((1, "a")))]
    with pytest.raises(DiagnosticError, match=rf"process {reader.pid} \(.*\) has the file open") as caught:
        sink.prepare(1, parts, previous=0)
    assert caught.value.diagnostics[0].code == "ENV008"
    assert "nothing is lost" in caught.value.diagnostics[0].notes[0]
    assert "state query" in (caught.value.diagnostics[0].help or "")
    assert sum(waits) >= 5
    waits.clear()
    patient = True
    sink.prepare(1, parts, previous=0)
    sink.commit(1, parts, previous=0)
    assert job.rows() == [(1, "a")]


@pytest.mark.parametrize("watched", [True, False])
def test_a_reader_holds_a_run_up_and_ends_only_one_that_is_not_watched(
    tmp_path: Path, reader: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    """Also a run that is only beginning: the reader was there first."""
    defaults = DuckTable.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "patience_s", 0.05)
    monkeypatch.setattr(
        "sqlstream.runtime.loop.restarts.WATCHING", RestartStrategy(None, 0.01, 0.01, once_up=True)
    )
    watch = ", 'source.monitor-interval' = '1 ms', 'source.settle-time' = '0 s'" if watched else ""
    file = DuckBackend(tmp_path).path
    sql = f"""
        CREATE TABLE t (k STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json'{watch});
        CREATE TABLE o (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = '{file}');
        INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k;
    """
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"k": "a"}\n')
    restarts: list[Restart] = []
    stop = StopFlag()

    def again(restart: Restart) -> None:
        restarts.append(restart)
        if len(restarts) == 3:
            reader.communicate()

    planned = plan_file(sql, file="p.sql")
    if not watched:
        with pytest.raises(DiagnosticError) as caught:
            run_here(planned, tmp_path)
        assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (5, "ENV008")
        reader.communicate()
        run_here(planned, tmp_path)
    else:
        run_here(planned, tmp_path, stop=stop, on_restart=again, on_epoch=lambda report: stop.request())
        assert [restart.diagnostics[0].code for restart in restarts] == ["ENV008"] * 3
    with duckdb.connect(str(file)) as connection:
        assert connection.execute("SELECT k, n FROM o").fetchall() == [("a", 1)]


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.connectors.table_sinks import TableSinkContract
from tests.connectors.staged_parts import come, go
from tests.connectors.test_duckdb_sink import DuckBackend
job = TableSinkContract().job(DuckBackend(Path(sys.argv[1])), key=["k"])
job.epoch(come((1, "a"), (2, "b")))
job.prepare(go((1, "a")), come((3, "c")))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_before_the_commit(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    job = contract.job(DuckBackend(tmp_path), key=["k"])
    assert job.rows() == [(1, "a"), (2, "b")]
    assert job.recorded() == [("target", "target", 1)]
    job.last = job.committed = 1
    parts = [job.part(go((1, "a"))), job.part(come((3, "c")))]
    job.start()
    job.commit(parts)
    job.sink.abort_uncommitted(2)
    assert job.rows() == [(2, "b"), (3, "c")]
    assert job.recorded() == [("target", "target", 2)]


def test_a_damaged_file(tmp_path: Path) -> None:
    backend = DuckBackend(tmp_path)
    backend.path.parent.mkdir()
    backend.path.write_bytes(b"not a database" * 1000)
    with pytest.raises(DiagnosticError, match="not a valid DuckDB database"):
        contract.job(backend).prepare(come((1, "a")))


@pytest.mark.parametrize("path", ["md:mine", ":memory:", "s3://bucket/file.duckdb", " "])
def test_a_path_that_is_no_local_file(tmp_path: Path, path: str) -> None:
    with pytest.raises(DiagnosticError, match="a DuckDB file on the driver's disk"):
        contract.job(DuckBackend(tmp_path), options={"path": path}).start()


@pytest.mark.parametrize("name", ["a.b.c", "", ".", "SQLStream_Epochs"])
def test_a_table_name_that_can_not_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(DiagnosticError, match="table-name"):
        contract.job(DuckBackend(tmp_path), options={"table-name": name}).start()


def test_a_column_that_hides_the_row_id(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="can't have a column `rowid`"):
        contract.job(DuckBackend(tmp_path), {"rowid": "BIGINT"}).start()
    job = contract.job(DuckBackend(tmp_path), {"rowid": "BIGINT", "v": "VARCHAR"}, key=["rowid"])
    job.epoch(come((1, "a")))
    job.epoch(go((1, "a")))
    assert job.rows() == []


def test_names_differ_in_case_only(tmp_path: Path) -> None:
    backend = DuckBackend(tmp_path)
    job = contract.job(backend, SIMPLE)
    job.epoch(come((1, "a")))
    other = contract.job(backend, SIMPLE, name="TARGET")
    with pytest.raises(DataError, match="two tables of the query write to one table: target and TARGET"):
        other.prepare(come((1, "a")))


def test_a_file_that_was_moved_before_the_last_epoch_was_committed(tmp_path: Path) -> None:
    backend = DuckBackend(tmp_path)
    world = TableWorld.over(backend, ())
    with pytest.raises(Crash):
        world.run(faults=crash_at("published", 2))
    backend.path.rename(tmp_path / "moved.duckdb")
    world.run(plan=TableWorld.program_to(backend, {"path": "moved.duckdb"}))
    (tmp_path / "moved.duckdb").rename(backend.path)
    world.check(backend)


def test_a_file_that_was_left_behind(tmp_path: Path) -> None:
    backend = DuckBackend(tmp_path)
    world = TableWorld.over(backend, ())
    world.run()
    with pytest.raises(DiagnosticError) as caught:
        world.run(plan=TableWorld.program_to(backend, {"path": "another.duckdb"}))
    [told] = caught.value.diagnostics
    assert (caught.value.exit_code, told.code) == (3, "STA013")
    assert "stay in the former target" in told.notes[0]
    assert not (tmp_path / "another.duckdb").exists()


@pytest.mark.parametrize("room", [0, 100, 4096, 8192, 12000])
def test_a_disk_that_is_full_when_the_file_is_made(tmp_path: Path, room: int) -> None:
    """DuckDB can't open a file that is half made: no later run could go on."""
    backend = DuckBackend(tmp_path)
    job = contract.job(backend)
    parts = [job.part(come((1, "a")))]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(DiagnosticError, match="can't be written") as caught:
            job.sink.prepare(1, parts, previous=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.diagnostics[0].code == "ENV006"
    assert list((tmp_path / "out").iterdir()) == []
    job.sink.prepare(1, parts, previous=0)
    job.commit(parts)
    assert job.rows() == [(1, "a")]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.duckdb"]


@pytest.mark.parametrize("size", [0, 4096, 12000])
def test_a_file_that_an_older_version_left_half_made(tmp_path: Path, size: int) -> None:
    backend = DuckBackend(tmp_path)
    backend.rows("SELECT 1")
    backend.path.write_bytes(backend.path.read_bytes()[:size])
    with pytest.raises(DiagnosticError) as caught:
        contract.job(backend).prepare(come((1, "a")))
    assert f"never finished, so no table is in it: delete it (rm '{backend.path}')" in str(
        caught.value.diagnostics[0].help
    )
