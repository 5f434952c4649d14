"""Iceberg tables in AWS Glue, as moto speaks it: written, changed by key, read, killed, and with faults of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("boto3")
pytest.importorskip("moto")

import duckdb
import pyarrow as pa

from sqlstream.connectors.catalogs import CATALOG_TYPES
from sqlstream.connectors.iceberg import library
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.run.feedback import check_feedback
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.iceberg.glue.server import ENVIRONMENT, KEY, REGION, SECRET, GlueServer, run_glue
from tests.object_stores.faulty_proxy import Fault, proxy_of
from tests.properties.in_process import run_here
from tests.runtime.support import Crash, crash_at

_SOURCE = (
    "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
)
_COUNTED = (
    "CREATE TABLE c (v STRING, n BIGINT, PRIMARY KEY (v) NOT ENFORCED) WITH ({options});\n"
    "INSERT INTO c SELECT v, COUNT(*) FROM {of} GROUP BY v;\n"
)


@pytest.fixture(scope="module")
def glue() -> Iterator[GlueServer]:
    yield from run_glue()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setattr(library, "PAUSE_S", 0.01)
    library._opened.cache_clear()


def add(folder: Path, number: int, count: int = 40) -> list[int]:
    """A file of rows of `t`; all keys that there are then."""
    (folder / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"k": k, "v": f"v{k % 3}"}) for k in range(number * count, number * count + count)]
    (folder / "in" / f"{number}.json").write_text("\n".join(lines) + "\n")
    return [*range(number * count + count)]


def written(options: str) -> str:
    """A pipeline that adds the rows of `t` to a table."""
    return f"{_SOURCE}CREATE TABLE o (k INT, v STRING) WITH ({options});\nINSERT INTO o SELECT k, v FROM t;\n"


def run(folder: Path, text: str, **options: Any) -> RunResult:
    plan = plan_file(text, file="p.sql", catalogs=CATALOG_TYPES.catalogs(str(folder)))
    return run_here(plan, folder, **{"rows_per_epoch": 10, **options})


def keys(server: GlueServer, name: str, column: str = "k", **properties: str) -> list[Any]:
    """What another program finds in the table."""
    found = server.catalog(**properties).load_table(("db", name)).scan().to_arrow()
    return sorted(found.column(column).to_pylist())


def refused(folder: Path, text: str) -> Any:
    with pytest.raises(DiagnosticError) as caught:
        run(folder, text)
    (diagnostic,) = caught.value.diagnostics
    shown = f"{diagnostic.message} {diagnostic.notes} {diagnostic.help}"
    assert SECRET not in shown
    return diagnostic


def test_rows_are_written_and_read(glue: GlueServer, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    text = written(glue.options("plain", lake))
    for number in range(2):
        wanted = add(tmp_path, number)
        run(tmp_path, text)
        assert keys(glue, "plain") == wanted
    other = glue.catalog().load_table(("db", "plain"))
    other.append(pa.table({"k": pa.array([-1], pa.int32()), "v": ["x"]}))
    counts = _COUNTED.format(options="'connector' = 'duckdb', 'path' = 'c.duckdb'", of="r")
    back = f"CREATE TABLE r (k INT, v STRING) WITH ({glue.options('plain', lake)});\n{counts}"
    run(tmp_path, back, state="back")

    def found() -> list[Any]:
        with duckdb.connect(str(tmp_path / "c.duckdb"), read_only=True) as there:
            return sorted(there.sql("FROM c").fetchall())

    assert found() == [("v0", 27), ("v1", 27), ("v2", 26), ("x", 1)]
    other.append(pa.table({"k": pa.array([-2, -3], pa.int32()), "v": ["x", "y"]}))
    run(tmp_path, back, state="back")
    assert found() == [("v0", 27), ("v1", 27), ("v2", 26), ("x", 2), ("y", 1)]
    stored = "".join(one.read_text(errors="ignore") for one in tmp_path.rglob("*") if one.is_file())
    assert SECRET not in stored
    assert KEY not in stored


@pytest.mark.parametrize("point", ["prepared", "published", "committed"])
def test_rows_by_key_are_there_once_after_a_crash(glue: GlueServer, tmp_path: Path, point: str) -> None:
    name = f"counted_{point}"
    text = _SOURCE + _COUNTED.format(options=glue.options(name, str(tmp_path / "lake")), of="t")
    add(tmp_path, 0)
    with pytest.raises(Crash):
        run(tmp_path, text, faults=crash_at(point, 2))
    run(tmp_path, text)
    found = glue.catalog().load_table(("db", name)).scan().to_arrow().to_pylist()
    assert sorted((row["v"], row["n"]) for row in found) == [("v0", 14), ("v1", 13), ("v2", 13)]


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.RESET, Fault.LOST])
def test_commits_whose_requests_fail(glue: GlueServer, tmp_path: Path, fault: Fault) -> None:
    """Every third request gets a bad answer: lost ones were carried out."""
    asked = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal asked
        asked += 1
        return Fault.NONE if asked % 5 else fault

    name = f"faults_{fault.name.lower()}"
    with proxy_of(glue) as proxy:
        proxy.choose = choose
        wanted = add(tmp_path, 0)
        run(tmp_path, written(glue.options(name, str(tmp_path / "lake"), port=proxy.port)), rows_per_epoch=4)
    assert asked > 20
    assert keys(glue, name) == wanted
    snapshots = glue.catalog().load_table(("db", name)).metadata.snapshots
    assert len(snapshots) == 10, "an epoch is one snapshot, whatever answers were lost"


def test_files_in_s3(glue: GlueServer, tmp_path: Path) -> None:
    glue.client("s3").create_bucket(Bucket="lake", CreateBucketConfiguration={"LocationConstraint": REGION})
    wanted = add(tmp_path, 0)
    warehouse = f"s3://lake/w?endpoint={glue.uri}&allow_http=true"
    run(tmp_path, written(glue.options("in_s3", warehouse)))
    reading = {
        "s3.endpoint": glue.uri,
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.region": REGION,
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
    }
    assert keys(glue, "in_s3", **reading) == wanted


def test_a_catalog_of_it(glue: GlueServer, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    add(tmp_path, 0)
    run(tmp_path, written(glue.options("named", lake)))
    created = (
        f"CREATE CATALOG g WITH ('type' = 'iceberg', 'catalog-type' = 'glue', 'client.region' = '{REGION}', "
        f"'glue.endpoint' = '{glue.uri}', 'warehouse' = '{lake}');\n"
    )
    text = created + _COUNTED.format(options="'connector' = 'duckdb', 'path' = 'c.duckdb'", of="g.db.named")
    run(tmp_path, text, state="back")
    with duckdb.connect(str(tmp_path / "c.duckdb"), read_only=True) as there:
        assert sorted(there.sql("FROM c").fetchall()) == [("v0", 14), ("v1", 13), ("v2", 13)]
    like = (
        f"{created}CREATE TABLE few WITH ('snapshot-id' = '1') LIKE g.db.named;\n"
        "CREATE TABLE p (k INT) WITH ('connector' = 'print');\nINSERT INTO p SELECT k FROM few;\n"
    )
    plan = plan_file(like, file="p.sql", catalogs=CATALOG_TYPES.catalogs(str(tmp_path)))
    assert [(c.name, str(c.type)) for c in plan.physical.sources[0].physical] == [
        ("k", "INTEGER"),
        ("v", "VARCHAR"),
    ]
    for name, wanted in (("g.db.nmed", "named"), ("g.dbb.named", "db")):
        diagnostic = refused(tmp_path, text.replace("g.db.named", name))
        assert diagnostic.code in ("SQL013", "CAT009", "CAT010", "CAT014"), diagnostic
        assert wanted in f"{diagnostic.notes} {diagnostic.help}"


def test_a_table_that_is_no_iceberg_table(glue: GlueServer, tmp_path: Path) -> None:
    glue.client().create_database(DatabaseInput={"Name": "hive"})
    glue.client().create_table(
        DatabaseName="hive",
        TableInput={"Name": "old", "StorageDescriptor": {"Location": "s3://x/y"}, "Parameters": {}},
    )
    add(tmp_path, 0)
    lake = str(tmp_path / "lake")
    diagnostic = refused(tmp_path, written(glue.options("old", lake, database="hive")))
    assert (diagnostic.code, "no Iceberg table" in diagnostic.message) == ("ENV006", True)


def test_a_table_that_is_read_is_not_there(glue: GlueServer, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    counts = _COUNTED.format(options="'connector' = 'print'", of="r")
    for database in ("db", "no_db"):
        options = glue.options("missing", lake, database=database)
        diagnostic = refused(tmp_path, f"CREATE TABLE r (k INT, v STRING) WITH ({options});\n{counts}")
        assert "there is no Iceberg table" in f"{diagnostic.message} {diagnostic.notes}"


def test_a_server_that_is_away(tmp_path: Path) -> None:
    add(tmp_path, 0)
    diagnostic = refused(tmp_path, written(GlueServer(1, None).options("o", "lake")))  # type: ignore[arg-type]
    assert diagnostic.code == "ENV006"
    assert "Could not connect" in diagnostic.message
    assert "AWS Glue (eu-west-1) at http://127.0.0.1:1" in diagnostic.message


def test_no_credentials(glue: GlueServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    add(tmp_path, 0)
    diagnostic = refused(tmp_path, written(glue.options("o", str(tmp_path / "lake"))))
    assert diagnostic.code == "ENV006"
    assert "Unable to locate credentials; credentials are found as" in diagnostic.message
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    library._opened.cache_clear()
    assert "nobody" in refused(tmp_path, written(glue.options("o", str(tmp_path / "lake")))).message


def test_no_boto3(glue: GlueServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    add(tmp_path, 0)
    diagnostic = refused(tmp_path, written(glue.options("o", "lake")))
    assert (diagnostic.code, diagnostic.help) == ("ENV009", "pip install 'sqlstream-spark[glue]'")


def test_no_place_for_a_new_table(glue: GlueServer, tmp_path: Path) -> None:
    """Neither the catalog nor the database in Glue says where."""
    add(tmp_path, 0)
    options = glue.options("nowhere", "LAKE").replace("'warehouse' = 'LAKE', ", "")
    diagnostic = refused(tmp_path, written(options))
    assert "warehouse" in f"{diagnostic.message} {diagnostic.help}"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("'catalog-type' = 'glue'", "OPT002", "`client.region`"),
        ("'catalog-type' = 'rest'", "OPT002", "`uri`"),
        ("'catalog-type' = 'glue', 'client.region' = 'r', 'token' = 'x'", "OPT003", "AWS Glue"),
        ("'catalog-type' = 'glue', 'client.region' = 'r', 'uri' = 'http://x'", "OPT003", "AWS Glue"),
        ("'catalog-type' = 'rest', 'uri' = 'http://x', 'glue.id' = '123456789012'", "OPT003", "AWS Glue"),
        ("'catalog-type' = 'glue', 'client.region' = 'r', 'glue.id' = '12'", "OPT003", "12 digits"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: str, code: str, said: str) -> None:
    counts = _COUNTED.format(options="'connector' = 'print'", of="r")
    declared = f"CREATE TABLE r (v STRING) WITH ('connector' = 'iceberg', {options});\n{counts}"
    of_catalog = f"CREATE CATALOG g WITH ('type' = 'iceberg', {options});\n" + _COUNTED.format(
        options="'connector' = 'print'", of="g.db.t"
    )
    for text in (declared, of_catalog):
        with pytest.raises(DiagnosticError) as caught:
            plan_file(text, file="p.sql", catalogs=CATALOG_TYPES.catalogs(str(tmp_path)))
        assert (code, True) in [
            (one.code, said in f"{one.message} {one.help}") for one in caught.value.diagnostics
        ]


def test_one_table_by_two_names_does_not_feed_itself(glue: GlueServer, tmp_path: Path) -> None:
    """With and without the account, and in another case."""
    lake = str(tmp_path / "lake")
    source = glue.options("Loop", lake) + ", 'glue.id' = '123456789012', 'streaming' = 'true'"
    text = (
        f"CREATE TABLE r (k INT, v STRING) WITH ({source});\n"
        f"CREATE TABLE o (k INT, v STRING) WITH ({glue.options('loop', lake)});\n"
        "INSERT INTO o SELECT k, v FROM r;\n"
    )
    plan = plan_file(text, file="p.sql")
    with pytest.raises(DiagnosticError) as caught:
        check_feedback(plan.physical, plan.written, str(tmp_path), str(tmp_path / "state"))
    assert caught.value.diagnostics[0].code == "SQL017"
    other = plan_file(text.replace("'Loop'", "'other'"), file="p.sql")
    check_feedback(other.physical, other.written, str(tmp_path), str(tmp_path / "state"))
