"""Tables of lakes that are kept up to date by key: one commit per epoch, over changes, crashes, other writers and copies."""

from __future__ import annotations

import datetime
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

import deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream_operators.errors import RefusedRowError, TargetError
from sqlstream_operators.plan.spec import SinkSpec
from tests.connectors.delta import keyed as delta
from tests.connectors.delta import reading as delta_reading
from tests.connectors.iceberg import keyed as iceberg
from tests.connectors.iceberg import tables as iceberg_tables
from tests.connectors.lakehouse.keyed import Driver
from tests.connectors.staged_parts import Delta, come, go
from tests.examples import examples

SIMPLE = {"k": "BIGINT", "v": "VARCHAR"}


@dataclass(frozen=True)
class Lake:
    """How one kind of tables is declared, and what others do with `table` in a folder, or `lake`."""

    spec_of: Callable[..., SinkSpec]
    place: str
    rows_of: Callable[[Path, Sequence[str]], list[tuple[Any, ...]]]
    commits: Callable[[Path], int]
    create: Callable[[Path, pa.Table], object]
    append: Callable[[Path, pa.Table], object]
    delete: Callable[[Path], object]
    change: Callable[[Path, pa.Table], object]
    compact: Callable[[Path], object]

    def driver(self, folder: Path, schema: Mapping[str, str] = SIMPLE, **options: Any) -> Driver:
        state = options.pop("state", "state")
        return Driver(folder, self.spec_of(schema, **options), state=state)

    def rows(self, driver: Driver, *columns: str) -> list[tuple[Any, ...]]:
        names = columns or [column.name for column in driver.spec.schema]
        return sorted(self.rows_of(driver.folder, names), key=repr)


def _table(folder: Path) -> str:
    return str(folder / "table")


LAKES = {
    "delta": Lake(
        delta.spec_of,
        "table",
        lambda folder, names: delta_reading.rows_of(
            folder / "table", ", ".join(f'"{name}"' for name in names)
        ),
        lambda folder: deltalake.DeltaTable(_table(folder)).version(),
        lambda folder, rows: deltalake.write_deltalake(_table(folder), rows),
        lambda folder, rows: deltalake.write_deltalake(_table(folder), rows, mode="append"),
        lambda folder: deltalake.DeltaTable(_table(folder)).delete(),
        lambda folder, rows: deltalake.write_deltalake(_table(folder), rows, mode="overwrite"),
        lambda folder: delta_reading.compact(folder / "table"),
    ),
    "iceberg": Lake(
        iceberg.spec_of,
        "lake",
        iceberg_tables.rows_of,
        lambda folder: len(iceberg_tables.table(folder).metadata.snapshots),
        lambda folder, rows: iceberg_tables.create(folder, rows.schema).append(rows),
        lambda folder, rows: iceberg_tables.table(folder).append(rows),
        lambda folder: iceberg_tables.table(folder).delete(),
        lambda folder, rows: iceberg_tables.table(folder).overwrite(rows),
        iceberg_tables.compact,
    ),
}


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest) -> Lake:
    return LAKES[request.param]


@pytest.fixture
def driver(lake: Lake, tmp_path: Path) -> Iterator[Driver]:
    made = lake.driver(tmp_path)
    yield made
    made.close()


def rows_of(*rows: tuple[int, str]) -> pa.Table:
    """Rows of others."""
    return pa.table({"k": pa.array([k for k, _ in rows], pa.int64()), "v": [v for _, v in rows]})


# ---------------------------------------------------------------------------------------------- what is written


def test_rows_come_change_and_go(lake: Lake, driver: Driver) -> None:
    driver.epoch(come((1, "one"), (2, "two"), (3, None)))
    assert lake.rows(driver) == [(1, "one"), (2, "two"), (3, None)]
    driver.epoch(go((1, "one")), [*go((3, None)), *come((3, "three"))], come((4, "four")))
    assert lake.rows(driver) == [(2, "two"), (3, "three"), (4, "four")]
    driver.epoch(go((2, "two"), (3, "three"), (4, "four")))
    assert lake.rows(driver) == []
    driver.epoch(come((1, "again")))
    assert lake.rows(driver) == [(1, "again")]


def test_changes_of_a_key_that_several_tasks_report_are_one(lake: Lake, driver: Driver) -> None:
    driver.epoch(come((1, "a")))
    driver.epoch(come((1, "b")), go((1, "a")), come((2, "x")), go((2, "x")))
    assert lake.rows(driver) == [(1, "b")]


