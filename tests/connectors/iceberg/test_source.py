"""Iceberg tables as sources: which rows are read, when, and which columns, however the table was changed before."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType

from sqlstream.connectors.api import Limits
from sqlstream.connectors.iceberg.source.factory import IcebergSourceFactory
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.iceberg.deletes import commit, positions
from tests.connectors.iceberg.reading import Reading, table_spec
from tests.connectors.iceberg.tables import Row, compact, create, expire, table

SHAPE = pa.schema([("k", pa.int64()), ("v", pa.string())])


def append(folder: Path, *keys: int) -> list[Row]:
    """A snapshot that adds rows with these keys."""
    table(folder).append(pa.table([[*keys], [f"v{k}" for k in keys]], schema=SHAPE))
    return [(k, f"v{k}") for k in keys]


def reading(
    folder: Path, duck: DuckSession, options: Mapping[str, str] | None = None, **more: Any
) -> Reading:
    return Reading(table_spec(options, **more), folder, duck)


def test_a_run_reads_the_table_and_the_next_what_came(tmp_path: Path, duck: DuckSession) -> None:
    create(tmp_path, SHAPE)
    first = append(tmp_path, 1, 2) + append(tmp_path, 3)
    one = reading(tmp_path, duck)
    rows, at = one.all()
    assert sorted(rows) == first
    more = append(tmp_path, 4)
    assert one.all(at)[0] == [], "a run ends with what there was when it began"
    assert one.again().all(at)[0] == more
    assert one.again().source.lag(at) == 1


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_table_without_rows_at_first(tmp_path: Path, duck: DuckSession, version: str) -> None:
    """Tables of version 1 have no sequence numbers."""
    create(tmp_path, SHAPE, properties={"format-version": version})
    one = reading(tmp_path, duck, {"streaming": "true"})
    rows, at = one.all()
    assert rows == []
    more = append(tmp_path, 1) + append(tmp_path, 2)
    compact(tmp_path)
    more += append(tmp_path, 3)
    assert one.all(at)[0] == more
    assert sorted(one.history(one.all(at)[1])) == more


@pytest.mark.parametrize(
    "start", ["start-snapshot-id", "start-snapshot-timestamp", "snapshot-id", "as-of-timestamp"]
)
def test_where_it_begins(tmp_path: Path, duck: DuckSession, start: str) -> None:
    create(tmp_path, SHAPE)
    rows = append(tmp_path, 1) + append(tmp_path, 2)
    snapshot = table(tmp_path).snapshots()[1]
    rows += append(tmp_path, 3)
    moment = datetime.datetime.fromtimestamp(snapshot.timestamp_ms / 1000, datetime.UTC).replace(tzinfo=None)
    value = moment.isoformat(" ") if start.endswith("timestamp") else str(snapshot.snapshot_id)
    one = reading(tmp_path, duck, {start: value})
    found, at = one.all()
    assert sorted(found) == (rows[1:] if start.startswith("start") else rows[:2])
    append(tmp_path, 4)
    assert len(one.again().all(at)[0]) == (1 if start.startswith("start") else 0)
    assert sorted(one.history(at)) == sorted(found)


def test_what_is_not_there(tmp_path: Path, duck: DuckSession) -> None:
    assert "there is no Iceberg table" in reading(tmp_path, duck).refused().message
    create(tmp_path, SHAPE)
    append(tmp_path, 1)
    for options, said in (
        ({"snapshot-id": "7"}, "has no snapshot 7"),
        ({"start-snapshot-id": "7"}, "does not follow from a snapshot 7"),
        ({"as-of-timestamp": "2001-01-01 00:00:00"}, "has no snapshot of 2001-01-01 00:00:00 UTC or earlier"),
        (
            {"start-snapshot-timestamp": "2999-01-01 00:00:00"},
            "has no snapshot of 2999-01-01 00:00:00 UTC or later",
        ),
    ):
        found = reading(tmp_path, duck, options).refused()
        assert (found.code, said in found.message) == ("DAT004", True), found


def test_columns_are_found_by_their_ids(tmp_path: Path, duck: DuckSession) -> None:
    """Renamed, widened, dropped and made again, added later, inside of others too: never by the names in files."""
    inner = pa.struct([("a", pa.int32()), ("b", pa.string())])
    shape = pa.schema(
        [
            ("k", pa.int32()),
            ("v", pa.string()),
            ("d", pa.decimal128(9, 2)),
            ("s", inner),
            ("l", pa.list_(inner)),
        ]
    )
    create(tmp_path, shape)
    value = {"a": 1, "b": "x"}
    table(tmp_path).append(pa.table([[1], ["old"], [Decimal("1.50")], [value], [[value]]], schema=shape))
    with table(tmp_path).update_schema() as schema:
        schema.rename_column("v", "was")
        schema.update_column("k", LongType())
    with table(tmp_path).update_schema(allow_incompatible_changes=True) as schema:
        schema.rename_column("k", "v")
        schema.delete_column("d")
        schema.rename_column(("s", "a"), "c")
        schema.delete_column(("l", "element", "b"))
    with table(tmp_path).update_schema() as schema:
        schema.add_column("d", StringType())
        schema.add_column(("s", "a"), LongType())
        schema.add_column(("l", "element", "b"), LongType())
    declared = {
        "v": "BIGINT",
        "WAS": "VARCHAR",
        "d": "VARCHAR",
        "s": "STRUCT(a BIGINT, b VARCHAR, c BIGINT)",
        "l": "STRUCT(a INTEGER, b BIGINT)[]",
    }
    rows, _ = reading(tmp_path, duck, schema=declared).all()
    assert rows == [(1, "old", None, {"a": None, "b": "x", "c": 1}, [{"a": 1, "b": None}])]


def test_the_table_as_it_was_has_the_columns_that_it_had(tmp_path: Path, duck: DuckSession) -> None:
    create(tmp_path, SHAPE)
    rows = append(tmp_path, 1)
    snapshot = table(tmp_path).snapshots()[0].snapshot_id
    with table(tmp_path).update_schema() as schema:
        schema.rename_column("v", "w")
    assert reading(tmp_path, duck, {"snapshot-id": str(snapshot)}).all()[0] == rows
    found = reading(tmp_path, duck).refused()
    assert (found.code, "there is no `v`" in str(found.notes)) == ("DAT018", True)


def test_files_without_ids_and_without_their_partition(tmp_path: Path, duck: DuckSession) -> None:
    """As a table has them that was one of Hive: names are mapped, and the partition's value is in the log alone."""
    schema = Schema(
        NestedField(1, "k", LongType(), required=False),
        NestedField(2, "day", DateType(), required=False),
        NestedField(3, "v", StringType(), required=False),
    )
    parts = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    there = create(tmp_path, schema, partitions=parts)
    path = tmp_path / "lake" / "hive.parquet"
    pq.write_table(pa.table({"V2": ["x"], "k": [1]}), path)
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(19_000),
        record_count=1,
        file_size_in_bytes=path.stat().st_size,
        spec_id=0,
    )
    with there.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(file)
    declared = {"k": "BIGINT", "day": "DATE", "v": "VARCHAR"}
    one = reading(tmp_path, duck, schema=declared)
    with pytest.raises(Exception, match="columns can't be matched"):
        one.all()
    mapping = '[{"field-id": 1, "names": ["k"]}, {"field-id": 3, "names": ["v", "V2"]}]'
    with table(tmp_path).transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": mapping})
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=19_000)
    assert one.again().all()[0] == [(1, day, "x")]


