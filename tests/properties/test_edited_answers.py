"""The edit invariant for what stands above the state: after an edit a changelog adds up to the new query over all input."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.pipeline import Planned
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.query_generator import Relation, relations, rows
from tests.properties.referee import Rows, assert_same
from tests.properties.test_rescaled_runs import grouped
from tests.properties.updating import TABLE, batch

#: What stands above the query `q` with the columns `c` (the first of them is `{0}`).
ABOVE = (
    "SELECT {all} FROM q",
    "SELECT {all} FROM q WHERE {0} > 1",
    "SELECT {all} FROM q WHERE {0} IS NULL OR {0} < 2",
    "SELECT {twice} FROM q",
    "SELECT {twice} FROM q WHERE {0} <> 0",
    "SELECT {reversed} FROM q",
)


def text(relation: Relation, above: str) -> str:
    names = list(relation.columns)
    columns = [f"CAST({name} AS BIGINT)" for name in names]
    listed = {
        "all": ", ".join(f"{c} AS {n}" for n, c in zip(names, columns, strict=True)),
        "twice": ", ".join(
            f"CAST({c} * 2 + 1 AS BIGINT) AS {n}" for n, c in zip(names, columns, strict=True)
        ),
        "reversed": ", ".join(f"{c} AS {n}" for n, c in zip(names, reversed(columns), strict=True)),
    }
    sink = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json'"
    query = above.format(*names, **listed)
    return f"{TABLE}CREATE TABLE out WITH ({sink}) AS WITH q AS ({relation.sql}) {query};\n"


def held(folder: Path, names: Sequence[str]) -> Rows:
    """What the messages in the sink's files add up to, in the order of the files."""
    found: Counter[tuple[Any, ...]] = Counter()
    for file in sorted((folder / "out").glob("*.json")):
        for line in file.read_text().splitlines():
            message = json.loads(line)
            row = tuple(message["data"].get(name) for name in names)
            found[row] += 1 if message["op"] in ("INSERT", "+I", "UPDATE_AFTER", "+U") else -1
            assert found[row] >= 0, f"{file.name} takes back what was not given: {line}"
    return list(found.elements())


def planned(folder: Path, sql: str) -> Planned:
    (folder / "p.sql").write_text(sql)
    return plan_file(folder / "p.sql")


def check_chain(
    plan_of: Callable[[Path, int], Planned | None],
    length: int,
    first: list[dict[str, Any]],
    later: list[dict[str, Any]],
    rows_per_epoch: int,
    shards: Sequence[int],
) -> None:
    """Run plans one after the other over one state, each with more rows: each gives DuckDB's answer over all of them.

    `plan_of` makes a plan by its number in a folder; None ends the chain.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "input").mkdir()
        read: list[dict[str, Any]] = []
        for number in range(length):
            begun = [{"k": None, "v": None, "s": None, "b": True}, *first]
            new = later[number - 1 :: length - 1] if number else begun
            lines = "".join(json.dumps(row) + "\n" for row in new)
            (folder / "input" / f"{number}.json").write_text(lines)
            read = [*read, *new]
            plan = plan_of(folder, number)
            if plan is None:
                return
            warnings: list[Diagnostic] = []
            run_here(
                plan,
                folder,
                parallelism=shards[number],
                rows_per_epoch=rows_per_epoch,
                sql=plan.masked_sql,
                tell=warnings.append,
            )
            assert {d.code for d in warnings} <= {"STA017"}
            names = [c.name for c in plan.physical.sinks[0].schema]
            assert_same(held(folder, names), batch(folder, plan, read))


@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    relations(),
    rows(),
    rows(),
    st.lists(st.sampled_from(ABOVE), min_size=2, max_size=4),
    st.integers(3, 9),
    st.lists(st.integers(1, 3), min_size=4, max_size=4),
    st.lists(st.sampled_from([3, 128, 128, 500]), min_size=4, max_size=4),
)
def test_a_chain_of_edits(
    relation: Relation,
    first: list[dict[str, Any]],
    later: list[dict[str, Any]],
    above: list[str],
    rows_per_epoch: int,
    shards: list[int],
    groups: list[int],
) -> None:
    def plan_of(folder: Path, number: int) -> Planned | None:
        plan = grouped(planned(folder, text(relation, above[number])), groups[number])
        sink = plan.physical.sinks[0]
        # DISTINCT, whose rows are not taken back, and rows beside a group are refused.
        refused = sink.changelog == "append" or missing_answers(plan.physical, sink.name)
        return None if refused else plan

    check_chain(plan_of, len(above), first, later, rows_per_epoch, shards)
