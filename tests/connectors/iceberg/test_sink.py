"""Iceberg tables as sinks: read back by Iceberg's library, over runs, crashes, other writers and copies."""

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

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.exceptions import CommitFailedException

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.iceberg.sink.data_files import files_of, from_json
from sqlstream.connectors.iceberg.sink.sink import IcebergSink
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.storage.identity import identity
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.iceberg.tables import OPTIONS, catalog, compact, create, expire, rows_of, table
from tests.properties.in_process import run_here
from tests.runtime.support import Crash, crash_at

SOURCE = (
    "CREATE TABLE t (k INT, v STRING, d DECIMAL(10, 2), day DATE) "
    "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
)
SINK = (
    "CREATE TABLE o (k INT, v STRING, d DECIMAL(20, 2), day DATE){partitions} "
    f"WITH ({OPTIONS});\n"
    "INSERT INTO o SELECT k, v, d * 2, day FROM t WHERE k % 3 <> 0;\n"
)
COLUMNS = ("k", "v", "d", "day")
SHAPE = pa.schema([("k", pa.int32()), ("v", pa.string()), ("d", pa.decimal128(20, 2)), ("day", pa.date32())])


def written(folder: Path, number: int, count: int = 100) -> list[tuple[Any, ...]]:
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


def text(partitions: str = "", name: str = "table") -> str:
    """The pipeline."""
    return SOURCE + SINK.format(partitions=f" PARTITIONED BY ({partitions})" if partitions else "", name=name)


def run(folder: Path, sql: str, **options: Any) -> RunResult:
    """Run it in a folder, thirty rows an epoch."""
    return run_here(plan_file(sql, file="p.sql"), folder, **{"rows_per_epoch": 30, **options})


def rows(folder: Path, name: str = "table") -> list[tuple[Any, ...]]:
    """What Iceberg's library reads."""
    return sorted(rows_of(folder, COLUMNS, name))


def refused(folder: Path, sql: str, **options: Any) -> str:
    """What a run says that is refused."""
    with pytest.raises(DiagnosticError) as raised:
        run(folder, sql, **options)
    (diagnostic,) = raised.value.diagnostics
    return f"{diagnostic.code} {diagnostic.message} {' '.join(diagnostic.notes)} {diagnostic.help}"


def more(folder: Path) -> None:
    """A row of another writer."""
    table(folder).append(pa.table([[-1], ["x"], [None], [datetime.date(2024, 1, 1)]], schema=SHAPE))


@pytest.mark.parametrize("partitions", ["", "v, day"])
def test_rows_of_several_runs_are_there_once(tmp_path: Path, partitions: str) -> None:
    wanted = []
    for number in range(3):
        wanted += written(tmp_path, number)
        assert run(tmp_path, text(partitions)).outcome == "exhausted"
        assert rows(tmp_path) == wanted
        assert run(tmp_path, text(partitions)).outcome == "nothing new"
    there = table(tmp_path)
    assert [field.name for field in there.spec().fields] == [p.strip() for p in partitions.split(",") if p]
    named = {Path(task.file.file_path).name for task in there.scan().plan_files()}
    assert named == {one.name for one in (tmp_path / "lake").rglob("*.parquet")}, "no file is left over"
    assert sum(task.file.record_count for task in there.scan().plan_files()) == len(wanted)
    assert there.current_snapshot().summary["total-records"] == str(len(wanted))  # type: ignore[index, union-attr]


def test_metrics_leave_no_row_out(tmp_path: Path) -> None:
    """A reader passes over files by what the log says of them."""
    wanted = written(tmp_path, 0, 300)
    run(tmp_path, text("day"))
    for low in (0, 77, 250):
        found = table(tmp_path).scan(row_filter=f"k >= {low} and day = '2024-01-02'").to_arrow()
        assert found.num_rows == sum(row[0] >= low and row[3].day == 2 for row in wanted)
    files = [task.file for task in table(tmp_path).scan(row_filter="k >= 250").plan_files()]
    assert 0 < len(files) < len([*table(tmp_path).scan().plan_files()]), "some are passed over"
    assert table(tmp_path).scan(row_filter="v is null").to_arrow().num_rows == sum(
        r[1] is None for r in wanted
    )


