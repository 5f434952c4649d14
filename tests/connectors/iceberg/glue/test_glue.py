"""Iceberg tables of a Glue catalog, which moto is, with files on a disk and in its S3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.connectors.iceberg import library
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream.connectors.iceberg.same_table import same_table
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.connectors.iceberg.catalog_pipelines import SOURCE, add, counted, counts, keys_in, run, written
from tests.connectors.iceberg.glue.server import BUCKET, KEY, REGION, SECRET, GlueServer, run_glue
from tests.object_stores.faulty_proxy import Fault, proxy_of


@pytest.fixture(scope="module")
def glue() -> Iterator[GlueServer]:
    yield from run_glue()


def refused(folder: Path, text: str) -> Diagnostic:
    """The one thing that is said of a pipeline."""
    with pytest.raises(DiagnosticError) as caught:
        run(folder, text)
    (found,) = caught.value.diagnostics
    return found


def keys(glue: GlueServer, name: str) -> list[int]:
    return keys_in(glue.catalog(), name)


def test_rows_are_written_and_read(glue: GlueServer, tmp_path: Path) -> None:
    text = written(glue.options("plain"))
    for number in range(2):
        wanted = add(tmp_path, number)
        run(tmp_path, text)
        assert keys(glue, "plain") == wanted
    back = counted(glue.options("plain", warehouse=""))
    run(tmp_path, back, state="back")
    assert counts(tmp_path) == [("v0", 27), ("v1", 27), ("v2", 26)]
    other = glue.catalog().load_table(("db", "plain"))
    other.append(pa.table({"k": pa.array([-1], pa.int32()), "v": ["x"]}))
    follows = counted(glue.options("plain", warehouse=""), ", 'streaming' = 'true'")
    run(tmp_path, follows, state="back", ends=True)
    assert counts(tmp_path) == [("v0", 27), ("v1", 27), ("v2", 26), ("x", 1)]


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.RESET, Fault.LOST])
def test_commits_whose_requests_fail(glue: GlueServer, tmp_path: Path, fault: Fault) -> None:
    """Every fifth request gets a bad answer: those that are lost were carried out."""
    asked = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal asked
        asked += 1
        return Fault.NONE if asked % 5 else fault

    name = f"faults_{fault.name.lower()}"
    with proxy_of(glue) as proxy:
        proxy.choose = choose
        wanted = add(tmp_path, 0)
        run(tmp_path, written(glue.options(name, port=proxy.port)), rows_per_epoch=4)
    assert asked > 20
    assert keys(glue, name) == wanted
    snapshots = glue.catalog().load_table(("db", name)).metadata.snapshots
    assert len(snapshots) == 10, "an epoch is one snapshot, whatever answers were lost"


@pytest.mark.parametrize("point", ["published", "committed"])
def test_a_driver_that_dies_beside_a_commit(glue: GlueServer, tmp_path: Path, point: str) -> None:
    wanted = add(tmp_path, 0)
    text = written(glue.options(f"dies_{point}"))

    class DiedError(Exception):
        pass

    died = False

    def fault(at: str, epoch: int) -> None:
        nonlocal died
        if (at, epoch) == (point, 2):
            died = True
            raise DiedError

    with pytest.raises(DiedError):
        run(tmp_path, text, faults=fault)
    assert died
    run(tmp_path, text)
    assert keys(glue, f"dies_{point}") == wanted


def test_another_writer_beside_each_commit(glue: GlueServer, tmp_path: Path) -> None:
    """Glue refuses a commit by the version that it was made from, and ours is made anew."""
    wanted = add(tmp_path, 0)
    text = written(glue.options("beside"))
    run(tmp_path, text)
    add(tmp_path, 1)
    made = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal made
        made += 1
        if made == 12:
            other = glue.catalog().load_table(("db", "beside"))
            other.append(pa.table({"k": pa.array([-1], pa.int32()), "v": ["x"]}))
        return Fault.NONE

    with proxy_of(glue) as proxy:
        proxy.choose = choose
        run(tmp_path, written(glue.options("beside", port=proxy.port)))
    assert made > 12
    assert keys(glue, "beside") == [-1, *wanted, *range(40, 80)]


def test_a_table_by_key_in_s3(glue: GlueServer, tmp_path: Path) -> None:
    """Kept up to date over restarts and followed by another; no file has what opens the store."""
    store = f"s3://{KEY}:{SECRET}@{BUCKET}/keyed?endpoint_override=127.0.0.1:{glue.port}&scheme=http&region={REGION}"
    options = glue.options("keyed", warehouse=store)
    text = (
        f"{SOURCE}CREATE TABLE o (v STRING, n BIGINT, PRIMARY KEY (v) NOT ENFORCED) WITH ({options});\n"
        "INSERT INTO o SELECT v, COUNT(*) FROM t GROUP BY v;\n"
    )
    back = (
        f"CREATE TABLE r (v STRING, n BIGINT) WITH ({options}, 'read-change-feed' = 'true');\n"
        "CREATE TABLE c (all_of BIGINT, n BIGINT, PRIMARY KEY (all_of) NOT ENFORCED)\n"
        "WITH ('connector' = 'duckdb', 'path' = 'c.duckdb');\n"
        "INSERT INTO c SELECT 1 AS all_of, SUM(n) FROM r;\n"
    )
    for number in range(2):
        add(tmp_path, number)
        run(tmp_path, text)
        run(tmp_path, back, state="back")
        assert counts(tmp_path) == [(1, 40 * (number + 1))]
    place = glue.client().get_table(DatabaseName="db", Name="keyed")["Table"]
    assert place["StorageDescriptor"]["Location"] == f"s3://{BUCKET}/keyed/db.db/keyed"
    assert SECRET not in json.dumps(place, default=str)
    assert SECRET not in "".join(p.read_text(errors="ignore") for p in tmp_path.rglob("*") if p.is_file())


def test_its_tables_by_their_names(glue: GlueServer, tmp_path: Path) -> None:
    """CREATE CATALOG: types are those of Iceberg, and tables that are not Iceberg's are not there."""
    add(tmp_path, 0)
    shop = glue.catalog(f"file://{tmp_path}/lake")
    shop.create_namespace("shop")
    shop.create_table(
        "shop.o", pa.schema([("k", pa.int32()), ("v", pa.string()), ("at", pa.timestamp("us"))])
    )
    glue.client().create_table(DatabaseName="shop", TableInput={"Name": "hive", "Parameters": {}})
    made = f"CREATE CATALOG g WITH ('type' = 'iceberg', {glue.place()});\n"
    run(
        tmp_path,
        f"{made}{SOURCE}INSERT INTO g.shop.o SELECT k, v, TIMESTAMP '2026-01-01 00:00:00' FROM t;\n",
    )
    assert len(shop.load_table("shop.o").scan().to_arrow()) == 40
    text = (
        f"{made}CREATE TABLE n (at TIMESTAMP(6), n BIGINT, PRIMARY KEY (at) NOT ENFORCED) "
        "WITH ('connector' = 'duckdb', 'path' = 'c.duckdb');\n"
    )
    text_of = (
        text.replace("TABLE n", "TABLE c") + "INSERT INTO c SELECT at, COUNT(*) FROM g.shop.o GROUP BY at;\n"
    )
    run(tmp_path, text_of, state="back")
    assert [n for _, n in counts(tmp_path)] == [40]
    printed = "CREATE TABLE x (k INT) WITH ('connector' = 'print');\n"
    for name, code in (("g.shop.hive", "ENV006"), ("g.shop.nothing", "SQL"), ("g.nowhere.o", "SQL")):
        found = refused(
            tmp_path,
            f"{made}{printed}INSERT INTO x SELECT k FROM {name};\n",
        )
        assert found.code.startswith(code), found


