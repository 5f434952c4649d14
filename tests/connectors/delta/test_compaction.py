"""Small files become larger ones: no row is lost, there twice, or another one, whoever else writes the table meanwhile."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples

deltalake = pytest.importorskip("deltalake")

from sqlstream.connectors.delta.sink import compaction as delta_compaction  # noqa: E402
from sqlstream.connectors.lakehouse import compaction  # noqa: E402
from tests.connectors.delta.reading import rows_of  # noqa: E402
from tests.connectors.delta.test_sink import TYPES, run, text, written  # noqa: E402
from tests.connectors.delta.test_sink import rows as read  # noqa: E402

ON = "'auto-compaction' = 'TRUE'"


@pytest.fixture(autouse=True)
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FEWEST", 4)


def compacting(sql: str, *, size: str = "") -> str:
    options = ON + (f", 'compaction.file-size' = '{size}'" if size else "")
    return sql.replace("'table-path' = 'table'", f"'table-path' = 'table', {options}")


def files(folder: Path) -> list[str]:
    return [Path(uri).name for uri in deltalake.DeltaTable(str(folder)).file_uris()]


def log(folder: Path) -> list[list[dict[str, Any]]]:
    """The actions of each version."""
    return [
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted((folder / "_delta_log").glob("*.json"))
    ]


@pytest.mark.parametrize("partitions", ["", "day"])
def test_rows_stay_and_files_become_fewer(tmp_path: Path, partitions: str) -> None:
    wanted = []
    for number in range(4):
        wanted += written(tmp_path, number)
        run(tmp_path, compacting(text(partitions)), rows_per_epoch=10)
        assert read(tmp_path) == wanted
    days = 3 if partitions else 1
    assert len(files(tmp_path / "table")) <= 4 * days < 10 * days, "40 epochs"
    for actions in log(tmp_path / "table"):
        if any("remove" in action for action in actions):
            changes = [one["dataChange"] for a in actions for one in a.values() if "dataChange" in one]
            assert changes
            assert not any(changes), "no reader of changes sees rows"
    data = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_dataset()
    for low in (0, 77, 250):
        found = data.to_table(filter=pa.compute.field("k") >= low)
        assert found.num_rows == sum(row[0] >= low for row in wanted), "the log says the right bounds"


def test_nothing_is_compacted_unless_asked_for(tmp_path: Path) -> None:
    written(tmp_path, 0)
    run(tmp_path, text(), rows_per_epoch=10)
    assert len(files(tmp_path / "table")) >= 10


def test_files_are_not_larger_than_asked_for(tmp_path: Path) -> None:
    wanted = written(tmp_path, 0, 200)
    run(tmp_path, compacting(text(), size="4 kb"), rows_per_epoch=10)
    assert read(tmp_path) == wanted
    sizes = [(tmp_path / "table" / name).stat().st_size for name in files(tmp_path / "table")]
    assert len(sizes) > 2
    assert max(sizes) <= 4096


@pytest.mark.parametrize("partition", [None, "b", "i8", "s", "day", "d", "ts"])
def test_values_of_every_type(tmp_path: Path, partition: str | None) -> None:
    """The same pipeline with and without; those of a partition that is written in several ways stay in their files."""
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in TYPES.items())
    values = ", ".join(f"{value} AS {name}" for name, (_, value) in TYPES.items())
    nulls = ", ".join(["NULL"] * len(TYPES))
    kept = f" WHERE {partition} IS NOT NULL" if partition else ""
    (tmp_path / "in").mkdir()
    for number in range(6):
        path = tmp_path / "in" / f"{number}.parquet"
        duckdb.sql(f"COPY (SELECT * FROM (SELECT {values} UNION ALL SELECT {nulls}){kept}) TO '{path}'")
    by = f" PARTITIONED BY ({partition})" if partition else ""
    sql = (
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');\n"
        f"CREATE TABLE o ({columns}){by} WITH ('connector' = 'delta', 'table-path' = 'table');\n"
        "INSERT INTO o SELECT * FROM t;\n"
    )
    epoch = 1 if partition else 2
    run(tmp_path, sql.replace("'table'", "'plain'"), rows_per_epoch=epoch)
    run(tmp_path, compacting(sql), rows_per_epoch=epoch, state="other")
    assert _texts(tmp_path / "table") == _texts(tmp_path / "plain")
    assert len(files(tmp_path / "plain")) == 6
    assert len(files(tmp_path / "table")) == (6 if partition in ("d", "ts") else 2)


def _texts(folder: Path) -> Counter[str]:
    return Counter(map(str, rows_of(folder)))


Other = Callable[[Path], None]


def _appends(folder: Path) -> None:
    deltalake.write_deltalake(
        str(folder), pa.table({"k": pa.array([-1], pa.int32())}), mode="append", schema_mode="merge"
    )


def _compacts(folder: Path) -> None:
    deltalake.DeltaTable(str(folder)).optimize.compact()


def _deletes(folder: Path) -> None:
    deltalake.DeltaTable(str(folder)).delete("k < 20")


OTHERS: dict[str, Other] = {"appends": _appends, "compacts": _compacts, "deletes": _deletes}


@pytest.mark.parametrize("other", OTHERS)
def test_somebody_else_commits_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """Then nothing is compacted: what the other one has done stays as it is, and no file is left over."""
    written(tmp_path, 0)
    run(tmp_path, text(), rows_per_epoch=10)
    copied = delta_compaction._Copy.of
    seen: list[Any] = []

    def of(*args: Any) -> Any:
        made = copied(*args)
        assert made
        OTHERS[other](tmp_path / "table")
        seen.append([sorted(map(str, rows_of(tmp_path / "table"))), {*files(tmp_path / "table")}])
        return made

    monkeypatch.setattr(delta_compaction._Copy, "of", of)
    place = str(tmp_path / "table")
    told: list[Any] = []
    compacting = delta_compaction.DeltaCompaction("o", place, 1 << 20, told.append)
    compacting.added(1, lambda: deltalake.DeltaTable(place))
    assert told == []
    assert seen == [[sorted(map(str, rows_of(tmp_path / "table"))), {*files(tmp_path / "table")}]]
    assert not [*(tmp_path / "table").glob("part-compacted-*")]
    monkeypatch.undo()
    monkeypatch.setattr(compaction, "FEWEST", 2)
    compacting.added(2, lambda: deltalake.DeltaTable(place))
    assert sorted(map(str, rows_of(tmp_path / "table"))) == seen[0][0]
    assert len(files(tmp_path / "table")) <= 2, "another time it is"


def test_a_table_by_key(tmp_path: Path) -> None:
    sql = (
        "CREATE TABLE t (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        "CREATE TABLE o (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
        f"WITH ('connector' = 'delta', 'table-path' = 'table', {ON});\n"
        "INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k;\n"
    )
    (tmp_path / "in").mkdir()
    wanted: Counter[int] = Counter()
    for number in range(3):
        keys = [number * 40 + k // 2 for k in range(60)]
        wanted += Counter(keys)
        (tmp_path / "in" / f"{number}.json").write_text("".join(f'{{"k": {k}, "v": 1}}\n' for k in keys))
        run(tmp_path, sql, rows_per_epoch=6)
        assert dict(rows_of(tmp_path / "table")) == wanted
    assert len(files(tmp_path / "table")) < 8


def test_a_reader_of_versions_sees_each_row_once(tmp_path: Path) -> None:
    sink = compacting(text())
    source = (
        "CREATE TABLE lake (k INT, v STRING) WITH ('connector' = 'delta', 'table-path' = 'table'{});\n"
        "CREATE TABLE copied (k INT, v STRING) "
        "WITH ('connector' = 'filesystem', 'path' = 'copied{}', 'format' = 'changelog-json');\n"
        "INSERT INTO copied SELECT k, v FROM lake;\n"
    )
    wanted: list[int] = []
    for number in range(3):
        wanted += [row[0] for row in written(tmp_path, number)]
        run(tmp_path, sink, rows_per_epoch=10)
        for name, changes in (("", ""), ("changes", ", 'readChangeFeed' = 'true'")):
            run(tmp_path, source.format(changes, name), state=f"reader{name}")
            lines = [
                json.loads(line)
                for file in (tmp_path / f"copied{name}").glob("*.json")
                for line in file.read_text().splitlines()
            ]
            assert sorted(line.get("data", line)["k"] for line in lines) == sorted(wanted)


def _file(folder: Path, name: str, table: pa.Table) -> None:
    """A file that somebody else has added to the table, whatever is in it."""
    from deltalake.transaction import AddAction

    path = folder / name
    pq.write_table(table, path)
    there = deltalake.DeltaTable(str(folder))
    statistics = json.dumps({"numRecords": table.num_rows})
    action = AddAction(name, path.stat().st_size, {}, 1, True, statistics)
    there.create_write_transaction([action], "append", there.schema(), None)


DAY = pa.array([datetime.date(2024, 1, 1)])
STAYS = {
    "another type": pa.table({"k": pa.array([1], pa.int64()), "v": ["x"]}),
    "more columns": pa.table({"k": pa.array([1], pa.int32()), "w": ["x"]}),
    "a name in another case": pa.table({"K": pa.array([1], pa.int32())}),
}


@pytest.mark.parametrize("name", STAYS)
def test_files_of_another_shape_stay(tmp_path: Path, name: str) -> None:
    written(tmp_path, 0, 30)
    run(tmp_path, text())
    _file(tmp_path / "table", "foreign.parquet", STAYS[name])
    written(tmp_path, 1, 100)
    run(tmp_path, compacting(text()), rows_per_epoch=10)
    assert "foreign.parquet" in files(tmp_path / "table")
    assert len(files(tmp_path / "table")) < 7


def test_a_column_that_older_files_lack_is_null(tmp_path: Path) -> None:
    written(tmp_path, 0, 30)
    run(tmp_path, text())
    _file(tmp_path / "table", "foreign.parquet", pa.table({"k": pa.array([-7], pa.int32())}))
    written(tmp_path, 1, 100)
    run(tmp_path, compacting(text()), rows_per_epoch=10)
    assert "foreign.parquet" not in files(tmp_path / "table")
    assert (-7, None, None, None) in rows_of(tmp_path / "table")


def _table(reader: int, writer: int, *features: str, **configuration: str) -> Any:
    protocol = SimpleNamespace(
        min_reader_version=reader,
        min_writer_version=writer,
        writer_features=list(features) or None,
        reader_features=None,
    )
    of = {name.replace("__", "."): value for name, value in configuration.items()}
    return SimpleNamespace(protocol=lambda: protocol, metadata=lambda: SimpleNamespace(configuration=of))


@pytest.mark.parametrize(
    ("table", "known"),
    [
        (_table(1, 2), True),
        (_table(1, 4), True),
        (_table(2, 5), False),
        (_table(1, 6), False),
        (_table(1, 7, "appendOnly", "timestampNtz"), True),
        (_table(3, 7, "deletionVectors"), False),
        (_table(1, 7, "rowTracking", "appendOnly"), False),
        (_table(1, 7, "somethingNew"), False),
        (_table(1, 2, delta__columnMapping__mode="name"), False),
        (_table(1, 2, delta__columnMapping__mode="none"), True),
    ],
)
def test_tables_with_features_that_are_not_known_stay(table: Any, known: bool) -> None:
    assert delta_compaction._is_known(table) is known


def test_what_goes_wrong_is_told_once_and_no_row_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(*_: Any) -> Any:
        raise OSError("no space left on device")

    monkeypatch.setattr(delta_compaction._Copy, "of", of)
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
            OTHERS[step](folder / "table")
            if step == "appends":
                wanted[-1] += 1
            elif step == "deletes":
                wanted = Counter({k: n for k, n in wanted.items() if k >= 20})
        assert Counter(row[0] for row in rows_of(folder / "table", "k")) == wanted
