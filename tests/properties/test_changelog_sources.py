"""The prefix invariant over changelog sources: inserts, updates and deletes, in order and out of their senses."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.pipeline import Planned
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import batch_of, collecting

_BOUNDED = settings(max_examples=examples(6), deadline=None)
Change = tuple[str, dict[str, Any]]
Row = tuple[Any, ...]

QUERIES = (
    "SELECT * FROM t",
    "SELECT g, COUNT(*) AS n, SUM(v) AS total, MIN(v) AS lo, MAX(v) AS hi, AVG(v) AS mean FROM t GROUP BY g",
    "SELECT g, SUM(v) AS total FROM t GROUP BY g",
    "SELECT COUNT(*) AS n, COUNT(DISTINCT g) AS d, SUM(DISTINCT v) AS s, ARRAY_AGG(v) AS a FROM t",
    "SELECT DISTINCT g FROM t",
    "SELECT id, v, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC) AS rn FROM t) AS r WHERE rn <= 2",
    "SELECT id, g, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY v, id) = 1",
    "SELECT n, COUNT(*) AS groups FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g) AS c GROUP BY n HAVING COUNT(*) > 0",
    "SELECT g FROM t WHERE v > 1 EXCEPT SELECT g FROM t WHERE v = 1",
    "SELECT id, v FROM t ORDER BY v DESC NULLS FIRST LIMIT 3",
    "SELECT g, MIN_BY(id, v) AS lo, MAX_BY(id, v) AS hi, MEDIAN(v) AS m, BOOL_OR(v > 2) AS b FROM t GROUP BY g",
)


@st.composite
def changes(draw: st.DrawFn, *, honest: bool) -> list[Change]:
    """Changes of rows (id, g, v). `honest`: only rows that are there are updated or deleted, with what they were."""
    there: dict[int, dict[str, Any]] = {}
    made: list[Change] = []
    for _ in range(draw(st.integers(0, 16))):
        id_ = draw(st.integers(1, 4))
        row = {
            "id": id_,
            "g": draw(st.sampled_from(["a", "b", None])),
            "v": draw(st.none() | st.integers(0, 3)),
        }
        if honest:
            kind = draw(st.sampled_from(["+U", "-D"])) if id_ in there else "+I"
        else:
            kind = draw(st.sampled_from(["+I", "+U", "-D"]))
        if kind == "+U":
            made.append(("-U", there.get(id_, row)))
        made.append((kind, there.get(id_, row) if kind == "-D" else row))
        if kind == "-D":
            there.pop(id_, None)
        else:
            there[id_] = row
    return made


def lines(format_: str, made: Sequence[Change]) -> list[str]:
    """The changes as messages of a format; an update is one message but in changelog-json."""
    if format_ == "changelog-json":
        return [json.dumps({"op": kind, "data": row}) for kind, row in made]
    out = []
    before: dict[str, Any] = {}
    for kind, row in made:
        if kind == "-U":
            before = row
        elif format_ == "debezium-json":
            op = {"+I": "c", "+U": "u", "-D": "d"}[kind]
            image = {"+I": None, "+U": before, "-D": row}[kind]
            out.append(json.dumps({"before": image, "after": None if kind == "-D" else row, "op": op}))
        else:
            changed = {k: before[k] for k in before if before[k] != row[k]} if kind == "+U" else None
            word = {"+I": "insert", "+U": "update", "-D": "delete"}[kind]
            if format_ == "maxwell-json":
                out.append(json.dumps({"type": word, "data": row, "old": changed}))
            else:
                old = [changed] if changed is not None else None
                out.append(json.dumps({"type": word.upper(), "data": [row], "old": old}))
    return out


def plan(folder: Path, query: str, format_: str, text: Sequence[str], *, keyed: bool) -> Planned:
    (folder / "input").mkdir(parents=True)
    (folder / "input" / "000.json").write_text("".join(f"{line}\n" for line in text))
    key = ", PRIMARY KEY (id) NOT ENFORCED" if keyed else ""
    (folder / "p.sql").write_text(
        f"CREATE TABLE t (id BIGINT, g STRING, v BIGINT{key}) "
        f"WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = '{format_}');\n"
        f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};\n"
    )
    return plan_file(folder / "p.sql")


def run(
    folder: Path, planned: Planned, *, rows_per_epoch: int | None, parallelism: int, prefix: list[str] | None
) -> Rows:
    """What the output folds to; with `prefix` (a line a change) it is checked after every epoch."""
    read = 0
    with collecting() as collected:

        def compare(report: EpochReport) -> None:
            nonlocal read
            read += sum(report.rows_read.values())
            if prefix is not None:
                assert_same(collected.folded("out"), expected(folder, planned, prefix[:read]))

        run_here(planned, folder, parallelism=parallelism, rows_per_epoch=rows_per_epoch, on_epoch=compare)
        return collected.folded("out")


def expected(folder: Path, planned: Planned, text: Sequence[str]) -> Rows:
    path = folder / "prefix.json"
    path.write_text("".join(f"{line}\n" for line in text))
    return batch_of(to_duckdb(planned, lambda _: [str(path)]))


@given(
    query=st.sampled_from(QUERIES),
    made=changes(honest=False),
    rows_per_epoch=st.none() | st.integers(4, 12),
    parallelism=st.integers(1, 3),
)
@_BOUNDED
def test_a_key_makes_any_sequence_of_changes_consistent(
    query: str, made: list[Change], rows_per_epoch: int | None, parallelism: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), lines("changelog-json", made)
        planned = plan(folder, query, "changelog-json", text, keyed=True)
        got = run(folder, planned, rows_per_epoch=rows_per_epoch, parallelism=parallelism, prefix=text)
        assert_same(got, expected(folder, planned, text))


@given(
    query=st.sampled_from(QUERIES),
    made=changes(honest=True),
    format_=st.sampled_from(["debezium-json", "changelog-json", "maxwell-json", "canal-json"]),
    keyed=st.booleans(),
    rows_per_epoch=st.none() | st.integers(4, 12),
)
@_BOUNDED
def test_every_format_folds_to_the_batch(
    query: str, made: list[Change], format_: str, keyed: bool, rows_per_epoch: int | None
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), lines(format_, made)
        planned = plan(folder, query, format_, text, keyed=keyed)
        got = run(folder, planned, rows_per_epoch=rows_per_epoch, parallelism=2, prefix=None)
        assert_same(got, expected(folder, planned, text))


@example(
    query=QUERIES[2],
    made=[
        ("+I", {"id": 1, "g": "a", "v": 3}),
        ("-D", {"id": 2, "g": "a", "v": 2}),
        ("+I", {"id": 2, "g": "a", "v": 2}),
    ],
    rows_per_epoch=2,
)
@given(
    query=st.sampled_from(QUERIES),
    made=changes(honest=True).flatmap(st.permutations),
    rows_per_epoch=st.integers(1, 4),
)
@_BOUNDED
def test_changes_without_a_key_may_come_in_any_order(
    query: str, made: list[Change], rows_per_epoch: int
) -> None:
    """Once a row has come as often as it went it is as if it had come first, in whatever epochs that was."""
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), lines("changelog-json", made)
        planned = plan(folder, query, "changelog-json", text, keyed=False)
        got = run(folder, planned, rows_per_epoch=rows_per_epoch, parallelism=2, prefix=None)
        assert_same(got, expected(folder, planned, text))


@given(made=changes(honest=False), keyed=changes(honest=True), shuffled=st.randoms(use_true_random=False))
@_BOUNDED
def test_the_referee_knows_which_rows_are_there(
    made: list[Change], keyed: list[Change], shuffled: random.Random
) -> None:
    """With a key its last change decides; without one a row is there as often as it came less it went."""
    last: dict[int, Row] = {}
    for kind, row in made:
        last.pop(row["id"], None)
        if kind in ("+I", "+U"):
            last[row["id"]] = (row["id"], row["g"], row["v"])
    counts: Counter[Row] = Counter()
    shuffled.shuffle(keyed)
    for kind, row in keyed:
        counts[row["id"], row["g"], row["v"]] += 1 if kind in ("+I", "+U") else -1
    with tempfile.TemporaryDirectory() as name:
        for key, given_, rows in ((True, made, list(last.values())), (False, keyed, list(counts.elements()))):
            folder, text = Path(name) / str(key), lines("changelog-json", given_)
            planned = plan(folder, QUERIES[0], "changelog-json", text, keyed=key)
            assert_same(expected(folder, planned, text), rows)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.sampled(2)
def test_state_is_empty_once_all_rows_are_deleted(query: str, tmp_path: Path) -> None:
    rows = [{"id": n, "g": "ab"[n % 2], "v": n % 3} for n in range(1, 9)]
    made = [("+I", row) for row in rows] + [("-D", row) for row in reversed(rows)]
    planned = plan(tmp_path, query, "changelog-json", lines("changelog-json", made), keyed=True)
    reports: list[EpochReport] = []
    with collecting():
        run_here(planned, tmp_path, rows_per_epoch=3, on_epoch=reports.append)
    assert max(report.state_rows for report in reports) > 0
    # The one group of a global aggregate stays: its row is there also for empty input.
    assert reports[-1].state_rows <= (1 if "GROUP BY" not in query and "COUNT" in query else 0)
