"""Edits of how a source is declared and read, while rows of it are dead letters: the result is that of a run from scratch.

What can be read is another run's business: each step is compared with a pipeline of the same text that has read all files
from the beginning, its table and its dead letters. A table that keeps what it was given is told of, and not compared.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.edits.plan.edit_plan import edit_plan
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream.runtime.loop.recovery import recover
from sqlstream.storage.journal import Journal
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.pipeline import Planned
from tests.examples import seeds
from tests.properties.in_process import run_here
from tests.properties.test_edited_answers import held
from tests.runtime.support import Crash, crash_at

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
#: Queries over columns `k`, `v`, `w` of `t`.
QUERIES = {
    "groups": "SELECT k, COUNT(*) AS n, CAST(MAX(v) AS BIGINT) AS m FROM {t} GROUP BY k",
    "groups that do not read v": "SELECT k, COUNT(*) AS n, CAST(0 AS BIGINT) AS m FROM {t} GROUP BY k",
    "w": "SELECT k, COUNT(*) AS n, CAST(MIN(w) AS BIGINT) AS m FROM {t} GROUP BY k",
    "both": "SELECT k, COUNT(*) AS n, CAST(SUM(v) + SUM(w) AS BIGINT) AS m FROM {t} GROUP BY k",
    "distinct": "SELECT k, COUNT(DISTINCT w) AS n, CAST(COUNT(DISTINCT v) AS BIGINT) AS m FROM {t} GROUP BY k",
    "top": "SELECT k, n, m FROM (SELECT k, CAST(v AS BIGINT) AS n, CAST(w AS BIGINT) AS m, "
    "ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, w) AS r FROM {t}) WHERE r <= 2",
    "over": "SELECT k, CAST(v AS BIGINT) AS n, CAST(SUM(w) OVER (PARTITION BY k ORDER BY v, w) AS BIGINT) AS m FROM {t}",
    "lag": "SELECT k, CAST(v AS BIGINT) AS n, CAST(LAG(v) OVER (PARTITION BY k ORDER BY v) AS BIGINT) AS m FROM {t}",
    "a join": "SELECT a.k, CAST(a.v AS BIGINT) AS n, CAST(b.n AS BIGINT) AS m FROM {t} AS a "
    "LEFT JOIN (SELECT k, COUNT(*) AS n FROM {t} GROUP BY k) AS b ON a.k = b.k",
}
FORMATS = ("json", "csv", "changelog-json")
_OUT = "CREATE TABLE out WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json') AS "


def text(query: str, v: str, w: str, format_: str) -> str:
    options = f"'connector' = 'filesystem', 'path' = 'in', 'format' = '{format_}'"
    table = f"CREATE TABLE t (k STRING, v {v}, w {w}) WITH ({options});\n"
    return f"{table}{_OUT}{QUERIES[query].format(t='t')};\n"


def planned(folder: Path, sql: str) -> Planned:
    (folder / "p.sql").write_text(sql)
    return plan_file(folder / "p.sql")


def write(folder: Path, name: str, rows: list[tuple[Any, Any, Any]], format_: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = []
    for row in rows:
        data = dict(zip("kvw", row, strict=True))
        if format_ == "csv":
            lines.append(",".join("" if value is None else str(value) for value in row))
        else:
            lines.append(json.dumps(data if format_ == "json" else {"op": "+I", "data": data}))
    (folder / "in" / f"{name}.{format_}").write_text("".join(line + "\n" for line in lines))


def letters(folder: Path) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for file in (folder / "state/dead-letter").glob("*.jsonl"):
        for line in map(json.loads, file.read_text().splitlines()):
            found[Path(line["origin"]).name, line.get("line"), line["reason"], line["row"]] += 1
    return found


def from_scratch(folder: Path, sql: str) -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
    """What the same text makes of all the files: the rows of its table, and dead letters."""
    with tempfile.TemporaryDirectory() as name:
        other = Path(name)
        shutil.copytree(folder / "in", other / "in")
        plan = planned(other, sql)
        run_here(plan, other, sql=plan.masked_sql)
        return rows(other, plan), letters(other)


def rows(folder: Path, plan: Planned) -> Counter[tuple[Any, ...]]:
    return Counter(held(folder, [c.name for c in plan.physical.sinks[0].schema]))


def run(folder: Path, sql: str, **options: Any) -> Counter[tuple[Any, ...]]:
    plan = planned(folder, sql)
    run_here(plan, folder, sql=plan.masked_sql, **options)
    return rows(folder, plan)


def decided(folder: Path, sql: str) -> EditPlan:
    plan = planned(folder, sql)
    journal = Journal(CheckpointStore(folder / "state"))
    last = recover(journal).last
    assert last is not None
    return edit_plan(journal, last, plan.physical, sql=plan.masked_sql, nodes=plan.state_nodes)


ROWS = [("a", 1, 1), ("a", 40_000, 2), ("b", 3_000_000_000, 300), ("b", 200, 70_000), ("a", "x", 1)]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.sampled(6, each_value=False)
def test_a_type_is_widened_because_rows_overflowed_it(query: str, format_: str, tmp_path: Path) -> None:
    write(tmp_path, "0", ROWS, format_)
    v, w = ("SMALLINT", "TINYINT"), ("BIGINT", "BIGINT")
    sizes = []
    for types in (v, w):
        sql = text(query, *types, format_)
        assert run(tmp_path, sql) == from_scratch(tmp_path, sql)[0]
        assert letters(tmp_path) == from_scratch(tmp_path, sql)[1]
        sizes.append(sum(letters(tmp_path).values()))
    if query != "groups that do not read v":
        assert sizes[0] > sizes[1] > 0 or query == "w"
    write(tmp_path, "1", ROWS, format_)
    assert run(tmp_path, sql) == from_scratch(tmp_path, sql)[0]
    assert letters(tmp_path) == from_scratch(tmp_path, sql)[1]


def test_by_hand(tmp_path: Path) -> None:
    write(tmp_path, "0", [("a", 1, 1), ("a", 40_000, 1)], "json")
    assert run(tmp_path, text("groups", "SMALLINT", "INT", "json")) == Counter([("a", 1, 1)])
    assert sum(letters(tmp_path).values()) == 1
    wider = text("groups", "INT", "INT", "json")
    plan = decided(tmp_path, wider)
    assert plan.counts["BACKFILL"] == 3
    assert plan.counts["ADAPT"] == plan.counts["KEEP"] == 0
    assert plan.withdrawn == {"t": ("t",)}
    assert run(tmp_path, wider) == Counter([("a", 2, 40_000)])
    assert not letters(tmp_path)
    last = recover(Journal(CheckpointStore(tmp_path / "state"))).last
    assert last is not None
    assert last.tally.total == last.sources[0].malformed == 0


def test_without_dead_letters_a_wider_type_is_adapted(tmp_path: Path) -> None:
    write(tmp_path, "0", [("a", 1, 1), ("a", 2, 1)], "json")
    run(tmp_path, text("groups", "SMALLINT", "INT", "json"))
    plan = decided(tmp_path, text("groups", "INT", "INT", "json"))
    assert plan.counts["BACKFILL"] == 0


def test_a_column_that_is_read_now_makes_dead_letters_of_rows_that_were_counted(tmp_path: Path) -> None:
    """That is known when they are read again: then nothing that was kept is of the same rows."""
    write(tmp_path, "0", [("a", 1, 1), ("a", 2, "x")], "json")
    run(tmp_path, text("groups", "SMALLINT", "INT", "json"))
    sql = text("both", "SMALLINT", "INT", "json")
    assert run(tmp_path, sql) == Counter([("a", 1, 2)]) == from_scratch(tmp_path, sql)[0]
    assert letters(tmp_path) == from_scratch(tmp_path, sql)[1]
    assert sum(letters(tmp_path).values()) == 1


def test_a_table_that_keeps_what_it_was_given_is_told_of_and_the_letters_stay(tmp_path: Path) -> None:
    write(tmp_path, "0", [("a", 1, 1), ("a", 40_000, 1)], "json")
    table = "CREATE TABLE t (k STRING, v {v}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
    files = "CREATE TABLE files WITH ('connector' = 'filesystem', 'path' = 'files', 'format' = 'json') AS "
    both = f"{table}{_OUT}SELECT k, COUNT(*) AS n FROM t GROUP BY k;\n{files}SELECT k, CAST(v AS INT) AS v FROM t;\n"
    run(tmp_path, both.format(v="SMALLINT"))
    plan = decided(tmp_path, both.format(v="INT"))
    assert any("`files` has the new query from the next row on" in result for result in plan.results)
    assert not plan.withdrawn
    assert run(tmp_path, both.format(v="INT")) == Counter([("a", 2)])
    assert sum(letters(tmp_path).values()) == 1  # it is not in the files


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", ["backfilled", "adapted", "prepared", "published", "committed"])
def test_killed_while_letters_are_withdrawn(point: str, tmp_path: Path) -> None:
    write(tmp_path, "0", ROWS, "json")
    run(tmp_path, text("both", "SMALLINT", "TINYINT", "json"))
    wider = text("both", "BIGINT", "BIGINT", "json")
    with pytest.raises(Crash):
        run(tmp_path, wider, faults=crash_at(point, 1 if point == "backfilled" else 2))
    assert run(tmp_path, wider) == from_scratch(tmp_path, wider)[0]
    assert letters(tmp_path) == from_scratch(tmp_path, wider)[1]


def test_two_tables_of_one_source_that_read_other_columns(tmp_path: Path) -> None:
    """What `t` could not read, `u` could: a state of the one is not one of the other."""
    write(tmp_path, "0", [("a", 1, 1), ("a", 40_000, 1)], "json")
    table = "CREATE TABLE {n} (k STRING, v {v}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
    tables = table.format(n="t", v="SMALLINT") + table.format(n="u", v="INT")
    queries = _OUT + "SELECT k, COUNT(*) AS n, CAST(MAX(v) AS INT) AS m FROM {} GROUP BY k;\n"
    assert run(tmp_path, tables + queries.format("t")) == Counter([("a", 1, 1)])
    assert run(tmp_path, tables + queries.format("u")) == Counter([("a", 2, 40_000)])
    assert run(tmp_path, tables + queries.format("t")) == Counter([("a", 1, 1)])


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.sampled(4)
def test_chains_of_edits_over_rows_that_can_not_all_be_read(seed: int, tmp_path: Path) -> None:
    random_ = random.Random(seed)
    format_ = random_.choice(FORMATS)
    parts: dict[str, str] = {"query": random_.choice(list(QUERIES)), "v": "SMALLINT", "w": "INT"}
    for step in range(4):
        if not step or random_.random() < 0.6:
            new = [
                (random_.choice("ab"), value(random_), value(random_)) for _ in range(random_.randint(1, 6))
            ]
            write(tmp_path, str(step), [("a", 1, 1), *new], format_)
        if step:
            part = random_.choice(["query", "v", "w", "v"])
            parts[part] = random_.choice(list(QUERIES) if part == "query" else INTEGERS)
        sql = text(parts["query"], parts["v"], parts["w"], format_)
        found = run(tmp_path, sql, rows_per_epoch=random_.choice([2, 100]))
        wanted, unread = from_scratch(tmp_path, sql)
        assert found == wanted, (seed, step, parts, format_)
        assert letters(tmp_path) == unread, (seed, step, parts, format_)


def value(random_: random.Random) -> Any:
    return random_.choice([1, 2, 100, 200, 40_000, 3_000_000_000, None, "x"])
