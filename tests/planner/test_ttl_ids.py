"""Two times to live of one state: each has an id of its own, whatever the order in the file."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast, get_args

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.physical.operators.registry import BY_NODE
from sqlstream_planner.physical.planner import _FORGETTING

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


def test_what_may_have_a_time_to_live_is_known_as_such() -> None:
    """An operator that forgets and is not known to would give two states one id, by the order in the file."""
    have = {node for node in BY_NODE if "ttl_us" in {f.name for f in fields(cast(Any, node))}}
    assert have == set(get_args(_FORGETTING))


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
