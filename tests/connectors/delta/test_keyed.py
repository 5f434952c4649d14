"""Delta tables that are kept up to date by key: one MERGE an epoch, over changes, crashes, other writers and copies."""

from __future__ import annotations

import datetime
import random
import re
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream_operators.errors import DataError, RefusedRowError, TargetError
from tests.examples import examples
from tests.properties.in_process import run_here

deltalake = pytest.importorskip("deltalake")

from tests.connectors.delta.keyed import Driver, spec_of  # noqa: E402
from tests.connectors.delta.reading import compact, in_files, rows_of  # noqa: E402
from tests.connectors.delta.test_sink import TYPES  # noqa: E402
from tests.connectors.staged_parts import Delta, come, go  # noqa: E402

SIMPLE = {"k": "BIGINT", "v": "VARCHAR"}


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path, spec_of(SIMPLE))
    yield made
    made.close()


def table_of(driver: Driver) -> Any:
    return deltalake.DeltaTable(str(driver.table))


def rows(driver: Driver) -> list[tuple[Any, ...]]:
    """What both readers find."""
    names = ", ".join(f'"{column.name}"' for column in driver.spec.schema)
    found = sorted(rows_of(driver.table, names), key=repr)
    if not driver.spec.partitioned_by:
        assert sorted(in_files(driver.table, names), key=repr) == found
    return found


# ---------------------------------------------------------------------------------------------- what is written


def test_rows_come_change_and_go(driver: Driver) -> None:
    driver.epoch(come((1, "one"), (2, "two"), (3, None)))
    assert rows(driver) == [(1, "one"), (2, "two"), (3, None)]
    driver.epoch(go((1, "one")), [*go((3, None)), *come((3, "three"))], come((4, "four")))
    assert rows(driver) == [(2, "two"), (3, "three"), (4, "four")]
    driver.epoch(go((2, "two"), (3, "three"), (4, "four")))
    assert rows(driver) == []
    driver.epoch(come((1, "again")))
    assert rows(driver) == [(1, "again")]


def test_an_epoch_is_one_commit_that_has_its_number(driver: Driver) -> None:
    driver.epoch(come((1, "a"), (2, "b")))
    before = table_of(driver).version()
    driver.epoch(go((1, "a")), come((2, "c")), go((2, "b")), come((3, "d")))
    assert table_of(driver).version() == before + 1
    (application,) = re.findall(
        r'"appId":"([^"]+)"', (driver.table / "_delta_log" / f"{before + 1:020d}.json").read_text()
    )
    assert table_of(driver).transaction_version(application) == 2


def test_changes_of_a_key_that_several_tasks_report_are_one(driver: Driver) -> None:
    driver.epoch(come((1, "a")))
    driver.epoch(come((1, "b")), go((1, "a")), come((2, "x")), go((2, "x")))
    assert rows(driver) == [(1, "b")]


def test_epochs_without_a_change_are_no_commits(driver: Driver) -> None:
    driver.epoch(come((1, "a")))
    before = table_of(driver).version()
    driver.epoch()
    driver.epoch([])
    driver.epoch(come((2, "x")), go((2, "x")))
    assert table_of(driver).version() == before
    driver.epoch(go((7, "was never there")))
    assert table_of(driver).version() == before
    driver.commit_again([driver.part(go((7, "was never there")))])
    driver.epoch(come((3, "c")))
    assert rows(driver) == [(1, "a"), (3, "c")]


def test_rows_that_are_only_appended_are_written_over_by_key(tmp_path: Path) -> None:
    """And stand beside those of others, which keep other keys."""
    driver = Driver(tmp_path, spec_of(SIMPLE, changelog="append"))
    deltalake.write_deltalake(
        str(driver.table), pa.table({"k": pa.array([9, 8], pa.int64()), "v": ["x", "y"]})
    )
    driver.epoch(come((1, "a"), (2, "b")))
    driver.epoch(come((2, "c"), (9, "z")))
    assert rows(driver) == [(1, "a"), (2, "c"), (8, "y"), (9, "z")]
    driver.close()


def test_a_table_of_nothing_but_its_key(tmp_path: Path) -> None:
    driver = Driver(tmp_path, spec_of({"k": "BIGINT", "l": "VARCHAR"}, ("k", "l")))
    driver.epoch(come((1, "a"), (2, "b")))
    driver.epoch(go((1, "a")), come((3, "c")), [*go((2, "b")), *come((2, "b"))])
    assert rows(driver) == [(2, "b"), (3, "c")]
    driver.close()


