"""The edit invariant: after any edit the result is that of the new query over all input, or the edit is refused."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties.query_generator import rows
from tests.properties.test_edited_answers import check_chain, planned
from tests.properties.updating import TABLE

#: Aggregates of `t`, each with its name.
AGGREGATES = (
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "MIN(v)",
    "MAX(v)",
    "CAST(AVG(v) * 1000 AS BIGINT)",
    "COUNT(DISTINCT v)",
    "SUM(DISTINCT v)",
    "COUNT(*) FILTER (WHERE b)",
    "LENGTH(MAX(s))",
    "LENGTH(STRING_AGG(s, ',' ORDER BY s))",
)
KEYS = ("k", "s", "k, s", "v % 3", "v / 2", "FLOOR(v / 2)", "k, v / 2")
#: What stands behind GROUP BY for two keys, and columns are NULL in some of its groups.
SETS = ("k, s", "ROLLUP (k, s)", "CUBE (k, s)", "GROUPING SETS ((k), (s))", "GROUPING SETS ((s), (k, s))")
LIVES = ("", "", "SET 'table.exec.state.ttl' = '1 d';\n", "SET 'table.exec.state.ttl' = '64 d';\n")
WHERE = ("", "WHERE b", "WHERE k > 0", "WHERE v > 1 AND k > 0")
#: What feeds the aggregate: rows that never go, and rows that do.
FROM = (
    "t",
    "(SELECT k, s, b, MAX(v) AS v FROM t GROUP BY k, s, b)",
)


def query(source: str, where: str, keys: str, aggregates: list[str], sets: str, life: str) -> str:
    """The columns are the same for all: two keys and three aggregates."""
    names = [key.strip() for key in keys.split(",")]
    columns = [f"CAST({names[0]} AS STRING) AS g0", f"CAST({names[-1]} AS STRING) AS g1"]
    columns += [f"CAST({a} AS BIGINT) AS a{n}" for n, a in enumerate(aggregates)]
    by = sets if keys == "k, s" else keys
    sink = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json'"
    select = f"SELECT {', '.join(columns)} FROM {source} {where} GROUP BY {by}"
    return f"{life}{TABLE}CREATE TABLE out WITH ({sink}) AS {select};\n"


@st.composite
def edits(draw: st.DrawFn) -> list[str]:
    """A query, and what is made of it step by step: each step changes one of its parts."""
    parts: dict[str, Any] = {
        "source": draw(st.sampled_from(FROM)),
        "where": draw(st.sampled_from(WHERE)),
        "keys": draw(st.sampled_from(KEYS)),
        "sets": draw(st.sampled_from(SETS)),
        "life": draw(st.sampled_from(LIVES)),
        "aggregates": draw(st.lists(st.sampled_from(AGGREGATES), min_size=3, max_size=3, unique=True)),
    }
    made = [query(**parts)]
    for _ in range(draw(st.integers(1, 3))):
        # A time to live may change together with anything.
        parts = {**parts, "life": draw(st.sampled_from([parts["life"], parts["life"], *LIVES[1:]]))}
        part = draw(st.sampled_from(["aggregates", "aggregates", "where", "keys", "keys", "sets", "source"]))
        match part:
            case "aggregates":
                other = draw(st.sampled_from(AGGREGATES))
                place = draw(st.integers(0, 2))
                parts = {**parts, "aggregates": [*parts["aggregates"]]}
                parts["aggregates"][place] = other
            case "where":
                parts = {**parts, "where": draw(st.sampled_from(WHERE))}
            case "keys":
                parts = {**parts, "keys": draw(st.sampled_from(KEYS))}
            case "sets":
                parts = {**parts, "keys": "k, s", "sets": draw(st.sampled_from(SETS))}
            case _:
                parts = {**parts, "source": draw(st.sampled_from(FROM))}
        made.append(query(**parts))
    return made


@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    edits(),
    rows(),
    rows(),
    st.integers(3, 9),
    st.lists(st.integers(1, 3), min_size=4, max_size=4),
)
def test_a_chain_of_edited_queries(
    queries: list[str],
    first: list[dict[str, Any]],
    later: list[dict[str, Any]],
    rows_per_epoch: int,
    shards: list[int],
) -> None:
    check_chain(
        lambda folder, number: planned(folder, queries[number]),
        len(queries),
        first,
        later,
        rows_per_epoch,
        shards,
    )
