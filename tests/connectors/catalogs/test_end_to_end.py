"""Tables of catalogs from end to end: read, looked up and written without a CREATE TABLE, in one file."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream_planner.pipeline import Planned
from tests.connectors.catalogs.stores import (
    Store,
    in_delta,
    in_duckdb,
    in_duckdb_totals,
    in_iceberg,
    in_postgres,
)
from tests.connectors.postgres_server import PASSWORD, Database
from tests.properties.in_process import run_here


@pytest.fixture(params=["postgres", "delta", "iceberg"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "postgres":
        return in_postgres(request.getfixturevalue("database"))
    return in_delta(tmp_path) if request.param == "delta" else in_iceberg(tmp_path)


def planned(folder: Path, text: str) -> Planned:
    file = folder / "p.sql"
    file.write_text(text)
    return plan_file(file)


def test_source_lookup_table_and_two_sinks(store: Store, tmp_path: Path) -> None:
    """One table is used twice, and `totals` of two catalogs are two sinks."""
    made = planned(
        tmp_path,
        f"{store.created} {in_duckdb(tmp_path)} USE CATALOG bank; USE {store.database};\n"
        f"CREATE VIEW default_catalog.default_database.some AS SELECT * FROM Orders WHERE id <> 2;\n"
        "INSERT INTO totals SELECT o.k, o.amount * r.rate, o.id FROM (SELECT *, PROCTIME() AS p FROM orders) AS o "
        "JOIN marts.main.rates FOR SYSTEM_TIME AS OF o.p AS r ON o.k = r.k WHERE o.id <> 2;\n"
        "INSERT INTO marts.fin.totals SELECT k, sum(amount), count(*) FROM default_catalog.default_database.some "
        "GROUP BY k;",
    )
    run_here(made, tmp_path)
    assert [s.name for s in made.physical.sources] == [f"bank.{store.database}.orders"]
    assert [s.name for s in made.physical.sinks] == [f"bank.{store.database}.totals", "marts.fin.Totals"]
    assert store.totals() == [("a", Decimal("15.00"), 1), ("a", Decimal("42.50"), 3)]
    assert in_duckdb_totals(tmp_path) == [("a", Decimal("5.75"), 2)]


def test_an_edit_from_a_written_declaration_to_the_catalog_s_and_back_keeps_all(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The identity of a table of a catalog is that of the CREATE TABLE that it stands for."""
    partitioned = " PARTITIONED BY (k)" if "delta" in store.options else ""
    out = (
        "CREATE TABLE counts (k STRING, n BIGINT, s DECIMAL(38, 2), PRIMARY KEY (k) NOT ENFORCED) "
        "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
    )
    written = (
        f"CREATE TABLE orders (id BIGINT, k STRING, amount DECIMAL(10, 2)){partitioned} WITH ({store.options});\n"
        f"{out}INSERT INTO counts SELECT k, count(*), sum(amount) FROM orders GROUP BY k;"
    )
    by_name = (
        f"{store.created}\n{out}INSERT INTO counts SELECT k, count(*), sum(amount) "
        f"FROM bank.{store.database}.orders GROUP BY k;"
    )
    like = (
        f"{store.created}\nCREATE TABLE mine LIKE bank.{store.database}.orders;\n"
        f"{out}INSERT INTO counts SELECT k, count(*), sum(amount) FROM mine GROUP BY k;"
    )
    run_here(planned(tmp_path, written), tmp_path, state=".sqlstream/p", drain=False)
    for text in (by_name, like, written, by_name):
        made = planned(tmp_path, text)
        capsys.readouterr()
        code = run_cli(["plan", str(tmp_path / "p.sql")])
        shown = capsys.readouterr().out
        assert code == 0, shown
        assert "Nothing changes: all state is kept." in shown, shown
        result = run_here(made, tmp_path, state=".sqlstream/p", drain=False)
        assert sum(result.rows_read.values()) == 0


