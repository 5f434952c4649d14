"""Temporal and ASOF joins: what was given is final, and in the end it is what DuckDB's ASOF JOIN gives, however cut."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream_operators.plan.spec import OperatorStep
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import collecting, fetched

_COLUMNS = "ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND"
TABLES = f"""
CREATE TABLE l (k INT, s STRING, v INT, {_COLUMNS}) WITH ('connector' = 'filesystem', 'path' = 'l', 'format' = 'json');
CREATE TABLE r (k BIGINT, s STRING, w INT, {_COLUMNS}, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = 'r', 'format' = 'json');
CREATE TABLE c (k INT, s STRING, w INT, {_COLUMNS}, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'changelog-json');
CREATE TABLE m (a INT, w INT, at STRING, k AS a + 0, ts AS CAST(at AS TIMESTAMP(3)), PRIMARY KEY (a) NOT ENFORCED,
  WATERMARK FOR ts AS ts - INTERVAL '{{delay}}' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'm', 'format' = 'json');
CREATE VIEW newest AS SELECT s AS name, w, k, ts FROM r
  QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY ts DESC) = 1;
CREATE VIEW large AS SELECT name AS label, w + 1 AS more FROM newest WHERE w > 1;
CREATE VIEW some_of_c AS SELECT k AS id, w FROM c WHERE w <> 2;
"""

QUERIES = {
    "temporal": "SELECT l.k, v, l.ts, w FROM l JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k",
    "temporal, left": "SELECT l.k, v, w, r.ts FROM l LEFT JOIN r FOR SYSTEM_TIME AS OF l.ts AS r ON r.k = l.k",
    "temporal, with a condition": "SELECT v, w FROM l LEFT JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k AND l.s = r.s "
    "AND v < w WHERE v > 0",
    "changes": "SELECT l.k, v, c.k AS ck, w FROM l JOIN c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k",
    "changes, left": "SELECT l.k, v, c.ts, w FROM l LEFT JOIN c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k",
    "changes, filtered": "SELECT v, w FROM l LEFT JOIN some_of_c FOR SYSTEM_TIME AS OF l.ts ON l.k = id",
    "a computed time": "SELECT v, w FROM l LEFT JOIN m FOR SYSTEM_TIME AS OF l.ts ON l.k + 1 = m.a",
    "a view": "SELECT l.s, v, w FROM l JOIN newest FOR SYSTEM_TIME AS OF l.ts ON l.s = name",
    "a view of a view": "SELECT l.s, v, more FROM l LEFT JOIN large FOR SYSTEM_TIME AS OF l.ts AS q ON l.s = q.label",
    "two after each other": "SELECT v, r.w, c.w AS cw FROM l JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k "
    "LEFT JOIN c FOR SYSTEM_TIME AS OF l.ts ON c.k = r.w",
    "in windows": "SELECT window_start, window_end, r.s, COUNT(*) AS n, SUM(w) AS w FROM TABLE(TUMBLE(TABLE l, "
    "DESCRIPTOR(ts), INTERVAL '5' SECOND)) AS l "
    "LEFT JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k GROUP BY window_start, window_end, r.s",
    "windows behind": "SELECT window_end, COUNT(*) AS n, SUM(w) AS w FROM TABLE(TUMBLE((SELECT l.ts, w FROM l "
    "JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k), DESCRIPTOR(ts), INTERVAL '3' SECOND)) "
    "GROUP BY window_start, window_end",
    "of windows": "SELECT q.k, n, w FROM (SELECT k, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), "
    "INTERVAL '4' SECOND)) GROUP BY window_start, window_end, window_time, k) AS q "
    "LEFT JOIN r FOR SYSTEM_TIME AS OF q.window_time ON q.k = r.k",
    "behind an interval join": "SELECT l.v, r.w, c.w AS cw FROM l JOIN r ON l.k = r.k "
    "AND l.ts BETWEEN r.ts - INTERVAL '5' SECOND "
    "AND r.ts + INTERVAL '2' SECOND LEFT JOIN c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k",
    "asof": "SELECT l.k, v, w FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts",
    "asof, after": "SELECT l.k, v, w, r.ts FROM l ASOF LEFT JOIN r ON l.k = r.k AND r.ts < l.ts",
    "asof, two keys": "SELECT v, w FROM l ASOF LEFT JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k "
    "AND upper(l.s) = upper(r.s)",
    "asof, no keys": "SELECT v, w FROM l ASOF LEFT JOIN r MATCH_CONDITION (r.ts <= l.ts)",
    "asof, using": "SELECT k, l.s, v, w, ts FROM l ASOF LEFT JOIN r USING (k, ts)",
    "asof with itself": "SELECT a.k, a.v, b.v AS before FROM l AS a ASOF LEFT JOIN l AS b ON a.k = b.k AND a.ts > b.ts",
    "asof, filtered": "SELECT v, q.w FROM l ASOF JOIN (SELECT * FROM r WHERE w > 1) AS q ON l.k = q.k "
    "AND l.ts >= q.ts WHERE v < 3",
    "asof, forward": "SELECT l.k, v, w, r.ts FROM l ASOF JOIN r ON l.k = r.k AND l.ts <= r.ts",
    "asof, forward, left": "SELECT l.k, v, w FROM l ASOF LEFT JOIN r MATCH_CONDITION (l.ts < r.ts) ON l.k = r.k",
    "asof, forward, no keys": "SELECT v, w FROM l ASOF LEFT JOIN r ON l.ts < r.ts",
    "asof, a union": "SELECT v, q.w FROM l ASOF JOIN (SELECT k, w, ts FROM r UNION ALL SELECT k, v, ts FROM l) AS q "
    "ON l.k = q.k AND l.ts > q.ts",
}
START = datetime(1970, 1, 1)

Row = tuple[int | None, str | None, int | None, int | None]  # key, text, value, seconds


@dataclass(frozen=True)
class Input:
    """The rows of l, r and m, and the changes of c, in the order in which they come."""

    left: Sequence[Row]
    right: Sequence[Row]
    changes: Sequence[tuple[str, Row]]

    def ordered(self) -> Input:
        """The same with rows out of order by less than 5 seconds."""
        return Input(
            sorted(self.left, key=lambda row: (row[3] or 0) // 5),
            sorted(self.right, key=lambda row: (row[3] or 0) // 5),
            sorted(self.changes, key=lambda change: (change[1][3] or 0) // 5),
        )

    def lines(self) -> dict[str, list[str]]:
        def shown(row: Row, value: str) -> Mapping[str, Any]:
            return {"k": row[0], "s": row[1], value: row[2], "ts": _time(row[3])}

        changes = [{"op": op, "data": shown(row, "w")} for op, row in self.changes]
        made = [{"a": k, "w": w, "at": _time(time)} for k, _, w, time in self.right]
        return {
            "l": [json.dumps(shown(row, "v")) for row in self.left],
            "r": [json.dumps(shown(row, "w")) for row in self.right],
            "c": list(map(json.dumps, changes)),
            "m": list(map(json.dumps, made)),
        }


def _time(seconds: int | None) -> str | None:
    return str(START + timedelta(seconds=seconds)) if seconds is not None else None


ROWS = Input(
    [
        (1, "a", 1, 3), (2, "a", 2, 5), (1, "b", 2, 1), (1, "a", 3, 10), (None, "a", 4, 11), (3, "b", 1, 12),
        (2, None, 3, 20), (1, "a", 3, 10), (1, "c", 0, 30), (1, "a", 2, 9), (2, "b", 1, 4), (0, "a", 1, 15),
    ],
    [
        (1, "a", 1, 2), (2, "b", 2, 4), (1, "a", 3, 2), (1, "A", 2, 9), (None, "a", 3, 3), (2, "a", 0, 15),
        (1, None, 1, 30), (3, "b", None, 12), (3, "b", 2, 12), (0, "c", 3, 1),
    ],
    [
        ("+I", (1, "a", 1, 2)), ("+I", (2, "b", 2, 4)), ("-U", (1, "a", 1, 2)), ("+U", (1, "a", 4, 9)),
        ("-D", (2, "b", 2, 15)), ("+I", (2, "b", 3, 18)), ("+U", (1, "a", 2, 10)), ("-D", (1, "a", 2, 11)),
        ("+I", (3, "a", 3, 12)), ("-D", (3, "a", 3, 12)),
    ],
)  # fmt: skip


def plan(folder: Path, queries: Sequence[str], data: Input, delay: int = 100) -> Planned:
    """A file with a sink for each query."""
    for name, lines in data.lines().items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "0.json").write_text("".join(f"{line}\n" for line in lines))
    sinks = (
        f"CREATE TABLE out_{n} WITH ('connector' = 'blackhole') AS {q};\n" for n, q in enumerate(queries)
    )
    (folder / "p.sql").write_text(TABLES.format(delay=delay) + "".join(sinks))
    return plan_file(folder / "p.sql")


def expected(folder: Path, planned: Planned) -> dict[str, Rows]:
    """What the referee gives, by the sinks."""
    script = to_duckdb(planned, lambda source: [str(folder / source.name / "0.json")])
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        return {sink: fetched(con, text) for sink, text in script.sinks}


def check(
    folder: Path,
    queries: Sequence[str],
    data: Input,
    *,
    rows_per_epoch: int | None,
    parallelism: Sequence[int] = (2,),
) -> None:
    """Nothing that is given is not in the referee's answer, and in the end all of it is given."""
    planned = plan(folder, queries, data.ordered(), delay=5)
    wanted = expected(folder, planned)
    with collecting() as collected:

        def is_final(report: object) -> None:
            for sink, rows in wanted.items():
                more = _counted(collected.folded(sink)) - _counted(rows)
                assert not more, f"{queries[int(sink.removeprefix('out_'))]}: {more}"

        for number, shards in enumerate(parallelism):
            last = number == len(parallelism) - 1
            run_here(
                planned,
                folder,
                parallelism=shards,
                rows_per_epoch=rows_per_epoch,
                on_epoch=is_final,
                max_epochs=None if last else 2,
            )
        for sink, rows in wanted.items():
            try:
                assert_same(collected.folded(sink), rows)
            except AssertionError as error:
                raise AssertionError(f"{queries[int(sink.removeprefix('out_'))]}: {error}") from error