def test_epochs_without_a_change_are_no_commits(lake: Lake, driver: Driver) -> None:
    driver.epoch(come((1, "a")))
    before = lake.commits(driver.folder)
    driver.epoch()
    driver.epoch([])
    driver.epoch(come((2, "x")), go((2, "x")))
    driver.epoch(go((7, "was never there")))
    assert lake.commits(driver.folder) == before
    driver.commit_again([driver.part(go((7, "was never there")))])
    driver.epoch(come((3, "c")))
    assert lake.rows(driver) == [(1, "a"), (3, "c")]


def test_rows_that_are_only_appended_are_written_over_by_key(lake: Lake, tmp_path: Path) -> None:
    """And stand beside those of others, which keep other keys."""
    driver = lake.driver(tmp_path, changelog="append")
    lake.create(tmp_path, rows_of((9, "x"), (8, "y")))
    driver.epoch(come((1, "a"), (2, "b")))
    driver.epoch(come((2, "c"), (9, "z")))
    assert lake.rows(driver) == [(1, "a"), (2, "c"), (8, "y"), (9, "z")]
    driver.close()


def test_a_table_of_nothing_but_its_key(lake: Lake, tmp_path: Path) -> None:
    driver = lake.driver(tmp_path, {"k": "BIGINT", "l": "VARCHAR"}, key=("k", "l"))
    driver.epoch(come((1, "a"), (2, "b")))
    driver.epoch(go((1, "a")), come((3, "c")), [*go((2, "b")), *come((2, "b"))])
    assert lake.rows(driver) == [(2, "b"), (3, "c")]
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
    "TIME": [datetime.time(0, 0), datetime.time(12, 30, 0, 1)],
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
    "VARCHAR": ["", "a", "A", "ä'\"%/=", "x" * 200 + "1", "x" * 200 + "2", "\U0001f600" * 40, "\uffff" * 20],
    "BLOB": [b"", b"\x00\xff", b"\xff" * 80],
    "UUID": ["00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000001"],
    "TIME WITH TIME ZONE": ["12:00:00+02", "00:00:00+00"],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize(
    ("name", "type_"),
    [(name, type_) for name in LAKES for type_ in KEYS if (name, type_) != ("delta", "TIME")],
)
def test_keys_of_every_type(tmp_path: Path, name: str, type_: str, compacted: bool) -> None:
    """Each key by itself, so that a file's bounds decide whether it is looked at, and all at once."""
    lake = LAKES[name]
    driver = lake.driver(tmp_path, {"k": type_, "n": "BIGINT"})
    keys = KEYS[type_]
    for number, key in enumerate(keys):
        driver.epoch(come((key, number)))
    if compacted:
        lake.compact(tmp_path)
    for number, key in enumerate(keys):
        driver.epoch([((key, number), -1), ((key, number + 100), 1)])
    found = lake.rows_of(tmp_path, ("k", "n"))
    assert len(found) == len(keys)
    assert dict(found) == {key: number + 100 for number, key in enumerate(keys)}
    driver.epoch([((key, number + 100), -1) for number, key in enumerate(keys)][:-1])
    assert [row[0] for row in lake.rows_of(tmp_path, ("k", "n"))] == keys[-1:]
    driver.close()


def test_nan_and_zeros_are_one_key(lake: Lake, tmp_path: Path) -> None:
    """As they are to the query."""
    driver = lake.driver(tmp_path, {"k": "DOUBLE", "n": "BIGINT"})
    driver.epoch(come((float("nan"), 1), (0.0, 2)))
    driver.epoch([((float("nan"), 1), -1), ((float("nan"), 3), 1), ((-0.0, 2), -1), ((-0.0, 4), 1)])
    assert sorted(n for _, n in lake.rows_of(tmp_path, ("k", "n"))) == [3, 4]
    driver.close()


def test_more_rows_than_a_batch(lake: Lake, driver: Driver) -> None:
    count = 150_000
    driver.epoch([((n, f"v{n}"), 1) for n in range(count)])
    driver.epoch(
        [((n, f"v{n}"), -1) for n in range(0, count, 2)],
        [((n, "new"), 1) for n in range(0, count, 4)],
    )
    wanted = {n: "new" if n % 4 == 0 else f"v{n}" for n in range(count) if n % 2 or n % 4 == 0}
    found = lake.rows_of(driver.folder, ("k", "v"))
    assert len(found) == len(wanted)
    assert dict(found) == wanted


# ---------------------------------------------------------------------------------------------- what is refused


def test_a_key_that_is_null_or_has_two_rows_is_refused_while_the_epoch_can_be_given_up(
    lake: Lake, driver: Driver
) -> None:
    driver.epoch(come((1, "a")))
    before = lake.commits(driver.folder)
    with pytest.raises(RefusedRowError, match="two rows have the PRIMARY KEY k = 2"):
        driver.prepare(come((2, "x")), come((2, "y")))
    with pytest.raises(RefusedRowError, match="NULL in k"):
        driver.prepare(come((None, "x")))
    driver.epoch(come((2, "b")))
    assert lake.rows(driver) == [(1, "a"), (2, "b")]
    assert lake.commits(driver.folder) == before + 1