def test_metadata_columns(tmp_path: Path, duck: DuckSession) -> None:
    create(tmp_path, SHAPE)
    append(tmp_path, 1)
    first = table(tmp_path).current_snapshot()
    one = reading(tmp_path, duck, metadata=[("s", "_snapshot_id", "BIGINT"), ("n", "file.name", "VARCHAR")])
    rows, at = one.all()
    assert first is not None
    assert rows[0][2] == first.snapshot_id
    assert rows[0][3].endswith(".parquet")
    append(tmp_path, 2)
    assert one.again().all(at)[0][0][2] == table(tmp_path).snapshots()[1].snapshot_id


@pytest.mark.parametrize("skips", [False, True])
def test_snapshots_that_change_rows(tmp_path: Path, duck: DuckSession, skips: bool) -> None:
    options = {"streaming-skip-overwrite-snapshots": "true", "streaming-skip-delete-snapshots": "true"}
    create(tmp_path, SHAPE)
    rows = append(tmp_path, 1, 2) + append(tmp_path, 3)
    one = reading(tmp_path, duck, {"streaming": "true", **(options if skips else {})})
    found, at = one.all()
    added = append(tmp_path, 4)
    table(tmp_path).delete("k = 3")
    table(tmp_path).overwrite(pa.table([[7], ["v7"]], schema=SHAPE), overwrite_filter="k = 4")
    table(tmp_path).delete("k = 1")  # of a file with another row: it is written anew
    last = append(tmp_path, 5)
    assert sorted(found) == rows
    if skips:
        more, at = one.all(at)
        assert more == [*added, (7, "v7"), *last], (
            "the library overwrites in two snapshots, of which one appends"
        )
        assert one.source.passed_over() == ["t: 3 snapshots that change rows"]
        assert sorted(one.history(at)) == sorted(rows + more)
        return
    epoch = one.epoch(at)
    assert epoch.rows == added, "what is before it is read"
    refused = one.refused(epoch.after)
    assert (refused.code, refused.help) == (
        "DAT019",
        "write 'streaming-skip-delete-snapshots' = 'true' to pass over such snapshots; or 'read-change-feed' = 'true', "
        "with a new state directory, to read what changes, too",
    )
    assert "'delete'" in refused.notes[1]


