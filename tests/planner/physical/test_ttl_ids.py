"""Two times to live of one state: each has an id of its own, whatever the order in the file."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.logical import StreamingOperator, walk
from sqlstream_planner.physical.operators.registry import PLANNED

TABLES = """
CREATE TABLE t (k INT, v INT, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE u (k INT, w INT) WITH ('connector' = 'filesystem', 'path' = 'u', 'format' = 'json');
CREATE TABLE c (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'changelog-json');
"""
#: A query of each operator that may have a time to live; {} is its hint.
QUERIES = {
    "groups": "SELECT {} k, COUNT(*) AS n FROM t GROUP BY k",
    "distinct values": "SELECT {} k, COUNT(DISTINCT v) AS n FROM t GROUP BY k",
    "top-n": "SELECT k, v FROM (SELECT {} *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM t) WHERE r <= 3",
    "over": "SELECT {} k, v, SUM(v) OVER (PARTITION BY k ORDER BY v) AS s FROM t",
    "join": "SELECT {} t.v, u.w FROM t JOIN u ON t.k = u.k",
    "outer join": "SELECT {} t.v, u.w FROM t LEFT JOIN u ON t.k = u.k",
}

#: Their time to live is that of the file: two of them can't differ within one plan.
OF_THE_FILE = """SET 'table.exec.state.ttl' = '1 d';
CREATE TABLE o (k INT, v INT) WITH ('connector' = 'blackhole');
CREATE TABLE p (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'p.duckdb');
INSERT INTO o SELECT k, MAX(v) FROM c GROUP BY k;
INSERT INTO p SELECT k, v FROM t ON CONFLICT DO NOTHING;
"""


def test_every_operator_that_may_forget_is_tried() -> None:
    """An operator with a time to live that it does not tell of would give two states one id, by the order in the file."""
    may = {o.node for o in PLANNED if "ttl_us" in {f.name for f in fields(cast(Any, o.node))}}
    hinted = (query.format("/*+ STATE_TTL('t' = '1 d') */") for query in QUERIES.values())
    files = [f"CREATE TABLE o WITH ('connector' = 'blackhole') AS {query};" for query in hinted]
    reported = {
        type(node)
        for file in (*files, OF_THE_FILE)
        for node in walk(plan_file(TABLES + file, file="p.sql").logical)
        if isinstance(node, StreamingOperator) and node.time_to_live == 86_400_000_000
    }
    assert reported == may


@pytest.mark.parametrize("name", QUERIES)
def test_ids_do_not_depend_on_the_order_in_the_file(name: str) -> None:
    def ids(*ttls: str) -> dict[int | None, set[str]]:
        both = "'t' = '{0}', 'u' = '{0}'" if "join" in name else "'t' = '{0}'"
        hinted = (QUERIES[name].format(f"/*+ STATE_TTL({both.format(ttl)}) */") for ttl in ttls)
        sinks = (
            f"CREATE TABLE o{ttl[0]} WITH ('connector' = 'blackhole') AS {query};\n"
            for ttl, query in zip(ttls, hinted, strict=True)
        )
        found: dict[int | None, set[str]] = {}
        for step in plan_file(TABLES + "".join(sinks), file="p.sql").physical.operators:
            found.setdefault(getattr(step.operator, "ttl_us", None), set()).add(step.operator.state.state_id)
        return found

    forward, backward = ids("1 d", "2 d"), ids("2 d", "1 d")
    assert forward == backward
    assert len(forward) == 2
    assert not set.intersection(*forward.values())
