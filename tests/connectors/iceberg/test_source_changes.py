"""The changes of Iceberg tables: whatever is done to one, what goes and comes gives the table at each snapshot."""

from __future__ import annotations

import datetime
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, UUIDType

from sqlstream.connectors.api import Limits
from sqlstream.connectors.filesystem import cutting
from sqlstream.connectors.iceberg.source import ahead
from sqlstream.connectors.iceberg.source.positions import IcebergPosition
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import RunResult
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.iceberg.deletes import (
    OPERATIONS,
    SCHEMA,
    SHAPE,
    Lake,
    commit,
    equals,
    positions,
    vectors,
)
from tests.connectors.iceberg.reading import Reading, table_spec
from tests.connectors.iceberg.tables import OPTIONS, Row, create, expire, table
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.updating import collecting
from tests.runtime.support import Crash, crash_at

CHANGES = {"read-change-feed": "true", "streaming": "true"}


def folded(changes: Iterable[Row], before: Counter[Row] | None = None) -> Counter[Row]:
    """What is there after changes; no row goes that is not there."""
    there = Counter(before or {})
    for *row, kind in changes:
        there[tuple(row)] += 1 if kind == "+I" else -1
    assert all(count >= 0 for count in there.values()), there
    return +there


def scanned(lake: Lake) -> Counter[Row] | None:
    """The rows by Iceberg's library; None: it can't read deletes by values."""
    if any("/equals-" in path for path in lake.unlinkable):
        return None
    found = table(lake.folder).scan(selected_fields=("k", "v")).to_arrow()
    return Counter(zip(found.column("k").to_pylist(), found.column("v").to_pylist(), strict=True))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation(tmp_path: Path, duck: DuckSession, name: str, partitioned: bool) -> None:
    lake = Lake(tmp_path, partitioned=partitioned)
    lake.do(("append", 6))
    lake.do(("append", 4))
    lake.do(("positions", 1))
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    rows, at = one.all()
    there = folded(rows)
    assert there == lake.there == scanned(lake)
    assert not any(kind != "+I" for *_, kind in rows)
    for n in (0, 2):
        lake.do((name, n))
        rows, at = one.all(at)
        there = folded(rows, there)
        assert there == lake.there
        assert scanned(lake) in (lake.there, None)
        if name in ("compact", "empty", "column"):
            assert not rows
    lake.do(("append", 1))
    rows, at = one.again().all(at)
    assert folded(rows, there) == lake.there
    plain = Reading(table_spec(), tmp_path, duck)
    assert Counter(plain.all()[0]) == lake.there, "and so is the table as it is, without changes"