def test_a_table_of_hive_is_refused(glue: GlueServer, tmp_path: Path) -> None:
    add(tmp_path, 0)
    glue.client().create_table(DatabaseName="db", TableInput={"Name": "hive", "Parameters": {}})
    for text in (written(glue.options("hive")), counted(glue.options("hive"))):
        found = refused(tmp_path, text)
        assert found.code == "ENV006"
        assert f"db.hive of AWS Glue ({REGION}, http://127.0.0.1:{glue.port})" in found.message
        assert "no Iceberg table" in found.message


def test_a_database_that_says_no_place(glue: GlueServer, tmp_path: Path) -> None:
    add(tmp_path, 0)
    found = refused(tmp_path, written(glue.options("nowhere", warehouse="")))
    assert (found.code, "'warehouse' = 's3://" in str(found.help)) == ("STA030", True)
    glue.client().update_database(
        Name="db", DatabaseInput={"Name": "db", "LocationUri": f"file://{tmp_path}/of_database"}
    )
    run(tmp_path, written(glue.options("nowhere", warehouse="")))
    glue.client().update_database(Name="db", DatabaseInput={"Name": "db"})
    assert (tmp_path / "of_database/nowhere/metadata").exists()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Nothing of the machine says who asks."""
    monkeypatch.setattr(library, "PAUSE_S", 0.0)
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    library._opened.cache_clear()
    return monkeypatch


def test_nobody_says_who_asks_or_where(glue: GlueServer, tmp_path: Path, alone: pytest.MonkeyPatch) -> None:
    add(tmp_path, 0)
    text = written(glue.options("nobody"))
    nowhere = text.replace(f"'client.region' = '{REGION}', ", "")
    found = refused(tmp_path, nowhere)
    assert (found.code, "set 'client.region', AWS_DEFAULT_REGION" in found.message) == ("ENV006", True)
    found = refused(tmp_path, text)
    assert (found.code, "AWS's tools find no credentials" in found.message) == ("ENV006", True)
    (tmp_path / "credentials").write_text(
        f"[me]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    )
    (tmp_path / "config").write_text(f"[profile me]\nregion = {REGION}\n")
    alone.setenv("AWS_PROFILE", "me")
    library._opened.cache_clear()
    run(tmp_path, nowhere)
    assert keys_by_profile(glue) == [*range(40)]
    alone.setenv("AWS_PROFILE", "nobody")
    library._opened.cache_clear()
    found = refused(tmp_path, nowhere)
    assert (found.code, "nobody" in found.message) == ("ENV006", True)


def keys_by_profile(glue: GlueServer) -> list[int]:
    return keys(glue, "nobody")


def test_a_server_that_is_away_or_refuses(
    glue: GlueServer, tmp_path: Path, alone: pytest.MonkeyPatch
) -> None:
    alone.setenv("AWS_ACCESS_KEY_ID", KEY)
    alone.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    add(tmp_path, 0)
    found = refused(tmp_path, written(glue.options("away", port=1)))
    assert (found.code, "Could not connect" in found.message) == ("ENV006", True)
    asked = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal asked
        asked += 1
        return Fault.FORBIDDEN

    with proxy_of(glue) as proxy:
        proxy.choose = choose
        found = refused(tmp_path, written(glue.options("away", port=proxy.port)))
    assert (found.code, asked) == ("ENV006", 1)
    made = f"CREATE CATALOG g WITH ('type' = 'iceberg', {glue.place(port=1)});\n"
    found = refused(tmp_path, f"{made}{SOURCE}INSERT INTO g.db.o SELECT k, v FROM t;\n")
    assert (found.code, "catalog `g` (AWS Glue (" in found.message) == ("ENV006", True)


def test_without_boto3(glue: GlueServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    add(tmp_path, 0)
    monkeypatch.setitem(sys.modules, "boto3", None)
    found = refused(tmp_path, written(glue.options("without")))
    assert (found.code, found.help) == ("ENV009", "pip install 'sqlstream-spark[glue]'")


_PLAIN = "'connector' = 'iceberg', 'catalog-type' = 'glue'"
_REST = "'connector' = 'iceberg', 'catalog-type' = 'rest'"


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (f"{_PLAIN}, 'uri' = 'https://x'", "OPT003", "`uri` is where a REST catalog or a database is"),
        (f"{_PLAIN}, 'token' = 'secret'", "OPT003", "`token` is of a REST catalog, and this one is AWS Glue"),
        (f"{_PLAIN}, 'catalog-table' = 'Orders'", "OPT003", "lower case only, and 'Orders' is not"),
        (f"{_PLAIN}, 'catalog-database' = 'a.b'", "OPT003", "a database of AWS Glue is in no other"),
        (f"{_PLAIN}, 'glue.endpoint' = 'here'", "OPT003", "glue.endpoint"),
        (f"{_PLAIN}, 'glue.endpoint' = 'http://me:secret@x'", "OPT003", "`glue.endpoint` has a login"),
        (_REST, "OPT004", "a catalog of the type 'rest' needs the option `uri`"),
        (f"{_REST}, 'uri' = 'http://x', 'client.region' = 'a'", "OPT003", "of a catalog in AWS Glue"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, options: str, code: str, text: str) -> None:
    for table in (
        f"CREATE TABLE o (k INT, v STRING) WITH ({options});\n",
        f"CREATE CATALOG c WITH ({options.replace('connector', 'type')});\n",
    ):
        if "CATALOG" in table and ("catalog-table" in table or "catalog-database" in table):
            continue
        into = "o" if "TABLE" in table else "c.d.o"
        found = refused(tmp_path, f"{SOURCE}{table}INSERT INTO {into} SELECT k, v FROM t;\n")
        assert (found.code, text in found.message) == (code, True), found
        assert found.span is not None
        assert "secret" not in found.message


def test_a_pipeline_does_not_read_what_it_writes(glue: GlueServer, tmp_path: Path) -> None:
    """By Glue as it is said in other words, by Glue's REST interface, and by a catalog that the table was given to, too."""

    def place(**given: str) -> TablePlace:
        options = {key.replace("__", ".").replace("_", "-"): value for key, value in given.items()}
        return TablePlace.read(
            {"catalog-database": "db", "catalog-table": "o", "catalog-type": "glue", **options},
            "",
            str(tmp_path),
        )

    def at(url: str) -> TablePlace:
        return place(catalog_type="rest", uri=url, warehouse="123")

    assert same_table(place(), place(client__region="eu-west-1", warehouse="s3://b/x")) == ""
    assert same_table(place(client__region="a", glue__id="1"), place(client__region="a")) == ""
    assert same_table(place(), place(catalog_table="p")) is None
    assert same_table(place(), at("https://glue.eu-west-1.amazonaws.com/iceberg")) == ""
    assert same_table(place(glue__id="123"), at("https://glue.eu-west-1.amazonaws.com/iceberg")) == ""
    add(tmp_path, 0)
    run(tmp_path, written(glue.options("given")))
    by_glue = place(
        client__region=REGION, glue__endpoint=glue.endpoint, catalog_table="given", warehouse="lake"
    )
    by_name = place(
        client__region=REGION,
        glue__endpoint=glue.endpoint.replace("127.0.0.1", "localhost"),
        catalog_table="given",
    )
    assert same_table(by_glue, by_name) == ", by another catalog"
    in_sql = place(catalog_type="sql", uri="sqlite:///c.db", warehouse="lake", catalog_table="copy")
    catalog = library.catalog_of(in_sql, create=True)
    there = library.open_table(by_glue)
    assert catalog is not None
    assert there is not None
    assert same_table(by_glue, in_sql) is None
    catalog.create_namespace("db")
    catalog.register_table("db.copy", there.metadata_location)
    assert same_table(by_glue, in_sql) == ", by another catalog"
