"""What of a Delta table is gone, or can't be read as rows that come, is told: never less in silence, and nothing twice."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.api import Limits
from sqlstream.connectors.delta.source.factory import DeltaSourceFactory
from sqlstream.connectors.delta.source.positions import DeltaPosition
from sqlstream.connectors.delta.source.source import DeltaSource
from sqlstream.connectors.filesystem.orders import FileOrders
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InputFileError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.delta.tables import Reading, Table, table_spec
from tests.connectors.harness import context, source_spec

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "lake")


def reading(table: Table, duck: DuckSession, **options: str) -> Reading:
    return Reading(table_spec(options), table.path.parent, duck)


def change(table: Table, operation: str) -> str:
    """Change rows of the table; what the log calls that."""
    delta = table.delta
    match operation:
        case "delete":
            delta.delete("k = 1")
        case "delete all":
            delta.delete()
        case "update":
            delta.update(updates={"v": "'x'"}, predicate="k = 1")
        case "overwrite":
            deltalake.write_deltalake(str(table.path), delta.to_pyarrow_table().slice(1), mode="overwrite")
        case "merge":
            source = pa.table({"k": pa.array([1], pa.int64()), "v": ["y"]})
            merge = delta.merge(source, "s.k = t.k", source_alias="s", target_alias="t")
            merge.when_matched_update_all().execute()
        case "restore":
            delta.restore(0)
    return {"delete all": "DELETE", "overwrite": "WRITE"}.get(operation, operation.upper())


OPERATIONS = ["delete", "delete all", "update", "overwrite", "merge", "restore"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_version_that_changes_rows(table: Table, duck: DuckSession, operation: str) -> None:
    first = table.append(3)
    one = reading(table, duck, mode="streaming")
    _, at = one.all()
    second = table.append(2)
    name = change(table, operation)
    after = table.append(1)
    epoch = one.epoch(at)
    assert epoch.rows == second, "what is before it is read"
    found = one.refused(stands := epoch.after)
    assert (found.code, found.message) == (
        "DAT019",
        "version 2 of the table of `t` changes rows that were read",
    )
    assert f"the operation is {name}" in found.notes[1]
    skipping = reading(table, duck, mode="streaming", skipChangeCommits="true")
    rows, at = skipping.all(stands)
    assert rows == after
    assert skipping.source.passed_over() == ["t: 1 versions that change rows"]
    if operation != "delete all":
        assert skipping.history(at) == first + second + after, "as long as no file of it is deleted"
        assert reading(table, duck).history(at) == first + second + after, "whatever the option says now"


def test_it_is_an_error_each_time(table: Table, duck: DuckSession) -> None:
    table.append(3)
    one = reading(table, duck)
    _, at = one.all()
    table.delta.delete("k = 1")
    for run in (one.again(), one.again()):
        assert run.refused(at).code == "DAT019"


def test_rows_that_a_restore_brings_back(table: Table, duck: DuckSession) -> None:
    """It only adds files, and their rows were read."""
    first = table.append(3)
    table.delta.delete()
    table.delta.restore(0)
    one = reading(table, duck, startingVersion="0", skipChangeCommits="true")
    assert one.all()[0] == first
    assert (
        "RESTORE, which brings rows back"
        in one.again(spec=table_spec({"startingVersion": "2"})).refused().notes[1]
    )


def test_versions_that_were_cleaned_up(table: Table, duck: DuckSession) -> None:
    first = table.append(3)
    one = reading(table, duck, mode="streaming")
    _, at = one.all()
    lost = [table.append(2), table.append(1)]
    table.append(4)
    table.clean_log(3)
    found = one.again().refused(at)
    assert found.code == "DAT015"
    assert found.notes[1] == "version 1 is wanted, the log begins at version 3: it was cleaned up"
    assert "--accept lost:t" in (found.help or "")
    on = one.again(accepted=("lost:t",))
    rows, at = on.all(at)
    assert [k for k, _ in rows] == [6, 7, 8, 9], f"without {lost}"
    assert [d.severity for d in on.told] == ["warning"]
    assert on.source.passed_over() == [
        "t: version 1 is wanted, the log begins at version 3: it was cleaned up"
    ]
    rows, at = one.again().all(at)
    assert not rows, "agreed to once"
    assert first
    with pytest.raises(DiagnosticError, match="DAT008"):
        one.source.until(at)


def test_versions_that_are_cleaned_up_while_it_runs(table: Table, duck: DuckSession) -> None:
    table.append(3)
    one = reading(table, duck, mode="streaming")
    _, at = one.all()
    table.append(2)
    table.append(4)
    table.clean_log(2)
    one.now += 100
    assert one.refused(at).code == "DAT015"


def test_a_snapshot_whose_log_was_cleaned_up(table: Table, duck: DuckSession) -> None:
    first = table.append(6)
    one = reading(table, duck)
    epoch = one.epoch(one.source.initial_position(), Limits(rows=2))
    last = table.append(1)
    table.clean_log(1)
    found = one.again().refused(epoch.after)
    assert (found.code, found.notes[1]) == (
        "DAT015",
        "the table can't be read as it was at version 0: the log of that was cleaned up",
    )
    rows, _ = one.again(accepted=("lost:all",)).all(epoch.after)
    assert epoch.rows + rows == first[:2] + last


def test_files_that_vacuum_has_deleted(table: Table, duck: DuckSession) -> None:
    first = table.append(3)
    one = reading(table, duck, mode="streaming")
    _, at = one.all()
    table.append(2)
    table.append(4)
    table.delta.optimize.compact()
    table.vacuum()
    added = table.append(1)
    found = one.again().refused(at)
    assert found.code == "DAT015"
    assert found.notes[1].startswith("2 files of versions 1 to 2 are gone, with 6 rows")
    on = one.again(accepted=("lost:t",))
    rows, at = on.all(at)
    assert rows == added
    assert len(on.told) == 1
    assert one.again().all(at)[0] == []
    for read in (first, rows):
        assert read
    assert [one.version for one in DeltaPosition.from_json(at).passed] == [1, 2]


def test_a_file_that_is_deleted_behind_the_plan(table: Table, duck: DuckSession) -> None:
    """Tasks find it; the plan is not replayed, and the next one tells."""
    table.append(3)
    one = reading(table, duck)
    begin = one.source.initial_position()
    plan = one.source.plan(begin, Limits())
    assert one.source.can_replay(plan.splits)
    for file in table.path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(InputFileError, match="is gone"):
        one.read(plan.splits[0])
    assert not one.source.can_replay(plan.splits)
    assert one.again().refused(begin).code == "DAT015"


@pytest.mark.parametrize("while_it_runs", [False, True])
@pytest.mark.parametrize("versions", [1, 2, 5])
def test_a_table_that_was_made_anew(
    table: Table, duck: DuckSession, versions: int, while_it_runs: bool
) -> None:
    """Also when it has as many versions as were read of the former one, or more."""
    table.append(3)
    table.append(1)
    one = reading(table, duck, mode="streaming")
    _, at = one.all()
    table.make_anew()
    added = [row for _ in range(versions) for row in table.append(2)]
    if while_it_runs:
        one.now += 100 if versions < 3 else 1
    else:
        one = one.again()
    found = one.refused(at)
    assert found.code == "DAT015"
    assert found.notes[1].startswith("the table was made anew: its id was ")
    on = one.again(accepted=("lost:t",))
    rows, at = on.all(at)
    assert sorted(rows) == added, "all that the new one has"
    added = table.append(1)
    rows, at = one.again().all(at)
    assert rows == added
    with pytest.raises(DiagnosticError, match="DAT008"):
        one.source.until(at)


def test_an_older_copy(table: Table, duck: DuckSession) -> None:
    table.append(3)
    shutil.copytree(table.path, table.path.with_name("copy"))
    table.append(1)
    table.append(1)
    one = reading(table, duck, mode="streaming")
    _, at = one.all()
    shutil.rmtree(table.path)
    shutil.copytree(table.path.with_name("copy"), table.path)
    assert "the log ends at version 0: an older copy was restored" in one.again().refused(at).notes[1]
    for _ in range(4):
        table.append(1)
    found = one.again().refused(at)
    assert "version 2 is another than the one that was read" in found.notes[1], (
        "it has as many versions by now"
    )
    one.now += 1
    assert one.refused(at).notes == found.notes, "and while it runs"


def test_a_table_that_is_gone(table: Table, duck: DuckSession) -> None:
    missing = reading(table, duck).refused()
    assert (missing.code, missing.notes) == ("DAT004", ())
    table.append(1)
    one = reading(table, duck)
    _, at = one.all()
    shutil.rmtree(table.path)
    found = one.again().refused(at)
    assert (found.code, found.notes) == ("DAT004", ("it was read up to version 1",))
    with pytest.raises(DiagnosticError, match="DAT008"):
        one.again().source.until(at)


def test_history_that_is_gone(table: Table, duck: DuckSession) -> None:
    table.append(3)
    table.append(2)
    one = reading(table, duck, startingVersion="0")
    _, at = one.all()
    table.delta.optimize.compact()
    table.vacuum()
    with pytest.raises(DiagnosticError) as raised:
        one.source.until(at)
    (found,) = raised.value.diagnostics
    assert found.code == "DAT008"
    assert found.notes[1].startswith("2 files of versions 0 to 1 are gone, with 5 rows")
    table.clean_log(2)
    with pytest.raises(DiagnosticError) as raised:
        one.again().source.until(at)
    assert raised.value.diagnostics[0].notes[1] == "the log has not version 0 and others: it was cleaned up"


def test_a_file_that_is_left_out(table: Table, duck: DuckSession) -> None:
    """By --skip-file, as a file that is damaged; its rows are no part of the history either."""
    table.append(9, files=1)
    table.append(4)
    one = reading(table, duck)
    begin = one.source.initial_position()
    first = one.epoch(begin, Limits(rows=2))
    (path,) = [
        p for p in one.source.paths() if len(one.source.paths()) and p in first.splits[0].payload["files"]
    ]
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[:-9])
    with pytest.raises(InputFileError, match="by the table's log"):
        one.again().epoch(first.after)
    Path(path).write_bytes(content)
    orders = FileOrders([("skip", path)])
    orders.check(one.source.paths())
    on = one.again(orders=orders)
    rows, at = on.all(first.after)
    assert first.rows + rows == one.history(at)
    assert len(first.rows + rows) in (2 + 4, 2 + 9)
    orders = FileOrders([("again", path)])
    orders.check(one.source.paths())
    assert "never written again" in one.again(orders=orders).refused(begin).message


SHAPES: list[tuple[dict[str, str], dict[str, Any], str]] = [
    ({"k": "INTEGER"}, {}, "`k` is BIGINT there and INTEGER here"),
    ({"bine": "BLOB"}, {}, "there is no `bine`; did you mean `bin`?"),
    ({"quite": "BIGINT"}, {}, "there is no `quite`: it has k, v, ts, bin, a, s"),
    ({"ts": "TIMESTAMP WITH TIME ZONE"}, {}, "`ts` is TIMESTAMP there"),
    ({"a": "VARCHAR[]"}, {}, "`a` is BIGINT[] there"),
    ({"s": "STRUCT(x BIGINT, z BIGINT)"}, {}, "`s` is STRUCT"),
    ({"k": "BIGINT"}, {"partitioned_by": ("k",)}, "it is partitioned by (bin)"),
    ({"bin": "BLOB"}, {}, "`bin`, by which it is partitioned, is BLOB"),
]


@pytest.mark.parametrize(("columns", "more", "said"), SHAPES)
def test_a_table_that_is_not_what_is_declared(
    tmp_path: Path, columns: dict[str, str], more: dict[str, Any], said: str
) -> None:
    fields: list[tuple[str, pa.DataType]] = [
        ("k", pa.int64()),
        ("v", pa.string()),
        ("ts", pa.timestamp("us")),
        ("bin", pa.binary()),
        ("a", pa.list_(pa.int64())),
        ("s", pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ]
    deltalake.DeltaTable.create(str(tmp_path / "lake"), pa.schema(fields), partition_by=["bin"])
    spec = source_spec(columns, {"table-path": "lake"}, connector="delta", **more)
    with pytest.raises(DiagnosticError) as raised:
        DeltaSource(spec, context(tmp_path)).initial_position()
    (found,) = raised.value.diagnostics
    assert found.code == "DAT018"
    assert said in found.notes[1]


def test_types_that_hold_more(tmp_path: Path, duck: DuckSession) -> None:
    rows = pa.table(
        {
            "i": pa.array([1], pa.int32()),
            "f": pa.array([1.5], pa.float32()),
            "tz": pa.array(
                [datetime.datetime(2024, 1, 1, 1, tzinfo=datetime.UTC)], pa.timestamp("us", "UTC")
            ),
            "u": ["00000000-0000-0000-0000-000000000001"],
            "s": [{"x": 1, "y": "q"}],
        }
    )
    deltalake.write_deltalake(str(tmp_path / "lake"), rows)
    declared = {
        "i": "BIGINT",
        "f": "DOUBLE",
        "tz": "TIMESTAMP",
        "u": "UUID",
        "s": "STRUCT(y VARCHAR, x BIGINT)",
    }
    spec = source_spec(declared, {"table-path": "lake"}, connector="delta")
    ((*found, struct),) = Reading(spec, tmp_path, duck).all()[0]
    assert [str(value) for value in found] == ["1", "1.5", "2024-01-01 01:00:00", rows["u"][0].as_py()]
    assert struct == {"y": "q", "x": 1}


def by_hand(table: Table, version: int, **changed: Any) -> None:
    """Write a commit again with actions that Delta's library writes none of."""
    actions = table.actions(version)
    for action in actions:
        for kind, one in action.items():
            one.update(changed.get(kind, {}))
    table.write_commit(version, actions)


VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 1,
}
MODERN = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors"],
}


def test_deletion_vectors_are_refused(table: Table, duck: DuckSession) -> None:
    table.append(3)
    by_hand(table, 0, protocol=MODERN)
    one = reading(table, duck, mode="streaming")
    rows, at = one.all()
    assert len(rows) == 3, "a table that may have some has none"
    table.append(2)
    by_hand(table, 1, add={"deletionVector": VECTOR})
    one.now += 2
    found = one.refused(at)
    assert found.code == "DAT018"
    assert "deletion vectors in version 1" in found.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"metaData": {"configuration": {"delta.columnMapping.mode": "name"}}}, "delta.columnMapping.mode"),
        (
            {"protocol": {**MODERN, "readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}},
            "typeWidening",
        ),
    ],
)
def test_what_readers_would_have_to_know(table: Table, duck: DuckSession, changed: Any, said: str) -> None:
    table.append(3)
    by_hand(table, 0, **changed)
    found = reading(table, duck).refused()
    assert found.code == "DAT018"
    assert said in found.message


def test_a_shallow_clone_is_refused(table: Table, duck: DuckSession) -> None:
    table.append(1)
    by_hand(table, 0, add={"path": "file:///elsewhere/part-0.parquet"})
    assert "is a shallow clone" in reading(table, duck, startingVersion="0").refused().notes[0]


