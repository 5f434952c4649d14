"""Pipelines that read Delta tables: windows, edits that read again, goldens by DuckDB, and what `check` and `plan` say."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sqlstream.cli.main import run_cli
from sqlstream.cli.summary import summary
from sqlstream.golden import check as golden
from sqlstream.golden import files
from sqlstream.planning import plan_file
from sqlstream.runtime.edits.declared_moves import known_sources
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.delta.tables import Table
from tests.properties.in_process import run_here
from tests.properties.updating import collecting
from tests.runtime.support import Crash, crash_at

deltalake = pytest.importorskip("deltalake")

SOURCE = "CREATE TABLE t (k BIGINT, v STRING{columns}) WITH ('connector' = 'delta', 'table-path' = 'lake'{options});\n"
COUNTS = (
    "CREATE TABLE counts WITH ('connector' = 'blackhole') AS SELECT v, COUNT(*) AS n FROM t GROUP BY v;\n"
)
LEAST = "CREATE TABLE least WITH ('connector' = 'blackhole') AS SELECT v, MIN(k) AS k FROM t GROUP BY v;\n"


def source(options: str = "", columns: str = "") -> str:
    return SOURCE.format(options=f", {options}" if options else "", columns=columns)


def run(folder: Path, sql: str, *moved: str, **options: Any) -> RunResult:
    """Run a pipeline as `sqlstream run --source-moved …` does, seven rows an epoch."""
    file = folder / "p.sql"
    file.write_text(sql)
    state = options.get("state", "state")
    planned, found = known_sources(
        plan_file(file),
        str(folder / state),
        None,
        moved,
        str(folder),
        lambda known: plan_file(file, moved=known),
    )
    given = {"rows_per_epoch": 7, "moved": found, **options}
    return run_here(planned, folder, sql=planned.masked_sql, **given)


def counted(count: int) -> Counter[tuple[Any, ...]]:
    return Counter(Counter(f"v{k % 3}" for k in range(count)).items())


def least(count: int) -> Counter[tuple[Any, ...]]:
    return Counter((f"v{k}", k) for k in range(min(3, count)))


@pytest.mark.parametrize("partitioned", [False, True])
def test_runs_and_an_edit_that_reads_again(tmp_path: Path, partitioned: bool) -> None:
    table = Table(tmp_path / "lake", partitioned)
    with collecting() as collected:
        for number in range(3):
            table.append(10, files=2)
            if number == 1:
                table.delta.optimize.compact()
                table.delta.create_checkpoint()
            assert run(tmp_path, source() + COUNTS).outcome == "exhausted"
            assert Counter(collected.folded("counts")) == counted(table.rows)
            assert run(tmp_path, source() + COUNTS).outcome == "nothing new"
        table.append(5)
        run(tmp_path, source() + COUNTS + LEAST)
        assert Counter(collected.folded("counts")) == counted(table.rows)
        assert Counter(collected.folded("least")) == least(table.rows)


def test_an_edit_whose_history_is_gone(tmp_path: Path) -> None:
    table = Table(tmp_path / "lake")
    with collecting() as collected:
        for _ in range(2):
            table.append(5)
            run(tmp_path, source() + COUNTS)
        table.delta.optimize.compact()
        table.vacuum()
        with pytest.raises(DiagnosticError, match="DAT008"):
            run(tmp_path, source() + COUNTS + LEAST)
        table.append(5)
        run(tmp_path, source() + COUNTS)
        assert Counter(collected.folded("counts")) == counted(15), "without the edit it goes on"


def test_options_and_columns_that_keep_what_was_read(tmp_path: Path) -> None:
    """How a run ends, how often it looks, and columns that come to the declaration are no other data."""
    table = Table(tmp_path / "lake")
    with collecting() as collected:
        for options, columns in (
            ("", ""),
            ("'mode' = 'streaming', 'updateCheckIntervalMillis' = '10'", ""),
            ("'skipChangeCommits' = 'true'", ", w BIGINT"),
        ):
            table.append(4)
            if columns:  # before that the table has no such column
                more = pa.table(
                    {
                        "k": pa.array([], pa.int64()),
                        "v": pa.array([], pa.string()),
                        "w": pa.array([], pa.int64()),
                    }
                )
                deltalake.write_deltalake(str(table.path), more, mode="append", schema_mode="merge")
            result = run(tmp_path, source(options, columns) + COUNTS, ends=True)
            assert sum(result.rows_read.values()) == 4
            assert Counter(collected.folded("counts")) == counted(table.rows)


def test_a_table_that_is_followed(tmp_path: Path) -> None:
    """A run goes on with versions that come while it runs, until it is asked to stop."""
    table = Table(tmp_path / "lake")
    table.append(4)
    with collecting() as collected:

        def more(report: Any) -> None:
            if table.rows < 12:
                table.append(4)

        options = "'mode' = 'streaming', 'updateCheckIntervalMillis' = '1'"
        result = run(tmp_path, source(options) + COUNTS, on_epoch=more, max_epochs=3, rows_per_epoch=100)
        assert sum(result.rows_read.values()) == 12
        assert Counter(collected.folded("counts")) == counted(12)


@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed", "collected"])
def test_crashes(tmp_path: Path, point: Any) -> None:
    table = Table(tmp_path / "lake")
    table.append(20)
    text = source() + (
        "CREATE TABLE o (k BIGINT, v STRING) WITH ('connector' = 'delta', 'table-path' = 'out');\n"
        "INSERT INTO o SELECT k, v FROM t;\n"
    )
    with pytest.raises(Crash):
        run(tmp_path, text, faults=crash_at(point, 2))
    table.append(5)
    table.delta.optimize.compact()
    run(tmp_path, text)
    written = deltalake.DeltaTable(str(tmp_path / "out")).to_pyarrow_table()
    assert sorted(written.column("k").to_pylist()) == list(range(25))


def test_an_epoch_whose_files_are_gone_before_it_is_replayed(tmp_path: Path) -> None:
    table = Table(tmp_path / "lake")
    table.append(10)
    table.append(10)
    with collecting(), pytest.raises(Crash):
        run(tmp_path, source() + COUNTS, faults=crash_at("planned", 1))
    table.delta.optimize.compact()
    table.vacuum()
    with collecting() as collected:
        with pytest.raises(DiagnosticError) as raised:
            run(tmp_path, source() + COUNTS)
        assert [d.code for d in raised.value.diagnostics] == ["DAT015"]
        assert raised.value.exit_code == 4
        table.append(3)
        result = run(tmp_path, source() + COUNTS, accept=frozenset({"lost:t"}))
        assert sum(n for _, n in collected.folded("counts")) == 3
        assert (result.skipped, len(result.left_out)) == ((), 1)
        assert result.left_out[0].startswith("t: ")
        said = summary("p", plan_file(tmp_path / "p.sql").physical, result, "state")
        assert said[0].startswith("p: done, all input that is there is read"), "nothing of files"
        assert f"  left out {result.left_out[0]}" in said


WINDOWS = """CREATE TABLE t (k BIGINT, day DATE, ts TIMESTAMP(3), v BIGINT METADATA FROM '_commit_version' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '1' HOUR)
WITH ('connector' = 'delta', 'table-path' = 'lake', 'mode' = 'streaming');
CREATE TABLE out (window_start TIMESTAMP(3), day DATE, n BIGINT, total BIGINT, versions BIGINT)
WITH ('connector' = 'blackhole');
INSERT INTO out SELECT window_start, day, COUNT(*), SUM(k), COUNT(DISTINCT v)
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, day;
"""


def test_a_golden_by_duckdb(tmp_path: Path) -> None:
    """The referee is given the rows by the connector; what it makes of them is DuckDB's own, and is also written here."""
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    for version in range(3):
        numbers = range(version * 50, version * 50 + 50)
        deltalake.write_deltalake(
            str(tmp_path / "lake"),
            pa.table(
                {
                    "k": pa.array(numbers, pa.int64()),
                    "day": [datetime.date(2024, 1, 1 + n % 2) for n in numbers],
                    "ts": pa.array(
                        [start + datetime.timedelta(seconds=20 * n) for n in numbers],
                        pa.timestamp("us", "UTC"),
                    ),
                }
            ),
            mode="append",
            partition_by=["day"],
        )
    (tmp_path / "p.sql").write_text(WINDOWS)
    pipeline = golden.Pipeline.load(tmp_path / "p.sql", {}, None, None)
    (written,) = golden.update(pipeline).sinks
    assert golden.check(pipeline, InProcessRunner(2), rows_per_epoch=11).ok
    expected = duckdb.sql(
        "SELECT time_bucket(INTERVAL 10 MINUTE, TIMESTAMP '2024-01-01' + to_seconds(20 * n)) AS w, "
        "DATE '2024-01-01' + (n % 2)::INTEGER AS day, count(*), sum(n) FROM range(150) t(n) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    found = [tuple(row)[:4] for row in files.read(written.file, written.schema).rows]
    assert sorted(found) == sorted((str(w), str(day), str(n), str(total)) for w, day, n, total in expected)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("'mode' = 'latest'", "OPT003", "`mode` can't be 'latest'"),
        ("'startingVersion' = 'first'", "OPT003", "`startingVersion` can't be 'first'"),
        ("'versionAsOf' = '-1'", "OPT003", "`versionAsOf` can't be '-1'"),
        ("'startingTimestamp' = 'today'", "OPT003", "`startingTimestamp` can't be 'today'"),
        ("'startingVersion' = '1', 'versionAsOf' = '2'", "OPT003", "both say where reading begins"),
        ("'versionAsOf' = '2', 'mode' = 'streaming'", "OPT003", "of which no new version comes"),
        ("'startingversion' = '1'", "OPT002", "has no option `startingversion`"),
        ("'format' = 'parquet'", "OPT002", "has no option `format`"),
    ],
)
def test_options_that_can_not_be(options: str, code: str, said: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(source(options) + COUNTS, file="p.sql")
    (found,) = raised.value.diagnostics
    assert found.code == code
    assert said in found.message
    assert found.span is not None


@pytest.mark.parametrize(
    ("made", "code"),
    [(None, "DAT004"), ({"k": pa.string()}, "DAT018"), ({"k": pa.int64(), "v": pa.string()}, None)],
)
def test_plan_looks_at_the_table(
    tmp_path: Path, made: dict[str, pa.DataType] | None, code: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` needs no table, `plan` says what `run` would."""
    if made is not None:
        deltalake.DeltaTable.create(str(tmp_path / "lake"), pa.schema(list(made.items())))
    (tmp_path / "p.sql").write_text(source() + COUNTS)
    assert run_cli(["check", str(tmp_path / "p.sql")]) == 0
    capsys.readouterr()
    exit_code = run_cli(["plan", "--json", str(tmp_path / "p.sql")])
    shown = json.loads(capsys.readouterr().out)
    if code is None:
        assert exit_code == 0, shown
    else:
        assert exit_code != 0
        assert code in json.dumps(shown)
    assert not (tmp_path / ".sqlstream").exists()


def test_a_change_is_told_by_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(tmp_path / "lake")
    table.append(5)
    with collecting():
        run(tmp_path, source() + COUNTS, state=".sqlstream/p")
    table.delta.delete("k = 1")
    with collecting():
        exit_code = run_cli(["plan", str(tmp_path / "p.sql")])
    assert exit_code == 4
    assert "DAT019" in "".join(capsys.readouterr())


def test_a_table_that_was_moved(tmp_path: Path) -> None:
    """By --source-moved it goes on; another table is refused."""
    table = Table(tmp_path / "lake")
    table.append(4)
    with collecting() as collected:
        run(tmp_path, source() + COUNTS)
        moved = Table(table.path.rename(tmp_path / "moved"), rows=table.rows)
        moved.append(3)
        there = source().replace("lake", "moved")
        run(tmp_path, there + COUNTS, "t")
        assert Counter(collected.folded("counts")) == counted(7)
        Table(tmp_path / "other").append(3)
        with pytest.raises(DiagnosticError, match="STA018"):
            run(tmp_path, source().replace("lake", "other") + COUNTS, "t")


def test_it_does_not_read_what_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Table(tmp_path / "lake").append(4)
    (tmp_path / "p.sql").write_text(
        source()
        + "CREATE TABLE o (k BIGINT, v STRING) WITH ('connector' = 'delta', 'table-path' = './lake');\n"
        + "INSERT INTO o SELECT k, v FROM t;\n"
    )
    assert run_cli(["run", str(tmp_path / "p.sql")]) != 0
    assert "SQL017" in capsys.readouterr().err
    assert Table(tmp_path / "lake").version == 0