KEYS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 0, 127],
    "BIGINT": [-(2**63), 0, 2**63 - 1],
    "HUGEINT": [Decimal(-(10**37)), Decimal(0), Decimal(10**37)],
    "DECIMAL(38, 4)": [Decimal("-1.5000"), Decimal("12345678901234567890.1234"), Decimal("0.0001")],
    "FLOAT": [0.0, 0.5, float("inf")],
    "DOUBLE": [0.1, float("-inf"), 1e300],
    "DATE": [datetime.date(1, 1, 1), datetime.date(2024, 2, 29), datetime.date(9999, 12, 31)],
    "TIMESTAMP": [
        datetime.datetime(1, 1, 1),
        datetime.datetime(2024, 1, 1, 0, 0, 0, 1),
        datetime.datetime(2024, 1, 1, 0, 0, 0, 2),
    ],
    "TIMESTAMP WITH TIME ZONE": [
        datetime.datetime(2024, 1, 1, 0, 0, 0, 1, datetime.UTC),
        datetime.datetime(2024, 1, 1, 0, 0, 0, 999, datetime.UTC),
        datetime.datetime(2261, 1, 1, 0, 0, 0, 999, datetime.UTC),
    ],
    "VARCHAR": ["", "a", "A", "ä'\"%/=", "x" * 200 + "1", "x" * 200 + "2", "\U0001f600" * 40],
    "BLOB": [b"", b"\x00\xff", b"\xff" * 80],
    "UUID": ["00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000001"],
    "TIME WITH TIME ZONE": ["12:00:00+02", "00:00:00+00"],
}


@pytest.mark.parametrize("type_", KEYS)
@pytest.mark.parametrize("compacted", [False, True])
def test_keys_of_every_type(tmp_path: Path, type_: str, compacted: bool) -> None:
    """Each key by itself, so that a file's bounds decide whether it is looked at, and all at once."""
    driver = Driver(tmp_path, spec_of({"k": type_, "n": "BIGINT"}))
    keys = KEYS[type_]
    for number, key in enumerate(keys):
        driver.epoch(come((key, number)))
    if compacted:
        compact(driver.table)
    for number, key in enumerate(keys):
        driver.epoch([((key, number), -1), ((key, number + 100), 1)])
    found = {row[0]: row[1] for row in rows_of(driver.table, "k, n")}
    assert len(rows_of(driver.table)) == len(keys)
    assert found == {key: number + 100 for number, key in enumerate(keys)}
    driver.epoch([((key, number + 100), -1) for number, key in enumerate(keys)][:-1])
    assert [row[0] for row in rows_of(driver.table, "k, n")] == keys[-1:]
    driver.close()


def test_nan_and_zeros_are_one_key(tmp_path: Path) -> None:
    """As they are to the query."""
    driver = Driver(tmp_path, spec_of({"k": "DOUBLE", "n": "BIGINT"}))
    driver.epoch(come((float("nan"), 1), (0.0, 2)))
    driver.epoch([((float("nan"), 1), -1), ((float("nan"), 3), 1), ((-0.0, 2), -1), ((-0.0, 4), 1)])
    assert sorted(n for _, n in rows_of(driver.table, "k, n")) == [3, 4]
    driver.close()


PARTITIONS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False, None],
    "INTEGER": [-5, 0, None],
    "DATE": [datetime.date(2024, 1, 1), datetime.date(1, 1, 1), None],
    "TIMESTAMP": [datetime.datetime(2024, 1, 1, 0, 0, 0, 1), datetime.datetime(2024, 1, 1), None],
    "TIMESTAMP WITH TIME ZONE": [datetime.datetime(2024, 1, 1, 0, 0, 0, 1, datetime.UTC), None],
    "VARCHAR": ["a/b %=é", "A", "a", "x" * 200, "é" * 30, None],
}


