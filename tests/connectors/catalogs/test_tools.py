"""What plans a file again (unit tests, golden runs, the dashboard) with a catalog in it; passwords of catalogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.catalogs.stores import in_delta, in_duckdb, in_postgres
from tests.connectors.postgres_server import PASSWORD, Database
from tests.properties.in_process import run_here
from tests.ui.dashboards import dashboard


def command(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capfd.readouterr()
    code = run_cli(list(arguments))
    return code, "".join(capfd.readouterr())


COUNTS = (
    "CREATE TABLE counts (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
    "WITH ('connector' = 'duckdb', 'path' = 'counts.duckdb');\n"
)


@pytest.fixture
def pipeline(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline whose catalog has its password from the environment."""
    created = in_postgres(database).created.replace(PASSWORD, "{{ env_var('BANK_PASSWORD') }}")
    monkeypatch.setenv("BANK_PASSWORD", PASSWORD)
    folder = tmp_path / "pipelines"
    folder.mkdir()
    file = folder / "p.sql"
    file.write_text(
        f"{created}\n{COUNTS}INSERT INTO counts SELECT k, count(*) FROM bank.public.orders GROUP BY k;\n"
        "INSERT INTO bank.public.totals SELECT k, amount, id FROM bank.public.orders;"
    )
    return file


