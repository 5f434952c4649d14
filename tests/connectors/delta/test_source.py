"""Delta tables as sources, written by Delta's library: where reading begins and ends, and what each version adds."""

from __future__ import annotations

import datetime
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.api import Limits
from sqlstream.connectors.delta.source.log import DeltaLog
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.delta.tables import Reading, Table, table_spec
from tests.connectors.harness import source_spec

deltalake = pytest.importorskip("deltalake")


@pytest.fixture(params=[False, True], ids=["plain", "partitioned"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    return Table(tmp_path / "lake", partitioned=request.param)


def reading(table: Table, duck: DuckSession, **options: str) -> Reading:
    return Reading(table_spec(options), table.path.parent, duck)


def test_the_table_as_it_is_and_then_what_each_version_adds(table: Table, duck: DuckSession) -> None:
    first = table.append(5) + table.append(4)
    one = reading(table, duck, mode="streaming")
    rows, at = one.all()
    assert sorted(rows) == first
    assert not one.source.bounded
    for count in (3, 1):
        added = table.append(count)
        table.delta.optimize.compact()
        rows, at = one.all(at)
        assert sorted(rows) == added, "and nothing of what was written anew"
    rows, at = one.again().all(at)
    assert not rows
    assert sorted(one.history(at)) == [(k, f"v{k % 3}") for k in range(table.rows)]


def test_a_run_ends_with_the_versions_that_it_found(table: Table, duck: DuckSession) -> None:
    table.append(5)
    one = reading(table, duck)
    assert one.source.bounded
    begin = one.source.initial_position()
    first = one.epoch(begin, Limits(rows=2))
    table.append(3)  # while it runs
    rows, at = one.all(first.after)
    assert sorted(first.rows + rows) == [(k, f"v{k % 3}") for k in range(5)]
    assert one.epoch(at).exhausted
    later, _ = one.again().all(at)
    assert sorted(later) == [(k, f"v{k % 3}") for k in range(5, 8)], "the next run has them"


@pytest.mark.parametrize("start", ["0", "1", "2", "latest"])
def test_a_version_to_begin_with(table: Table, duck: DuckSession, start: str) -> None:
    added = [table.append(3), table.append(2), table.append(4)]
    one = reading(table, duck, startingVersion=start, mode="streaming")
    at = one.source.initial_position()
    table.append(1)
    rows, _ = one.again().all(at)
    number = 3 if start == "latest" else int(start)
    assert sorted(rows) == [row for version in added[number:] for row in version] + [(9, "v0")]


@pytest.mark.parametrize("start", ["5", "77"])
def test_a_version_that_is_not_there(table: Table, duck: DuckSession, start: str) -> None:
    for _ in range(3):
        table.append(1)
    found = reading(table, duck, startingVersion=start).refused()
    assert (found.code, found.message) == ("DAT004", f"the Delta table of `t` has no version {start}")
    assert "version 0 (" in found.notes[1]
    assert "to version 2 (" in found.notes[1]


def test_times(table: Table, duck: DuckSession) -> None:
    """A version was made when its commit was written, whatever the clocks say: Delta's protocol has it so."""
    base = 1_700_000_000
    added = []
    for version in range(4):
        added.append(table.append(2))
        written = base + (version * 10 if version != 2 else 5)  # a clock that was set back
        os.utime(table.commit(version), (written, written))

    def at(seconds: float) -> str:
        moment = datetime.datetime.fromtimestamp(base + seconds, datetime.UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S.%f")

    def begun(name: str, seconds: float) -> list[Any]:
        rows, _ = reading(table, duck, **{name: at(seconds)}).all()
        return sorted(rows)

    every = [row for version in added for row in version]
    assert begun("startingTimestamp", 0) == every
    assert begun("startingTimestamp", 9) == every[2:]
    assert begun("startingTimestamp", 10) == every[2:]
    assert begun("startingTimestamp", 10.0005) == every[4:], "version 2 counts as made behind version 1"
    assert begun("startingTimestamp", 31) == [], "from then on"
    assert begun("timestampAsOf", 9) == every[:2]
    assert begun("timestampAsOf", 10) == every[:4]
    assert begun("timestampAsOf", 1000) == every
    assert "no version of 2023-11-14 22:13:19 UTC or earlier" in str(
        reading(table, duck, timestampAsOf=at(-1)).refused()
    )
    future = datetime.datetime.fromtimestamp(time.time() + 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    assert "or later" in reading(table, duck, startingTimestamp=future).refused().message
    table.clean_log(2)
    assert "has not all versions since" in reading(table, duck, startingTimestamp=at(0)).refused().message


def test_times_that_are_in_commits(table: Table, duck: DuckSession) -> None:
    """Where the table says that it keeps them there, they count, and not the files' times."""
    for version in range(3):
        table.append(1)
        actions = table.actions(version)
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["inCommitTimestamp"] = 1_700_000_000_000 + version * 1000
            if "metaData" in action:
                action["metaData"]["configuration"] = {"delta.enableInCommitTimestamps": "true"}
        table.write_commit(version, actions)
    rows, _ = reading(table, duck, startingTimestamp="2023-11-14 22:13:21").all()
    assert [k for k, _ in rows] == [1, 2]


def test_the_table_as_it_was(table: Table, duck: DuckSession) -> None:
    first = table.append(3)
    table.append(2)
    one = reading(table, duck, versionAsOf="0")
    rows, at = one.all()
    assert sorted(rows) == first
    plan = one.source.plan(at, Limits())
    assert plan.exhausted and plan.final and not plan.splits  # noqa: PT018
    assert sorted(one.history(at)) == first
    table.delta.delete("k = 0")
    assert sorted(one.again().all(at)[0]) == [], "what comes later is nothing to it"
    assert "as it was at version 9" in reading(table, duck, versionAsOf="9").refused().message


def test_a_checkpoint_instead_of_commits(table: Table, duck: DuckSession) -> None:
    """A table whose first commits were cleaned up begins with all its files, and goes on."""
    first = [row for _ in range(4) for row in table.append(2)]
    table.clean_log(3)
    one = reading(table, duck)
    rows, at = one.all()
    assert sorted(rows) == first
    added = table.append(2)
    table.clean_log(4)
    rows, _ = one.again().all(at)
    assert sorted(rows) == added


def test_columns_that_come_later(table: Table, duck: DuckSession) -> None:
    """They are NULL in older files, and a column that is not declared does not matter."""
    table.append(2)
    more = pa.table(
        {"k": pa.array([7], pa.int64()), "v": ["x"], "w": pa.array([5], pa.int32()), "unread": [1.5]}
    )
    deltalake.write_deltalake(str(table.path), more, mode="append", schema_mode="merge")
    spec = source_spec(
        {"w": "BIGINT", "K": "BIGINT", "v": "VARCHAR"},
        {"table-path": "lake", "startingVersion": "0"},
        connector="delta",
    )
    rows, _ = Reading(spec, table.path.parent, duck).all()
    assert sorted(rows, key=str) == [(5, 7, "x"), (None, 0, "v0"), (None, 1, "v1")]


def test_a_column_that_comes_while_it_is_read(table: Table, duck: DuckSession) -> None:
    table.append(2)
    one = reading(table, duck, mode="streaming")
    _, at = one.all()
    deltalake.write_deltalake(
        str(table.path),
        pa.table({"k": pa.array([7], pa.int64()), "v": ["x"], "w": [5]}),
        mode="append",
        schema_mode="merge",
    )
    assert one.all(at)[0] == [(7, "x")]


def test_metadata(table: Table, duck: DuckSession) -> None:
    table.append(2)
    table.append(1)
    spec = table_spec(
        {"startingVersion": "0"},
        metadata=(
            ("version", "_commit_version", "BIGINT"),
            ("name", "file.name", "VARCHAR"),
            ("path", "file.path", "VARCHAR"),
            ("size", "file.size", "BIGINT"),
            ("at", "file.modification-time", "TIMESTAMP WITH TIME ZONE"),
        ),
    )
    rows, _ = Reading(spec, table.path.parent, duck).all()
    assert sorted((k, version) for k, _, version, *_ in rows) == [(0, 0), (1, 0), (2, 1)]
    for _, _, version, name, path, size, at in rows:
        named = [one["add"] for one in table.actions(version) if "add" in one]
        one = next(file for file in named if path.endswith(file["path"]))
        assert (size, name) == (one["size"], Path(path).name)
        assert int(at.timestamp() * 1000) == one["modificationTime"]
        assert Path(path).stat().st_size == size


PARTITIONS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "b": ("BOOLEAN", pa.bool_(), [True, False, None]),
    "i": ("INTEGER", pa.int32(), [-5, 0, None]),
    "d": ("DECIMAL(20,3)", pa.decimal128(20, 3), [Decimal("12345678901234567.125"), Decimal("0.000"), None]),
    "s": ("VARCHAR", pa.string(), ["a/b %é'=?", "NULL", None]),
    "day": ("DATE", pa.date32(), [datetime.date(1, 1, 1), datetime.date(2024, 2, 29), None]),
    "ts": (
        "TIMESTAMP",
        pa.timestamp("us"),
        [datetime.datetime(2024, 1, 1, 12, 34, 56, 789012), datetime.datetime(1969, 12, 31), None],
    ),
    "tz": (
        "TIMESTAMP WITH TIME ZONE",
        pa.timestamp("us", "UTC"),
        [datetime.datetime(2024, 1, 1, 12, 34, 56, 789012, datetime.UTC), None, None],
    ),
}


@pytest.mark.parametrize("start", [None, "0"], ids=["snapshot", "commits"])
@pytest.mark.parametrize("column", list(PARTITIONS))
def test_values_of_partitions(tmp_path: Path, duck: DuckSession, column: str, start: str | None) -> None:
    """The log has them as texts, its library in types; both are the values that were written."""
    declared, type_, values = PARTITIONS[column]
    rows = pa.table({"k": pa.array(range(3), pa.int64()), column: pa.array(values, type_)})
    deltalake.write_deltalake(str(tmp_path / "lake"), rows, partition_by=[column])
    options = {"table-path": "lake"} if start is None else {"table-path": "lake", "startingVersion": start}
    spec = source_spec({column: declared, "k": "BIGINT"}, options, connector="delta")
    found, _ = Reading(spec, tmp_path, duck).all()
    assert sorted(found, key=lambda row: row[1]) == [(value, k) for k, value in enumerate(values)]


def test_orders_and_sizes_of_epochs(table: Table, duck: DuckSession) -> None:
    """Limits on rows are kept, and a file is cut between rows."""
    table.append(10)
    table.append(7)
    one = reading(table, duck)
    whole, _ = one.all()
    sizes = [len(epoch.rows) for epoch in one.again().epochs(limits=Limits(rows=4))]
    assert max(sizes) == 4
    assert sum(sizes) == 17
    cut, _ = one.again().all(limits=Limits(rows=4))
    assert cut == whole, "in the same order"


def test_what_waits(table: Table, duck: DuckSession) -> None:
    table.append(5)
    table.append(2)
    one = reading(table, duck, mode="streaming")
    at = one.source.initial_position()
    assert one.source.lag(at) == 7
    first = one.epoch(at, Limits(rows=3))
    assert one.source.lag(first.after) == 4
    _, at = one.all(at)
    assert one.source.lag(at) == 0
    table.append(3)
    one.now += 2
    assert one.source.lag(at) == 3


def test_the_table_as_it_was_is_in_one_order(table: Table) -> None:
    """Whatever the log says it by by then: commits, a checkpoint, and more commits behind it."""
    for count in (4, 1, 7, 2):
        table.append(count, files=1)
    version = table.version
    before = DeltaLog(str(table.path)).at(version)
    table.append(3)
    table.delta.create_checkpoint()
    table.delta.optimize.compact()
    table.append(3)
    after = DeltaLog(str(table.path)).at(version)
    assert before is not None
    assert after is not None
    assert len(before.files) >= 4
    assert after == before
    assert [file.modified_ms for file in before.files] == sorted(file.modified_ms for file in before.files)
