"""EMIT, allowed lateness, STATE_TTL and ON CONFLICT: what they apply to, and what they put into the plan."""

from __future__ import annotations

from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import OperatorStep, PhysicalPlan
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.explain.plan import explain_json, explain_text
from sqlstream_planner.logical import walk
from sqlstream_planner.logical.text import logical_text
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.streaming import WindowAggregate

TABLES = """
CREATE TABLE t (k INT, v BIGINT, a ARRAY<INT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE c (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'debezium-json');
CREATE TABLE keyed (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'o.duckdb');
"""
W = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
ENDS = f"SELECT window_end, COUNT(*) AS n FROM {W} GROUP BY window_start, window_end"
LATENESS = "SET 'table.exec.emit.allow-lateness' = '1 min';"
RANKED = (
    f"SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v) AS r FROM {W})"
    " AS x WHERE r < 3"
)

VERSIONS = """
CREATE TABLE rates (k INT, rate INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'r', 'format' = 'json');
"""
OF_THEIR_TIME = "SELECT t.k, r.rate FROM t JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.k = r.k"


def planned(text: str) -> Planned:
    return plan_file(TABLES + text, file="t.sql")


def code_of(text: str) -> str:
    with pytest.raises(DiagnosticError) as caught:
        planned(text)
    [found] = caught.value.diagnostics
    return found.code


def how(text: str) -> list[str]:
    """The operators of a plan, in words."""
    words = {
        "window aggregate": "close",
        "group aggregate": "changes",
        "suppress until close": "gate",
        "top n": "top",
    }
    lines = [line.strip() for line in logical_text(planned(text).logical).split("\n")]
    return [short for line in lines for start, short in words.items() if line.startswith(start)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ENDS, ["close"]),
        (f"{ENDS} EMIT ON WINDOW CLOSE", ["close"]),
        (f"{ENDS} EMIT CHANGES", ["changes"]),
        (f"({ENDS}) EMIT CHANGES", ["changes"]),
        (f"{ENDS} emit changes;", ["changes"]),
        (f"{ENDS} HAVING COUNT(*) > 1 EMIT CHANGES", ["changes"]),
        (f"SELECT n FROM ({ENDS}) EMIT CHANGES", ["changes"]),
        (f"SELECT n FROM ({ENDS}) AS x EMIT CHANGES", ["changes"]),
        (f"SELECT n FROM ({ENDS} EMIT CHANGES)", ["changes"]),
        (f"SELECT n FROM ({ENDS} EMIT CHANGES) AS emit", ["changes"]),
        (f"WITH x AS ({ENDS}) SELECT n FROM x EMIT CHANGES", ["changes"]),
        (f"WITH x AS ({ENDS} EMIT ON WINDOW CLOSE) SELECT n FROM x EMIT CHANGES", ["close"]),
        (f"{ENDS} UNION ALL {ENDS} EMIT CHANGES", ["changes"]),  # the same sub-plan twice is one
        (f"{ENDS} UNION ALL {ENDS} HAVING MAX(v) > 1 EMIT CHANGES", ["changes", "changes"]),
        (f"CREATE VIEW w AS {ENDS}; SELECT n FROM w EMIT CHANGES", ["close"]),
        (f"CREATE VIEW w AS {ENDS} EMIT CHANGES; SELECT n FROM w", ["changes"]),
        (f"SELECT n, COUNT(*) AS c FROM ({ENDS}) GROUP BY n EMIT CHANGES", ["changes", "changes"]),
        ("SELECT k, COUNT(*) AS c FROM t GROUP BY k EMIT CHANGES", ["changes"]),
        ("SELECT k FROM t EMIT CHANGES", []),
        ("SELECT k FROM t AS emit", []),
        (f"{LATENESS} {ENDS}", ["gate", "changes"]),
        (f"{LATENESS} {ENDS} EMIT ON WINDOW CLOSE", ["gate", "changes"]),
        (f"{LATENESS} {ENDS} EMIT CHANGES", ["changes"]),
        (f"{RANKED} EMIT ON WINDOW CLOSE", ["top"]),
        (f"SELECT x.n, t.v FROM ({ENDS}) AS x JOIN t ON t.v = x.n EMIT ON WINDOW CLOSE", ["close"]),
        # The version of a time is final when the watermark is there.
        (f"{VERSIONS} {OF_THEIR_TIME} EMIT ON WINDOW CLOSE", []),
    ],
)
def test_what_emit_applies_to(text: str, expected: list[str]) -> None:
    assert how(text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT k FROM t EMIT ON WINDOW CLOSE", "SQL065"),
        ("SELECT k, COUNT(*) AS c FROM t GROUP BY k EMIT ON WINDOW CLOSE", "SQL065"),
        (f"SELECT n, COUNT(*) AS c FROM ({ENDS}) GROUP BY n EMIT ON WINDOW CLOSE", "SQL065"),
        (f"SELECT n FROM ({ENDS}) ORDER BY n LIMIT 2 EMIT ON WINDOW CLOSE", "SQL065"),
        # What late rows correct is corrected in its window; what counts such rows changes with each of them.
        (f"{LATENESS} SELECT n, COUNT(*) AS c FROM ({ENDS}) GROUP BY n EMIT ON WINDOW CLOSE", "SQL065"),
        (f"{LATENESS} SELECT DISTINCT n FROM ({ENDS}) EMIT ON WINDOW CLOSE", "SQL065"),
        (f"SELECT n FROM ({ENDS} EMIT CHANGES) EMIT ON WINDOW CLOSE", "SQL065"),
        (f"SELECT x.n, t.v FROM ({ENDS}) AS x LEFT JOIN t ON t.v = x.n EMIT ON WINDOW CLOSE", "SQL065"),
        (
            f"SELECT n FROM ({ENDS}) AS x WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.v = x.n) EMIT ON WINDOW CLOSE",
            "SQL065",
        ),
        (f"{RANKED} EMIT CHANGES EMIT CHANGES", "SQL001"),
        (f"SELECT * FROM ({RANKED} EMIT CHANGES) EMIT ON WINDOW CLOSE", "SQL065"),
        (f"{ENDS} EMIT CHANGES EMIT CHANGES", "SQL001"),
        (f"{ENDS} EMIT NOW", "SQL001"),
        (
            f"SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE (SELECT window_time, COUNT(*) AS n FROM {W} "
            "GROUP BY window_start, window_end, window_time EMIT CHANGES), DESCRIPTOR(window_time), INTERVAL '1' HOUR)) "
            "GROUP BY window_end",
            "SQL072",
        ),
        (
            "CREATE TABLE o (e TIMESTAMP(3), n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'o', 'format' = 'json');"
            f"INSERT INTO o {ENDS} EMIT CHANGES",
            "SQL070",
        ),
    ],
)
def test_what_can_not_be_emitted_so(text: str, code: str) -> None:
    assert code_of(text) == code


