"""Several state directories that begin on one new table of PostgreSQL: one has it, and the others are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.database.postgres_table import PostgresTable
from sqlstream.connectors.exactly_once.sink import ExactlyOnceSink
from sqlstream.connectors.exactly_once.target import Record
from sqlstream_operators.errors import DataError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_server import Database
from tests.connectors.staged_parts import come, go
from tests.connectors.table_sinks import Job, TableSinkContract
from tests.connectors.test_postgres_sink import PostgresBackend

contract = TableSinkContract()


@pytest.fixture
def backend(tmp_path: Path, database: Database) -> PostgresBackend:
    return PostgresBackend(tmp_path, database)


class _Thread(threading.Thread):
    """Does something beside the test, and keeps what it raised."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.raised = error


def _waits_for_a_lock(backend: PostgresBackend) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return bool(backend.rows(waiting)[0][0])


@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_table_whose_first_epoch_is_not_committed_yet(
    backend: PostgresBackend, key: tuple[str, ...]
) -> None:
    """It looks empty and unclaimed to others until then."""
    first = contract.job(backend, key=key)
    parts = first.prepare(come((1, "a"), (2, "b")))
    second = contract.job(backend, key=key, state="second")
    beside = _Thread(lambda: second.epoch(come((1, "a"), (2, "b"))))
    until = time.monotonic() + 10
    while beside.is_alive() and not _waits_for_a_lock(backend) and time.monotonic() < until:
        time.sleep(0.01)
    first.commit(parts)
    beside.join(20)
    assert isinstance(beside.raised, DataError)
    assert "was written with another state directory" in str(beside.raised)
    assert "is at epoch 1 of it" in str(beside.raised)
    second.sink.close()
    first.epoch(go((1, "a")), come((3, "c")))
    assert first.rows() == [(2, "b"), (3, "c")]


def test_a_first_epoch_that_is_given_up_leaves_the_table_to_who_waits(backend: PostgresBackend) -> None:
    first, second = contract.job(backend), contract.job(backend, state="second")
    first.prepare(come((1, "a")))
    beside = _Thread(lambda: second.epoch(come((2, "b"))))
    until = time.monotonic() + 10
    while beside.is_alive() and not _waits_for_a_lock(backend) and time.monotonic() < until:
        time.sleep(0.01)
    first.sink.close()
    beside.join(20)
    assert beside.raised is None
    assert second.rows() == [(2, "b")]
    with pytest.raises(DataError, match="written with another state directory"):
        first.epoch(come((1, "a")))


@pytest.mark.parametrize("before", ["nothing", "an empty table", "a dropped table"])
def test_many_begin_at_once(backend: PostgresBackend, before: str) -> None:
    for turn in range(6):
        name = f"claimed_{turn}"
        if before != "nothing":
            backend.rows(f"CREATE TABLE {name} (k BIGINT, v TEXT)")
        if before == "a dropped table":
            former = contract.job(backend, name=name, state=f"former_{turn}")
            former.epoch(come((0, "former")))
            former.sink.close()
            backend.rows(f"DROP TABLE {name}")
        jobs = [contract.job(backend, name=name, state=f"{turn}_{n}") for n in range(4)]
        gate = threading.Barrier(len(jobs))

        def begin(job: Job, n: int, gate: threading.Barrier = gate) -> None:
            job.sink.check(previous=0)
            gate.wait(20)
            job.epoch(come((n, "a"), (n, "b")))
            job.epoch(go((n, "a")), come((n, "c")))

        threads = [_Thread(lambda job=job, n=n: begin(job, n)) for n, job in enumerate(jobs)]  # type: ignore[misc]
        for thread in threads:
            thread.join(60)
        won = [n for n, thread in enumerate(threads) if thread.raised is None]
        assert len(won) == 1, [thread.raised for thread in threads]
        assert all(isinstance(thread.raised, (DataError, type(None))) for thread in threads)
        assert jobs[0].rows() == [(won[0], "b"), (won[0], "c")]
        for job in jobs:
            job.sink.close()


def test_a_record_that_someone_else_changed_is_not_written_over(backend: PostgresBackend) -> None:
    """By hand, or by a version of this program that knows no lock."""

    class Overtaken(PostgresTable):
        def write_record(self, record: Record, *, over: Record | None) -> bool:
            return False

    job = contract.job(backend)
    sink = ExactlyOnceSink(job.spec, ConnectorContext(job.store, "/"), Overtaken(job.spec))
    with pytest.raises(DiagnosticError, match="sqlstream_epochs was changed by another process") as caught:
        sink.prepare(1, [job.part(come((1, "a")))], previous=0)
    assert caught.value.diagnostics[0].code == "ENV006"
    assert backend.rows("SELECT to_regclass('target')") == [(None,)]

    job.epoch(come((1, "a")))
    table = PostgresTable(job.spec)
    table.open(create=True)
    record = table.record(lock=True)
    assert record is not None
    for stale in (None, Record(record.job, record.sink, 0), Record("other", record.sink, record.epoch)):
        assert not table.write_record(Record(record.job, record.sink, 2), over=stale)
    assert table.write_record(Record(record.job, record.sink, 2), over=record)
    table.close()


def test_signs_in_the_names_of_schema_and_table(backend: PostgresBackend) -> None:
    backend.rows('CREATE SCHEMA "100%s"')
    job = contract.job(backend, options={"table-name": "100%s.t%"})
    job.epoch(come((1, "a"), (2, "b")))
    job.epoch(go((1, "a")))
    job.start().check(previous=2)
    assert backend.rows('SELECT k, v FROM "100%s"."t%"') == [(2, "b")]