@pytest.mark.parametrize("type_", PARTITIONS)
def test_a_row_moves_between_partitions(tmp_path: Path, type_: str) -> None:
    driver = Driver(tmp_path, spec_of({"k": "BIGINT", "p": type_, "v": "BIGINT"}, partitions=["p"]))
    values = PARTITIONS[type_]
    driver.epoch([((n, value, 0), 1) for n, value in enumerate(values)])
    for turn in range(1, len(values) + 1):
        driver.epoch(
            [
                change
                for n in range(len(values))
                for change in (
                    ((n, values[(n + turn - 1) % len(values)], turn - 1), -1),
                    ((n, values[(n + turn) % len(values)], turn), 1),
                )
            ]
        )
        wanted = [(n, values[(n + turn) % len(values)], turn) for n in range(len(values))]
        assert sorted(rows_of(driver.table, "k, p, v")) == wanted
    driver.epoch(go((0, values[0], len(values))))
    assert len(rows_of(driver.table)) == len(values) - 1
    driver.close()


def test_a_partition_that_belongs_to_the_key(tmp_path: Path) -> None:
    spec = spec_of({"k": "BIGINT", "day": "DATE", "v": "VARCHAR"}, ("k", "day"), partitions=["day"])
    driver = Driver(tmp_path, spec)
    first, second = datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)
    driver.epoch(come((1, first, "a"), (1, second, "b"), (2, first, "c")))
    files = set(table_of(driver).file_uris())
    driver.epoch(go((1, second, "b")), come((1, second, "d"), (2, second, "e")))
    assert rows(driver) == [(1, first, "a"), (1, second, "d"), (2, first, "c"), (2, second, "e")]
    kept = files & set(table_of(driver).file_uris())
    assert [one for one in kept if "2024-01-01" in one], "the other day's file is not touched"
    driver.close()


def test_files_without_changed_keys_are_not_touched(driver: Driver) -> None:
    for n in range(4):
        driver.epoch(come(*((n * 100 + i, "x") for i in range(100))))
    files = set(table_of(driver).file_uris())
    driver.epoch(go((250, "x")), come((250, "y"), (260, "y")), go((260, "x")))
    assert len(files & set(table_of(driver).file_uris())) == 3


# ---------------------------------------------------------------------------------------------- what is refused


def test_a_key_that_is_null_or_has_two_rows_is_refused_while_the_epoch_can_be_given_up(
    driver: Driver,
) -> None:
    driver.epoch(come((1, "a")))
    version = table_of(driver).version()
    with pytest.raises(RefusedRowError, match="two rows have the PRIMARY KEY k = 2"):
        driver.prepare(come((2, "x")), come((2, "y")))
    with pytest.raises(RefusedRowError, match="NULL in k"):
        driver.prepare(come((None, "x")))
    driver.epoch(come((2, "b")))
    assert rows(driver) == [(1, "a"), (2, "b")]
    assert table_of(driver).version() == version + 1


@pytest.mark.parametrize(
    ("text", "said"), [("", "empty text"), ("x" * 300, "too long"), ("é" * 80, "too long")]
)
def test_a_text_that_is_no_partition(tmp_path: Path, text: str, said: str) -> None:
    driver = Driver(tmp_path, spec_of({"k": "BIGINT", "p": "VARCHAR", "v": "BIGINT"}, partitions=["p"]))
    driver.epoch(come((1, "a", 1)))
    with pytest.raises(RefusedRowError, match=said):
        driver.prepare(come((2, text, 1)))
    assert rows_of(driver.table, "k, p, v") == [(1, "a", 1)]
    driver.epoch(come((2, "b", 1)))
    assert sorted(rows_of(driver.table, "k, p, v")) == [(1, "a", 1), (2, "b", 1)]
    driver.close()


def test_a_table_with_rows_of_others_is_refused(driver: Driver) -> None:
    deltalake.write_deltalake(str(driver.table), pa.table({"k": pa.array([9], pa.int64()), "v": ["x"]}))
    with pytest.raises(TargetError, match="has rows that this pipeline did not write"):
        driver.prepare(come((1, "a")))
    deltalake.DeltaTable(str(driver.table)).delete()
    driver.epoch(come((1, "a")))
    assert rows(driver) == [(1, "a")]


def test_rows_of_others_that_come_before_the_first_commit(driver: Driver) -> None:
    parts = driver.prepare(come((1, "a")))
    deltalake.write_deltalake(
        str(driver.table), pa.table({"k": pa.array([1], pa.int64()), "v": ["x"]}), mode="append"
    )
    with pytest.raises(TargetError, match="has rows that this pipeline did not write"):
        driver.commit(parts)
    deltalake.DeltaTable(str(driver.table)).delete()
    driver.commit_again(parts)
    assert rows(driver) == [(1, "a")]