@pytest.mark.parametrize("column", ["window_start", "window_end", "window_time"])
@pytest.mark.parametrize("setting", ["", LATENESS])
def test_a_bound_of_the_window_is_part_of_the_key(column: str, setting: str) -> None:
    query = f"SELECT {column}, k, COUNT(*) AS n FROM {W} GROUP BY window_start, window_end, window_time, k"
    emit = "" if setting else " EMIT CHANGES"
    [sink] = planned(f"{setting}{query}{emit}").physical.sinks
    assert (sink.changelog, sink.key) == ("retract", (column, "k"))


def test_the_start_of_a_cumulate_window_is_no_key() -> None:
    window = W.replace("TUMBLE", "CUMULATE").replace("'10' SECOND", "'5' SECOND, INTERVAL '10' SECOND")
    query = f"SELECT window_start, COUNT(*) AS n FROM {window} GROUP BY window_start, window_end EMIT CHANGES"
    assert planned(query).physical.sinks[0].key is None


# ------------------------------------------------------------------------------------------- time to live


def ttls(text: str) -> dict[str, int | None]:
    """The time to live of each operator, in seconds."""
    return _ttls(planned(text).physical)


def _ttls(plan: PhysicalPlan) -> dict[str, int | None]:
    steps = [step for stage in plan.stages for step in stage.steps if isinstance(step, OperatorStep)]
    found: dict[str, int | None] = {}
    for step in steps:
        spec: Any = step.operator
        ttl_us = getattr(spec, "ttl_us", None)
        names = {table.name for table in spec.state.tables}
        assert ({"touched", "expiry"} <= names) == (ttl_us is not None)
        assert spec.state in plan.states
        found[step.name] = ttl_us // 1_000_000 if ttl_us is not None else None
    return found


