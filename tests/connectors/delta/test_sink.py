"""Delta tables as sinks: read back by Delta's own library and by DuckDB, over runs, crashes, other writers and copies."""

from __future__ import annotations

import datetime
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.delta.sink.sink import DeltaSink
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.storage.identity import identity
from sqlstream_operators.errors import StorePlaceError
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.in_process import run_here
from tests.runtime.support import Crash, crash_at

deltalake = pytest.importorskip("deltalake")

SOURCE = (
    "CREATE TABLE t (k INT, v STRING, d DECIMAL(10, 2), day DATE) "
    "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
)
SINK = (
    "CREATE TABLE o (k INT, v STRING, d DECIMAL(20, 2), day DATE){partitions} "
    "WITH ('connector' = 'delta', 'table-path' = '{path}');\n"
    "INSERT INTO o SELECT k, v, d * 2, day FROM t WHERE k % 3 <> 0;\n"
)


def written(
    folder: Path, number: int, count: int = 100
) -> list[tuple[int, str | None, Decimal, datetime.date]]:
    """A file of rows of `t`; what the sink is to have of them."""
    (folder / "in").mkdir(exist_ok=True)
    lines, wanted = [], []
    for k in range(number * count, number * count + count):
        v = None if k % 11 == 0 else f"a/b {k % 4}%é"
        day = datetime.date(2024, 1, 1 + k % 3)
        lines.append(json.dumps({"k": k, "v": v, "d": f"{k}.25", "day": str(day)}))
        if k % 3:
            wanted.append((k, v, Decimal(2 * k) + Decimal("0.50"), day))
    (folder / "in" / f"{number}.json").write_text("\n".join(lines) + "\n")
    return wanted


def text(partitions: str = "", path: str = "table") -> str:
    """The pipeline."""
    return SOURCE + SINK.format(partitions=f" PARTITIONED BY ({partitions})" if partitions else "", path=path)


def run(folder: Path, sql: str, **options: Any) -> RunResult:
    """Run it in a folder, thirty rows an epoch."""
    return run_here(plan_file(sql, file="p.sql"), folder, **{"rows_per_epoch": 30, **options})


def rows(folder: Path, path: str = "table") -> list[tuple[Any, ...]]:
    """What Delta's library reads."""
    table = deltalake.DeltaTable(str(folder / path)).to_pyarrow_table()
    return sorted(zip(*(table.column(name).to_pylist() for name in ("k", "v", "d", "day")), strict=True))


@pytest.mark.parametrize("partitions", ["", "day", "v, day"])
def test_rows_of_several_runs_are_there_once(tmp_path: Path, partitions: str) -> None:
    wanted = []
    for number in range(3):
        wanted += written(tmp_path, number)
        assert run(tmp_path, text(partitions)).outcome == "exhausted"
        assert rows(tmp_path) == wanted
        assert run(tmp_path, text(partitions)).outcome == "nothing new"
    table = deltalake.DeltaTable(str(tmp_path / "table"))
    assert table.metadata().partition_columns == [p.strip() for p in partitions.split(",") if p]
    named = {Path(one).name for one in table.file_uris()}
    assert named == {one.name for one in (tmp_path / "table").rglob("*.parquet")}, "no file is left over"
    first = table.get_add_actions(flatten=True)
    assert sum(pa.table(first).column("num_records").to_pylist()) == len(wanted)


def test_statistics_leave_no_row_out(tmp_path: Path) -> None:
    """A reader passes over files by what the log says of them."""
    wanted = written(tmp_path, 0, 300)
    run(tmp_path, text("day"))
    data = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_dataset()
    for low in (0, 77, 250):
        found = data.to_table(filter=pa.compute.field("k") >= low)
        assert found.num_rows == sum(row[0] >= low for row in wanted)
    assert data.to_table(filter=pa.compute.field("v").is_null()).num_rows == sum(r[1] is None for r in wanted)


TYPES = {
    "b": ("BOOLEAN", "true"),
    "i1": ("TINYINT", "-128"),
    "i8": ("BIGINT", "-9223372036854775808"),
    "f4": ("FLOAT", "1.5"),
    "f8": ("DOUBLE", "'NaN'::DOUBLE"),
    "d": ("DECIMAL(38, 4)", "12345678901234567890.1234"),
    "s": ("STRING", "'ä''\"'"),
    "bin": ("BYTES", "'\\x00\\xFF'::BLOB"),
    "day": ("DATE", "DATE '0001-01-01'"),
    "ts": ("TIMESTAMP(6)", "TIMESTAMP '2024-01-01 12:34:56.789012'"),
    "tz": ("TIMESTAMP_LTZ(6)", "TIMESTAMPTZ '2024-01-01 12:34:56.789012+02'"),
    "a": ("ARRAY<INT>", "[1, NULL, 3]"),
    "m": ("MAP<STRING, BIGINT>", "MAP {'x': 1}"),
    "r": ("ROW<x INT, y ARRAY<STRING>>", "{'x': 1, 'y': ['q']}"),
}