LIMITS = st.builds(
    Limits,
    rows=st.none() | st.integers(1, 5),
    files=st.none() | st.integers(1, 3),
    bytes=st.none() | st.integers(1, 3000),
    tasks=st.integers(1, 3),
)


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5)), max_size=4),
            LIMITS,
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    partitioned=st.booleans(),
    start=st.sampled_from(["table", "first", "second"]),
    most=st.sampled_from([1, 2, 10_000]),
    data=st.data(),
)
def test_however_it_is_cut(
    duck: DuckSession,
    steps: Sequence[tuple[Sequence[tuple[str, int]], Limits, bool]],
    partitioned: bool,
    start: str,
    most: int,
    data: st.DataObject,
) -> None:
    """Where a snapshot ends, the rows are the table's; a run that dies reads the same once more."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "_SMALLEST_SPLIT", 1)
        patch.setattr(ahead, "_MOST_FILES", most)
        lake = Lake(Path(name), partitioned=partitioned)
        lake.do(("append", 4))
        before = {"first": Counter[Row](), "second": lake.there, "table": Counter[Row]()}[start]
        at_snapshot = {table(lake.folder).snapshots()[-1].snapshot_id: lake.there}
        for what in data.draw(
            st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5)), min_size=1, max_size=3)
        ):
            lake.do(what)
            at_snapshot[table(lake.folder).snapshots()[-1].snapshot_id] = lake.there
        snapshots = table(lake.folder).snapshots()
        if start == "second" and len(snapshots) < 2:
            return
        number = str(snapshots[1 if start == "second" else 0].snapshot_id)
        one = Reading(
            table_spec({**CHANGES, **({} if start == "table" else {"start-snapshot-id": number})}),
            lake.folder,
            duck,
        )
        at = one.source.initial_position()
        there, rows = before, list[Row]()
        places = [(at, 0)]
        for writes, limits, another_run in steps:
            for what in writes:
                lake.do(what)
                at_snapshot[table(lake.folder).snapshots()[-1].snapshot_id] = lake.there
            one = one.again() if another_run else one
            for epoch in one.epochs(at, limits):
                if not epoch.splits:
                    break
                again = one.again().epoch(at, limits)
                assert (again.rows, again.after) == (epoch.rows, epoch.after)
                rows += epoch.rows
                there = folded(epoch.rows, there)
                at = epoch.after
                places.append((at, len(rows)))
                place = IcebergPosition.from_json(at)
                if place.at is None and place.after is not None:
                    assert there == at_snapshot[place.after]
        assert there == lake.there
        assert scanned(lake) in (lake.there, None)
        assert Counter(Reading(table_spec(), lake.folder, duck).all()[0]) == lake.there
        some, count = places[data.draw(st.integers(0, 999)) % len(places)]
        assert one.history(some, data.draw(LIMITS)) == rows[:count]


def test_what_the_library_writes(tmp_path: Path, duck: DuckSession) -> None:
    """Deletes, overwrites and upserts of PyIceberg, which are copy-on-write, in one or more snapshots."""
    create(tmp_path, SCHEMA)
    keys = pa.table({"k": [1, 2, 3, 4], "v": ["a", "b", "c", "d"], "p": pa.array([0, 0, 1, 1], pa.int32())})
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    at, there = one.source.initial_position(), Counter[Row]()
    some = pa.table({"k": [2, 9], "v": ["B", "z"], "p": pa.array([0, 0], pa.int32())})
    changes: list[Callable[[Table], Any]] = [
        lambda now: now.append(keys),
        lambda now: now.delete("k = 3"),
        lambda now: now.overwrite(some, overwrite_filter="k = 4"),
        lambda now: now.upsert(some.slice(1), join_cols=["k"]),
        lambda now: now.overwrite(keys),
        lambda now: now.delete(),
    ]
    for change in changes:
        change(table(tmp_path))
        rows, at = one.all(at)
        there = folded(rows, there)
        found = table(tmp_path).scan(selected_fields=("k", "v")).to_arrow()
        assert there == Counter(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert not there
    assert len(one.history(at)) > len(keys)


def test_rows_that_are_deleted_where_they_come(tmp_path: Path, duck: DuckSession) -> None:
    """A checkpoint of Flink with two changes of a key: the first is deleted by its position, in the same snapshot."""
    lake = Lake(tmp_path)
    lake.do(("append", 2))
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    rows, at = one.all()
    changed = pa.table(
        [pa.array([1, 1]), pa.array(["old", "new"]), pa.array([1, 1], pa.int32())], schema=SHAPE
    )
    deletes = [equals(tmp_path, changed.slice(0, 1))]
    commit(
        tmp_path,
        add=[changed],
        deletes=deletes,
        of_added=lambda paths: [positions(tmp_path, {paths[0]: [0]})],
    )
    more, _ = one.all(at)
    assert sorted(more) == [(1, "new", "+I"), (1, "v1", "-D")]
    assert sorted(row[:2] for row in rows + more if row[2] == "+I") == [
        (0, "v0"),
        (1, "new"),
        (1, "v1"),
        (2, "v2"),
    ]
    assert sorted(Reading(table_spec(), tmp_path, duck).all()[0]) == [(0, "v0"), (1, "new"), (2, "v2")]


def test_deletes_by_values(tmp_path: Path, duck: DuckSession) -> None:
    """By two columns, one of which is NULL; a column that was renamed, widened, and one that is dropped; and new ones."""
    lake = Lake(tmp_path)
    shape = pa.schema([("k", pa.int64()), ("v", pa.string()), ("p", pa.int32())])
    old = pa.table([[1, 1, 2, None], ["a", None, "a", None], [7, 8, 9, 7]], schema=shape)
    lake.commit(add=[old], operation="append")
    plain = Reading(table_spec(), tmp_path, duck)

    def left() -> list[int | None]:
        return sorted((k for k, _ in plain.again().all()[0]), key=lambda k: (k is None, k))

    given = pa.table([pa.array([1, None], pa.int64()), pa.array([None, None], pa.string())], names=["k", "v"])
    commit(tmp_path, deletes=[equals(tmp_path, given, (1, 2))])
    assert left() == [1, 2]
    with table(tmp_path).update_schema() as schema:
        schema.rename_column("p", "q")
    with table(tmp_path).update_schema() as schema:
        schema.update_column("q", LongType())
        schema.add_column("c", StringType())
    now = table(tmp_path).schema()
    more = pa.table(
        [[5, 6], ["x", "y"], pa.array([9, 9]), [None, "c"]],
        schema=pa.schema([*shape.remove(2), pa.field("q", pa.int64()), pa.field("c", pa.string())]),
    )
    commit(tmp_path, add=[more], operation="append")
    assert left() == [1, 2, 5, 6]
    nine_and_null = pa.table([pa.array([9]), pa.array([None], pa.string())], names=["q", "c"])
    commit(tmp_path, deletes=[equals(tmp_path, nine_and_null, (3, 4), schema=now)])
    assert left() == [1, 6], "files from before the column have NULL in it"
    with table(tmp_path).update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("q")
    assert left() == [1, 6], "by a column that is dropped, too"


def test_deletes_by_values_of_other_partitions(tmp_path: Path, duck: DuckSession) -> None:
    """A file of deletes counts in its partition; one that was written when there were none counts everywhere."""
    lake = Lake(tmp_path)
    with table(tmp_path).update_spec() as spec:
        spec.add_field("p", IdentityTransform(), "p")
    commit(tmp_path, add=[lake.made(6)], operation="append")
    of_p0 = equals(tmp_path, pa.table({"k": [0, 1]}), partition=[0])
    of_p0._spec_id = 1
    commit(tmp_path, deletes=[of_p0])
    plain = Reading(table_spec(), tmp_path, duck)
    assert sorted(k for k, _ in plain.all()[0]) == [1, 2, 3, 4, 5]
    with table(tmp_path).update_spec() as spec:
        spec.remove_field("p")
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    _, at = one.all()
    commit(tmp_path, deletes=[equals(tmp_path, pa.table({"k": [2, 3]}), partition=[None])])
    assert sorted(one.all(at)[0]) == [(2, "v2", "-D"), (3, "v0", "-D")]
    assert sorted(k for k, _ in plain.again().all()[0]) == [1, 4, 5]


@pytest.mark.parametrize("by", ["positions", "vectors"])
def test_many_positions(tmp_path: Path, duck: DuckSession, by: str) -> None:
    """More than stand in a query, in a file of several groups that is cut; and where each second row is deleted."""
    lake = Lake(tmp_path)
    rows = lake.made(5000)
    lake.commit(add=[rows], operation="append")
    path = lake.rows[0].path
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    _, at = one.all()
    every = range(0, 5000, 2)
    deletes = (
        [positions(tmp_path, {path: every})]
        if by == "positions"
        else vectors(tmp_path, {path: (every, ())}, 7)
    )
    commit(tmp_path, deletes=deletes)
    more, _ = one.all(at, Limits(rows=700, tasks=3))
    assert sorted(k for k, _, kind in more if kind == "-D") == [*every]
    assert len(more) == len(every)
    plain, _ = Reading(table_spec(), tmp_path, duck).all(limits=Limits(rows=900, tasks=2))
    assert sorted(k for k, _ in plain) == [*range(1, 5000, 2)]


def test_a_parent_that_was_expired(tmp_path: Path, duck: DuckSession) -> None:
    """What a snapshot did is known without the one before it."""
    lake = Lake(tmp_path)
    for what in (("append", 5), ("positions", 1)):
        lake.do(what)
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    rows, at = one.all()
    there = folded(rows)
    lake.do(("copy-on-write", 0))
    expire(tmp_path)
    rows, at = one.again().all(at)
    assert folded(rows, there) == lake.there


@pytest.mark.parametrize("what", ["copy-on-write", "vectors"])
def test_files_that_were_deleted_with_expired_snapshots(tmp_path: Path, duck: DuckSession, what: str) -> None:
    """What a snapshot took away is needed to know what goes; nobody may have kept it."""
    lake = Lake(tmp_path)
    for done in (("append", 5), ("append", 2), ("vectors", 1)):
        lake.do(done)
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    rows, at = one.all()
    there = folded(rows)
    before = {*(tmp_path / "lake").glob("**/*.parquet"), *(tmp_path / "lake").glob("*.puffin")}
    lake.do((what, 2))
    expire(tmp_path)
    current = table(tmp_path).current_snapshot()
    assert current is not None
    io = table(tmp_path).io
    live = {
        Path(entry.data_file.file_path.removeprefix("file://"))
        for manifest in current.manifests(io)
        for entry in manifest.fetch_manifest_entry(io)
    }
    gone = before - live
    assert gone
    for path in gone:
        path.unlink()
    refused = one.again().refused(at)
    assert (refused.code, "deleted when snapshots were expired" in refused.notes[1]) == ("DAT015", True), (
        refused
    )
    agreed = one.again(accepted=("lost:t",))
    more, at = agreed.all(at)
    assert {d.code for d in agreed.told} == {"DAT015"}
    summed = Counter(there)
    summed.update(row[:2] for row in more if row[2] == "+I")
    summed.subtract(row[:2] for row in more if row[2] == "-D")
    assert summed != lake.there, "rows stay that should go"
    lake.do(("append", 1))
    last, at = one.again().all(at)
    assert len(last) == 2, "it goes on without asking again"
    with pytest.raises(DiagnosticError) as raised:
        one.again().source.until(at)
    assert raised.value.diagnostics[0].code == "DAT008"


def test_what_can_not_be_read_is_refused(tmp_path: Path, duck: DuckSession) -> None:
    inner = pa.struct({"a": pa.int64()})
    shape = pa.schema([("k", pa.int64()), ("v", pa.string()), ("x", pa.float64()), ("s", inner)])
    create(tmp_path, shape)
    rows = pa.table([[1, 2], ["a", "b"], [1.0, 2.0], [{"a": 1}, {"a": 2}]], schema=shape)
    table(tmp_path).append(rows)
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    _, at = one.all()
    schema = table(tmp_path).schema()
    by_x = equals(tmp_path, rows, (3,), schema=schema)
    inside = equals(tmp_path, rows, (1,), schema=schema)
    inside[14] = [schema.find_field("s.a").field_id]
    none = equals(tmp_path, rows, (1,), schema=schema)
    none[14] = None
    (task,) = table(tmp_path).scan().plan_files()
    orc = positions(tmp_path, {task.file.file_path: [0]})
    orc[2] = FileFormat.ORC
    for wrong, said in (
        (by_x, "FLOAT"),
        (inside, "inside of others"),
        (none, "by which columns"),
        (orc, "in ORC"),
    ):
        commit(tmp_path, deletes=[wrong])
        for refused in (one.again().refused(at), Reading(table_spec(), tmp_path, duck).refused()):
            assert (refused.code, said in refused.notes[1]) == ("DAT018", True), refused
        commit(tmp_path, remove=[wrong.file_path])
        _, at = Reading(table_spec(CHANGES), tmp_path, duck).all()


@pytest.mark.parametrize("by", ["positions", "vectors", "equals"])
@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_files_of_deletes_that_are_not_what_they_were(
    tmp_path: Path, duck: DuckSession, by: str, how: str
) -> None:
    lake = Lake(tmp_path)
    lake.do(("append", 5))
    lake.do((by, 1))
    (file,) = (tmp_path / "lake").glob(f"{by}-*")
    content = file.read_bytes()
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    if how == "gone":
        _, at = one.all()
        file.unlink()
        refused = Reading(table_spec(), tmp_path, duck).refused()
        assert (refused.code, refused.notes[1]) == ("DAT018", f"{file}: it is not there")
        with pytest.raises(DiagnosticError) as raised:
            one.again().source.until(at)
        assert raised.value.diagnostics[0].code == "DAT008"
        return
    file.write_bytes(content[:8] + bytes([255 - one for one in content[8:-8]]) + content[-8:])
    with pytest.raises(DataError):
        one.all()


def test_a_plan_that_was_made_with_a_file_of_deletes_sees_when_it_is_another(
    tmp_path: Path, duck: DuckSession
) -> None:
    lake = Lake(tmp_path)
    lake.do(("append", 5))
    lake.do(("positions", 1))
    one = Reading(table_spec(), tmp_path, duck)
    splits = one.epoch(one.source.initial_position()).splits
    assert one.again().source.can_replay(splits)
    (file,) = (tmp_path / "lake").glob("positions-*")
    file.write_bytes(file.read_bytes() + b"x")
    assert not one.again().source.can_replay(splits)


@pytest.mark.parametrize(
    ("columns", "options", "code"),
    [
        ("k BIGINT, f STRING METADATA FROM 'file.path' VIRTUAL", "", "CAT008"),
        ("k BIGINT", ", 'streaming-skip-overwrite-snapshots' = 'true'", "OPT003"),
        ("k BIGINT", ", 'streaming-skip-delete-snapshots' = 'true'", "OPT003"),
    ],
)
def test_what_changes_have_not(columns: str, options: str, code: str) -> None:
    text = f"CREATE TABLE t ({columns}) WITH ({OPTIONS.format(name='x')}, 'read-change-feed' = 'true'{options});\n"
    with pytest.raises(DiagnosticError) as raised:
        plan_file(f"{text}SELECT k, COUNT(*) FROM t GROUP BY k;", file="p.sql")
    assert [d.code for d in raised.value.diagnostics] == [code]


SOURCE = "CREATE TABLE t (k BIGINT, v STRING{key}) WITH ({options}, 'read-change-feed' = 'true');\n"
GREATEST = (
    "CREATE TABLE greatest WITH ('connector' = 'blackhole') AS SELECT v, MAX(k) AS k FROM t GROUP BY v;\n"
)
COPY = (
    "CREATE TABLE o (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED) "
    "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\nINSERT INTO o SELECT k, v FROM t WHERE k % 5 <> 4;\n"
)
TOTALS = (
    "CREATE TABLE totals (v STRING, n BIGINT, total BIGINT, PRIMARY KEY (v) NOT ENFORCED) "
    "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
    "INSERT INTO totals SELECT v, COUNT(*), SUM(k) FROM t GROUP BY v;\n"
)


def source(key: bool = False) -> str:
    return SOURCE.format(
        key=", PRIMARY KEY (k) NOT ENFORCED" if key else "", options=OPTIONS.format(name="table")
    )


def run(folder: Path, sql: str, **options: Any) -> RunResult:
    return run_here(plan_file(sql, file="p.sql"), folder, **{"rows_per_epoch": 7, **options})


def result(folder: Path, sql: str) -> list[Row]:
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as con:
        return sorted(con.execute(sql).fetchall())


@pytest.mark.parametrize("key", [False, True], ids=["rows", "keys"])
def test_pipelines(tmp_path: Path, key: bool) -> None:
    """A table by GROUP BY is at each end of a run what DuckDB computes of the table; and an edit reads all changes again."""
    lake = Lake(tmp_path)
    lake.do(("append", 11))
    done = [
        "positions",
        "append",
        "upsert",
        "vectors",
        "copy-on-write",
        "compact",
        "equals",
        "overwrite",
        "append",
    ]
    with collecting() as collected:
        for number, name in enumerate(done):
            lake.do((name, number % 4))
            run(tmp_path, source(key) + TOTALS)
            there = pa.table({"k": [k for k, _ in lake.there], "v": [v for _, v in lake.there]})
            assert max(lake.there.values(), default=1) == 1
            wanted = duckdb.sql("SELECT v, COUNT(*), SUM(k) FROM there GROUP BY v").fetchall()
            assert result(tmp_path, "FROM totals") == sorted(wanted), (name, there.num_rows)
        run(tmp_path, source(key) + TOTALS + GREATEST)
        greatest = duckdb.sql("SELECT v, MAX(k) FROM there GROUP BY v").fetchall()
        assert Counter(collected.folded("greatest")) == Counter(greatest)


@pytest.mark.parametrize("point", ["planned", "run", "published", "committed"])
def test_crashes(tmp_path: Path, point: Any) -> None:
    lake = Lake(tmp_path)
    lake.do(("append", 11))
    text = source(key=True) + COPY
    run(tmp_path, text)
    for what in (("upsert", 1), ("positions", 0), ("equals", 2), ("append", 4), ("vectors", 1)):
        lake.do(what)
    with pytest.raises(Crash):
        run(tmp_path, text, rows_per_epoch=9, faults=crash_at(point, 4))
    lake.do(("compact", 3))
    lake.do(("upsert", 2))
    run(tmp_path, text, rows_per_epoch=9)
    assert Counter(result(tmp_path, "SELECT k, v FROM o")) == Counter(
        {row: n for row, n in lake.there.items() if row[0] % 5 != 4}
    )


def test_two_sources_of_one_table(tmp_path: Path) -> None:
    """One that reads changes, and one that reads the table as it was: each has its own position and rows."""
    lake = Lake(tmp_path)
    lake.do(("append", 8))
    lake.do(("positions", 1))
    before = sum(lake.there.values())
    first = table(tmp_path).snapshots()[-1].snapshot_id
    was = f"CREATE TABLE w (k BIGINT) WITH ({OPTIONS.format(name='table')}, 'snapshot-id' = '{first}');\n"
    both = (
        "CREATE TABLE sums (n BIGINT, m BIGINT, one INT, PRIMARY KEY (one) NOT ENFORCED) "
        "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
        "INSERT INTO sums SELECT COUNT(a), COUNT(b), 1 FROM "
        "(SELECT k AS a, NULL AS b FROM t UNION ALL SELECT NULL, k FROM w);\n"
    )
    for what in (("append", 3), ("upsert", 1), ("equals", 0)):
        lake.do(what)
        run(tmp_path, source() + was + both)
        assert result(tmp_path, "SELECT n, m FROM sums") == [(sum(lake.there.values()), before)]


@pytest.mark.parametrize("by", ["positions", "equals"])
def test_reading_row_by_row_gives_the_same(tmp_path: Path, duck: DuckSession, by: str) -> None:
    """What reads a split again that can't be read at once."""
    lake = Lake(tmp_path)
    lake.do(("append", 5))
    lake.do((by, 1))
    spec = table_spec(CHANGES)
    one = Reading(spec, tmp_path, duck)
    for split in one.epoch(one.source.initial_position()).splits:
        assert not REGISTERED.lenient_reader(spec, str(tmp_path)).open_lenient(duck, "rows", split)
        found = duck.query("SELECT * FROM rows")
        duck.drop("rows")
        assert found.column_names == ["k", "v", KIND_COLUMN]
        rows = zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)
        assert Counter(rows) == lake.there