COUNTS = "k, COUNT(*) AS n FROM t GROUP BY k"
SET = "SET 'table.exec.state.ttl' = '1 h';"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SELECT {COUNTS}", {"group_aggregate_1": None}),
        (f"{SET} SELECT {COUNTS}", {"group_aggregate_1": 3600}),
        (f"{SET} SELECT /*+ STATE_TTL('t' = '2 min') */ {COUNTS}", {"group_aggregate_1": 120}),
        (f"{SET} SELECT /*+ STATE_TTL('t' = '0') */ {COUNTS}", {"group_aggregate_1": None}),
        ("SELECT /*+ STATE_TTL('X' = '1d') */ x.k, COUNT(*) AS n FROM t AS x GROUP BY x.k", {"group_aggregate_1": 86_400}),
        ("SELECT /*+ STATE_TTL('t' = '1h') */ DISTINCT k, v FROM t", {"group_aggregate_1": 3600}),
        (f"{SET} SELECT k FROM t UNION SELECT v FROM t", {"group_aggregate_1": 3600}),
        (f"{SET} SELECT COUNT(*) AS n, SUM(v) AS s FROM t", {"group_aggregate_1": None}),
        (f"{SET} SELECT k FROM t ORDER BY v LIMIT 2", {"top_n_1": None}),
        (f"{SET} {RANKED}", {"window_top_n_1": None}),
        (f"{SET} {RANKED} EMIT CHANGES", {"top_n_1": 3600}),
        (f"{SET} {ENDS}", {"window_aggregate_1": None}),
        (f"{SET} {ENDS} EMIT CHANGES", {"group_aggregate_1": None}),
        (f"{SET} SELECT k, v FROM c", {"changelog_normalize_1": 3600}),
        (
            "SELECT k, v FROM (SELECT /*+ STATE_TTL('t' = '1h') */ *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r "
            "FROM t) WHERE r = 1",
            {"deduplicate_1": 3600},
        ),
        (
            "SELECT k, COUNT(DISTINCT v) AS d FROM (SELECT /*+ STATE_TTL('t' = '1h') */ DISTINCT k, v FROM t)"
            " AS x GROUP BY k",
            {"group_aggregate_1": 3600, "group_aggregate_2.distinct_1": None, "group_aggregate_2": None},
        ),
        (
            "SELECT /*+ STATE_TTL('x' = '1h') */ k, COUNT(DISTINCT v) AS d FROM (SELECT DISTINCT k, v FROM t)"
            " AS x GROUP BY k",
            {"group_aggregate_1": None, "group_aggregate_2.distinct_1": 3600, "group_aggregate_2": 3600},
        ),
        (
            f"SELECT {COUNTS}; SELECT /*+ STATE_TTL('t' = '1h') */ {COUNTS}",
            {"group_aggregate_1": None, "group_aggregate_2": 3600},
        ),
        (
            f"SELECT /*+ STATE_TTL('t' = '1h') */ {COUNTS}; SELECT /*+ STATE_TTL('t' = '60 min') */ {COUNTS}",
            {"group_aggregate_1": 3600},
        ),
        (
            f"SELECT n, COUNT(*) AS m FROM (SELECT {COUNTS}) GROUP BY n;"
            f"SELECT n, COUNT(*) AS m FROM (SELECT /*+ STATE_TTL('t' = '1h') */ {COUNTS}) GROUP BY n",
            {"group_aggregate_1": None, "group_aggregate_2": None, "group_aggregate_3": 3600, "group_aggregate_4": None},
        ),
    ],
)  # fmt: skip
def test_whose_time_to_live(text: str, expected: dict[str, int | None]) -> None:
    assert ttls(text) == expected


def test_the_time_to_live_is_not_in_what_state_means() -> None:
    plain, mortal = planned(f"SELECT {COUNTS}"), planned(f"{SET} SELECT {COUNTS}")
    assert [s.state_id for s in plain.physical.states] == [s.state_id for s in mortal.physical.states]
    assert "bounded by its time to live" in explain_text(mortal)
    assert "state kept for 3600 seconds" in explain_text(mortal)
    assert '"ttl_us": 3600000000' in explain_json(mortal)


@pytest.mark.parametrize(
    "hint", ["STATE_TTL('nope' = '1 d')", "STATE_TTL('t' = 'long')", "STATE_TTL('t')", "STATE_TTL(1 = 2)"]
)
def test_a_wrong_hint(hint: str) -> None:
    assert code_of(f"SELECT /*+ {hint} */ {COUNTS}") == "SQL066"


def test_another_hint_is_warned_of() -> None:
    found = planned(f"SELECT /*+ BROADCAST(t) */ {COUNTS}")
    assert [warning.code for warning in found.warnings] == ["SQL102"]


# --------------------------------------------------------------------------------------------- on conflict


