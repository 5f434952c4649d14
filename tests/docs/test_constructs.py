"""docs/constructs.md: every row's example is planned, is as the row says, and runs to DuckDB's answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from docs.site.constructs import Construct, constructs, tables
from sqlstream.planning import plan_file
from sqlstream_operators.plan.epoch_values import clock_settings
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.logical import walk
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.properties.summary import Summary
from sqlstream_planner.streaming import TemporalJoin
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.updating import collecting, fetched

TABLES = tables()
CONSTRUCTS = constructs()


def planned(folder: Path, examples: list[str]) -> Planned:
    sinks = (f"CREATE TABLE o{n} WITH ('connector' = 'blackhole') AS {e};\n" for n, e in enumerate(examples))
    (folder / "p.sql").write_text(TABLES + "".join(sinks), encoding="utf-8")
    return plan_file(folder / "p.sql")


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda c: c.name)
def test_a_row_says_what_the_plan_does(tmp_path: Path, construct: Construct) -> None:
    plan = planned(tmp_path, [construct.example])
    summary = Summary(Facts())
    found = {node: summary.of(node) for node in walk(plan.logical)}
    (sink,) = plan.logical
    assert found[sink].changelog.value == construct.rows
    kinds = sorted(step.operator.kind for step in plan.physical.operators)
    assert ", ".join(kinds) == (
        ", ".join(sorted(construct.state.split(", "))) if construct.state != "none" else ""
    )
    bounds = {p.bounded_state for p in found.values() if p.bounded_state is not None}
    moved = any(step.operator.watermark_sources for step in plan.physical.operators)
    if not bounds:
        assert construct.kept == ""
    elif False in bounds:
        grows = {type(node) for node, p in found.items() if p.bounded_state is False}
        assert construct.kept == ("keys" if grows == {TemporalJoin} else "TTL")
    else:
        assert construct.kept == ("watermark" if moved else "fixed")


def write(folder: Path) -> None:
    """Forty rows of t, thirty of u, twenty changes of c."""
    t = [
        {"k": n * 7 % 9 or None, "v": n * 3 % 11, "s": "abc"[n % 3], "a": [n % 4, n % 3], "ts": time(2 * n)}
        for n in range(40)
    ]
    u = [{"k": n * 3 % 7, "w": n * 5 % 8, "at": time(3 * n)} for n in range(30)]
    c = [{"op": "+I", "data": {"id": n, "k": n % 6, "v": n % 4}} for n in range(12)]
    c += [{"op": "-D", "data": {"id": n, "k": n % 6, "v": n % 4}} for n in range(3, 7)]
    c += [{"op": "+U", "data": {"id": n, "k": 5 - n % 6, "v": n}} for n in range(8, 12)]
    tables: dict[str, Sequence[Mapping[str, object]]] = {"t": t, "u": u, "c": c}
    for name, rows in tables.items():
        (folder / name).mkdir()
        (folder / name / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def time(second: int) -> str:
    return f"2024-01-01 00:{second // 60:02}:{second % 60:02}"


def test_every_example_gives_what_duckdb_gives(tmp_path: Path) -> None:
    write(tmp_path)
    plan = planned(tmp_path, [construct.example for construct in CONSTRUCTS])
    with collecting() as collected:
        run_here(plan, tmp_path, parallelism=2, rows_per_epoch=31)
    script = to_duckdb(plan, lambda source: [str(tmp_path / source.name / "0.json")])
    with empty_duckdb() as con:
        con.execute(clock_settings(None))
        for _, view in script.sources:
            con.execute(view)
        for sink, text in script.sinks:
            expected = fetched(con, text)
            construct = CONSTRUCTS[int(sink.removeprefix("o"))]
            assert expected, f"{construct.name}: the example gives nothing"
            try:
                assert_same(collected.folded(sink), expected)
            except AssertionError as error:
                raise AssertionError(f"{construct.name}: {error}") from error
