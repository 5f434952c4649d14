"""State is known by what it means: spellings that mean the same have the same schema, others do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.referee import Pipeline, assert_same
from tests.properties.test_window_invariants import Files

TABLE = """
CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = '{format}');
"""
TUMBLE = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
BASE = (
    f"SELECT window_start, window_end, bidder, auction, COUNT(*) AS n, SUM(price) AS s, COUNT(DISTINCT channel) AS c FROM {TUMBLE} "
    "WHERE price > 1 AND channel = 'x' GROUP BY window_start, window_end, bidder, auction"
)

SAME = {
    "alias": BASE.replace("AS n", "AS how_many"),
    "formatting and comments": BASE.replace("FROM", "\n  -- here\nFROM").replace("SELECT", "select"),
    "columns reordered": f"SELECT auction, COUNT(DISTINCT channel) AS c, SUM(price) AS s, COUNT(*) AS n, bidder FROM {TUMBLE} "
    "WHERE channel = 'x' AND price > 1 GROUP BY auction, bidder, window_end, window_start",
    "a predicate turned round": BASE.replace("price > 1", "1 < price"),
    "a list of one": BASE.replace("channel = 'x'", "channel IN ('x')"),
    "a CTE": "WITH b AS (SELECT bidder AS who, auction AS a, price AS p, channel AS ch, ts AS t FROM bid) "
    "SELECT window_end, who, a, COUNT(*), SUM(p), COUNT(DISTINCT ch) FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(t), INTERVAL '10' SECOND)) "
    "WHERE p > 1 AND ch = 'x' GROUP BY window_start, window_end, who, a",
    "filter in a sub-query": "SELECT window_end, bidder, auction, COUNT(*), SUM(price), COUNT(DISTINCT channel) FROM "
    "TABLE(TUMBLE((SELECT * FROM bid WHERE price > 1 AND channel = 'x'), DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end, bidder, auction",
    "named arguments": BASE.replace(
        "TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND",
        "DATA => TABLE bid, SIZE => INTERVAL '10' SECOND, TIMECOL => DESCRIPTOR(ts)",
    ),
    "seconds for a sixth of a minute": BASE.replace("INTERVAL '10' SECOND", "INTERVAL '10000' MILLISECOND"),
    "another projection and HAVING": BASE.replace("SUM(price) AS s", "SUM(price) * 2 AS s")
    + " HAVING COUNT(*) > 3",
    "the older group window": "SELECT bidder, auction, COUNT(*), SUM(price), COUNT(DISTINCT channel) FROM bid "
    "WHERE price > 1 AND channel = 'x' GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), bidder, auction",
}

DIFFERENT = {
    "another key": BASE.replace(", auction, COUNT", ", COUNT").replace("bidder, auction", "bidder"),
    "another size": BASE.replace("'10' SECOND", "'20' SECOND"),
    "another filter": BASE.replace("price > 1", "price > 2"),
    "no filter": BASE.replace("WHERE price > 1 AND channel = 'x'", ""),
    "another aggregate": BASE.replace("SUM(price)", "MAX(price)"),
    "one aggregate more": BASE.replace("SUM(price) AS s", "SUM(price) AS s, MIN(price) AS m"),
    "an aggregate filtered": BASE.replace("SUM(price)", "SUM(price) FILTER (WHERE price > 5)"),
    "another expression": BASE.replace("SUM(price)", "SUM(price + 1)"),
    "minus is not plus": BASE.replace("SUM(price)", "SUM(price - 1)"),
    "a hop": BASE.replace(
        "TUMBLE(TABLE bid, DESCRIPTOR(ts),", "HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' SECOND,"
    ),
    "an offset": BASE.replace("'10' SECOND", "'10' SECOND, INTERVAL '1' SECOND"),
}


def states(query: str, *, delay: int = 5, format_: str = "json") -> tuple[StateSchema, ...]:
    """The state schemas of one query."""
    return plan_file(TABLE.format(delay=delay, format=format_) + query + ";").physical.states


def identity(schemas: tuple[StateSchema, ...]) -> list[tuple[str, str]]:
    """What decides whether state can be used as it is."""
    return [(s.state_id, s.schema_id) for s in schemas]


@pytest.mark.parametrize("name", SAME)
def test_the_same_meaning_has_the_same_state(name: str) -> None:
    assert identity(states(SAME[name])) == identity(states(BASE))


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_meaning_has_another_state(name: str) -> None:
    assert identity(states(DIFFERENT[name])) != identity(states(BASE))


def test_what_does_not_change_the_data_does_not_change_the_state() -> None:
    assert identity(states(BASE, delay=7)) == identity(states(BASE))


def test_another_format_is_other_data() -> None:
    """The same bytes read as something else: whatever a name meant in one, it need not mean in the other."""
    assert identity(states(BASE, format_="csv")) != identity(states(BASE))


def test_avg_shares_what_sum_and_count_keep() -> None:
    both = states(
        f"SELECT window_end, AVG(price) AS a, SUM(price) AS s, COUNT(price) AS c FROM {TUMBLE} GROUP BY window_end"
    )
    assert len(both[0].tables[0].value) == 2


def test_distinct_aggregates_over_one_column_share_one_table() -> None:
    found = states(
        f"SELECT window_end, COUNT(DISTINCT bidder) AS a, COUNT(DISTINCT bidder) FILTER (WHERE price > 1) AS b, "
        f"SUM(DISTINCT bidder) AS c FROM {TUMBLE} GROUP BY window_end"
    )
    assert [t.name.partition("_")[0] for t in found[0].tables] == ["acc", "distinct"]


def test_two_aggregates_over_the_same_groups_have_two_states() -> None:
    text = TABLE.format(delay=5, format="json")
    text += f"SELECT window_end, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_end;"
    text += f"SELECT window_end, MAX(price) AS m FROM {TUMBLE} GROUP BY window_end;"
    ids = [s.state_id for s in plan_file(text).physical.states]
    assert len(set(ids)) == 2


def test_the_same_aggregate_twice_runs_once() -> None:
    text = TABLE.format(delay=5, format="json")
    text += f"SELECT window_end, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_end;"
    text += f"SELECT COUNT(*) + 1 AS m FROM {TUMBLE} GROUP BY window_end;"
    plan = plan_file(text).physical
    assert len(plan.states) == 1
    assert [s.level for s in plan.stages] == [0, 1]


DATA: Files = [
    [
        {"k": n % 2, "s": "a" if n % 3 else "b", "v": n, "ts": f"2024-01-01 00:00:{n:02d}.000"}
        for n in range(start, start + 20)
    ]
    for start in (0, 20)
]
QUERY = "SELECT {items} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '15' SECOND)) GROUP BY window_start, window_end, k"


def _edited(folder: Path, items: str) -> Pipeline:
    text = (folder / "pipeline.sql").read_text()
    before = text[text.index("AS SELECT") :]
    (folder / "pipeline.sql").write_text(text.replace(before, f"AS {QUERY.format(items=items)};\n"))
    return Pipeline(folder, plan_file(folder / "pipeline.sql"))


def test_a_reordered_query_goes_on_from_the_same_state(tmp_path: Path) -> None:
    before = QUERY.format(items="window_end, k, COUNT(*) AS n, SUM(v) AS v")
    pipeline = Pipeline.create(tmp_path / "p", [before], DATA, delay=60)
    pipeline.run(rows_per_epoch=7, max_epochs=3)
    edited = _edited(pipeline.folder, "window_end, k, COUNT(*) + 0 AS n, SUM(v) AS v")
    edited.run(rows_per_epoch=7)
    assert_same(edited.output(), edited.expected())


def test_an_edit_that_changes_the_state_is_refused(tmp_path: Path) -> None:
    before = QUERY.format(items="window_end, k, COUNT(*) AS n, SUM(v) AS v")
    pipeline = Pipeline.create(tmp_path / "p", [before], DATA, delay=60)
    pipeline.run(rows_per_epoch=7, max_epochs=3)
    edited = _edited(pipeline.folder, "window_end, k, COUNT(*) AS n, MAX(v) AS v")
    with pytest.raises(DiagnosticError) as caught:
        edited.run(rows_per_epoch=7)
    assert caught.value.exit_code == 4
    # The old file goes on.
    assert pipeline.run(rows_per_epoch=7).outcome == "exhausted"
    assert_same(pipeline.output(), pipeline.expected())
