"""Iceberg tables that are kept up to date by key: a snapshot per epoch, over changes, crashes, other writers and copies."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, TruncateTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from sqlstream.connectors.iceberg.sink import log as log_module
from sqlstream.connectors.iceberg.sink.sink import IcebergSink
from sqlstream.planning import plan_file
from sqlstream_operators.errors import DataError, TargetError
from sqlstream_operators.plan.spec import SinkSpec
from tests.connectors.iceberg.keyed import spec_of
from tests.connectors.iceberg.tables import OPTIONS, compact, create, rows_of, table
from tests.connectors.lakehouse.keyed import Driver
from tests.connectors.staged_parts import come, go
from tests.properties.in_process import run_here

SIMPLE = {"k": "BIGINT", "v": "VARCHAR"}


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path, spec_of(SIMPLE))
    yield made
    made.close()


def rows(driver: Driver, *columns: str) -> list[tuple[Any, ...]]:
    names = columns or [column.name for column in driver.spec.schema]
    return sorted(rows_of(driver.folder, names), key=repr)


def snapshots(driver: Driver) -> int:
    return len(table(driver.folder).metadata.snapshots)


def files(driver: Driver) -> set[str]:
    """The files that the table has."""
    return {task.file.file_path for task in table(driver.folder).scan().plan_files()}


def files_ever(driver: Driver) -> set[str]:
    """The files of all snapshots."""
    there = table(driver.folder)
    scans = [there.scan(snapshot_id=one.snapshot_id) for one in there.metadata.snapshots]
    return {task.file.file_path for scan in scans for task in scan.plan_files()}


def in_folder(driver: Driver) -> set[str]:
    """All data files that there are."""
    return {f"file://{one}" for one in (driver.folder / "lake").rglob("*.parquet")}


# ---------------------------------------------------------------------------------------------- what is written


def test_an_epoch_is_one_snapshot_that_has_its_number(driver: Driver) -> None:
    driver.epoch(come((1, "a"), (2, "b")))
    before = snapshots(driver)
    driver.epoch(go((1, "a")), come((2, "c")), go((2, "b")), come((3, "d")))
    assert snapshots(driver) == before + 1
    there = table(driver.folder)
    (last,) = [
        one for one in there.metadata.snapshots if one.snapshot_id == there.metadata.current_snapshot_id
    ]
    assert last.summary is not None
    assert (last.summary["sqlstream.epoch"], last.summary.operation.value) == ("2", "overwrite")


def test_rows_that_are_only_appended_are_written_over_by_key(tmp_path: Path) -> None:
    """And stand beside those of others, which keep other keys, and their columns."""
    shape = Schema(
        NestedField(1, "more", StructType(NestedField(4, "x", IntegerType())), required=False),
        NestedField(2, "k", LongType(), required=False),
        NestedField(3, "v", StringType(), required=False),
    )
    create(tmp_path, shape).append(
        pa.table(
            {
                "more": pa.array([{"x": 1}, {"x": 2}, None], pa.struct([("x", pa.int32())])),
                "k": pa.array([9, 8, None], pa.int64()),
                "v": ["x", "y", "n"],
            }
        )
    )
    driver = Driver(tmp_path, spec_of(SIMPLE, changelog="append"))
    driver.epoch(come((1, "a"), (2, "b")))
    driver.epoch(come((2, "c"), (9, "z")))
    assert rows(driver, "k", "v", "more") == [
        (1, "a", None), (2, "c", None), (8, "y", {"x": 2}), (9, "z", None), (None, "n", None),
    ]  # fmt: skip
    driver.close()


@pytest.mark.parametrize("type_", ["INTEGER", "DATE", "TIMESTAMP", "VARCHAR", "DECIMAL(10, 2)"])
def test_a_row_moves_between_partitions(tmp_path: Path, type_: str) -> None:
    by_type: dict[str, list[Any]] = {
        "INTEGER": [-5, 0, None],
        "DATE": [datetime.date(2024, 1, 1), datetime.date(1, 1, 1), None],
        "TIMESTAMP": [datetime.datetime(2024, 1, 1, 0, 0, 0, 1), datetime.datetime(2024, 1, 1), None],
        "VARCHAR": ["a/b %=é", "", "a", None],
        "DECIMAL(10, 2)": [Decimal("-1.50"), Decimal("0.00"), None],
    }
    values = by_type[type_]
    driver = Driver(tmp_path, spec_of({"k": "BIGINT", "p": type_, "v": "BIGINT"}, partitions=["p"]))
    driver.epoch([((n, value, 0), 1) for n, value in enumerate(values)])
    for turn in range(1, len(values) + 1):
        old = [(n, values[(n + turn - 1) % len(values)], turn - 1) for n in range(len(values))]
        new = [(n, values[(n + turn) % len(values)], turn) for n in range(len(values))]
        driver.epoch(go(*old), come(*new))
        assert sorted(rows_of(tmp_path, ("k", "p", "v"))) == new
    driver.close()


def test_partitions_of_others_that_change_meanwhile(tmp_path: Path) -> None:
    """By hours, buckets and beginnings of texts, of the key and of what is not the key."""
    driver = Driver(tmp_path, spec_of({"k": "BIGINT", "t": "VARCHAR", "d": "DATE"}, ("k", "t")))
    held: dict[tuple[int, str], datetime.date] = {}
    rng = random.Random(4)
    for turn in range(6):
        changed = {(rng.randrange(6), rng.choice(["aa", "ab", "ba"])): rng.randrange(1, 28) for _ in range(6)}
        old = [((k, t, held[k, t]), -1) for k, t in changed if (k, t) in held]
        new = {key: datetime.date(2024, 1, day) for key, day in changed.items()}
        driver.epoch(old, [((k, t, day), 1) for (k, t), day in new.items()])
        held |= new
        assert sorted(rows_of(tmp_path, ("k", "t", "d"))) == sorted((k, t, d) for (k, t), d in held.items())
        with table(tmp_path).update_spec() as spec:
            if turn == 0:
                spec.add_field("k", BucketTransform(4), "bucket")
            elif turn == 1:
                spec.add_field("t", TruncateTransform(1), "first")
            elif turn == 2:
                spec.remove_field("bucket")
                spec.add_field("d", DayTransform(), "day")
    driver.close()


def test_files_without_changed_keys_are_not_touched(driver: Driver) -> None:
    for n in range(4):
        driver.epoch(come(*((n * 100 + i, "x") for i in range(100))))
    before = files(driver)
    driver.epoch(go((250, "x")), come((250, "y"), (260, "y")), go((260, "x")))
    assert len(before & files(driver)) == 3


def test_several_files_of_a_size(tmp_path: Path) -> None:
    spec = spec_of(SIMPLE)
    small = {**spec.options, "sink.rolling-policy.file-size": "200 kb"}
    driver = Driver(tmp_path, SinkSpec("o", "iceberg", small, spec.schema, spec.primary_key, (), "retract"))
    driver.epoch([((n, f"v{n}"), 1) for n in range(60_000)])
    assert len(files(driver)) > 3
    driver.epoch(go((5, "v5")), come((5, "y")))
    assert dict(rows_of(tmp_path, ("k", "v"))) == {n: "y" if n == 5 else f"v{n}" for n in range(60_000)}
    driver.close()


def test_columns_that_others_rename_widen_and_add(driver: Driver) -> None:
    """A renamed column of ours is refused; rows that stay keep what others have put into theirs."""
    driver.epoch(come((1, "a"), (2, "b")))
    with table(driver.folder).update_schema() as schema:
        schema.add_column("more", StringType())
    there = table(driver.folder)
    there.overwrite(pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"], "more": ["m1", "m2"]}))
    with table(driver.folder).update_schema() as schema:
        schema.rename_column("more", "other")
    driver.start()
    driver.epoch(go((1, "a")), come((1, "c")))
    assert rows(driver, "k", "v", "other") == [(1, "c", None), (2, "b", "m2")]


def test_columns_with_any_names(tmp_path: Path) -> None:
    names = ["a b", "a.b", "select", 'q"', "Ä"]
    driver = Driver(tmp_path, spec_of(dict.fromkeys(names, "BIGINT"), ("a.b", 'q"')))
    driver.epoch(come((1, 2, 3, 4, 5), (2, 3, 4, 5, 6)))
    driver.epoch(go((1, 2, 3, 4, 5)), come((9, 2, 9, 4, 9)))
    assert sorted(rows_of(tmp_path, names)) == [(2, 3, 4, 5, 6), (9, 2, 9, 4, 9)]
    driver.close()


# ---------------------------------------------------------------------------------------------- what is refused


def test_a_null_where_the_table_has_none(driver: Driver) -> None:
    create(
        driver.folder,
        Schema(
            NestedField(1, "k", LongType(), required=True), NestedField(2, "v", StringType(), required=True)
        ),
    )
    driver.epoch(come((1, "a")))
    with pytest.raises(DataError, match="a row of `o` is NULL in `v`"):
        driver.prepare(come((2, None)))
    driver.epoch(go((1, "a")), come((2, "b")))
    assert rows(driver) == [(2, "b")]


def test_two_that_claim_a_table_at_once(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog takes both, and the last one stays; the other one is refused before its rows are there."""
    other = Driver(driver.folder, driver.spec, state="other")
    sink = driver.sink
    assert isinstance(sink, IcebergSink)
    sink.check(previous=0)
    stale = table(driver.folder)
    theirs = other.prepare(come((2, "b")))
    monkeypatch.setattr(sink._iceberg, "_there", lambda: stale)
    sink._iceberg.claim()
    monkeypatch.undo()
    with pytest.raises(TargetError, match="kept up to date by another writer"):
        other.commit(theirs)
    driver.epoch(come((1, "a")))
    assert rows(driver) == [(1, "a")]
    other.close()