TYPES = {
    "b": ("BOOLEAN", "true"),
    "i1": ("TINYINT", "-128"),
    "i2": ("SMALLINT", "-32768"),
    "i8": ("BIGINT", "-9223372036854775808"),
    "f4": ("FLOAT", "1.5"),
    "f8": ("DOUBLE", "'NaN'::DOUBLE"),
    "d": ("DECIMAL(38, 4)", "12345678901234567890.1234"),
    "s": ("STRING", "'ä''\"'"),
    "bin": ("BYTES", "'\\x00\\xFF'::BLOB"),
    "day": ("DATE", "DATE '0001-01-01'"),
    "clock": ("TIME", "TIME '12:34:56.789012'"),
    "ts": ("TIMESTAMP(6)", "TIMESTAMP '2024-01-01 12:34:56.789012'"),
    "tz": ("TIMESTAMP_LTZ(6)", "TIMESTAMPTZ '2024-01-01 12:34:56.789012+02'"),
    "a": ("ARRAY<INT>", "[1, NULL, 3]"),
    "m": ("MAP<STRING, SMALLINT>", "MAP {'x': 1}"),
    "r": ("ROW<x TINYINT, y ARRAY<STRING>>", "{'x': 1, 'y': ['q']}"),
}


@pytest.mark.parametrize("partition", [None, "b", "i8", "d", "s", "bin", "day", "ts", "tz"])
def test_types_there_and_back(tmp_path: Path, partition: str | None) -> None:
    """A second run adds to the table; it is read by Iceberg's library, and by the source."""
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in TYPES.items())
    values = ", ".join(f"{value} AS {name}" for name, (_, value) in TYPES.items())
    nulls = ", ".join("NULL" for _ in TYPES)
    (tmp_path / "in").mkdir()
    options = OPTIONS.format(name="table")
    for number in range(2):
        duckdb.sql(f"SELECT {values} UNION ALL SELECT {nulls}").write_parquet(
            str(tmp_path / "in" / f"{number}.parquet")
        )
        run(
            tmp_path,
            f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');\n"
            f"CREATE TABLE o ({columns}){f' PARTITIONED BY ({partition})' if partition else ''} "
            f"WITH ({options});\nINSERT INTO o SELECT * FROM t;\n",
        )
    there = table(tmp_path).scan().to_arrow().select(list(TYPES))
    con = duckdb.connect()
    con.register("there", there)
    texts = ", ".join(f"{name}::VARCHAR" for name in TYPES)
    given = con.execute(
        f"SELECT {texts} FROM (SELECT {values} UNION ALL SELECT {nulls} UNION ALL SELECT {values} UNION ALL SELECT {nulls})"
    )
    wanted = sorted(given.fetchall(), key=str)
    assert sorted(con.execute(f"SELECT {texts} FROM there").fetchall(), key=str) == wanted
    declared = columns.replace("TINYINT", "INT").replace("SMALLINT", "INT")
    run(
        tmp_path,
        f"CREATE TABLE t ({declared}) WITH ({options});\nCREATE TABLE o ({declared}) "
        "WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'parquet');\nINSERT INTO o SELECT * FROM t;\n",
        state="reading",
    )
    again = con.execute(f"SELECT {texts} FROM read_parquet('{tmp_path}/out/*.parquet')").fetchall()
    assert sorted(again, key=str) == wanted


@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed", "collected"])
def test_crashes(tmp_path: Path, point: Any) -> None:
    """After a crash at each point of the second epoch the next run goes on, and every row is there once."""
    wanted = written(tmp_path, 0)
    with pytest.raises(Crash):
        run(tmp_path, text("day"), faults=crash_at(point, 2))
    more(tmp_path)
    compact(tmp_path)
    if point == "committed":
        expire(tmp_path)  # the snapshot with the epoch, too
    run(tmp_path, text("day"))
    assert [row for row in rows(tmp_path) if row[0] >= 0] == wanted
    assert len(rows(tmp_path)) == len(wanted) + 1, "the row of the other writer"


def test_a_state_directory_that_was_restored_from_an_older_copy(tmp_path: Path) -> None:
    written(tmp_path, 0)
    run(tmp_path, text())
    shutil.copytree(tmp_path / "state", tmp_path / "older")
    written(tmp_path, 1)
    run(tmp_path, text())
    before = rows(tmp_path)
    assert "has epoch 8, but its state is at epoch 4" in refused(tmp_path, text(), state="older")
    more(tmp_path)
    expire(tmp_path)
    assert "has epoch 8, but its state is at epoch 4" in refused(tmp_path, text(), state="older"), (
        "by the property"
    )
    assert [row for row in rows(tmp_path) if row[0] >= 0] == before


