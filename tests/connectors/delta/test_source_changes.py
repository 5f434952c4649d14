"""The changes of Delta tables: whatever is done to one, what goes and comes of its rows gives the table at each version."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import Limits
from sqlstream.connectors.delta.source import ahead
from sqlstream.connectors.delta.source.positions import DeltaPosition
from sqlstream.connectors.filesystem import cutting
from sqlstream.planning import plan_file
from sqlstream_operators.duck.session import DuckSession
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.delta.tables import Reading, Row, Table, table_spec
from tests.connectors.delta.test_source_losses import MODERN, VECTOR, by_hand
from tests.connectors.delta.test_source_pipelines import run
from tests.examples import examples
from tests.properties.updating import collecting
from tests.runtime.support import Crash, crash_at

deltalake = pytest.importorskip("deltalake")

FEED = {"delta.enableChangeDataFeed": "true"}
CHANGES = {"readChangeFeed": "true"}


@pytest.fixture(params=[False, True], ids=["whole files", "change feed"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    return Table(tmp_path / "lake", properties=FEED if request.param else {})


def reading(table: Table, duck: DuckSession, **options: str) -> Reading:
    return Reading(table_spec({**CHANGES, **options}), table.path.parent, duck)


def at_version(table: Table, version: int | None = None) -> Counter[Row]:
    """The rows of a table at a version, by Delta's library."""
    rows = deltalake.DeltaTable(str(table.path), version=version).to_pyarrow_table()
    return Counter(zip(rows.column("k").to_pylist(), rows.column("v").to_pylist(), strict=True))