def test_deletes_by_values_of_each_type(tmp_path: Path, duck: DuckSession) -> None:
    """By values that are there, and NULL."""
    days = [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), datetime.date(2100, 1, 1)]
    times = [datetime.datetime(2024, 2, 29, 12, 30, 0, 123456), datetime.datetime(1900, 1, 1), None]
    values: dict[str, tuple[pa.DataType, list[Any]]] = {
        "i": (pa.int32(), [1, -5, None]),
        "b": (pa.bool_(), [True, False, None]),
        "d": (pa.date32(), [*days[:2], None]),
        "t": (pa.timestamp("us"), times),
        "z": (pa.timestamp("us", "UTC"), times),
        "m": (pa.decimal128(12, 3), [Decimal("1.500"), Decimal("-0.001"), None]),
        "s": (pa.string(), ["a'b", "", None]),
        "y": (pa.binary(), [b"\x00\xff", b"", None]),
        "h": (pa.time64("us"), [datetime.time(1, 2, 3, 4), datetime.time(0), None]),
        "f": (pa.binary(4), [b"abcd", b"\0\0\0\0", None]),
    }
    shape = pa.schema([("k", pa.int64()), *((name, type_) for name, (type_, _) in values.items())])
    rows = pa.table([[0, 1, 2], *(given for _, given in values.values())], schema=shape)
    made = create(tmp_path, shape)
    made.append(rows)
    spec = table_spec(schema={"k": "BIGINT"})
    for id_, name in enumerate(values, 2):
        for number in (0, 2):
            file = equals(tmp_path, rows.slice(number, 1), (id_,), schema=made.schema())
            commit(tmp_path, deletes=[file])
            left = [k for (k,) in Reading(spec, tmp_path, duck).all()[0]]
            assert sorted(left) == [k for k in range(3) if k != number], (name, number)
            commit(tmp_path, remove=[file.file_path])


