"""Delta tables that are kept up to date by key: one MERGE an epoch, over changes, crashes, other writers and copies."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.errors import DataError, RefusedRowError, TargetError
from tests.properties.in_process import run_here

deltalake = pytest.importorskip("deltalake")

from tests.connectors.delta.keyed import Driver, spec_of  # noqa: E402
from tests.connectors.delta.reading import compact, in_files, rows_of  # noqa: E402
from tests.connectors.delta.test_sink import TYPES  # noqa: E402
from tests.connectors.staged_parts import come, go  # noqa: E402

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


def test_an_epoch_is_one_commit_that_has_its_number(driver: Driver) -> None:
    driver.epoch(come((1, "a"), (2, "b")))
    before = table_of(driver).version()
    driver.epoch(go((1, "a")), come((2, "c")), go((2, "b")), come((3, "d")))
    assert table_of(driver).version() == before + 1
    (application,) = re.findall(
        r'"appId":"([^"]+)"', (driver.table / "_delta_log" / f"{before + 1:020d}.json").read_text()
    )
    assert table_of(driver).transaction_version(application) == 2


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


def test_a_table_that_takes_no_changes(driver: Driver) -> None:
    deltalake.DeltaTable.create(
        str(driver.table),
        pa.schema([("k", pa.int64()), ("v", pa.string())]),
        configuration={"delta.appendOnly": "true"},
    )
    with pytest.raises(TargetError, match=re.escape("delta.appendOnly")):
        driver.prepare(come((1, "a")))


# ------------------------------------------------------------------------------------- crashes and other writers


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


# --------------------------------------------------------------------------------------------------------- others


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


def test_a_version_that_lacks_rows_is_noticed(tmp_path: Path) -> None:
    """RESTORE is a commit of its own, so the log has the epoch still; what was given since is not in the table any more."""
    driver = Driver(tmp_path, spec_of({"k": "BIGINT", "v": "VARCHAR"}))
    for k in range(3):
        driver.epoch(come((k, "a")))
    table = tmp_path / "table"
    last = deltalake.DeltaTable(str(table)).version()
    deltalake.DeltaTable(str(table)).delete()
    deltalake.DeltaTable(str(table)).restore(last)  # has all
    driver.start().check(previous=3)
    driver.epoch(come((3, "a")))
    given = deltalake.DeltaTable(str(table)).version()
    deltalake.DeltaTable(str(table)).restore(given - 1)
    for sink in (driver.sink, driver.start()):
        with pytest.raises(TargetError, match="has not all rows that were committed") as raised:
            sink.look({4})
        assert f"restore it to version {given}," in raised.value.help
    deltalake.DeltaTable(str(table)).restore(given)
    driver.start().check(previous=4)
    driver.epoch(come((4, "a")))
    assert sorted(deltalake.DeltaTable(str(table)).to_pyarrow_table().column("k").to_pylist()) == [*range(5)]
