"""Iceberg tables of a real REST catalog, with files on a disk and in a real S3 server, beside faults of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.connectors.iceberg import library, rest_catalog
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.iceberg.catalog_pipelines import add, counted, counts, keys_in, run, written
from tests.connectors.iceberg.deletes import commit_to, equals, positions, vectors
from tests.connectors.iceberg.rest.server import RestServer, run_rest
from tests.object_stores.faulty_proxy import Fault, proxy_of
from tests.object_stores.s3_server import KEY, SECRET, S3Server, run_server


@pytest.fixture(scope="module")
def rest() -> Iterator[RestServer]:
    yield from run_rest()


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    yield from run_server()


@pytest.fixture(scope="module")
def rest_on_s3(store: S3Server) -> Iterator[RestServer]:
    yield from run_rest(store)


def keys(server: RestServer, name: str, **properties: str) -> list[int]:
    return keys_in(server.catalog(**properties), name)


def test_rows_are_written_and_read(rest: RestServer, tmp_path: Path) -> None:
    text = written(rest.options("plain"))
    for number in range(2):
        wanted = add(tmp_path, number)
        run(tmp_path, text)
        assert keys(rest, "plain") == wanted
    other = rest.catalog().load_table(("db", "plain"))
    other.append(pa.table({"k": pa.array([-1], pa.int32()), "v": ["x"]}))
    run(tmp_path, counted(rest.options("plain")), state="back")
    assert counts(tmp_path) == [("v0", 27), ("v1", 27), ("v2", 26), ("x", 1)]


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.RESET, Fault.LOST])
def test_commits_whose_requests_fail(rest: RestServer, tmp_path: Path, fault: Fault) -> None:
    """Every third POST, which commits, gets a bad answer: lost ones were carried out."""
    posts = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal posts
        if method != "POST" or "/tables/" not in path:
            return Fault.NONE
        posts += 1
        return Fault.NONE if posts % 3 else fault

    name = f"faults_{fault.name.lower()}"
    with proxy_of(rest) as proxy:
        proxy.choose = choose
        wanted = add(tmp_path, 0)
        run(tmp_path, written(rest.options(name, proxy.port)), rows_per_epoch=4)
    assert posts > 9
    assert keys(rest, name) == wanted
    snapshots = rest.catalog().load_table(("db", name)).metadata.snapshots
    assert len(snapshots) == 10, "an epoch is one snapshot, whatever answers were lost"


def test_a_catalog_that_is_away_at_the_start(rest: RestServer, tmp_path: Path) -> None:
    add(tmp_path, 0)
    text = written(rest.options("away"))
    rest.kill()
    try:
        with pytest.raises(DiagnosticError) as caught:
            run(tmp_path, text)
    finally:
        rest.start()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "ENV006"
    assert f"127.0.0.1:{rest.port}" in diagnostic.message
    assert "run again when it is fixed" in (diagnostic.help or "")
    run(tmp_path, text)
    assert keys(rest, "away") == [*range(40)]


def test_a_catalog_that_goes_away_in_the_middle_and_comes_back(
    rest: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than it is waited for: the epoch is published, and the next run gives it to the table."""
    monkeypatch.setattr(library, "PAUSE_S", 0.01)
    wanted = add(tmp_path, 0)
    text = written(rest.options("middle"))

    def fault(point: str, epoch: int) -> None:
        if (point, epoch) == ("published", 2):
            rest.kill()

    try:
        with pytest.raises(DiagnosticError) as caught:
            run(tmp_path, text, faults=fault)
    finally:
        rest.start()
    assert caught.value.diagnostics[0].code == "ENV006"
    run(tmp_path, text)
    assert keys(rest, "middle") == wanted


def test_a_catalog_that_is_silent(rest: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "PAUSE_S", 0.01)
    wanted = add(tmp_path, 0)
    text = written(rest.options("silent"))

    def fault(point: str, epoch: int) -> None:
        if (point, epoch) == ("published", 2):
            rest.pause()
            monkeypatch.setattr(
                rest_catalog, "TIMEOUTS_S", (0.5, 0.5)
            )  # while it answers, it may take longer

    try:
        with pytest.raises(DiagnosticError) as caught:
            run(tmp_path, text, faults=fault)
    finally:
        rest.go_on()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "ENV006"
    assert "timed out" in diagnostic.message
    monkeypatch.undo()
    run(tmp_path, text)
    assert keys(rest, "silent") == wanted