@pytest.mark.parametrize("partition", [None, "b", "i8", "d", "s", "day", "ts", "tz"])
def test_types_there_and_back(tmp_path: Path, partition: str | None) -> None:
    """A second run, which finds a table that Delta has described, adds to it."""
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in TYPES.items())
    values = ", ".join(f"{value} AS {name}" for name, (_, value) in TYPES.items())
    (tmp_path / "in").mkdir()
    for number in range(2):
        duckdb.sql(f"SELECT {values}").write_parquet(str(tmp_path / "in" / f"{number}.parquet"))
        run(
            tmp_path,
            f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');\n"
            f"CREATE TABLE o ({columns}){f' PARTITIONED BY ({partition})' if partition else ''} "
            "WITH ('connector' = 'delta', 'table-path' = 'table');\nINSERT INTO o SELECT * FROM t;\n",
        )
    there = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table().select(list(TYPES))
    given = duckdb.sql(f"SELECT {values} UNION ALL SELECT {values}").to_arrow_table()
    con = duckdb.connect()
    con.register("there", there)
    con.register("given", given)
    names = ", ".join(f"{name}::VARCHAR" for name in TYPES)
    assert (
        con.execute(f"SELECT {names} FROM there").fetchall()
        == con.execute(f"SELECT {names} FROM given").fetchall()
    )


@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed", "collected"])
def test_crashes(tmp_path: Path, point: Any) -> None:
    """After a crash at each point of the second epoch the next run goes on, and every row is there once."""
    wanted = written(tmp_path, 0)
    with pytest.raises(Crash):
        run(tmp_path, text("day"), faults=crash_at(point, 2))
    deltalake.write_deltalake(
        str(tmp_path / "table"),
        pa.table({"k": pa.array([-1], pa.int32()), "day": [datetime.date(2024, 1, 1)]}),
        mode="append",
        schema_mode="merge",
    )
    run(tmp_path, text("day"))
    assert [row for row in rows(tmp_path) if row[0] >= 0] == wanted
    assert len(rows(tmp_path)) == len(wanted) + 1, "the row of the other writer"


def refused(folder: Path, sql: str, **options: Any) -> str:
    """What a run says that is refused."""
    with pytest.raises(DiagnosticError) as raised:
        run(folder, sql, **options)
    (diagnostic,) = raised.value.diagnostics
    return f"{diagnostic.code} {diagnostic.message} {' '.join(diagnostic.notes)} {diagnostic.help}"


def test_a_state_directory_that_was_restored_from_an_older_copy(tmp_path: Path) -> None:
    written(tmp_path, 0)
    run(tmp_path, text())
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    written(tmp_path, 1)
    run(tmp_path, text())
    before = rows(tmp_path)
    assert "has epoch 8, but its state is at epoch 4" in refused(tmp_path, text(), state="older")
    assert rows(tmp_path) == before


def test_a_table_that_is_gone_or_older(tmp_path: Path) -> None:
    wanted = written(tmp_path, 0)
    run(tmp_path, text())
    shutil.copytree(tmp_path / "table", tmp_path / "copy")
    wanted += written(tmp_path, 1)
    run(tmp_path, text())
    written(tmp_path, 2)
    shutil.move(tmp_path / "table", tmp_path / "newer")
    assert "is gone" in refused(tmp_path, text())
    assert not (tmp_path / "table").exists(), "and none is made in its place"
    shutil.move(tmp_path / "copy", tmp_path / "table")
    assert "has epoch 4, but epoch 8 was committed to it" in refused(tmp_path, text())
    shutil.rmtree(tmp_path / "table")
    deltalake.DeltaTable.create(str(tmp_path / "table"), pa.schema([("k", pa.int32())]))
    assert "is gone" in refused(tmp_path, text()), "another table of that name"
    shutil.rmtree(tmp_path / "table")
    shutil.move(tmp_path / "newer", tmp_path / "table")
    run(tmp_path, text())
    assert len(rows(tmp_path)) == len(wanted) + 67