@pytest.mark.parametrize(
    ("text", "operators", "changelog"),
    [
        ("SELECT k, v FROM t ON CONFLICT DO NOTHING", ["first_row"], "append"),
        ("SELECT k, v FROM t ON CONFLICT DO DEDUPLICATE", ["changelog_normalize"], "retract"),
        ("SELECT k, v FROM t ON CONFLICT DO ERROR", [], "retract"),
        ("SELECT k, x FROM t CROSS JOIN UNNEST(a) AS u (x) ON CONFLICT DO NOTHING", ["first_row"], "append"),
        ("SELECT k, MAX(v) FROM t GROUP BY k ON CONFLICT DO NOTHING", ["group_aggregate"], "retract"),
        ("SELECT k, MAX(v) FROM t GROUP BY k, v ON CONFLICT DO DEDUPLICATE", ["group_aggregate", "top_n"], "retract"),
        ("SELECT k, MAX(v) FROM t GROUP BY k, v ON CONFLICT DO ERROR", ["group_aggregate"], "retract"),
        (f"SELECT k, MAX(v) FROM {W} GROUP BY window_end, k EMIT CHANGES ON CONFLICT DO DEDUPLICATE",
         ["group_aggregate", "top_n"], "retract"),
    ],
)  # fmt: skip
def test_what_stands_before_the_sink(text: str, operators: list[str], changelog: str) -> None:
    plan = planned(f"INSERT INTO keyed {text};").physical
    assert sorted(state.operator for state in plan.states) == operators
    assert [sink.changelog for sink in plan.sinks] == [changelog]


@pytest.mark.parametrize("action", ["NOTHING", "DEDUPLICATE"])
def test_one_value_may_stand_under_two_names(action: str) -> None:
    """State keeps both columns: equal meanings are told apart (this was an internal error)."""
    sink = """
    CREATE TABLE pair (a BIGINT, b BIGINT, k INT, l INT, PRIMARY KEY (k, l) NOT ENFORCED)
    WITH ('connector' = 'duckdb', 'path' = 'o.duckdb');
    """
    plan = planned(f"{sink} INSERT INTO pair SELECT v, v, k, k FROM t ON CONFLICT DO {action};").physical
    [state] = plan.states
    fingerprints = [f.fingerprint for f in (*state.tables[0].key, *state.tables[0].value)]
    assert len(fingerprints) == len(set(fingerprints)) == (4 if action == "DEDUPLICATE" else 2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("INSERT INTO keyed SELECT k, MAX(v) FROM t GROUP BY k, v", "SQL071"),
        ("INSERT INTO keyed SELECT k, MAX(v) FROM t GROUP BY k, v ON CONFLICT DO NOTHING", "SQL073"),
        ("INSERT INTO keyed SELECT k, v FROM t ON CONFLICT DO UPDATE SET v = 1", "SQL001"),
        ("INSERT INTO keyed SELECT k, v FROM t ON CONFLICT (k) DO NOTHING", "SQL001"),
        ("SELECT k FROM t ON CONFLICT DO NOTHING", "SQL001"),
        ("INSERT INTO keyed SELECT k, v FROM t ON CONFLICT DO NOTHING; INSERT INTO keyed SELECT k, v FROM t", "SQL073"),
    ],
)  # fmt: skip
def test_conflicts_that_can_not_be_resolved(text: str, code: str) -> None:
    assert code_of(text) == code


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, MAX(v) FROM (SELECT k, v, TRUE AS f FROM t) AS x GROUP BY k, f",
        "SELECT k, COUNT(*) FROM t GROUP BY k, 'all'",
        "SELECT DISTINCT k, 1 FROM t",
        "SELECT k, COUNT(*) FROM c GROUP BY k, v",
        "SELECT k, n FROM (SELECT v, k, COUNT(*) AS n FROM c GROUP BY v, k) AS x WHERE n > 0",
    ],
)
def test_keys_that_tell_no_groups_apart_are_not_part_of_the_key(query: str) -> None:
    """A constant does not, nor does what depends on a key of the input."""
    assert planned(f"INSERT INTO keyed {query}").physical.sinks[0].key == ("k",)


@pytest.mark.parametrize(
    ("query", "operators", "changelog"),
    [
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k QUALIFY ROW_NUMBER() OVER (ORDER BY n) <= 2",
         ["group_aggregate", "top_n"], "retract"),
        (f"SELECT k, window_start, COUNT(*) AS n FROM {W} GROUP BY k, window_start, window_end "
         "QUALIFY RANK() OVER (PARTITION BY window_start, window_end ORDER BY COUNT(*) DESC) <= 2",
         ["window_aggregate", "window_top_n"], "append"),
    ],
)  # fmt: skip
def test_groups_may_be_ranked_where_they_are_made(query: str, operators: list[str], changelog: str) -> None:
    plan = planned(f"CREATE TABLE o WITH ('connector' = 'blackhole') AS {query};").physical
    assert sorted(state.operator for state in plan.states) == operators
    assert [sink.changelog for sink in plan.sinks] == [changelog]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT k, v, RANK() OVER (ORDER BY COUNT(*)) AS r FROM t GROUP BY k QUALIFY r = 1", "SQL045"),
    ],
)
def test_ranks_of_groups_that_are_refused(query: str, code: str) -> None:
    assert code_of(query) == code


