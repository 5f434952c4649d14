"""The graph of a plan in text, as `explain` and `plan` draw it."""

from __future__ import annotations

import re

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.explain.graph import clauses_of, graph_of
from sqlstream_planner.explain.graph_text import Part, graph_lines
from sqlstream_planner.explain.plan import explain_text

TABLES = """CREATE TABLE t (k INT, v INT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE u (k INT, w INT) WITH ('connector' = 'filesystem', 'path' = 'u', 'format' = 'json');
CREATE TABLE o (k INT, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE p (k INT, w INT) WITH ('connector' = 'print');
"""


def drawn(query: str, **verdicts: str) -> list[str]:
    planned = plan_file(TABLES + query, file="t.sql")
    return [
        line.rstrip()
        for line in graph_lines(graph_of(planned.physical), clauses_of(planned), verdicts=verdicts)
    ]


def test_a_join_of_two_tables() -> None:
    query = "INSERT INTO o SELECT t.k, SUM(w) FROM t JOIN u ON t.k = u.k WHERE v > 1 GROUP BY t.k;"
    assert drawn(query) == [
        "▷    source t (filesystem)               t.sql:1:14",
        "│ ▷  source u (filesystem)               t.sql:3:14",
        "├─╯  hash(k)",
        "●    join_1: join                        t.sql:6:46",
        "│    hash(k)",
        "●    group_aggregate_1: group aggregate  t.sql:6:82",
        "■    sink o (print, retract)             t.sql:6:15",
    ]


def test_two_sinks_of_one_table() -> None:
    query = (
        "INSERT INTO p SELECT k, v FROM t WHERE v > 1;\n"
        "INSERT INTO o SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
        "GROUP BY k, window_start, window_end;"
    )
    lines = drawn(query)
    assert [line.split("  ")[0] for line in lines] == ["▷", "├─╮", "│ ■", "○", "│", "●", "■"]
    assert "sink p (print, append)" in lines[2]
    assert "TUMBLE aggregate" in lines[5]


def test_the_verdict_of_an_edit_stands_beside_its_operator() -> None:
    lines = drawn("INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k;", **{"op:group_aggregate_1": "ADAPT"})
    assert [line for line in lines if "ADAPT" in line] == [
        "●  group_aggregate_1: group aggregate  ADAPT     t.sql:6:50"
    ]


def test_every_node_and_exchange_is_painted_as_what_it_is() -> None:
    found: list[tuple[Part, str]] = []

    def paint(part: Part, text: str) -> str:
        found.append((part, text.strip()))
        return text

    planned = plan_file(TABLES + "INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k;", file="t.sql")
    list(graph_lines(graph_of(planned.physical), clauses_of(planned), paint=paint))
    assert ("operator", "group_aggregate_1: group aggregate") in found
    assert ("label", "hash(k)") in found
    assert ("source", "source t (filesystem)") in found
    assert ("sink", "sink o (print, retract)") in found


@pytest.mark.parametrize(
    "query",
    ["SELECT k, v FROM t", "SELECT k, COUNT(*) FROM (SELECT k FROM t UNION ALL SELECT k FROM u) GROUP BY k"],
)
def test_explain_begins_with_the_graph(query: str) -> None:
    text = explain_text(plan_file(f"{TABLES}INSERT INTO {'p' if 'UNION' not in query else 'o'} {query};"))
    graph = re.fullmatch(r"== Graph ==\n(.+?)\n\n== Logical plan ==\n.*", text, re.DOTALL)
    assert graph is not None
    assert "source t" in graph[1]
    assert "sink" in graph[1].split("\n")[-1]
