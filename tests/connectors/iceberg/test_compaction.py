"""Small files become larger ones: no row is lost, there twice, or another one, whoever else writes the table meanwhile."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

from sqlstream.connectors.iceberg.sink import compaction as iceberg_compaction
from sqlstream.connectors.iceberg.sink.compaction import IcebergCompaction
from sqlstream.connectors.iceberg.sink.sink import IcebergSink
from sqlstream.connectors.lakehouse import compaction
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from tests.connectors.iceberg.tables import OPTIONS, compact, rows_of, table
from tests.connectors.iceberg.test_sink import COLUMNS, SHAPE, TYPES, run, text, written
from tests.connectors.iceberg.test_sink import rows as read
from tests.examples import examples

ON = "'auto-compaction' = 'TRUE'"


@pytest.fixture(autouse=True)
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FEWEST", 4)


def compacting(sql: str, *, size: str = "") -> str:
    options = ON + (f", 'compaction.file-size' = '{size}'" if size else "")
    return sql.replace("'connector' = 'iceberg'", f"'connector' = 'iceberg', {options}")


def files(folder: Path) -> set[str]:
    return {task.file.file_path for task in table(folder).scan().plan_files()}


def operations(folder: Path) -> Counter[str]:
    snapshots = table(folder).metadata.snapshots
    return Counter(one.summary.operation.value for one in snapshots if one.summary is not None)


@pytest.mark.parametrize("partitions", ["", "day"])
def test_rows_stay_and_files_become_fewer(tmp_path: Path, partitions: str) -> None:
    wanted = []
    for number in range(4):
        wanted += written(tmp_path, number)
        run(tmp_path, compacting(text(partitions)), rows_per_epoch=10)
        assert read(tmp_path) == wanted
    days = 3 if partitions else 1
    assert len(files(tmp_path)) <= 4 * days < 10 * days, "40 epochs"
    assert operations(tmp_path)["replace"] > 2
    assert operations(tmp_path)["overwrite"] == 0, "no reader of changes sees rows"
    for low in (0, 77, 250):
        found = table(tmp_path).scan(row_filter=f"k >= {low}").to_arrow()
        assert found.num_rows == sum(row[0] >= low for row in wanted), "the log says the right bounds"
    if partitions:
        day = datetime.date(2024, 1, 2)
        there = table(tmp_path).scan(row_filter=f"day = '{day}'").to_arrow()
        assert there.num_rows == sum(row[3] == day for row in wanted)


def test_nothing_is_compacted_unless_asked_for(tmp_path: Path) -> None:
    written(tmp_path, 0)
    run(tmp_path, text(), rows_per_epoch=10)
    assert len(files(tmp_path)) >= 10


def test_files_are_not_larger_than_asked_for(tmp_path: Path) -> None:
    for number in range(3):
        written(tmp_path, number)
        run(tmp_path, compacting(text(), size="6 kb"), rows_per_epoch=10)
    sizes = [task.file.file_size_in_bytes for task in table(tmp_path).scan().plan_files()]
    assert max(sizes) <= 6 << 10
    assert len(read(tmp_path)) == 200


def test_a_large_file_has_few_groups_of_rows(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    written(tmp_path, 0)
    run(tmp_path, compacting(text()), rows_per_epoch=10)
    groups = [pq.ParquetFile(one.removeprefix("file://")).metadata.num_row_groups for one in files(tmp_path)]
    assert set(groups) == {1}


def test_values_of_every_type(tmp_path: Path) -> None:
    names = [*TYPES]
    columns = ", ".join(f"{name} {TYPES[name][0]}" for name in names)
    values = ", ".join(f"{TYPES[name][1]} AS {name}" for name in names)
    nulls = ", ".join("NULL" for _ in names)
    (tmp_path / "in").mkdir()
    sql = (
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');\n"
        f'CREATE TABLE o ({columns}, "a b.c" INT) WITH ({OPTIONS.format(name="table")}, {ON});\n'
        "INSERT INTO o SELECT *, 7 FROM t;\n"
    )
    for number in range(5):
        duckdb.sql(f"SELECT {values} UNION ALL SELECT {nulls}").write_parquet(
            str(tmp_path / "in" / f"{number}.parquet")
        )
        run(tmp_path, sql)
    assert len(files(tmp_path)) < 4
    there = table(tmp_path).scan().to_arrow()
    assert there.column("a b.c").to_pylist() == [7] * 10
    con = duckdb.connect()
    con.register("there", there.select(names))
    texts = ", ".join(f"{name}::VARCHAR" for name in names)
    wanted = con.execute(f"SELECT {texts} FROM (SELECT {values} UNION ALL SELECT {nulls})").fetchall()
    found = con.execute(f"SELECT {texts} FROM there").fetchall()
    assert Counter(map(str, found)) == Counter(map(str, wanted * 5))


def test_a_table_by_key(tmp_path: Path) -> None:
    sql = (
        "CREATE TABLE t (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        "CREATE TABLE o (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
        f"WITH ({OPTIONS.format(name='table')}, {ON});\n"
        "INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k;\n"
    )
    (tmp_path / "in").mkdir()
    wanted: Counter[int] = Counter()
    for number in range(3):
        keys = [number * 40 + k // 2 for k in range(60)]
        wanted += Counter(keys)
        (tmp_path / "in" / f"{number}.json").write_text("".join(f'{{"k": {k}, "v": 1}}\n' for k in keys))
        run(tmp_path, sql, rows_per_epoch=6)
        assert dict(rows_of(tmp_path, ("k", "n"))) == wanted
    assert len(files(tmp_path)) < 8


def test_a_reader_of_snapshots_sees_each_row_once(tmp_path: Path) -> None:
    sink = compacting(text())
    source = (
        f"CREATE TABLE lake (k INT, v STRING) WITH ({OPTIONS.format(name='table')});\n"
        "CREATE TABLE copied (k INT, v STRING) WITH ('connector' = 'filesystem', 'path' = 'copied', 'format' = 'json');\n"
        "INSERT INTO copied SELECT k, v FROM lake;\n"
    )
    wanted: list[int] = []
    for number in range(3):
        wanted += [row[0] for row in written(tmp_path, number)]
        run(tmp_path, sink, rows_per_epoch=10)
        run(tmp_path, source, state="reader")
        lines = [json.loads(line) for one in (tmp_path / "copied").glob("*.json") for line in one.open()]
        assert sorted(line["k"] for line in lines) == sorted(wanted)


Other = Callable[[Path], None]


def _appends(folder: Path) -> None:
    row = pa.table([[-5], ["x"], [Decimal("1.00")], [datetime.date(2024, 1, 1)]], schema=SHAPE)
    table(folder).append(row)


def _deletes(folder: Path) -> None:
    table(folder).delete("k < 20")


OTHERS: dict[str, Other] = {"appends": _appends, "compacts": compact, "deletes": _deletes}


@pytest.mark.parametrize("other", OTHERS)
def test_somebody_else_commits_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """Then nothing is compacted: what the other one has done stays as it is, and no file is left over."""
    written(tmp_path, 0)
    run(tmp_path, text(), rows_per_epoch=10)
    copied = iceberg_compaction._copied
    seen: list[Any] = []

    def copy(*args: Any) -> Any:
        made = copied(*args)
        OTHERS[other](tmp_path)
        seen.append([read(tmp_path), files(tmp_path)])
        return made

    monkeypatch.setattr(iceberg_compaction, "_copied", copy)
    (spec,) = plan_file(compacting(text()), file="p.sql").physical.sinks
    from sqlstream.connectors.api import ConnectorContext
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    sink = REGISTERED.sink(spec, ConnectorContext(CheckpointStore(tmp_path / "other"), str(tmp_path)))
    assert isinstance(sink, IcebergSink)
    told: list[Any] = []
    one = IcebergCompaction("o", sink._iceberg, 1 << 20, told.append)
    one.added(1, lambda: table(tmp_path))
    assert told == []
    assert seen == [[read(tmp_path), files(tmp_path)]]
    assert not [*(tmp_path / "lake").rglob("compacted-*")]
    monkeypatch.undo()
    monkeypatch.setattr(compaction, "FEWEST", 2)
    one.added(2, lambda: table(tmp_path))
    assert read(tmp_path) == seen[0][0]
    assert len(files(tmp_path)) <= 2, "another time it is"


def test_files_of_other_partitions_stay(tmp_path: Path) -> None:
    written(tmp_path, 0, 50)
    run(tmp_path, text(), rows_per_epoch=5)
    old = files(tmp_path)
    with table(tmp_path).update_spec() as spec:
        spec.add_field("k", BucketTransform(2), "half")
    written(tmp_path, 1, 50)
    run(tmp_path, compacting(text()), rows_per_epoch=5)
    assert old <= files(tmp_path)
    assert len(files(tmp_path) - old) <= 8
    assert [row[0] for row in read(tmp_path)] == [k for k in range(100) if k % 3]


def test_a_column_that_older_files_lack_is_null(tmp_path: Path) -> None:
    written(tmp_path, 0)
    run(tmp_path, text(), rows_per_epoch=10)
    with table(tmp_path).update_schema() as schema:
        schema.add_column("more", StringType())
    with table(tmp_path).update_schema() as schema:
        schema.rename_column("more", "other")
    written(tmp_path, 1)
    run(tmp_path, compacting(text()), rows_per_epoch=10)
    assert len(files(tmp_path)) < 8
    assert {row[0] for row in rows_of(tmp_path, ("other",))} == {None}
    assert [row[0] for row in read(tmp_path)] == [k for k in range(200) if k % 3]


def test_what_goes_wrong_is_told_once_and_no_row_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy(*_: Any) -> Any:
        raise OSError("no space left on device")

    monkeypatch.setattr(iceberg_compaction, "_copied", copy)
    told: list[Any] = []
    wanted = written(tmp_path, 0)
    run(tmp_path, compacting(text()), rows_per_epoch=10, tell=told.append)
    assert read(tmp_path) == wanted
    [one] = told
    assert (one.code, one.severity) == ("ENV006", "warning")
    assert one.notes[0] == "no space left on device"


@given(
    steps=st.lists(st.one_of(st.integers(1, 12), st.sampled_from(sorted(OTHERS))), min_size=3, max_size=10)
)
@settings(
    max_examples=examples(4), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_epochs_and_others(tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]) -> None:
    folder = tmp_path_factory.mktemp("t")
    wanted: Counter[int] = Counter()
    number = 0
    for step in [6, *steps]:
        if isinstance(step, int):
            wanted += Counter(row[0] for row in written(folder, number, step * 4))
            number += 50
            run(folder, compacting(text()), rows_per_epoch=4)
        else:
            OTHERS[step](folder)
            wanted.update([-5] if step == "appends" else [])
            if step == "deletes":
                wanted = Counter({k: n for k, n in wanted.items() if k >= 20})
        assert Counter(row[0] for row in rows_of(folder, COLUMNS)) == wanted
