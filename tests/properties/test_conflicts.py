"""INSERT … ON CONFLICT: what is in the sink after every epoch when rows of the query claim one key."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.updating import batch, collecting
from tests.runtime.support import Crash, crash_at

TABLE = """
CREATE TABLE t (k INT, s STRING, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');
CREATE TABLE out (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
"""
DATABASE = TABLE.replace("'blackhole'", "'duckdb', 'path' = 'out.duckdb', 'table-name' = 'result'")
_BOUNDED = settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
Rows = list[dict[str, Any]]


def planned(folder: Path, text: str, rows: Rows, files: int = 1) -> Planned:
    """A pipeline over some rows, in files of about the same size."""
    (folder / "input").mkdir()
    size = -(-len(rows) // files) or 1
    for number in range(files):
        lines = [json.dumps(row) for row in rows[number * size : (number + 1) * size]]
        (folder / "input" / f"{number:03d}.json").write_text("".join(f"{line}\n" for line in lines))
    (folder / "pipeline.sql").write_text(text)
    return plan_file(folder / "pipeline.sql")


def run(plan: Planned, folder: Path, size: int | None, shards: int = 2, **options: Any) -> None:
    run_here(plan, folder, parallelism=shards, rows_per_epoch=size, **options)


def expected(action: str, rows: Rows) -> Counter[tuple[Any, ...]]:
    """What is there: the first or the last value of each key in order of arrival."""
    found: dict[int, int] = {}
    for row in rows:
        if action == "DEDUPLICATE" or row["k"] not in found:
            found[row["k"]] = row["v"]
    return Counter(found.items())


def expected_of_groups(rows: Rows) -> Counter[tuple[Any, ...]]:
    """Of the counts of each (k, s) the least for each k."""
    counts = Counter((row["k"], row["s"]) for row in rows)
    return Counter({k: min(n for (k_, _), n in counts.items() if k_ == k) for k, _ in counts}.items())


streams = st.lists(
    st.fixed_dictionaries(
        {"k": st.integers(1, 3), "s": st.sampled_from(["a", "b", "c"]), "v": st.integers(0, 9)}
    ),
    max_size=14,
)
LAST_FIRST: Rows = [{"k": 1, "s": "a", "v": v} for v in (5, 9, 2, 2, 7)]


@given(
    st.sampled_from(["NOTHING", "DEDUPLICATE", "groups"]),
    streams,
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 3),
)
@example("NOTHING", LAST_FIRST, 2, 1, 2)
@example("DEDUPLICATE", LAST_FIRST, 2, 1, 2)
@_BOUNDED
def test_one_row_of_each_key(action: str, rows: Rows, size: int, shards: int, files: int) -> None:
    query = "SELECT k, v FROM t"
    if action == "groups":
        query = "SELECT k, COUNT(*) FROM t GROUP BY k, s"
    do = "DEDUPLICATE" if action == "groups" else action
    with tempfile.TemporaryDirectory() as name, collecting() as collected:
        folder, read = Path(name), 0
        plan = planned(folder, TABLE + f"INSERT INTO out {query} ON CONFLICT DO {do};", rows, files)

        def compare(report: EpochReport) -> None:
            nonlocal read
            read += sum(report.rows_read.values())
            wanted = expected_of_groups(rows[:read]) if action == "groups" else expected(action, rows[:read])
            assert Counter(map(tuple, collected.folded("out"))) == wanted
            assert Counter(batch(folder, plan, rows[:read])) == wanted

        run(plan, folder, size, shards, on_epoch=compare)
        assert read == len(rows)


def test_the_query_has_the_key_already(tmp_path: Path) -> None:
    """Nothing is put before the sink."""
    text = TABLE + "INSERT INTO out SELECT k, COUNT(*) FROM t GROUP BY k ON CONFLICT DO NOTHING;"
    plan = planned(tmp_path, text, [])
    assert [state.operator for state in plan.physical.states] == ["group_aggregate"]
    assert plan.physical.sinks[0].key == ("k",)


@pytest.mark.parametrize("query", ["SELECT k, v FROM t", "SELECT k, COUNT(*) FROM t GROUP BY k, s"])
def test_a_conflict_is_an_error_where_the_query_says_so(query: str, tmp_path: Path) -> None:
    text = DATABASE + f"INSERT INTO out {query} ON CONFLICT DO ERROR;"
    rows: Rows = [{"k": 1, "s": "a", "v": 1}, {"k": 2, "s": "a", "v": 1}, {"k": 1, "s": "b", "v": 2}]
    plan = planned(tmp_path, text, rows)
    with pytest.raises(DiagnosticError) as caught:
        run(plan, tmp_path, 1)
    assert caught.value.diagnostics[0].code == "DAT002"
    with duckdb.connect(str(tmp_path / "out.duckdb")) as con:
        assert con.execute("SELECT k, n FROM result ORDER BY k").fetchall() == [(1, 1), (2, 1)]


@pytest.mark.parametrize("query", ["SELECT k, v FROM t", "SELECT k, COUNT(*) FROM t GROUP BY k, s"])
def test_no_conflict_is_no_error(query: str, tmp_path: Path) -> None:
    text = DATABASE + f"INSERT INTO out {query} ON CONFLICT DO ERROR;"
    plan = planned(tmp_path, text, [{"k": 1, "s": "a", "v": 1}, {"k": 2, "s": "a", "v": 1}])
    run(plan, tmp_path, 1)
    with duckdb.connect(str(tmp_path / "out.duckdb")) as con:
        assert con.execute("SELECT k, n FROM result ORDER BY k").fetchall() == [(1, 1), (2, 1)]


@pytest.mark.parametrize(("ttl_s", "counts"), [(5, [(1, 1), (2, 2)]), (500, [(1, 3), (2, 2)])])
def test_a_key_that_was_forgotten_takes_its_row_over(
    ttl_s: int, counts: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Key 1 comes twice, then not for 30 s of the epochs' clock, then again; key 2 comes late and twice."""
    setting = f"SET 'table.exec.state.ttl' = '{ttl_s} s';\n"
    text = setting + DATABASE + "INSERT INTO out SELECT k, COUNT(*) FROM t GROUP BY k;"
    plan = planned(tmp_path, text, [{"k": k, "s": "a", "v": 1} for k in (1, 1, 2, 2, 1)])
    clock = iter([1000.0, 1001.0, 1030.0, 1031.0, 1032.0])
    run(plan, tmp_path, 1, wall_clock=lambda: next(clock))
    with duckdb.connect(str(tmp_path / "out.duckdb")) as con:
        assert con.execute("SELECT k, n FROM result ORDER BY k").fetchall() == counts


def test_a_replayed_epoch_has_the_clock_of_its_plan(tmp_path: Path) -> None:
    """Planned at 1004 s, within the time to live; replayed an hour later."""
    setting = "SET 'table.exec.state.ttl' = '5 s';\n"
    text = setting + DATABASE + "INSERT INTO out SELECT k, COUNT(*) FROM t GROUP BY k;"
    plan = planned(tmp_path, text, [{"k": 1, "s": "a", "v": 1}] * 2)

    clock = iter([1000.0, 1004.0])
    with pytest.raises(Crash):
        run(plan, tmp_path, 1, wall_clock=lambda: next(clock), faults=crash_at("planned", 2))
    run(plan, tmp_path, 1, wall_clock=lambda: 4600.0)
    with duckdb.connect(str(tmp_path / "out.duckdb")) as con:
        assert con.execute("SELECT k, n FROM result").fetchall() == [(1, 2)]


def test_a_table_of_keys_alone_takes_a_forgotten_key_again(tmp_path: Path) -> None:
    text = "SET 'table.exec.state.ttl' = '5 s';\n" + DATABASE.replace(
        "k INT, n BIGINT, PRIMARY", "k INT, PRIMARY"
    )
    plan = planned(
        tmp_path, text + "INSERT INTO out SELECT k FROM t GROUP BY k HAVING COUNT(*) > 0;", [{"k": 1}] * 3
    )
    clock = iter([1000.0, 1030.0, 1060.0])
    run(plan, tmp_path, 1, wall_clock=lambda: next(clock))
    with duckdb.connect(str(tmp_path / "out.duckdb")) as con:
        assert con.execute("SELECT k FROM result").fetchall() == [(1,)]