def _counted(rows: Rows) -> Counter[str]:
    return Counter(map(repr, rows))


_SOME = 4
GROUPS = [sorted(QUERIES)[n::_SOME] for n in range(_SOME)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("names", GROUPS, ids=[f"{g[0]} …" for g in GROUPS])
def test_what_is_given_is_final(tmp_path: Path, names: list[str]) -> None:
    check(tmp_path, [QUERIES[name] for name in names], ROWS, rows_per_epoch=9, parallelism=(2, 3))


_SMALL = st.none() | st.integers(0, 3)
_TEXTS = st.sampled_from(["a", "b", None])
_ROWS = st.tuples(_SMALL, _TEXTS, _SMALL, st.integers(0, 12))
_CHANGES = st.tuples(
    st.sampled_from(["+I", "+U", "-D"]), st.tuples(st.integers(1, 2), _TEXTS, _SMALL, st.integers(0, 12))
)
inputs = st.builds(
    Input, st.lists(_ROWS, max_size=12), st.lists(_ROWS, max_size=12), st.lists(_CHANGES, max_size=10)
)


@settings(
    max_examples=examples(3),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    st.lists(st.sampled_from(sorted(QUERIES)), min_size=1, max_size=4, unique=True),
    inputs,
    st.none() | st.integers(4, 14),
    st.lists(st.integers(1, 3), min_size=1, max_size=2),
)
def test_random_rows(
    names: list[str], data: Input, rows_per_epoch: int | None, parallelism: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        queries = [QUERIES[name] for name in names]
        check(Path(folder), queries, data, rows_per_epoch=rows_per_epoch, parallelism=parallelism)


@settings(max_examples=examples(3), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(inputs, st.integers(0, 6), st.integers(2, 9))
@example(ROWS, 0, 4)
def test_every_row_is_given_or_late(data: Input, delay: int, rows_per_epoch: int) -> None:
    """Without a great delay rows come too late: none of these is lost silently, and none is given twice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        query = "SELECT l.k, l.s, v, l.ts, w FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.ts >= r.ts"
        planned = plan(folder, [query], data, delay)
        with collecting() as collected:
            run_here(planned, folder, rows_per_epoch=rows_per_epoch)
            given_ = Counter((k, v, str(ts)) for k, _, v, ts, _ in collected.folded("out_0"))
        letters = [
            json.loads(line)
            for file in sorted((folder / "state" / "dead-letter").glob("*.jsonl"))
            for line in file.read_text().splitlines()
        ]
        assert {letter["kind"] for letter in letters} <= {"late"}
        late = Counter(
            (row["k"], row["v"], str(datetime.fromisoformat(row["ts"])))
            for row in (letter["row"] for letter in letters)
            if "v" in row
        )
        assert given_ + late == Counter((k, v, _time(time)) for k, _, v, time in data.left)


def test_state_goes_with_the_watermark(tmp_path: Path) -> None:
    """Rows that were given are dropped, and so are versions that no row can ask for any more."""
    left: list[Row] = [(n % 3, None, n, n) for n in range(600)]
    right: list[Row] = [(n % 3, None, n, n) for n in range(600)]
    planned = plan(tmp_path, [QUERIES["temporal"]], Input(left, right, []), delay=5)
    sizes: list[int] = []
    run_here(planned, tmp_path, rows_per_epoch=60, on_epoch=lambda report: sizes.append(report.state_rows))
    assert max(sizes) < 200
    # The row that waits for none is gone; of each key the newest version is there.
    assert sizes[-1] == 3


def test_a_row_without_a_time_is_a_dead_letter(tmp_path: Path) -> None:
    data = Input([(1, "a", 1, None), (1, "a", 2, 5)], [(1, "a", 7, None), (1, "a", 8, 4)], [])
    planned = plan(tmp_path, [QUERIES["temporal, left"]], data)
    with collecting() as collected:
        run_here(planned, tmp_path)
        assert [row[:3] for row in collected.folded("out_0")] == [(1, 2, 8)]
    letters = "".join(f.read_text() for f in (tmp_path / "state" / "dead-letter").glob("*.jsonl"))
    assert letters.count('"kind":"no-time"') == 2


def test_a_new_input_after_the_end_meets_the_versions_of_its_time(tmp_path: Path) -> None:
    """At the end of the input everything is given, and what a later row may ask for is still kept."""
    planned = plan(
        tmp_path, [QUERIES["asof"]], Input([(1, "a", 1, 10)], [(1, "a", 5, 5), (1, "a", 6, 50)], [])
    )
    with collecting() as collected:
        run_here(planned, tmp_path)
        (tmp_path / "l" / "1.json").write_text(
            Input([(1, "a", 2, 40), (1, "a", 3, 60)], [], []).lines()["l"][0] + "\n"
        )
        run_here(planned, tmp_path)
        assert sorted(collected.folded("out_0")) == [(1, 1, 5), (1, 2, 5)]


def test_the_state_is_of_one_operator(tmp_path: Path) -> None:
    planned = plan(tmp_path, [QUERIES["changes, filtered"]], ROWS)
    [spec] = [step.operator for step in planned.physical.operators]
    assert isinstance(spec, TemporalJoinSpec)
    assert all(isinstance(step, OperatorStep) for step in planned.physical.operators)