def test_a_table_of_another_shape(tmp_path: Path) -> None:
    written(tmp_path, 0)
    for schema, partitions, said in (
        (
            [("k", pa.int64()), ("v", pa.string()), ("d", pa.decimal128(20, 2)), ("day", pa.date32())],
            None,
            "`k` is int64",
        ),
        ([("k", pa.int32()), ("v", pa.string()), ("d", pa.decimal128(20, 2))], None, "there is no `day`"),
        (
            [("k", pa.int32()), ("v", pa.string()), ("d", pa.decimal128(20, 2)), ("day", pa.date32())],
            ["day"],
            "it is partitioned by (day)",
        ),
    ):
        deltalake.DeltaTable.create(str(tmp_path / "table"), pa.schema(schema), partition_by=partitions)
        assert said in refused(tmp_path, text())
        shutil.rmtree(tmp_path / "table")


@pytest.mark.parametrize("what", ["delta.columnMapping.mode", "delta.constraints.positive", "rowTracking"])
def test_a_table_that_wants_more_of_its_writers(tmp_path: Path, what: str) -> None:
    """Files with the columns' own names would be read as NULL where names are mapped; a CHECK would not be looked at."""
    written(tmp_path, 0)
    shape = pa.schema(
        [("k", pa.int32()), ("v", pa.string()), ("d", pa.decimal128(20, 2)), ("day", pa.date32())]
    )
    mapped = {
        "delta.columnMapping.mode": "name",
        "delta.minReaderVersion": "2",
        "delta.minWriterVersion": "5",
    }
    path = str(tmp_path / "table")
    table = deltalake.DeltaTable.create(path, shape, configuration=mapped if what in mapped else None)
    if what.startswith("delta.constraints"):
        table.alter.add_constraint({"positive": "k > 0"})
    if what == "rowTracking":
        first = tmp_path / "table" / "_delta_log" / f"{0:020d}.json"
        lines = [json.loads(line) for line in first.read_text().splitlines()]
        for line in lines:
            if "protocol" in line:
                line["protocol"] = {
                    "minReaderVersion": 3,
                    "minWriterVersion": 7,
                    "readerFeatures": [],
                    "writerFeatures": ["rowTracking", "domainMetadata"],
                }
        first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert what in refused(tmp_path, text())
    assert deltalake.DeltaTable(path).version() == (1 if "constraints" in what else 0)


def test_another_place(tmp_path: Path) -> None:
    """A table that was moved goes on; one that is elsewhere, and empty, is given all with --rewrite."""
    wanted = written(tmp_path, 0)
    run(tmp_path, text())
    shutil.move(tmp_path / "table", tmp_path / "moved")
    wanted += written(tmp_path, 1)
    run(tmp_path, text(path="moved"))
    assert rows(tmp_path, "moved") == wanted
    assert refused(tmp_path, text(path="new"))
    assert not (tmp_path / "new").exists()
    run(tmp_path, text(path="new"), rewrite=frozenset({"o"}))
    assert rows(tmp_path, "new") == wanted
    wanted += written(tmp_path, 2)
    run(tmp_path, text(path="new"))
    assert rows(tmp_path, "new") == wanted


def test_a_table_of_others_with_more_columns(tmp_path: Path) -> None:
    """What it has more is NULL in our rows."""
    wanted = written(tmp_path, 0)
    more = [
        ("k", pa.int32()),
        ("x", pa.string()),
        ("v", pa.string()),
        ("d", pa.decimal128(20, 2)),
        ("day", pa.date32()),
    ]
    deltalake.DeltaTable.create(str(tmp_path / "table"), pa.schema(more))
    run(tmp_path, text())
    assert rows(tmp_path) == wanted


