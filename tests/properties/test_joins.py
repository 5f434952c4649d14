"""The prefix invariant for joins: after every epoch what was emitted folds to DuckDB's answer over what was read so far."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import collecting, fetched

TABLES = """
CREATE TABLE t (k INT, v INT, s STRING) WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE u (k BIGINT, w INT, s STRING) WITH ('connector' = 'filesystem', 'path' = 'u', 'format' = 'json');
CREATE TABLE c (id INT, k INT, v INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'changelog-json');
"""

#: The join, and the same for DuckDB where it is spelled otherwise there.
QUERIES = {
    "inner": "SELECT t.k, v, w FROM t JOIN u ON t.k = u.k",
    "inner with a condition": "SELECT v, w FROM t JOIN u ON t.k = u.k AND v < w AND t.s > 'a' AND w > 0",
    "left": "SELECT t.k, v, w FROM t LEFT JOIN u ON t.k = u.k",
    "left with conditions": "SELECT t.k, v, w FROM t LEFT JOIN u ON t.k = u.k AND v < w AND v > 0 AND w > 1 WHERE t.s > 'a'",
    "right": "SELECT v, w FROM t RIGHT JOIN u ON t.k = u.k AND t.s = u.s WHERE w > 0",
    "full": "SELECT v, w FROM t FULL JOIN u ON t.k = u.k",
    "full with a condition": "SELECT v, w FROM t FULL JOIN u ON t.k = u.k AND v <> w WHERE coalesce(v, w) > 0",
    "full on no equality": "SELECT v, w FROM t FULL JOIN u ON v < w",
    "cross": "SELECT v, w FROM t CROSS JOIN u",
    "comma": "SELECT v, w FROM t, u WHERE t.k = u.k AND v + w > 1 AND t.s = 'a'",
    "using": "SELECT k, v, w FROM t JOIN u USING (k)",
    "full using": "SELECT k, s, v, w FROM t FULL JOIN u USING (k, s)",
    "natural": "SELECT k, s, v, w FROM t NATURAL LEFT JOIN u",
    "semi": "SELECT * FROM t SEMI JOIN u ON t.k = u.k",
    "semi with a condition": "SELECT * FROM t SEMI JOIN u ON t.k = u.k AND v < w",
    "anti": "SELECT * FROM t ANTI JOIN u ON t.k = u.k",
    "anti with a condition": "SELECT * FROM t ANTI JOIN u ON t.k = u.k AND v < w AND v > 0",
    "with itself": "SELECT a.v, b.v AS bv FROM t AS a JOIN t AS b ON a.k = b.v",
    "with itself, aggregated": "SELECT a.k, a.v, b.n FROM t AS a LEFT JOIN (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS b "
    "ON a.k = b.k",
    "one view twice": "WITH g AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k) SELECT a.k, b.k AS bk FROM g AS a JOIN g AS b "
    "ON a.n = b.n",
    "three": "SELECT t.v, u.w, c.id FROM t JOIN u ON t.k = u.k JOIN c ON c.k = u.k AND c.v < t.v",
    "three, outer": "SELECT t.v, u.w, c.id FROM t LEFT JOIN u ON t.k = u.k FULL JOIN c ON c.k = u.w",
    "three, nested": "SELECT t.v, u.w, c.id FROM t LEFT JOIN (u JOIN c ON c.k = u.k) ON t.k = u.k",
    "three, by commas": "SELECT t.v, u.w, c.id FROM t, u, c WHERE t.k = u.k AND c.k = t.v AND c.v > 0",
    "changes on the left": "SELECT c.id, c.v, w FROM c LEFT JOIN u ON c.k = u.k",
    "changes on the right": "SELECT t.v, id FROM t LEFT JOIN c ON t.k = c.k",
    "changes, inner": "SELECT t.v, id, c.v AS cv FROM t JOIN c ON t.k = c.k AND t.v >= c.v",
    "changes, anti": "SELECT t.v FROM t ANTI JOIN c ON t.k = c.id",
    "changes, semi": "SELECT t.v FROM t SEMI JOIN c ON t.k = c.k AND c.v > 0",
    "changes of both": "SELECT a.k, a.n, b.m FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS a FULL JOIN "
    "(SELECT k, SUM(v) AS m FROM c GROUP BY k) AS b ON a.k = b.k",
    "changes, of keys alone": "SELECT t.v, c.k FROM t LEFT JOIN c ON t.k = c.k",
    "of keys alone": "SELECT t.v, u.k AS uk FROM t FULL JOIN u ON t.k = u.k",
    "semi by a constant": "SELECT * FROM t SEMI JOIN (SELECT 1 AS one FROM u WHERE w > 2) AS x ON t.k = x.one",
    "aggregate of a join": "SELECT t.k, COUNT(*) AS n, SUM(w) AS sw, COUNT(w) AS nw FROM t "
    "LEFT JOIN u ON t.k = u.k GROUP BY t.k",
    "top of a join": "SELECT k, v, w FROM (SELECT t.k, v, w, ROW_NUMBER() OVER (PARTITION BY t.k ORDER BY w DESC, v) AS rn "
    "FROM t JOIN u ON t.k = u.k) AS r WHERE rn <= 2",
    "distinct of a join": "SELECT DISTINCT u.s FROM t JOIN u ON t.k = u.k",
    "counted alone": "SELECT COUNT(*) AS n FROM t, u",
    "keys that are computed": "SELECT v, w FROM t JOIN u ON t.k + 1 = u.k AND upper(t.s) = upper(u.s)",
    "keys of text": "SELECT v, w FROM t LEFT JOIN u ON t.s = u.s",
    "union of joins": "SELECT v FROM t JOIN u ON t.k = u.k UNION ALL SELECT w FROM t RIGHT JOIN u ON t.k = u.k",
    "on true": "SELECT v, w FROM t LEFT JOIN u ON TRUE",
    "on nothing": "SELECT v, w FROM t LEFT JOIN u ON FALSE",
    "three by one key, outer": "SELECT t.v, u.w, c.id FROM t LEFT JOIN u ON t.k = u.k LEFT JOIN c ON c.k = "
    "t.k AND c.v < t.v",
    "three by one key, of changes": "SELECT t.v, u.w, c.id FROM c LEFT JOIN u ON c.k = u.k RIGHT JOIN t ON "
    "t.k = c.k AND t.v > 0",
    "three by one key, semi and anti": "SELECT * FROM t SEMI JOIN u ON t.k = u.k ANTI JOIN c ON c.k = t.k",
    "by one key, computed": "SELECT j.v, j.w, c.id FROM (SELECT t.k AS tk, v, w FROM t JOIN u ON t.k = u.k "
    "WHERE w > 0) AS j "
    "FULL JOIN c ON c.k = j.tk",
    "joins of one key joined": "WITH j AS (SELECT t.k, v, w FROM t JOIN u ON t.k = u.k) SELECT a.v, b.w FROM "
    "j AS a JOIN j AS b "
    "ON a.k = b.k AND a.w < b.w",
    "three by one key": "SELECT t.v, u.w, c.id FROM t JOIN u ON t.k = u.k JOIN c ON c.k = t.k AND c.v < t.v",
    "four by two keys": "SELECT a.v, b.w, x.v AS xv FROM (t AS a JOIN u AS b ON a.k = b.k AND a.s = b.s AND a.v < 3) "
    "JOIN (SELECT x.v, y.s AS ys, x.k AS xk FROM t AS x JOIN u AS y ON x.s = y.s AND x.k = y.k) AS x ON a.s = x.ys "
    "AND x.xk = b.k",
    "three times itself": "SELECT a.v, d.id FROM c AS a JOIN c AS b ON a.k = b.k JOIN c AS d ON d.k = a.k AND d.v >= b.v",
    "three of rows that stay": "SELECT a.v FROM t AS a JOIN u AS b ON a.k = b.k JOIN u AS d ON b.k = d.k",
    "beside one row": "SELECT t.v, x.m FROM t CROSS JOIN (SELECT MAX(w) AS m FROM u) AS x",
    "beside one row that may lack": "SELECT t.v, x.w FROM t LEFT JOIN (SELECT w, k FROM u ORDER BY w DESC, k LIMIT 1) AS x "
    "ON t.v < x.w",
    "beside one row, right": "SELECT x.m, c.id, c.v FROM (SELECT SUM(w) AS m FROM u) AS x RIGHT JOIN c ON x.m > c.v",
    "beside one row, anti": "SELECT * FROM c ANTI JOIN (SELECT SUM(w) AS m FROM u) AS x ON x.m > c.v",
    "two beside two rows": "SELECT g.k, g.n, x.m, y.h FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS g "
    "JOIN (SELECT AVG(v) AS m FROM c) AS x ON g.n > x.m CROSS JOIN (SELECT MAX(w) AS h FROM u) AS y",
    "a column of groups twice": "SELECT v, x.a, x.b FROM t LEFT JOIN (SELECT k AS a, k AS b, SUM(w) AS s FROM u GROUP BY k) "
    "AS x ON t.k = x.a",
    "on what stands before a comma": "SELECT t.v, u.w, c.id FROM t, u JOIN c ON c.k = u.k AND c.v < t.v",
    "left, on what stands before a comma": "SELECT t.v, u.w, c.id FROM t, u LEFT JOIN c ON c.k = t.k AND c.v = u.w",
    "beside NULLs": "SELECT t.v, x.n FROM t LEFT JOIN (SELECT k, NULL AS n FROM u) AS x ON t.k = x.k",
    "not distinct": "SELECT v, w FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.k",
    "filtered above": "SELECT j.v, j.w FROM (SELECT t.k AS k, v, w FROM t LEFT JOIN u ON t.k = u.k) AS j "
    "WHERE j.k > 1 AND j.w IS NULL",
}


@dataclass(frozen=True)
class Input:
    """The rows of t and u, and the changes of c."""

    t: Sequence[Mapping[str, Any]]
    u: Sequence[Mapping[str, Any]]
    c: Sequence[tuple[str, Mapping[str, Any]]]

    def lines(self) -> dict[str, list[str]]:
        changes = [{"op": op, "data": row} for op, row in self.c]
        return {
            "t": list(map(json.dumps, self.t)),
            "u": list(map(json.dumps, self.u)),
            "c": list(map(json.dumps, changes)),
        }


ROWS = Input(
    [
        {"k": k, "v": v, "s": s}
        for k, v, s in [
            (1, 1, "a"),
            (1, 1, "a"),
            (2, 0, "b"),
            (None, 2, "a"),
            (3, None, None),
            (2, 3, "c"),
            (1, 2, "b"),
            (4, 1, "a"),
        ]
    ],
    [
        {"k": k, "w": w, "s": s}
        for k, w, s in [
            (2, 2, "a"),
            (1, 0, "a"),
            (None, 1, "b"),
            (1, 3, None),
            (2, 2, "b"),
            (5, None, "a"),
            (1, 3, "b"),
        ]
    ],
    [
        (op, {"id": id_, "k": k, "v": v})
        for op, id_, k, v in [
            ("+I", 1, 1, 1),
            ("+I", 2, 2, 0),
            ("+U", 1, 2, 1),
            ("+I", 3, None, 3),
            ("-D", 2, 2, 0),
            ("+U", 1, 1, 2),
            ("+I", 4, 1, None),
            ("-D", 1, 1, 2),
            ("+I", 2, 3, 2),
        ]
    ],
)


def plan(folder: Path, queries: Sequence[str], data: Input) -> Planned:
    """A file with a sink for each query."""
    for name, lines in data.lines().items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "0.json").write_text("".join(f"{line}\n" for line in lines))
    sinks = (
        f"CREATE TABLE out_{n} WITH ('connector' = 'blackhole') AS {q};\n" for n, q in enumerate(queries)
    )
    (folder / "p.sql").write_text(TABLES + "".join(sinks))
    return plan_file(folder / "p.sql")


def expected(folder: Path, planned: Planned, data: Input, read: Mapping[str, int]) -> dict[str, Rows]:
    """What the referee gives for the first lines of each table, by the sinks."""
    (folder / "prefix").mkdir(exist_ok=True)
    for name, lines in data.lines().items():
        (folder / "prefix" / f"{name}.json").write_text(
            "".join(f"{line}\n" for line in lines[: read.get(name, 0)])
        )
    script = to_duckdb(planned, lambda source: [str(folder / "prefix" / f"{source.name}.json")])
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        return {sink: fetched(con, text) for sink, text in script.sinks}


def check(
    folder: Path, queries: Sequence[str], data: Input, *, rows_per_epoch: int | None, parallelism: int = 2
) -> None:
    """After every epoch each sink has what the referee gives for the lines that were read."""
    planned = plan(folder, queries, data)
    read: Counter[str] = Counter()
    with collecting() as collected:

        def compare(report: EpochReport | None) -> None:
            for sink, rows in expected(folder, planned, data, read).items():
                try:
                    assert_same(collected.folded(sink), rows)
                except AssertionError as error:
                    query = queries[int(sink.removeprefix("out_"))]
                    raise AssertionError(f"after {dict(read)} of {query}: {error}") from error

        def on_epoch(report: EpochReport) -> None:
            read.update(report.rows_read)
            compare(report)

        run_here(planned, folder, parallelism=parallelism, rows_per_epoch=rows_per_epoch, on_epoch=on_epoch)
        used = {source.name for source in planned.physical.sources}
        assert read == Counter(
            {name: len(rows) for name, rows in data.lines().items() if name in used and rows}
        )
        compare(None)


def check_with_other_shards(folder: Path, queries: Sequence[str]) -> None:
    """A run that begins with one shard, and is begun again with three and with two, ends with what the referee gives."""
    planned = plan(folder, queries, ROWS)
    with collecting() as collected:
        for shards, epochs in ((1, 2), (3, 1), (2, None)):
            run_here(planned, folder, parallelism=shards, rows_per_epoch=6, max_epochs=epochs)
        read = {name: len(lines) for name, lines in ROWS.lines().items()}
        for sink, rows in expected(folder, planned, ROWS, read).items():
            assert_same(collected.folded(sink), rows)


_SOME = 7
GROUPS = [sorted(QUERIES)[n::_SOME] for n in range(_SOME)]


@pytest.mark.parametrize("shards", [2, 1])
@pytest.mark.parametrize("names", GROUPS, ids=[f"{g[0]} …" for g in GROUPS])
@pytest.mark.sampled(2)
def test_every_prefix(tmp_path: Path, names: list[str], shards: int) -> None:
    check(tmp_path, [QUERIES[name] for name in names], ROWS, rows_per_epoch=10, parallelism=shards)


_SMALL = st.none() | st.integers(0, 3)
_TEXTS = st.sampled_from(["a", "b", None])
inputs = st.builds(
    Input,
    st.lists(st.fixed_dictionaries({"k": _SMALL, "v": _SMALL, "s": _TEXTS}), max_size=8),
    st.lists(st.fixed_dictionaries({"k": _SMALL, "w": _SMALL, "s": _TEXTS}), max_size=8),
    st.lists(
        st.tuples(
            st.sampled_from(["+I", "+U", "-D"]),
            st.fixed_dictionaries({"id": st.integers(1, 3), "k": _SMALL, "v": _SMALL}),
        ),
        max_size=8,
    ),
)


@settings(
    max_examples=examples(2),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    st.lists(st.sampled_from(sorted(QUERIES)), min_size=1, max_size=4, unique=True),
    inputs,
    st.integers(4, 12),
    st.integers(1, 3),
)
def test_random_rows(names: list[str], data: Input, rows_per_epoch: int, parallelism: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        queries = [QUERIES[name] for name in names]
        check(Path(folder), queries, data, rows_per_epoch=rows_per_epoch, parallelism=parallelism)


def test_the_referee_gives_what_duckdb_gives_for_the_queries_themselves(tmp_path: Path) -> None:
    names = sorted(QUERIES)
    planned = plan(tmp_path, [QUERIES[name] for name in names], ROWS)
    found = expected(tmp_path, planned, ROWS, {n: len(lines) for n, lines in ROWS.lines().items()})
    with empty_duckdb() as con:
        con.execute("CREATE TABLE t (k INT, v INT, s VARCHAR); CREATE TABLE u (k BIGINT, w INT, s VARCHAR)")
        con.execute("CREATE TABLE c (id INT, k INT, v INT)")
        last = {row["id"]: (op, row) for op, row in ROWS.c}
        kept = [row for op, row in last.values() if op != "-D"]
        for name, rows in {"t": ROWS.t, "u": ROWS.u, "c": kept}.items():
            con.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", [list(row.values()) for row in rows])
        for number, name in enumerate(names):
            assert_same(found[f"out_{number}"], fetched(con, QUERIES[name]))