def folded(changes: Iterable[Row], before: Counter[Row] | None = None) -> Counter[Row]:
    """What is there after changes; no row goes that is not there."""
    there = Counter(before or {})
    for *row, kind in changes:
        there[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    assert all(count >= 0 for count in there.values()), there
    return +there


def merge(table: Table, keys: Sequence[int]) -> None:
    """Update the rows of these keys that are there, and insert the others."""
    rows = pa.table({"k": pa.array(keys, pa.int64()), "v": [f"m{table.version}"] * len(keys)})
    made = table.delta.merge(rows, "s.k = t.k", source_alias="s", target_alias="t")
    made.when_matched_update_all().when_not_matched_insert_all().execute()


def do(table: Table, what: tuple[str, int]) -> None:
    """Do something to a table, whose keys stay unique."""
    name, n = what
    match name:
        case "append":
            table.append(n + 1, files=1 + n % 2)
        case "update":
            table.delta.update(updates={"v": f"'u{table.version}'"}, predicate=f"k % 3 = {n % 3}")
        case "update to another":
            # To one that no other row has had: a merge may insert the key that goes here once more.
            table.delta.update(updates={"k": f"k + {10_000 * (table.version + 1)}"}, predicate=f"k = {n}")
        case "delete":
            table.delta.delete(f"k % 4 = {n % 4}")
        case "delete all":
            table.delta.delete()
        case "merge":
            known = max(1, table.rows)  # a key above would come again with an append
            merge(table, sorted({n % known, (n + 1) % known, 2000 + table.version}))
        case "overwrite":
            rows = pa.table({"k": pa.array(range(n), pa.int64()), "v": pa.array(["w"] * n, pa.string())})
            deltalake.write_deltalake(str(table.path), rows, mode="overwrite")
            table.rows = max(table.rows, n)
        case "restore":
            if table.version:
                table.delta.restore(max(0, table.version - 1 - n % 2))
        case "optimize":
            table.delta.optimize.compact()


NAMES = [
    "append",
    "update",
    "update to another",
    "delete",
    "delete all",
    "merge",
    "overwrite",
    "restore",
    "optimize",
]


@pytest.mark.parametrize("name", NAMES)
def test_each_operation(table: Table, duck: DuckSession, name: str) -> None:
    table.append(6, files=2)
    table.append(3)
    one = reading(table, duck, mode="streaming")
    rows, at = one.all()
    there = folded(rows)
    assert there == at_version(table)
    do(table, (name, 2))
    rows, at = one.all(at)
    there = folded(rows, there)
    assert there == at_version(table)
    if name == "optimize":
        assert not rows
    if "change feed" in str(table.properties) and name == "update":
        assert {row[-1] for row in rows} == {"-U", "+U"}
    table.append(1)
    rows, at = one.again().all(at)
    assert folded(rows, there) == at_version(table)


def test_what_changes_is_read_by_rows_where_the_table_keeps_that(tmp_path: Path, duck: DuckSession) -> None:
    """With the feed a DELETE of one row is one row; without it the file goes, and comes again without the row."""
    for number, properties in enumerate((FEED, {})):
        table = Table(tmp_path / f"lake{number}", properties=properties)
        table.append(5)
        one = Reading(table_spec(CHANGES, path=f"lake{number}"), tmp_path, duck)
        _, at = one.all()
        table.delta.delete("k = 3")
        kinds = Counter(row[-1] for row in one.again().all(at)[0])
        assert kinds == ({"-D": 1} if properties else {"-D": 5, "+I": 4})


LIMITS = st.builds(
    Limits,
    rows=st.none() | st.integers(1, 5),
    files=st.none() | st.integers(1, 3),
    bytes=st.none() | st.integers(1, 3000),
    tasks=st.integers(1, 3),
)


@pytest.mark.parametrize("feed", [False, True])
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 5)), max_size=3), LIMITS, st.booleans()
        ),
        min_size=1,
        max_size=4,
    ),
    partitioned=st.booleans(),
    start=st.sampled_from([None, "0", "1"]),
    most=st.sampled_from([1, 2, 1000]),
    data=st.data(),
)
def test_however_it_is_cut(
    duck: DuckSession,
    feed: bool,
    steps: Sequence[tuple[Sequence[tuple[str, int]], Limits, bool]],
    partitioned: bool,
    start: str | None,
    most: int,
    data: st.DataObject,
) -> None:
    """At each end of an epoch no key has two rows; where a version ends, the rows are the table's."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "_SMALLEST_SPLIT", 1)
        patch.setattr(ahead, "MOST_FILES", most)
        table = Table(Path(name) / "lake", partitioned, properties=FEED if feed else {})
        table.append(5, files=2)
        one = reading(table, duck, mode="streaming", **({} if start is None else {"startingVersion": start}))
        at = one.source.initial_position()
        there = at_version(table, 0) if start == "1" else Counter[Row]()
        rows: list[Row] = []
        places = [(at, 0)]
        for writes, limits, another_run in steps:
            for what in writes:
                do(table, what)
            one = one.again() if another_run else one
            for epoch in one.epochs(at, limits):
                if not epoch.splits:
                    break
                assert one.again().epoch(at, limits).rows == epoch.rows
                rows += epoch.rows
                there = folded(epoch.rows, there)
                keys = Counter(k for (k, _), count in there.items() for _ in range(count))
                assert max(keys.values(), default=0) <= 1, "a row that changes goes before it comes"
                at = epoch.after
                places.append((at, len(rows)))
                place = DeltaPosition.from_json(at)
                if not (place.file or place.row):
                    assert there == at_version(table, place.version - 1)
        assert there == at_version(table)
        # How many there are depends on the names of files, which are others each time: what is drawn must not.
        some, count = places[data.draw(st.integers(0, 999)) % len(places)]
        assert one.history(some, data.draw(LIMITS)) == rows[:count]


SOURCE = (
    "CREATE TABLE t (k BIGINT, v STRING{key}) "
    "WITH ('connector' = 'delta', 'table-path' = 'lake', 'readChangeFeed' = 'true');\n"
)
COUNTS = (
    "CREATE TABLE counts WITH ('connector' = 'blackhole') AS SELECT v, COUNT(*) AS n FROM t GROUP BY v;\n"
)
GREATEST = (
    "CREATE TABLE greatest WITH ('connector' = 'blackhole') AS SELECT v, MAX(k) AS k FROM t GROUP BY v;\n"
)
COPY = (
    "CREATE TABLE o (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED) "
    "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\nINSERT INTO o SELECT k, v FROM t WHERE k % 5 <> 4;\n"
)


def counted(table: Table) -> Counter[Row]:
    return Counter(Counter(v for _, v in at_version(table)).items())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (k) NOT ENFORCED"], ids=["rows", "keys"])
def test_pipelines(table: Table, key: str) -> None:
    """Aggregates, a table that is kept up to date, and an edit that reads all changes again."""
    folder = table.path.parent
    table.append(12, files=2)
    with collecting() as collected:
        for what in [
            ("append", 3),
            ("update", 1),
            ("delete", 2),
            ("merge", 4),
            ("optimize", 0),
            ("overwrite", 5),
        ]:
            do(table, what)
            run(folder, SOURCE.format(key=key) + COUNTS)
            assert Counter(collected.folded("counts")) == counted(table), what
        do(table, ("merge", 3))
        run(folder, SOURCE.format(key=key) + COUNTS + GREATEST)
        assert Counter(collected.folded("counts")) == counted(table)
        greatest = {v: max(k for k, w in at_version(table) if w == v) for _, v in at_version(table)}
        assert Counter(collected.folded("greatest")) == Counter(greatest.items())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", ["planned", "run", "published", "committed"])
def test_crashes(table: Table, point: Any) -> None:
    folder = table.path.parent
    table.append(12, files=2)
    text = SOURCE.format(key=", PRIMARY KEY (k) NOT ENFORCED") + COPY
    run(folder, text)
    for what in (("update", 1), ("merge", 4), ("delete", 2), ("append", 4)):
        do(table, what)
    with pytest.raises(Crash):
        run(folder, text, rows_per_epoch=9, faults=crash_at(point, 4))
    do(table, ("optimize", 0))
    do(table, ("update", 2))
    run(folder, text, rows_per_epoch=9)
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as con:
        found = con.execute("SELECT k, v FROM o").fetchall()
    assert Counter(found) == Counter({row: n for row, n in at_version(table).items() if row[0] % 5 != 4})


def test_deletion_vectors_are_refused(table: Table, duck: DuckSession) -> None:
    table.append(3)
    by_hand(table, 0, protocol={**MODERN, "writerFeatures": ["deletionVectors", "changeDataFeed"]})
    one = reading(table, duck)
    _, at = one.all()
    table.delta.delete("k = 1")
    by_hand(table, 1, remove={"deletionVector": VECTOR}, cdc={"path": "nothing"})
    found = one.again()
    if table.properties:
        assert found.refused(at).code == "DAT015", "the version says all with its files of changes"
    else:
        assert found.refused(at).code == "DAT018"


def test_a_removed_file_of_no_partition(tmp_path: Path, duck: DuckSession) -> None:
    table = Table(tmp_path / "lake", partitioned=True)
    table.append(3)
    one = reading(table, duck)
    _, at = one.all()
    table.delta.delete("k = 1")
    by_hand(table, 1, remove={"partitionValues": None, "size": None})
    found = one.again().refused(at)
    assert found.code == "DAT018"
    assert "without saying which partition" in found.message


def test_a_removed_file_of_unknown_size(tmp_path: Path, duck: DuckSession) -> None:
    table = Table(tmp_path / "lake")
    table.append(3)
    one = reading(table, duck)
    rows, at = one.all()
    table.delta.delete("k = 1")
    by_hand(table, 1, remove={"partitionValues": None, "size": None})
    more, at = one.again().all(at)
    assert folded(rows + more) == at_version(table)
    assert one.history(at) == rows + more


def test_a_change_of_an_unknown_kind(tmp_path: Path, duck: DuckSession) -> None:
    table = Table(tmp_path / "lake", properties=FEED)
    table.append(3)
    one = reading(table, duck)
    _, at = one.all()
    table.delta.delete("k = 1")
    (file,) = (table.path / "_change_data").rglob("*.parquet")
    rows = pa.table({"k": pa.array([1], pa.int64()), "v": ["v1"], "_change_type": ["moved"]})
    pa.parquet.write_table(rows, file)
    by_hand(table, 1, cdc={"size": file.stat().st_size})
    with pytest.raises(Exception, match="_change_type moved is not known"):
        one.again().all(at)


@pytest.mark.parametrize(
    ("columns", "options", "code"),
    [
        ("k BIGINT, f STRING METADATA FROM 'file.path' VIRTUAL", "", "CAT008"),
        ("k BIGINT", ", 'skipChangeCommits' = 'true'", "OPT003"),
    ],
)
def test_what_changes_have_not(columns: str, options: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(
            f"CREATE TABLE t ({columns}) WITH ('connector' = 'delta', 'table-path' = 'x', "
            f"'readChangeFeed' = 'true'{options});\nSELECT k, COUNT(*) FROM t GROUP BY k;",
            file="p.sql",
        )
    assert [d.code for d in raised.value.diagnostics] == [code]