@pytest.mark.parametrize(
    ("key", "query"),
    [
        ("BIGINT", "SELECT k, COUNT(*) FROM t GROUP BY k"),
        ("DECIMAL(12, 2)", "SELECT k, COUNT(*) FROM t GROUP BY k"),
        ("STRING", "SELECT CAST(k AS STRING), COUNT(*) FROM t GROUP BY k"),
        ("STRING", "SELECT CAST(CAST(k AS BIGINT) AS STRING), n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)"),
        ("INT", "SELECT r, v FROM (SELECT v, ROW_NUMBER() OVER (ORDER BY v DESC) AS r FROM t) WHERE r <= 3"),
        ("INT", "SELECT s, COUNT(*) FROM (SELECT k, SUM(v) AS s FROM t GROUP BY k) GROUP BY s"),
        ("TIMESTAMP(3)", "SELECT CAST(ts AS DATE) AS d, COUNT(*) FROM t GROUP BY CAST(ts AS DATE)"),
    ],
)  # fmt: skip
def test_a_cast_that_keeps_values_apart_keeps_the_key(key: str, query: str) -> None:
    """The sink may be wider than the query, as in Flink, or narrower, where what does not fit stops the run."""
    wide = f"""
    CREATE TABLE wide (id {key}, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('connector' = 'duckdb', 'path' = 'o.duckdb');
    """
    assert planned(f"{wide} INSERT INTO wide {query}").physical.sinks[0].key == ("id",)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT CAST(x AS INT), COUNT(*) FROM (SELECT CAST(v AS DOUBLE) / 2 AS x FROM t) GROUP BY x",
        "SELECT TRY_CAST(v AS INT), COUNT(*) FROM t GROUP BY v",
        "SELECT CAST(s AS INT), COUNT(*) FROM (SELECT CAST(v AS STRING) AS s FROM t) GROUP BY s",
        "SELECT CAST(CAST(d AS DECIMAL(9, 1)) AS INT), COUNT(*) FROM (SELECT v / 2 AS d FROM t) GROUP BY d",
    ],
)
def test_a_cast_that_can_make_one_value_of_two_does_not(query: str) -> None:
    assert code_of(f"INSERT INTO keyed {query}") == "SQL071"


@pytest.mark.parametrize(
    "text",
    [
        f"{LATENESS} {ENDS}",
        f"{SET} SELECT {COUNTS}",
        "INSERT INTO keyed SELECT k, v FROM t ON CONFLICT DO NOTHING",
        "INSERT INTO keyed SELECT k, v FROM t ON CONFLICT DO ERROR",
    ],
)
def test_plans_are_plain_data(text: str) -> None:
    plan = planned(text).physical
    assert plan_json.from_text(plan_json.to_text(plan)) == plan
    assert explain_text(planned(text))


HOPS = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND))"


@pytest.mark.parametrize(
    ("rows", "by", "shared"),
    [
        (HOPS, "window_start, window_end", True),
        (f"(SELECT * FROM {HOPS}) AS q", "window_start, window_end", True),
        (f"(SELECT v, window_end FROM {HOPS} WHERE v > 1) AS q", "window_end", True),
        (f"(SELECT v, window_start, window_end AS e FROM {HOPS}) AS q", "window_start, e", True),
        # What reads the bounds of a row's window needs a row for each of them.
        (f"(SELECT * FROM {HOPS} WHERE v > EXTRACT(SECOND FROM window_start)) AS q", "window_end", False),
        (
            f"(SELECT window_end, CAST(EXTRACT(SECOND FROM window_start) AS BIGINT) AS v FROM {HOPS}) AS q",
            "window_end",
            False,
        ),
    ],
)
def test_windows_share_slices_unless_something_reads_their_bounds(rows: str, by: str, shared: bool) -> None:
    logical = planned(f"SELECT SUM(v) AS n FROM {rows} GROUP BY {by};").logical
    [node] = [n for n in walk(logical) if isinstance(n, WindowAggregate)]
    assert node.window.shared_slices is shared