@pytest.mark.parametrize(
    ("was", "now", "closed", "same"),
    [
        ({}, {"skipChangeCommits": True}, True, True),
        ({"skipChangeCommits": True}, {}, True, True),
        ({"table-path": "./lake"}, {}, True, True),
        ({"table-path": "other"}, {}, True, False),
        ({}, {"startingVersion": "0"}, False, False),
        ({"versionAsOf": 0}, {}, False, True),
        ({"versionAsOf": 0}, {}, True, False),
        ({"versionAsOf": 0}, {"versionAsOf": 1}, False, False),
    ],
)
def test_which_options_may_change(
    table: Table, duck: DuckSession, was: dict[str, Any], now: dict[str, Any], closed: bool, same: bool
) -> None:
    table.append(1)
    options = {"versionAsOf": "0"} if "versionAsOf" in was else {}
    _, at = reading(table, duck, **options).all()
    given = [{"table-path": "lake", **one} for one in (was, now)]
    where = context(table.path.parent)
    assert DeltaSourceFactory().continues(given[0], given[1], at, where, closed=closed) is same


def test_no_version_is_read_as_one_that_was_passed_over(table: Table, duck: DuckSession) -> None:
    """Once some was, the option can't go as if nothing had been."""
    table.append(2)
    table.delta.delete("k = 1")
    one = reading(table, duck, startingVersion="0", skipChangeCommits="true")
    _, at = one.all()
    now: dict[str, Any] = {"table-path": "lake", "startingVersion": "0"}
    given = [{**now, "skipChangeCommits": True}, now]
    where = context(table.path.parent)
    assert not DeltaSourceFactory().continues(given[0], given[1], at, where, closed=False)


def test_a_table_that_was_moved(table: Table, duck: DuckSession) -> None:
    first = table.append(2)
    one = reading(table, duck)
    _, at = one.all()
    shutil.move(table.path, table.path.with_name("moved"))
    there = Table(table.path.with_name("moved"), rows=table.rows)
    moved = Reading(table_spec(path="moved"), table.path.parent, duck)
    moved.source.take_over(one.spec, context(table.path.parent).store, "", at)
    added = there.append(1)
    assert moved.all(at)[0] == added
    assert moved.history(at) == first
    Table(table.path.with_name("other")).append(2)
    with pytest.raises(DiagnosticError, match="STA018"):
        Reading(table_spec(path="other"), table.path.parent, duck).source.take_over(
            one.spec, context(table.path.parent).store, "", at
        )