def test_a_table_of_another_state_directory_or_table_is_refused(driver: Driver) -> None:
    parts = driver.prepare(come((1, "a")))
    other = Driver(driver.folder, driver.spec, state="other")
    with pytest.raises(TargetError, match="kept up to date by another writer"):
        other.prepare(come((2, "b")))
    second = Driver(driver.folder, spec_of(SIMPLE, name="p"))
    with pytest.raises(TargetError, match="or by another table of this query"):
        second.prepare(come((2, "b")))
    added = Driver(driver.folder, spec_of(SIMPLE, changelog="append"), state="added")
    with pytest.raises(TargetError, match="kept up to date by another writer"):
        added.prepare(come((2, "b")))
    driver.commit(parts)
    assert rows(driver) == [(1, "a")]
    other.close()
    second.close()


def test_a_table_that_takes_no_changes(driver: Driver) -> None:
    deltalake.DeltaTable.create(
        str(driver.table),
        pa.schema([("k", pa.int64()), ("v", pa.string())]),
        configuration={"delta.appendOnly": "true"},
    )
    with pytest.raises(TargetError, match=re.escape("delta.appendOnly")):
        driver.prepare(come((1, "a")))


# ------------------------------------------------------------------------------------- crashes and other writers


def test_the_same_epoch_again(driver: Driver) -> None:
    driver.epoch(come((1, "a"), (2, "b")))
    parts = driver.epoch(go((1, "a")), come((3, "c")))
    version = table_of(driver).version()
    driver.commit_again(parts)
    assert table_of(driver).version() == version
    compact(driver.table)
    driver.commit_again(parts)
    assert rows(driver) == [(2, "b"), (3, "c")]


def test_the_log_decides_and_not_the_rows(driver: Driver) -> None:
    """A row that was changed by hand after the epoch is not changed back by the epoch's second commit."""
    parts = driver.epoch(come((1, "a")))
    table_of(driver).update(updates={"v": "'mine'"}, predicate="k = 1")
    driver.commit_again(parts)
    assert rows(driver) == [(1, "mine")]


def test_two_drivers_that_commit_one_epoch(driver: Driver) -> None:
    """One was paused between its look at the log and its commit, and another was there first."""
    driver.epoch(come((1, "a")))
    parts = [driver.part(come((2, "b"))), driver.part(go((1, "a")))]
    first, second = driver.start(), driver.start()
    for sink in (first, second):
        sink.prepare(2, parts, previous=1)
    stale = table_of(driver)
    second.commit(2, parts, previous=1)
    version = table_of(driver).version()
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        first._write(stale, 2, parts, None)
    first.commit(2, parts, previous=1)
    assert table_of(driver).version() == version
    assert rows(driver) == [(2, "b")]


def test_a_driver_that_comes_after_the_next_epoch(driver: Driver) -> None:
    """It was paused so long that another one has gone on: its epoch is not put over the later one."""
    old = driver.start()
    parts = [driver.part(come((1, "a")))]
    old.prepare(1, parts, previous=0)
    driver.start().prepare(1, parts, previous=0)
    stale = table_of(driver)
    driver.commit(parts)
    driver.epoch(go((1, "a")))
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        old._write(stale, 1, parts, None)
    old.commit(1, parts, previous=0)
    assert rows(driver) == []


def test_two_that_claim_a_table_at_once(driver: Driver) -> None:
    other = Driver(driver.folder, driver.spec, state="other")
    driver.prepare()
    with pytest.raises(TargetError, match="kept up to date by another writer"):
        other.prepare()
    stale = deltalake.DeltaTable(str(driver.table), version=0)
    log = other.delta._delta
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "open", lambda: stale)
        with pytest.raises(deltalake.exceptions.CommitFailedError):
            log.claim()
    other.close()


