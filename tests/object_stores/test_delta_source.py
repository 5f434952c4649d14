"""Delta tables in real servers of object stores as sources: the log and the files, while requests fail and others write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.delta.library import place_and_options
from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from tests.object_stores.faulty_proxy import Fault, proxy_of
from tests.object_stores.store_server import StoreServer
from tests.object_stores.stores import KINDS, running
from tests.properties.in_process import run_here

deltalake = pytest.importorskip("deltalake")


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    yield from running(request)


def text(uri: str, options: str = "") -> str:
    """A pipeline whose source is a table at a URI."""
    return (
        f"CREATE TABLE t (k BIGINT, v STRING, p STRING METADATA FROM 'file.path' VIRTUAL) "
        f"WITH ('connector' = 'delta', 'table-path' = '{uri}'{options});\n"
        "CREATE TABLE o (k BIGINT, v STRING, p STRING) "
        "WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');\n"
        "INSERT INTO o SELECT k, v, p FROM t;\n"
    )


def append(uri: str, first: int, count: int) -> None:
    """Add a version."""
    place, options = place_and_options(uri)
    numbers = range(first, first + count)
    rows = pa.table({"k": pa.array(numbers, pa.int64()), "v": [f"a/b {k % 2}%é" for k in numbers]})
    deltalake.write_deltalake(place, rows, mode="append", partition_by=["v"], storage_options=options)


def rows(folder: Path) -> list[dict[str, Any]]:
    """What was written."""
    files = list((folder / "out").rglob("part-*.json"))
    return [json.loads(line) for one in files for line in one.read_text().splitlines()]


def test_runs_while_requests_fail(server: StoreServer, tmp_path: Path) -> None:
    count = 0
    uri = server.uri("read")

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal count
        count += 1
        return (Fault.BUSY, Fault.RESET)[count // 9 % 2] if not count % 9 else Fault.NONE

    with proxy_of(server) as proxy:
        proxy.choose = choose
        for number in range(3):
            append(uri, number * 50, 50)
            if number == 1:
                place, options = place_and_options(uri)
                deltalake.DeltaTable(place, storage_options=options).optimize.compact()
                deltalake.DeltaTable(place, storage_options=options).create_checkpoint()
            planned = plan_file(text(server.uri("read", port=proxy.port)), file="p.sql")
            run_here(planned, tmp_path, rows_per_epoch=20)
    assert count > 40
    found = rows(tmp_path)
    assert sorted(row["k"] for row in found) == list(range(150))
    assert {row["v"] for row in found} == {"a/b 0%é", "a/b 1%é"}
    assert not any(server.secret in row["p"] for row in found)
    assert not any(server.secret in one.read_text() for one in (tmp_path / "state").rglob("*.json"))


def test_what_is_gone(server: StoreServer, tmp_path: Path) -> None:
    uri = server.uri("gone")
    for number in range(3):
        append(uri, number * 10, 10)
    planned = plan_file(text(uri, ", 'startingVersion' = '0'"), file="p.sql")
    run_here(planned, tmp_path, rows_per_epoch=5, max_epochs=1)
    place, options = place_and_options(uri)
    table = deltalake.DeltaTable(place, storage_options=options)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(DiagnosticError) as raised:
        run_here(planned, tmp_path, rows_per_epoch=5)
    (found,) = raised.value.diagnostics
    assert found.code == "DAT015"
    assert server.secret not in str(found.to_json())


@pytest.mark.parametrize(("wrong", "code"), [("key", "ENV0"), ("table", "DAT004")])
def test_what_can_not_be_read(server: StoreServer, tmp_path: Path, wrong: str, code: str) -> None:
    append(server.uri("denied-read"), 0, 1)
    uri = server.refused("denied-read") if wrong == "key" else server.uri("denied-nothing")
    planned = plan_file(text(uri), file="p.sql")
    with pytest.raises(DiagnosticError) as raised:
        run_here(planned, tmp_path)
    (found,) = raised.value.diagnostics
    assert found.code.startswith(code)
    assert server.secret not in str(found.to_json())
    assert "\n" not in found.message
