"""What `explain` says of a state's fields: what they mean, in the query's words."""

from __future__ import annotations

from sqlstream.planning import plan_file
from sqlstream_planner.explain.plan import explain_text

TEXT = """
CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE o (k INT, n BIGINT, s BIGINT) WITH ('connector' = 'print');
INSERT INTO o SELECT k + 1, COUNT(*) FILTER (WHERE v > 3), COUNT(DISTINCT v) FROM t GROUP BY k + 1;
"""


def state_lines() -> list[str]:
    text = explain_text(plan_file(TEXT, file="t.sql"))
    return [line.strip() for line in text.split("== State ==")[1].splitlines()]


def test_fields_are_said_by_what_they_mean() -> None:
    lines = state_lines()
    assert any(line.startswith("key ") and line.endswith("INTEGER: k + 1") for line in lines), lines
    assert any("count of rows where v > 3" in line for line in lines), lines
    assert any("distinct value(v)" in line for line in lines), lines


def test_no_field_is_left_as_a_digest() -> None:
    fields = [line for line in state_lines() if line.startswith(("key ", "sub-key ", "value "))]
    meanings = [line.split(": ", 1)[1] for line in fields]
    assert meanings
    assert not [m for m in meanings if len(m) >= 16 and all(c in "0123456789abcdef" for c in m)]
