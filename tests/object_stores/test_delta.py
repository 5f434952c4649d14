"""Delta tables in real servers of object stores: Delta's log is created by conditional writes, as our manifests are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.delta.library import open_table, place_and_options
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.storage.identity import identity
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.object_stores.faulty_proxy import Fault, proxy_of
from tests.object_stores.store_server import StoreServer
from tests.object_stores.stores import KINDS, running
from tests.properties.in_process import run_here

deltalake = pytest.importorskip("deltalake")


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    yield from running(request)


def text(uri: str) -> str:
    """A pipeline whose table is at a URI."""
    return (
        "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        f"CREATE TABLE o (k INT, v STRING) PARTITIONED BY (v) WITH ('connector' = 'delta', 'table-path' = '{uri}');\n"
        "INSERT INTO o SELECT k, v FROM t;\n"
    )


def keys(uri: str) -> list[int]:
    """What is in a table."""
    table = open_table(uri)
    assert table is not None
    return sorted(table.to_pyarrow_table().column("k").to_pylist())


def test_runs_while_requests_fail(server: StoreServer, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    count = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal count
        count += 1
        return (Fault.BUSY, Fault.RESET)[count // 9 % 2] if not count % 9 else Fault.NONE

    with proxy_of(server) as proxy:
        proxy.choose = choose
        for number in range(2):
            lines = "".join(
                f'{{"k": {k}, "v": "p/é %={k % 2}"}}\n' for k in range(number * 100, number * 100 + 100)
            )
            (tmp_path / "in" / f"{number}.json").write_text(lines)
            run_here(
                plan_file(text(server.uri("table", port=proxy.port)), file="p.sql"),
                tmp_path,
                rows_per_epoch=40,
            )
    assert count > 60
    assert keys(server.uri("table")) == list(range(200))


def test_others_commit_at_the_same_time(server: StoreServer, tmp_path: Path) -> None:
    """Each commit of the log is one writer's; who comes second tries again behind it."""
    uri = server.uri("shared")
    planned = plan_file(text(uri), file="p.sql")
    spec = planned.secrets.resolved(planned.physical.sinks[0])
    store = CheckpointStore(tmp_path / "state")
    identity(store)
    context = ConnectorContext(store, str(tmp_path))
    sink, writer = REGISTERED.sink(spec, context), REGISTERED.writer(spec, context)
    sink.prepare(1, [], previous=0)
    place, options = place_and_options(uri)
    failed: list[Exception] = []

    def other() -> None:
        try:
            for number in range(5):
                rows = pa.table({"k": pa.array([1000 + number], pa.int32()), "v": ["x"]})
                deltalake.write_deltalake(place, rows, mode="append", storage_options=options)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    for epoch in range(1, 6):
        rows = pa.table({"k": pa.array([epoch], pa.int32()), "v": ["y"]})
        part = writer.write(rows, epoch=epoch, task="0-00000")
        sink.commit(epoch, [part], previous=epoch - 1)
    thread.join()
    assert not failed
    assert keys(uri) == [1, 2, 3, 4, 5, 1000, 1001, 1002, 1003, 1004]


def test_a_table_by_key_while_requests_fail(server: StoreServer, tmp_path: Path) -> None:
    """A merge reads and writes files, too; one whose commit was carried out and not answered is found in the log."""
    (tmp_path / "in").mkdir()
    count = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal count
        count += 1
        return (Fault.BUSY, Fault.RESET, Fault.LOST)[count // 11 % 3] if not count % 11 else Fault.NONE

    sums: dict[int, int] = {}
    with proxy_of(server) as proxy:
        proxy.choose = choose
        for number in range(2):
            numbers = range(number * 100, number * 100 + 100)
            for n in numbers:
                sums[n % 13] = sums.get(n % 13, 0) + n
            lines = "".join(f'{{"k": {n % 13}, "v": {n}}}\n' for n in numbers)
            (tmp_path / "in" / f"{number}.json").write_text(lines)
            sql = (
                "CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
                "CREATE TABLE o (k INT, v HUGEINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'delta', "
                f"'table-path' = '{server.uri('sums', port=proxy.port)}');\n"
                "INSERT INTO o SELECT k, SUM(v) FROM t GROUP BY k;\n"
            )
            run_here(plan_file(sql, file="p.sql"), tmp_path, rows_per_epoch=40)
    assert count > 60
    table = open_table(server.uri("sums"))
    found = pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT k, v FROM t").read_all())
    values = zip(found.column("k").to_pylist(), found.column("v").to_pylist(), strict=True)
    assert {k: int(v) for k, v in values} == sums


@pytest.mark.parametrize("wrong", ["key", "bucket"])
def test_what_can_not_be_opened(server: StoreServer, tmp_path: Path, wrong: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": 1, "v": "x"}\n')
    uri = server.refused("x") if wrong == "key" else server.uri("x").replace("tests/", "elsewhere/", 1)
    planned: Any = plan_file(text(uri), file="p.sql")
    with pytest.raises(DiagnosticError) as raised:
        run_here(planned, tmp_path)
    (found,) = raised.value.diagnostics
    assert found.code.startswith("ENV0")
    assert server.secret not in str(found.to_json())
    assert "\n" not in found.message
    print(found)