def test_what_was_expired(tmp_path: Path, duck: DuckSession) -> None:
    create(tmp_path, SHAPE)
    rows = append(tmp_path, 1)
    one = reading(tmp_path, duck, {"streaming": "true"})
    found, at = one.all()
    more = append(tmp_path, 2)
    expire(tmp_path)
    assert one.again().all(at)[0] == more, "nothing that was not read is gone"
    _, at = one.again().all(at)
    append(tmp_path, 3)
    last = append(tmp_path, 4)
    expire(tmp_path)
    refused = one.again().refused(at)
    assert (refused.code, "others were expired" in refused.notes[1]) == ("DAT015", True), refused
    with pytest.raises(DiagnosticError) as raised:
        one.again().source.until(at)
    assert raised.value.diagnostics[0].code == "DAT008"
    agreed = one.again(accepted=("lost:t",))
    assert agreed.all(at)[0] == last
    assert [d.code for d in agreed.told] == ["DAT015"]
    assert found == rows


def test_the_table_as_it_was_is_expired_while_it_is_read(tmp_path: Path, duck: DuckSession) -> None:
    create(tmp_path, SHAPE)
    append(tmp_path, 1, 2, 3)
    one = reading(tmp_path, duck, {"streaming": "true"})
    epoch = one.epoch(one.source.initial_position(), Limits(rows=2))
    last = append(tmp_path, 4)
    expire(tmp_path)
    assert "it was expired" in one.again().refused(epoch.after).notes[1]
    assert one.again(accepted=("lost:all",)).all(epoch.after)[0] == last


def test_a_table_that_was_rolled_back_or_made_anew(tmp_path: Path, duck: DuckSession) -> None:
    create(tmp_path, SHAPE)
    append(tmp_path, 1)
    first = table(tmp_path).snapshots()[0].snapshot_id
    append(tmp_path, 2)
    one = reading(tmp_path, duck, {"streaming": "true"})
    _, at = one.all()
    table(tmp_path).manage_snapshots().rollback_to_snapshot(first).commit()
    more = append(tmp_path, 3)
    assert "it was rolled back" in one.again().refused(at).notes[1]
    assert one.again(accepted=("lost:t",)).all(at)[0] == more
    from tests.connectors.iceberg.tables import catalog

    catalog(tmp_path).drop_table(("db", "table"))
    create(tmp_path, SHAPE)
    rows = append(tmp_path, 9)
    assert "made anew" in one.again().refused(at).notes[1]
    assert one.again(accepted=("lost:t",)).all(at)[0] == rows


def test_deletes_of_single_rows(tmp_path: Path, duck: DuckSession) -> None:
    """The table as it is has not the rows that are deleted; a snapshot that deletes some changes rows."""
    create(tmp_path, SHAPE)
    rows = append(tmp_path, 1, 2)
    one = reading(tmp_path, duck, {"streaming": "true"})
    _, at = one.all()
    (task,) = table(tmp_path).scan().plan_files()
    commit(tmp_path, deletes=[positions(tmp_path, {task.file.file_path: [0]})])
    refused = one.again().refused(at)
    assert (refused.code, "1 file of deletes is added" in refused.notes[1]) == ("DAT019", True), refused
    assert reading(tmp_path, duck).all()[0] == rows[1:]
    before = table(tmp_path).snapshots()[0].snapshot_id
    assert reading(tmp_path, duck, {"snapshot-id": str(before)}).all()[0] == rows
    assert reading(tmp_path, duck, {"streaming-skip-delete-snapshots": "true"}).all(at)[0] == []


def test_a_file_that_is_gone_is_told(tmp_path: Path, duck: DuckSession) -> None:
    create(tmp_path, SHAPE)
    append(tmp_path, 1)
    (task,) = table(tmp_path).scan().plan_files()
    Path(task.file.file_path.removeprefix("file://")).unlink()
    found = reading(tmp_path, duck).refused()
    assert (found.code, "it is not there" in found.notes[1]) == ("DAT018", True)


@pytest.mark.parametrize("type_", ["INTEGER", "VARCHAR", "DECIMAL(18, 0)"])
def test_columns_of_other_types_are_refused(tmp_path: Path, duck: DuckSession, type_: str) -> None:
    create(tmp_path, SHAPE)
    found = reading(tmp_path, duck, schema={"k": type_}).refused()
    assert (found.code, "`k` is BIGINT there" in str(found.notes)) == ("DAT018", True)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"uri": "sqlite:///./lake/../lake/catalog.db", "warehouse": "elsewhere"}, True),
        ({"catalog-table": "other"}, False),
        ({"catalog-database": "other"}, False),
        ({"uri": "sqlite:///other/catalog.db"}, False),
        ({"catalog-type": "rest", "uri": "http://localhost:8181"}, False),
    ],
)
def test_a_pipeline_does_not_read_what_it_writes(
    tmp_path: Path, changed: Mapping[str, str], same: bool
) -> None:
    source = table_spec()
    sink = SinkSpec("o", "iceberg", {**source.options, **changed}, ())
    found = IcebergSourceFactory().feeds_on(source, sink, str(tmp_path))
    assert found == ("sink `o` writes the same table" if same else None)