def test_a_sink_that_is_written_out_and_back_goes_on(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same place by another name: the sink is found by what it is, and no row is written twice."""
    source = "CREATE TABLE t (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
    (tmp_path / "in").mkdir()
    query = "SELECT k, CAST(n AS DECIMAL(38, 2)), n FROM t;"
    by_name = f"{store.created}\n{source}INSERT INTO bank.{store.database}.totals {query}"
    options = store.options.replace("orders", "totals")
    written = (
        f"{source}CREATE TABLE totals (k STRING, total DECIMAL(38, 2), n BIGINT) WITH ({options});\n"
        f"INSERT INTO totals {query}"
    )
    for number, text in enumerate((by_name, written, by_name, written)):
        (tmp_path / f"in/{number}.json").write_text(f'{{"k": "a", "n": {number}}}\n')
        made = planned(tmp_path, text)
        capsys.readouterr()
        code = run_cli(["plan", str(tmp_path / "p.sql")])
        shown = capsys.readouterr()
        assert code == 0, shown.out + shown.err
        run_here(made, tmp_path, state=".sqlstream/p", drain=False)
    assert [n for _, _, n in store.totals()] == [0, 1, 2, 3]


def _plan(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], str]:
    """The exit code of `plan`, the verdicts of its JSON, and all that is printed."""
    (folder / "p.sql").write_text(text)
    capsys.readouterr()
    code = run_cli(["plan", str(folder / "p.sql"), "--json"])
    out, err = capsys.readouterr()
    assert PASSWORD not in out + err
    try:
        found = json.loads(out, object_hook=lambda one: {k: v for k, v in one.items() if k != "place"})
    except json.JSONDecodeError:
        found = {}
    return code, {key: found[key] for key in ("states", "required") if key in found}, out + err


@pytest.mark.parametrize(
    "change",
    [
        ("ADD COLUMN note text", "note STRING"),
        ("ALTER COLUMN amount TYPE numeric(12,2)", "amount DECIMAL(12, 2)"),
        ("ALTER COLUMN id TYPE text", "id STRING"),
        ("ALTER COLUMN k SET NOT NULL", "k STRING NOT NULL"),
    ],
    ids=lambda change: change[0],
)
def test_a_table_that_has_changed_is_what_an_edit_of_its_declaration_is(
    change: tuple[str, str], database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = in_postgres(database)
    rest = (
        "CREATE TABLE counts (k STRING, s DECIMAL(38, 2), n BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
        "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
        "INSERT INTO counts SELECT k, sum(amount), max(length(CAST(id AS STRING))) FROM {table} GROUP BY k;"
    )
    by_name = f"{store.created}\n{rest.format(table='bank.public.orders')}"
    run_here(planned(tmp_path, by_name), tmp_path, state=".sqlstream/p", drain=False)
    ddl, column = change
    database.rows(f"ALTER TABLE orders {ddl}")
    columns = {"id": "id BIGINT", "k": "k STRING", "amount": "amount DECIMAL(10, 2)"}
    columns[column.split()[0]] = column
    written = f"CREATE TABLE orders ({', '.join(columns.values())}) WITH ({store.options});\n{rest.format(table='orders')}"
    code, verdicts, shown = _plan(tmp_path, by_name, capsys)
    assert (code, verdicts) == _plan(tmp_path, written, capsys)[:2]
    assert verdicts["states"], shown


def test_a_column_that_comes_is_no_edit_where_columns_are_read_alone_and_one_that_goes_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = in_delta(tmp_path)
    text = (
        f"{store.created}\nCREATE TABLE counts (k STRING, s DECIMAL(38, 2), PRIMARY KEY (k) NOT ENFORCED) "
        "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
        "INSERT INTO counts SELECT k, sum(amount) FROM bank.sales.orders GROUP BY k;"
    )
    run_here(planned(tmp_path, text), tmp_path, state=".sqlstream/p", drain=False)
    DeltaTable(str(tmp_path / "delta/sales/orders")).alter.add_columns(
        [Field("note", PrimitiveType("string"))]
    )
    code, verdicts, shown = _plan(tmp_path, text, capsys)
    assert (code, [s["verdict"] for s in verdicts["states"]]) == (0, ["KEEP"]), shown
    rows = pa.table({"id": pa.array([1], pa.int64()), "k": ["a"]})
    write_deltalake(str(tmp_path / "delta/sales/orders"), rows, mode="overwrite", schema_mode="overwrite")
    code, _, shown = _plan(tmp_path, text, capsys)
    assert code == 1
    assert "unknown column `amount`" in shown
    assert "p.sql" in shown


def test_a_table_of_changes_that_is_like_one_of_a_catalog(database: Database, tmp_path: Path) -> None:
    """The example of the page: columns and key are the table's, options are added to."""
    store = in_postgres(database)
    database.rows(
        'CREATE SCHEMA led; CREATE TABLE led."Mixed" (id bigint, at timestamptz, place point, '
        "PRIMARY KEY (id)); INSERT INTO led.\"Mixed\" VALUES (1, now(), '(1,2)')"
    )
    made = planned(
        tmp_path,
        f"{store.created}\nCREATE TABLE mixed (WATERMARK FOR at AS at - INTERVAL '5' SECOND) "
        "WITH ('connector' = 'postgres-cdc', 'slot.name' = 's_catalog') LIKE bank.led.mixed;\n"
        "CREATE TABLE out (id BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'o.duckdb');\n"
        "INSERT INTO out SELECT id FROM mixed;",
    )
    (source,) = made.physical.sources
    assert source.connector == "postgres-cdc"
    assert source.primary_key == ("id",)
    assert source.options["table-name"] == "led.Mixed"
    assert [c.name for c in source.physical] == ["id", "at"]
    try:
        run_here(made, tmp_path, ends=True)
    finally:
        database.rows("SELECT pg_drop_replication_slot('s_catalog')")
    with duckdb.connect(str(tmp_path / "o.duckdb"), read_only=True) as file:
        assert file.execute("SELECT id FROM out").fetchall() == [(1,)]


def test_two_catalogs_with_the_same_tables(database: Database, tmp_path: Path) -> None:
    made = planned(
        tmp_path,
        f"{in_postgres(database).created} {in_delta(tmp_path, 'lake').created}\n"
        "INSERT INTO lake.sales.totals SELECT k, amount, id FROM bank.public.orders;\n"
        "INSERT INTO bank.public.totals SELECT k, amount, id + 10 FROM lake.sales.orders;\n"
        "INSERT INTO bank.public.totals SELECT a.k, a.amount, b.id + 20 FROM bank.public.orders AS a "
        "JOIN lake.sales.orders AS b ON a.id = b.id;",
    )
    run_here(made, tmp_path)
    assert sorted(s.name for s in made.physical.sources) == ["bank.public.orders", "lake.sales.orders"]
    there = database.rows("SELECT n FROM totals ORDER BY 1")
    assert there == [(11,), (12,), (13,), (21,), (22,), (23,)]
    lake = DeltaTable(str(tmp_path / "delta/sales/totals")).to_pyarrow_table().column("n").to_pylist()
    assert sorted(lake) == [1, 2, 3]