def test_unit_tests_and_golden_runs(pipeline: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A test has rows of its own; what columns there are is asked with the environment's password."""
    (pipeline.parent / "p.test.yaml").write_text(
        "unit_tests:\n  - name: two rows\n    given:\n      bank.public.orders:\n"
        "        - {id: 7, k: z, amount: 1.25}\n        - {id: 8, k: z}\n"
        "    expect:\n      counts:\n        - {k: z, n: 2}\n"
        "      bank.public.totals:\n        - {k: z, total: 1.25, n: 7}\n        - {k: z, n: 8}\n"
    )
    code, shown = command(capfd, "test", str(pipeline))
    assert code == 0, shown
    for what in ("update", "check"):
        code, shown = command(capfd, "golden", what, str(pipeline))
        assert code == 0, shown
        assert PASSWORD not in shown
    golden = pipeline.parents[1] / "golden/p/bank.public.totals.csv"
    assert len(golden.read_text().splitlines()) == 4


def test_a_test_that_begins_with_first_rows(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Also of two tables that are looked up in one file of DuckDB."""
    file = tmp_path / "p.sql"
    file.write_text(
        f"{in_delta(tmp_path).created} {in_duckdb(tmp_path)}\n"
        "CREATE TABLE out (k STRING, r INT, n BIGINT) WITH ('connector' = 'blackhole');\n"
        "INSERT INTO out SELECT o.k, r.rate, t.n FROM (SELECT *, PROCTIME() AS p FROM bank.sales.orders) AS o "
        "LEFT JOIN marts.main.rates FOR SYSTEM_TIME AS OF o.p AS r ON r.k = o.k "
        "LEFT JOIN marts.fin.totals FOR SYSTEM_TIME AS OF o.p AS t ON t.k = o.k;"
    )
    code, shown = command(capfd, "test", "--new", str(file))
    assert code == 0, shown
    written = (tmp_path / "p.test.yaml").read_text()
    assert "bank.sales.orders:" in written
    assert "{k: a, rate: 10, colour: red}" in written
    code, shown = command(capfd, "test", str(file))
    assert code == 0, shown


def test_the_dashboard_asks_no_store(
    pipeline: Path, database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    planned = plan_file(pipeline, env={"BANK_PASSWORD": PASSWORD})
    result = run_here(planned, pipeline.parent, state=".sqlstream/p", sql=planned.masked_sql)
    assert sum(result.rows_read.values()) == 3
    database.rows("DROP TABLE orders")

    with dashboard(CheckpointStore(str(pipeline.parent / ".sqlstream/p"))) as client:
        (found,) = client.get("pipelines")["pipelines"]
        source = client.get(f"pipelines/{found['id']}/source")
        assert source["diagnostics"] == []
        assert "op:group_aggregate_1" in source["clauses"]
        assert PASSWORD not in str(source)
        graph = client.get(f"pipelines/{found['id']}/graph")
        assert any(node["clause"] for node in graph["nodes"])


def test_passwords_of_catalogs_are_nowhere(
    pipeline: Path, database: Database, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("check", "explain", "run", "plan"):
        code, shown = command(capfd, name, str(pipeline))
        assert code == 0, shown
        assert PASSWORD not in shown
    for statement in ("SHOW CREATE CATALOG bank", "SHOW CREATE TABLE bank.public.orders", "SHOW CATALOGS"):
        code, shown = command(capfd, "sql", str(pipeline), "-c", statement)
        assert code == 0, shown
        assert PASSWORD not in shown
    state = pipeline.parent / ".sqlstream"
    files = [path for path in state.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not [path for path in files if PASSWORD.encode() in path.read_bytes()]


def test_a_store_that_is_away(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each store is reported once, where it is named first; what needs none is checked all the same."""
    file = tmp_path / "p.sql"
    file.write_text(
        "CREATE CATALOG bank WITH ('type' = 'postgres', 'url' = 'postgresql://me:geheimnis@127.0.0.1:1/bank');\n"
        "CREATE CATALOG marts WITH ('type' = 'duckdb', 'path' = 'gone.duckdb');\n"
        "CREATE CATALOG lake WITH ('type' = 'delta', 'path' = 'gone/');\n"
        "CREATE CATALOG ice WITH ('type' = 'iceberg', 'catalog-type' = 'sql', 'uri' = 'sqlite:///gone.db');\n"
        "CREATE CATALOG rest WITH ('type' = 'iceberg', 'catalog-type' = 'rest', 'uri' = 'http://127.0.0.1:1');\n"
        "CREATE TABLE t (a INT) WITH ('connector' = 'print');\n"
        "INSERT INTO t SELECT a FROM bank.public.x;\nINSERT INTO t SELECT b FROM bank.public.y;\n"
        "INSERT INTO marts.main.z SELECT 1;\nINSERT INTO t SELECT a FROM lake.d.x;\nINSERT INTO t SELECT a FROM ice.d.x;\n"
        "INSERT INTO t SELECT a FROM rest.d.x;\n"
    )
    with pytest.raises(DiagnosticError) as raised:
        plan_file(file)
    assert raised.value.exit_code == 5
    found = [(d.code, d.span.line if d.span else 0) for d in raised.value.diagnostics]
    assert found == [("ENV006", line) for line in (7, 9, 10, 11, 12)]
    assert all(str(d.help).startswith("correct its options") for d in raised.value.diagnostics)
    code, shown = command(capfd, "check", str(file))
    assert code == 5
    assert "geheimnis" not in shown
    with file.open("a") as more:
        more.write("INSERT INTO t SELECT zz FROM t;")
    with pytest.raises(DiagnosticError) as raised:
        plan_file(file)
    assert raised.value.exit_code == 1
    assert "SQL014" in {d.code for d in raised.value.diagnostics}


def test_like_of_a_catalog_in_the_dashboard(tmp_path: Path) -> None:
    store = in_delta(tmp_path)
    file = tmp_path / "p.sql"
    file.write_text(
        f"{store.created} USE CATALOG bank; USE sales;\nCREATE TABLE default_catalog.default_database.mine LIKE orders;\n"
        f"USE CATALOG default_catalog;\n{COUNTS}INSERT INTO counts SELECT k, count(*) FROM mine GROUP BY k;"
    )
    planned = plan_file(file)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)

    with dashboard(CheckpointStore(str(tmp_path / ".sqlstream/p"))) as client:
        (found,) = client.get("pipelines")["pipelines"]
        source = client.get(f"pipelines/{found['id']}/source")
        assert (source["diagnostics"], "LIKE orders" in source["text"]) == ([], True)