def test_a_table_with_rows_of_others_is_refused(lake: Lake, driver: Driver) -> None:
    lake.create(driver.folder, rows_of((9, "x")))
    with pytest.raises(TargetError, match="has rows that this pipeline did not write"):
        driver.prepare(come((1, "a")))
    lake.delete(driver.folder)
    driver.epoch(come((1, "a")))
    assert lake.rows(driver) == [(1, "a")]


def test_rows_of_others_that_come_before_the_first_commit(lake: Lake, driver: Driver) -> None:
    parts = driver.prepare(come((1, "a")))
    lake.append(driver.folder, rows_of((1, "x")))
    with pytest.raises(TargetError, match="has rows that this pipeline did not write"):
        driver.commit(parts)
    lake.delete(driver.folder)
    driver.commit_again(parts)
    assert lake.rows(driver) == [(1, "a")]


def test_a_table_of_another_state_directory_or_table_is_refused(lake: Lake, driver: Driver) -> None:
    parts = driver.prepare(come((1, "a")))
    for other in (
        lake.driver(driver.folder, state="other"),
        lake.driver(driver.folder, name="p"),
        lake.driver(driver.folder, changelog="append", state="added"),
    ):
        with pytest.raises(TargetError, match="kept up to date by another writer"):
            other.prepare(come((2, "b")))
        other.close()
    driver.commit(parts)
    assert lake.rows(driver) == [(1, "a")]


# ------------------------------------------------------------------------------------- crashes and other writers


def test_the_same_epoch_again(lake: Lake, driver: Driver) -> None:
    driver.epoch(come((1, "a"), (2, "b")))
    parts = driver.epoch(go((1, "a")), come((3, "c")))
    before = lake.commits(driver.folder)
    driver.commit_again(parts)
    assert lake.commits(driver.folder) == before
    lake.compact(driver.folder)
    driver.commit_again(parts)
    assert lake.rows(driver) == [(2, "b"), (3, "c")]


def test_the_log_decides_and_not_the_rows(lake: Lake, driver: Driver) -> None:
    """A row that was changed by hand after the epoch is not changed back by the epoch's second commit."""
    parts = driver.epoch(come((1, "a")))
    lake.change(driver.folder, rows_of((1, "mine")))
    driver.commit_again(parts)
    assert lake.rows(driver) == [(1, "mine")]


def test_copies_of_either_side(lake: Lake, driver: Driver) -> None:
    place, older, newer = (driver.folder / name for name in (lake.place, "older", "newer"))
    driver.epoch(come((1, "a")))
    shutil.copytree(place, older)
    driver.epoch(come((2, "b")))
    shutil.move(place, newer)
    shutil.move(older, place)
    driver.start()
    with pytest.raises(TargetError, match="has epoch 1, but epoch 2 was committed to it"):
        driver.prepare(come((3, "c")))
    shutil.rmtree(place)
    driver.start()
    with pytest.raises(TargetError, match="is gone"):
        driver.prepare(come((3, "c")))
    shutil.rmtree(place, ignore_errors=True)
    shutil.move(newer, place)
    driver.start()
    driver.epoch(come((3, "c")))
    assert lake.rows(driver) == [(1, "a"), (2, "b"), (3, "c")]


small = st.tuples(st.integers(0, 5), st.sampled_from([None, "", "a", "b"]), st.integers(0, 2))
epochs = st.lists(st.lists(small, max_size=6), min_size=1, max_size=5)


@pytest.mark.parametrize("name", LAKES)
@settings(
    max_examples=examples(6),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(epochs=epochs, seed=st.integers(0, 1_000_000), partitioned=st.booleans())
def test_random_epochs_with_crashes_and_other_writers(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    epochs: list[list[tuple[int, str | None, int]]],
    seed: int,
    partitioned: bool,
) -> None:
    """The table is what a dictionary is."""
    lake, rng = LAKES[name], random.Random(seed)
    schema = {"k": "BIGINT", "v": "VARCHAR", "p": "INTEGER"}
    driver = lake.driver(tmp_path_factory.mktemp("p"), schema, partitions=["p"] if partitioned else [])
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
        if rng.random() < 0.3 and held:
            lake.compact(driver.folder)
        if rng.random() < 0.3:
            driver.commit_again(parts)
        held = new
        assert lake.rows(driver) == sorted(held.values(), key=repr)
    driver.close()
