"""A join's state has its answer: a new table gets all of it, each row as often as it is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.pipeline import Planned
from tests.edits.test_matrix import ROWS_PER_EPOCH, rows
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.test_edited_answers import held
from tests.properties.updating import TABLE, batch

KINDS = ("JOIN", "LEFT JOIN", "FULL JOIN")


#: By another column, and by the same one: then both sides are one arrangement; and three of it.
ON = ("b ON a.k = b.v", "b ON a.k = b.k", "b ON a.k = b.k JOIN t AS d ON d.k = b.k")


def planned(folder: Path, kind: str, sinks: tuple[str, ...], on: str) -> Planned:
    text = TABLE
    for sink in sinks:
        text += (
            f"CREATE TABLE {sink} (g STRING, a BIGINT, c BIGINT) "
            f"WITH ('connector' = 'filesystem', 'path' = '{sink}', 'format' = 'changelog-json');\n"
            f"INSERT INTO {sink} SELECT CAST(a.k AS STRING), a.v, b.v AS w FROM t AS a {kind} t AS {on};\n"
        )
    (folder / "p.sql").write_text(text)
    return plan_file(folder / "p.sql")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "on"), [*((kind, ON[0]) for kind in KINDS), (KINDS[2], ON[1]), (KINDS[0], ON[2])]
)
def test_a_new_table_gets_the_whole_answer(tmp_path: Path, kind: str, on: str) -> None:
    given = rows()
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.json").write_text("".join(json.dumps(row) + "\n" for row in given))
    first = planned(tmp_path, kind, ("former",), on)
    run_here(first, tmp_path, rows_per_epoch=ROWS_PER_EPOCH, max_epochs=2, sql=first.masked_sql)
    second = planned(tmp_path, kind, ("former", "out"), on)
    run_here(second, tmp_path, parallelism=3, rows_per_epoch=ROWS_PER_EPOCH, sql=second.masked_sql)
    assert_same(held(tmp_path, ["g", "a", "c"]), batch(tmp_path, second, given))