@pytest.mark.parametrize("between", ["append", "compact", "both", "property"])
def test_commits_of_others_between_the_look_and_the_commit(
    driver: Driver, between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merge is done again over what they have left, and once."""
    for n in range(3):
        driver.epoch(come((n, "x")))
    path, write, times = str(driver.table), driver.sink._content.write, []

    def disturbed(table: Any, commit: Any) -> bool:
        times.append(1)
        if len(times) == 1:
            if between in ("append", "both"):
                more = pa.table({"k": pa.array([50], pa.int64()), "v": ["of others"]})
                deltalake.write_deltalake(path, more, mode="append")
            if between in ("compact", "both"):
                compact(driver.table)
            if between == "property":
                deltalake.DeltaTable(path).alter.set_table_properties(
                    {"delta.logRetentionDuration": "interval 7 days"}
                )
        return write(table, commit)

    monkeypatch.setattr(driver.sink._content, "write", disturbed)
    driver.epoch(go((1, "x")), come((1, "y"), (9, "z")))
    assert len(times) == 2
    others = [(50, "of others")] if between in ("append", "both") else []
    assert rows(driver) == [(0, "x"), (1, "y"), (2, "x"), *others, (9, "z")]


def test_copies_of_either_side(driver: Driver) -> None:
    driver.epoch(come((1, "a")))
    shutil.copytree(driver.table, driver.folder / "older")
    driver.epoch(come((2, "b")))
    shutil.move(driver.table, driver.folder / "newer")
    shutil.move(driver.folder / "older", driver.table)
    driver.start()
    with pytest.raises(TargetError, match="has epoch 1, but epoch 2 was committed to it"):
        driver.prepare(come((3, "c")))
    shutil.rmtree(driver.table)
    with pytest.raises(TargetError, match="is gone"):
        driver.prepare(come((3, "c")))
    shutil.move(driver.folder / "newer", driver.table)
    driver.epoch(come((3, "c")))
    assert rows(driver) == [(1, "a"), (2, "b"), (3, "c")]


# --------------------------------------------------------------------------------------------------- by search

small = st.tuples(st.integers(0, 5), st.sampled_from([None, "", "a", "b"]), st.integers(0, 2))
epochs = st.lists(st.lists(small, max_size=6), min_size=1, max_size=5)


@settings(
    max_examples=examples(6),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(epochs=epochs, seed=st.integers(0, 1_000_000), partitioned=st.booleans())
def test_random_epochs_with_crashes_and_other_writers(
    tmp_path_factory: pytest.TempPathFactory,
    epochs: list[list[tuple[int, str | None, int]]],
    seed: int,
    partitioned: bool,
) -> None:
    """The table is what a dictionary is."""
    rng = random.Random(seed)
    spec = spec_of({"k": "BIGINT", "v": "VARCHAR", "p": "INTEGER"}, partitions=["p"] if partitioned else [])
    driver = Driver(tmp_path_factory.mktemp("p"), spec)
    held: dict[int, tuple[int, str | None, int]] = {}
    for wanted in epochs:
        new = dict(held)
        for row in wanted:
            if row[1] == "b":
                new.pop(row[0], None)
            else:
                new[row[0]] = row
        changes = [(row, -1) for key, row in held.items() if new.get(key) != row]
        changes += [(row, 1) for key, row in new.items() if held.get(key) != row]
        rng.shuffle(changes)
        cut = rng.randint(0, len(changes))
        deltas: list[Delta] = [changes[:cut], changes[cut:]]
        if rng.random() < 0.3:
            driver.start()  # the last one died before the manifest
            driver.prepare(*deltas)
            driver.start()
        parts = driver.prepare(*deltas)
        if rng.random() < 0.3:
            driver.last += 1  # the manifest is there, and the driver is not
            driver.commit_again(parts)
        else:
            driver.commit(parts)
        if rng.random() < 0.3:
            compact(driver.table)
        if rng.random() < 0.3:
            driver.commit_again(parts)
        held = new
        assert sorted(rows_of(driver.table, "k, v, p"), key=repr) == sorted(held.values(), key=repr)
    driver.close()


def test_an_error_of_the_engine_below_is_reported_as_one_of_the_library(driver: Driver) -> None:
    from sqlstream.connectors.delta.sink.merged import _carried_out

    def broken() -> None:
        raise Exception("Cast error")

    with pytest.raises(deltalake.exceptions.DeltaError, match="Cast error"):
        _carried_out(broken)
    with pytest.raises(DataError):
        _carried_out(lambda: (_ for _ in ()).throw(DataError("x")))


def test_columns_with_any_names_in_another_order(tmp_path: Path) -> None:
    """The table is another's, with a column more, and has rows that it keeps."""
    names = ["a b", "a.b", "select", 'q"', "t", "s", "Ä"]
    spec = spec_of(dict.fromkeys(names, "BIGINT"), ("a.b", 'q"'), changelog="append")
    driver = Driver(tmp_path, spec)
    there = pa.schema([pa.field(name, pa.int64()) for name in [*reversed(names), "more"]])
    deltalake.DeltaTable.create(str(driver.table), there)
    driver.epoch(come((1, 2, 3, 4, 5, 6, 7), (2, 3, 4, 5, 6, 7, 8)))
    driver.epoch(come((9, 2, 9, 4, 9, 9, 9)))
    listed = ", ".join(f'"{name}"' for name in [n.replace('"', '""') for n in names])
    assert sorted(rows_of(driver.table, f"{listed}, more")) == [
        (2, 3, 4, 5, 6, 7, 8, None),
        (9, 2, 9, 4, 9, 9, 9, None),
    ]
    driver.close()


@pytest.mark.parametrize("key", ["PRIMARY KEY (K, DAY) NOT ENFORCED", ""])
def test_a_key_and_partitions_in_another_case(tmp_path: Path, key: str) -> None:
    (tmp_path / "in").mkdir()
    query = "SELECT k, day, count(*) FROM t GROUP BY k, day" if key else "SELECT k, day, 2 FROM t WHERE k = 1"
    text = (
        "CREATE TABLE t (k INT, Day DATE) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        f"CREATE TABLE o (k INT, Day DATE, n BIGINT{', ' * bool(key)}{key}) PARTITIONED BY (day) "
        f"WITH ('connector' = 'delta', 'table-path' = 'table');\nINSERT INTO o {query};\n"
    )
    for number in range(2):
        lines = [f'{{"k": {k}, "Day": "2024-01-01"}}\n' for k in ((1, 2), (2, 1 - number))[number]]
        (tmp_path / "in" / f"{number}.json").write_text("".join(lines))
        run_here(plan_file(text, file="p.sql"), tmp_path)
    day = datetime.date(2024, 1, 1)
    wanted = [(0, day, 1), (1, day, 1), (2, day, 2)] if key else [(1, day, 2)]
    assert sorted(rows_of(tmp_path / "table", 'k, "Day", n')) == wanted


def test_more_rows_than_a_batch(driver: Driver) -> None:
    count = 150_000
    driver.epoch([((n, f"v{n}"), 1) for n in range(count)])
    driver.epoch(
        [((n, f"v{n}"), -1) for n in range(0, count, 2)],
        [((n, "new"), 1) for n in range(0, count, 4)],
    )
    wanted = {n: "new" if n % 4 == 0 else f"v{n}" for n in range(count) if n % 2 or n % 4 == 0}
    found = rows_of(driver.table, "k, v")
    assert len(found) == len(wanted)
    assert dict(found) == wanted


def test_types_there_and_back(tmp_path: Path) -> None:
    """Over a merge that inserts, one that writes over, and an overwrite of the whole table."""
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in TYPES.items())
    values = ", ".join(f"{value} AS {name}" for name, (_, value) in TYPES.items())
    (tmp_path / "in").mkdir()

    def text(version: str, more: str, extra: str) -> str:
        return (
            f"CREATE TABLE t (id BIGINT, v BIGINT, {columns}) "
            "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');\n"
            f"CREATE TABLE o (id BIGINT, n BIGINT, {columns}{more}, PRIMARY KEY (id) NOT ENFORCED) "
            "WITH ('connector' = 'delta', 'table-path' = 'table');\n"
            f"INSERT INTO o SELECT id, {version}, {', '.join(f'max({name})' for name in TYPES)}{extra} FROM t GROUP BY id;\n"
        )

    for number in range(2):
        file = str(tmp_path / "in" / f"{number}.parquet")
        duckdb.sql(f"SELECT CAST(1 AS BIGINT) AS id, CAST({number} AS BIGINT) AS v, {values}").write_parquet(
            file
        )
        run_here(plan_file(text("count(*)", "", ""), file="p.sql"), tmp_path)
        _same_values(tmp_path / "table", number + 1, values)
    edited = plan_file(text("count(*)", ", w BIGINT", ", max(v)"), file="p.sql")
    run_here(edited, tmp_path, accept=["alter:o"])
    _same_values(tmp_path / "table", 2, values)


def _same_values(table: Path, n: int, values: str) -> None:
    names = ", ".join(f"{name}::VARCHAR" for name in TYPES)
    expected = duckdb.sql(f"SELECT {names} FROM (SELECT {values})").fetchall()
    assert in_files(table, f"n, {names}") == [(n, *expected[0])]