def test_a_catalog_that_refuses(rest: RestServer, tmp_path: Path) -> None:
    """It is asked once, as another try would be refused as well."""
    wanted = add(tmp_path, 0)
    commits = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal commits
        if method != "POST" or "/tables/" not in path:
            return Fault.NONE
        commits += 1
        return Fault.FORBIDDEN

    with proxy_of(rest) as proxy:
        text = written(rest.options("refused", proxy.port))
        proxy.choose = choose
        with pytest.raises(DiagnosticError) as caught:
            run(tmp_path, text)
        (diagnostic,) = caught.value.diagnostics
        assert (diagnostic.code, commits) == ("ENV006", 1)
        assert "no right" in diagnostic.message
        proxy.choose = lambda method, path, before: Fault.NONE
        run(tmp_path, text)
    assert keys(rest, "refused") == wanted


def test_files_in_an_object_store(rest_on_s3: RestServer, store: S3Server, tmp_path: Path) -> None:
    """The store's requests fail, too, now and then."""
    requests = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal requests
        requests += 1
        return (Fault.BUSY, Fault.RESET)[requests // 9 % 2] if not requests % 9 else Fault.NONE

    with proxy_of(store) as proxy:
        proxy.choose = choose
        wanted = add(tmp_path, 0)
        opened = store.uri("lake", port=proxy.port)
        text = written(rest_on_s3.options("there", warehouse=opened))
        run(tmp_path, text)
        assert requests > 20
    reading = {
        "s3.endpoint": store.endpoint,
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.region": "us-east-1",
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
    }
    assert keys(rest_on_s3, "there", **reading) == wanted
    assert SECRET not in "".join(
        one.read_text(errors="ignore") for one in tmp_path.rglob("*") if one.is_file()
    )


def test_a_catalog_in_a_database_with_files_in_an_object_store(store: S3Server, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    wanted = add(tmp_path, 0)
    options = (
        "'connector' = 'iceberg', 'catalog-type' = 'sql', 'uri' = 'sqlite:///catalog.db', "
        f"'warehouse' = '{store.uri('of_database')}', 'catalog-table' = 'o'"
    )
    run(tmp_path, written(options))
    text = (
        f"CREATE TABLE o (k INT) WITH ({options});\nCREATE TABLE n (n BIGINT, s BIGINT) WITH ('connector' = "
        "'filesystem', 'path' = 'out', 'format' = 'json');\nINSERT INTO n SELECT k AS n, k AS s FROM o;\n"
    )
    run(tmp_path, text, state="back")
    found = [json.loads(line)["n"] for one in (tmp_path / "out").glob("*.json") for line in one.open()]
    assert sorted(found) == wanted


def test_deletes_in_an_object_store(store: S3Server, tmp_path: Path) -> None:
    """Files of deletes of each kind are in the store beside the others, and are copied to where they are read."""
    pytest.importorskip("sqlalchemy")
    wanted = add(tmp_path, 0)
    options = {
        "catalog-type": "sql",
        "uri": "sqlite:///catalog.db",
        "warehouse": store.uri("with_deletes"),
        "catalog-table": "o",
    }
    listed = "'connector' = 'iceberg', " + ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    run(tmp_path, written(listed), rows_per_epoch=100)
    text = (
        f"CREATE TABLE o (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ({listed}, 'read-change-feed' = 'true');\n"
        "CREATE TABLE n (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', "
        "'path' = 'n.duckdb');\nINSERT INTO n SELECT k, v FROM o;\n"
    )
    run(tmp_path, text, state="back", rows_per_epoch=100)
    place = TablePlace.read(options, "o", str(tmp_path))
    (tmp_path / "lake").mkdir()
    for number in range(3):
        there = library.open_table(place)
        assert there is not None
        files = sorted(task.file.file_path for task in there.scan().plan_files()) if number < 2 else []
        rows = pq.read_table(there.io.new_input(files[0]).open()).to_pylist() if files else []
        if number == 0:
            made, gone = [positions(tmp_path, {files[0]: [1, 3]})], [rows[1]["k"], rows[3]["k"]]
        elif number == 1:
            made, gone = vectors(tmp_path, {files[0]: ([1, 3, 0], ())}), [rows[0]["k"]]
        else:
            keys_of = pa.table({"k": pa.array(wanted[:2], pa.int32())})
            made, gone = [equals(tmp_path, keys_of, schema=there.schema())], wanted[:2]
        for file in made:
            local = file.file_path.removeprefix("file://")
            file[1] = f"{there.location()}/data/{Path(local).name}"
            with there.io.new_output(file.file_path).create(overwrite=True) as out:
                out.write(Path(local).read_bytes())
        commit_to(there, deletes=made)
        wanted = [key for key in wanted if key not in gone]
        run(tmp_path, text, state="back", rows_per_epoch=100)
        import duckdb

        with duckdb.connect(str(tmp_path / "n.duckdb"), read_only=True) as found:
            assert sorted(key for (key,) in found.sql("SELECT k FROM n").fetchall()) == wanted, number