# ------------------------------------------------------------------------------------- crashes and other writers


@pytest.mark.parametrize("between", ["append", "compact", "both", "property"])
def test_commits_of_others_between_the_look_and_the_commit(
    driver: Driver, between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merge is done again over what they have left, once, and leaves no file of the first try."""
    driver.epoch(*(come((n, "x")) for n in range(3)))
    made, times = log_module._commit, []

    def commit(*given_: Any) -> None:
        times.append(1)
        if len(times) == 1:
            there = table(driver.folder)
            if between in ("append", "both"):
                there.append(pa.table({"k": pa.array([50], pa.int64()), "v": ["of others"]}))
            if between in ("compact", "both"):
                compact(driver.folder)
            if between == "property":
                there.transaction().set_properties({"a": "b"}).commit_transaction()
        made(*given_)

    monkeypatch.setattr(log_module, "_commit", commit)
    before = in_folder(driver)
    driver.epoch(go((1, "x")), come((1, "y"), (9, "z")))
    assert len(times) == (1 if between == "property" else 2)
    others = [(50, "of others")] if between in ("append", "both") else []
    assert rows(driver) == sorted([(0, "x"), (1, "y"), (2, "x"), *others, (9, "z")], key=repr)
    assert in_folder(driver) - before <= files_ever(driver)


def test_an_answer_that_is_lost(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit was made: its files stay, and it is not made twice."""
    driver.epoch(come((1, "a"), (2, "b")))
    made, times = log_module._commit, []

    def commit(*given_: Any) -> None:
        times.append(1)
        made(*given_)
        if len(times) == 1:
            raise ConnectionResetError("the connection was reset")

    monkeypatch.setattr("sqlstream.connectors.iceberg.library.PAUSE_S", 0)
    monkeypatch.setattr(log_module, "_commit", commit)
    driver.epoch(go((1, "a")), come((1, "c")))
    assert len(times) == 1
    assert rows(driver) == [(1, "c"), (2, "b")]


# --------------------------------------------------------------------------------------------------- a pipeline


def test_a_pipeline_over_runs_and_an_edit(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()

    def text(more: str = "", extra: str = "") -> str:
        return (
            "CREATE TABLE t (K INT, Day DATE) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
            f"CREATE TABLE o (K INT, Day DATE, n BIGINT{more}, PRIMARY KEY (k, day) NOT ENFORCED) PARTITIONED BY (DAY)\n"
            f"WITH ({OPTIONS.format(name='table')});\n"
            f"INSERT INTO o SELECT k, day, count(*){extra} FROM t GROUP BY k, day;\n"
        )

    for number, keys in enumerate([(1, 2), (2, 3)]):
        lines = [json.dumps({"K": k, "Day": "2024-01-01"}) + "\n" for k in keys]
        (tmp_path / "in" / f"{number}.json").write_text("".join(lines))
        run_here(plan_file(text(), file="p.sql"), tmp_path)
    day = datetime.date(2024, 1, 1)
    assert sorted(rows_of(tmp_path, ("K", "Day", "n"))) == [(1, day, 1), (2, day, 2), (3, day, 1)]
    edited = plan_file(text(", twice BIGINT", ", 2 * count(*)"), file="p.sql")
    run_here(edited, tmp_path, accept=["alter:o"])
    assert sorted(rows_of(tmp_path, ("K", "Day", "n", "twice"))) == [
        (1, day, 1, 2), (2, day, 2, 4), (3, day, 1, 2),
    ]  # fmt: skip