def test_a_table_that_is_gone_or_older(tmp_path: Path) -> None:
    wanted = written(tmp_path, 0)
    run(tmp_path, text())
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    wanted += written(tmp_path, 1)
    run(tmp_path, text())
    written(tmp_path, 2)
    shutil.copytree(tmp_path / "lake", tmp_path / "newer")
    catalog(tmp_path).drop_table(("db", "table"))
    assert "is gone" in refused(tmp_path, text())
    assert not catalog(tmp_path).table_exists(("db", "table")), "and none is made in its place"
    create(tmp_path, SHAPE)
    assert "is gone" in refused(tmp_path, text()), "another table of that name"
    for name, said in (("copy", "has epoch 4, but epoch 8 was committed to it"), ("newer", "")):
        shutil.rmtree(tmp_path / "lake")
        shutil.copytree(tmp_path / name, tmp_path / "lake")
        if said:
            assert said in refused(tmp_path, text())
    run(tmp_path, text())
    assert len(rows(tmp_path)) == len(wanted) + 67


def test_a_table_that_was_rolled_back(tmp_path: Path) -> None:
    """The property has the epoch still, whose rows are gone."""
    written(tmp_path, 0)
    run(tmp_path, text())
    there = table(tmp_path)
    first = there.snapshots()[0]
    there.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    written(tmp_path, 1)
    assert "has epoch 1, but epoch 4 was committed to it" in refused(tmp_path, text())


def test_a_table_that_was_rolled_back_and_whose_snapshots_were_expired(tmp_path: Path) -> None:
    """Nothing but the table's property is left of the epochs; another's snapshot is what the table follows from."""
    create(tmp_path, SHAPE)
    more(tmp_path)
    written(tmp_path, 0)
    run(tmp_path, text())
    expire(tmp_path)
    written(tmp_path, 1)
    run(tmp_path, text())  # what expires is no part of what is looked at
    fresh = tmp_path / "other"
    fresh.mkdir()
    create(fresh, SHAPE)
    more(fresh)
    others = table(fresh).snapshots()[0].snapshot_id
    written(fresh, 0)
    run(fresh, text())
    table(fresh).manage_snapshots().rollback_to_snapshot(others).commit()
    expire(fresh)
    written(fresh, 1)
    for _ in range(2):
        assert "has not all rows that were committed to it" in refused(fresh, text())
        more(fresh)  # behind it, too


def test_a_table_of_another_shape(tmp_path: Path) -> None:
    written(tmp_path, 0)
    named = [("k", pa.int32()), ("v", pa.string()), ("d", pa.decimal128(20, 2)), ("day", pa.date32())]
    for columns, said, properties in (
        ([("k", pa.int64()), *named[1:]], "`k` is long there and int here", {}),
        (named[:3], "there is no `day`", {}),
        ([*named[:3], ("Day", pa.date32())], "there is `Day`, and no `day`", {}),
        (
            [*named, pa.field("x", pa.int32(), nullable=False)],
            "`x`, which is not declared here, can't be NULL",
            {},
        ),
        (named, "'write.format.default' = 'orc'", {"write.format.default": "orc"}),
    ):
        create(tmp_path, pa.schema(columns), properties=properties)
        assert said in refused(tmp_path, text())
        catalog(tmp_path).drop_table(("db", "table"))
    create(tmp_path, SHAPE)
    assert "it is not partitioned" in refused(tmp_path, text("day"))


def test_a_column_that_may_not_be_null(tmp_path: Path) -> None:
    written(tmp_path, 0)
    create(tmp_path, SHAPE.set(1, pa.field("v", pa.string(), nullable=False)))
    assert "is NULL in `v`, which the table does not allow" in refused(tmp_path, text())
    assert table(tmp_path).current_snapshot() is None


def test_a_table_of_others_with_more_columns_in_another_order(tmp_path: Path) -> None:
    """What it has more is NULL in our rows; columns that were renamed and moved keep their ids."""
    wanted = written(tmp_path, 0)
    first = create(
        tmp_path, pa.schema([("q", pa.int32()), ("x", pa.string()), *[SHAPE.field(i) for i in (3, 2, 1)]])
    )
    with first.update_schema() as schema:
        schema.rename_column("q", "k")
        schema.move_first("v")
    run(tmp_path, text())
    assert rows(tmp_path) == wanted