def test_many_upserts(tmp_path: Path, duck: DuckSession) -> None:
    """Files of deletes that many data files have are put together; each counts for those that are older."""
    lake = Lake(tmp_path)
    lake.do(("append", 5))
    one = Reading(table_spec(CHANGES), tmp_path, duck)
    rows, at = one.all()
    there = folded(rows)
    for n in range(6):
        lake.do(("upsert", n))
        lake.do(("append", 0))
    assert Counter(Reading(table_spec(), tmp_path, duck).all()[0]) == lake.there
    more, _ = one.all(at, Limits(tasks=2))
    assert folded(more, there) == lake.there


def test_deletes_by_a_uuid(tmp_path: Path, duck: DuckSession) -> None:
    made = create(
        tmp_path,
        Schema(
            NestedField(1, "k", LongType(), required=False), NestedField(2, "u", UUIDType(), required=False)
        ),
    )
    values = [uuid.UUID(int=number).bytes for number in range(5)]
    shape = made.schema().as_arrow()
    ids = pa.array(values, pa.binary(16)).cast(shape.field("u").type)
    rows = pa.table([pa.array(range(5), pa.int64()), ids], schema=shape)
    made.append(rows)
    for number in range(3):
        commit(tmp_path, deletes=[equals(tmp_path, rows.slice(number, 1), (2,), schema=made.schema())])
    assert sorted(Reading(table_spec(schema={"k": "BIGINT"}), tmp_path, duck).all()[0]) == [(3,), (4,)]