def test_an_empty_text_is_no_partition(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": 1, "v": "", "d": "1", "day": "2024-01-01"}\n')
    assert "NULLIF(v, '')" in refused(tmp_path, text("v"))


def test_rewrite(tmp_path: Path) -> None:
    wanted = written(tmp_path, 0)
    run(tmp_path, text())
    assert "its target is not empty" in refused(tmp_path, text(), rewrite=frozenset({"o"}))
    deltalake.DeltaTable(str(tmp_path / "table")).delete()
    assert "its target is not empty" in refused(tmp_path, text(), rewrite=frozenset({"o"})), (
        "its log has epochs"
    )
    shutil.rmtree(tmp_path / "table")
    run(tmp_path, text(), rewrite=frozenset({"o"}))
    assert rows(tmp_path) == wanted
    wanted += written(tmp_path, 1)
    run(tmp_path, text())
    assert rows(tmp_path) == wanted


@pytest.mark.parametrize(
    ("columns", "query", "code"),
    [
        ("(n BIGINT)", "SELECT count(*) FROM t", "SQL070"),
        ("(k TIME)", "SELECT TIME '1:00' FROM t", "SQL053"),
        ("(k INT) PARTITIONED BY (k)", "SELECT k FROM t", "CAT007"),
        ("(k INT, x DOUBLE) PARTITIONED BY (x)", "SELECT k, 1e0 FROM t", "CAT007"),
        ("(k INT, PRIMARY KEY (k) NOT ENFORCED)", "SELECT max(k) FROM t GROUP BY v", "SQL071"),
        ("(k INT, PRIMARY KEY (k) NOT ENFORCED)", "SELECT k FROM t", "SQL071"),
        (
            "(d DECIMAL(9, 2), v STRING, PRIMARY KEY (d) NOT ENFORCED) PARTITIONED BY (d)",
            "SELECT d, max(v) FROM (SELECT d::DECIMAL(9, 2) AS d, v FROM t) GROUP BY d",
            "CAT007",
        ),
        (
            "(a ARRAY<INT>, n BIGINT, PRIMARY KEY (a) NOT ENFORCED)",
            "SELECT a, count(*) FROM (SELECT [k] AS a FROM t) GROUP BY a",
            "SQL053",
        ),
    ],
)
def test_what_is_refused_when_it_is_planned(columns: str, query: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(
            f"{SOURCE}CREATE TABLE o {columns} WITH ('connector' = 'delta', 'table-path' = 'x');\n"
            f"INSERT INTO o {query};\n",
            file="p.sql",
        )
    assert [d.code for d in raised.value.diagnostics] == [code], raised.value.diagnostics


def test_two_drivers_that_commit_one_epoch(tmp_path: Path) -> None:
    """One was paused between its manifest and its commit, and another has gone on behind it: Delta refuses the second."""
    spec = plan_file(text(), file="p.sql").physical.sinks[0]
    store = CheckpointStore(tmp_path / "state")
    identity(store)
    context = ConnectorContext(store, str(tmp_path))
    first, second = REGISTERED.sink(spec, context), REGISTERED.sink(spec, context)
    rows_ = pa.table(
        {
            "k": pa.array([1, 2], pa.int32()),
            "v": ["x", None],
            "d": pa.array([Decimal("1.00"), None], pa.decimal128(20, 2)),
            "day": pa.array([datetime.date(2024, 1, 1)] * 2),
        }
    )
    part = REGISTERED.writer(spec, context).write(rows_, epoch=1, task="0-00000")
    for sink in (first, second):
        sink.prepare(1, [part], previous=0)
    stale = deltalake.DeltaTable(str(tmp_path / "table"))
    second.commit(1, [part], previous=0)
    assert isinstance(first, DeltaSink)
    first._content.load(1, [part])
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        first._write(stale, 1, [part], None)  # it looked before the other one had committed
    first.commit(1, [part], previous=0)
    assert len(rows(tmp_path)) == 2
    assert deltalake.DeltaTable(str(tmp_path / "table")).version() == 1


@pytest.mark.parametrize("secret", ["hunter", "hun/ter", "hun?ter", "hun%2Fter"])
def test_a_secret_is_not_told(tmp_path: Path, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.connectors.delta.library.ATTEMPTS", 1)
    written(tmp_path, 0)
    path = f"s3://key:{secret}@b/x?endpoint=http://127.0.0.1:1&region=x"
    with pytest.raises((DiagnosticError, StorePlaceError)) as raised:
        run(tmp_path, text(path=path))
    said = str(raised.value)
    assert "s3://" in said
    assert "hun" not in said, said


def test_a_version_that_lacks_files_is_noticed(tmp_path: Path) -> None:
    wanted = written(tmp_path, 0)
    run(tmp_path, text())
    last = deltalake.DeltaTable(str(tmp_path / "table")).version()
    deltalake.DeltaTable(str(tmp_path / "table")).restore(last - 1)
    wanted += written(tmp_path, 1)
    for _ in range(2):
        with pytest.raises(DiagnosticError, match="has not all rows that were committed"):
            run(tmp_path, text())
    deltalake.DeltaTable(str(tmp_path / "table")).restore(last)
    run(tmp_path, text())
    assert rows(tmp_path) == wanted