def test_rewrite(tmp_path: Path) -> None:
    wanted = written(tmp_path, 0)
    run(tmp_path, text())
    assert "its target is not empty" in refused(tmp_path, text(), rewrite=frozenset({"o"}))
    table(tmp_path).delete()
    assert "its target is not empty" in refused(tmp_path, text(), rewrite=frozenset({"o"})), (
        "its log has epochs"
    )
    catalog(tmp_path).drop_table(("db", "table"))
    run(tmp_path, text(), rewrite=frozenset({"o"}))
    assert rows(tmp_path) == wanted
    wanted += written(tmp_path, 1)
    run(tmp_path, text())
    assert rows(tmp_path) == wanted
    run(tmp_path, text(name="other"), rewrite=frozenset({"o"}))
    assert rows(tmp_path, "other") == wanted


@pytest.mark.parametrize(
    ("columns", "query", "code"),
    [
        ("(n BIGINT)", "SELECT count(*) FROM t", "SQL070"),
        (
            "(v INT[], n BIGINT, PRIMARY KEY (v) NOT ENFORCED)",
            "SELECT [k], count(*) FROM t GROUP BY [k]",
            "SQL053",
        ),
        ("(k UTINYINT)", "SELECT k::UTINYINT FROM t", "SQL053"),
        ("(k INT, x DOUBLE) PARTITIONED BY (x)", "SELECT k, 1e0 FROM t", "CAT007"),
    ],
)
def test_what_is_refused_when_it_is_planned(columns: str, query: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(
            f"{SOURCE}CREATE TABLE o {columns} WITH ({OPTIONS.format(name='x')});\nINSERT INTO o {query};\n",
            file="p.sql",
        )
    assert [d.code for d in raised.value.diagnostics] == [code], raised.value.diagnostics


def two_rows() -> pa.Table:
    """Rows for the sink."""
    return pa.table(
        [[1, 2], ["x", None], [Decimal("1.00"), None], [datetime.date(2024, 1, 1)] * 2], schema=SHAPE
    )


def test_two_drivers_that_commit_one_epoch(tmp_path: Path) -> None:
    """One was paused between its manifest and its commit, and another has gone on behind it: the catalog refuses it."""
    spec = plan_file(text(), file="p.sql").physical.sinks[0]
    store = CheckpointStore(tmp_path / "state")
    identity(store)
    context = ConnectorContext(store, str(tmp_path))
    first, second = REGISTERED.sink(spec, context), REGISTERED.sink(spec, context)
    assert isinstance(first, IcebergSink)
    first.check(previous=0)
    part = REGISTERED.writer(spec, context).write(two_rows(), epoch=1, task="0-00000")
    for sink in (first, second):
        sink.prepare(1, [part], previous=0)
    stale = table(tmp_path)
    second.commit(1, [part], previous=0)
    with pytest.raises(CommitFailedException):  # it looked before the other one had committed
        first._iceberg.append(stale, [from_json(file) for file in files_of([part])], 1)
    first.commit(1, [part], previous=0)
    assert len(rows(tmp_path)) == 2
    assert len(table(tmp_path).snapshots()) == 1


def test_what_others_change_between_the_files_and_their_commit(tmp_path: Path) -> None:
    """Files are of the columns, by their ids, and of the partitions that the table had when they were written."""
    spec = plan_file(text("day"), file="p.sql").physical.sinks[0]
    context = ConnectorContext(CheckpointStore(tmp_path / "state"), str(tmp_path))
    sink = REGISTERED.sink(spec, context)
    assert isinstance(sink, IcebergSink)
    sink.check(previous=0)
    part = REGISTERED.writer(spec, context).write(two_rows(), epoch=1, task="0-00000")
    sink.prepare(1, [part], previous=0)
    with table(tmp_path).update_spec() as partitions:
        partitions.add_identity("v")
    with table(tmp_path).update_schema() as schema:
        schema.rename_column("v", "w")
    sink.commit(1, [part], previous=0)
    assert sorted(rows_of(tmp_path, ("k", "w"))) == [(1, "x"), (2, None)]
    assert table(tmp_path).scan(row_filter="day = '2024-01-01'").to_arrow().num_rows == 2
    assert {task.file.spec_id for task in table(tmp_path).scan().plan_files()} == {0}
    assert len(table(tmp_path).spec().fields) == 2, "the table's own stay"
