"""The same meaning in other words goes on with the state that there is; what only looks alike is computed anew."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.state_schema import TIME, StateField, StateTable
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.pipeline import Planned
from tests.edits.derived import (
    APPEND,
    CHANGES,
    Epochs,
    Loaded,
    Row,
    assert_derived,
    loaded,
    needed,
    plan_changes,
    planned,
    same_rows,
)
from tests.examples import is_long, seeds

KEPT, ADAPTED = {Verdict.KEEP}, {Verdict.KEEP, Verdict.ADAPT}


def _row(chosen: random.Random) -> Row:
    """Few values, so that they meet; NULLs, and a zero with a minus."""
    return (
        chosen.choice([None, -1, 1, 2, 3]),
        chosen.choice([None, "", "a", "A", "b", "abc"]),
        chosen.choice([None, -1, 0, 1, 2, 4, 5, 1000, 1001]),
        chosen.choice([None, 0, 1, 5, 10**12]),
        chosen.choice([None, Decimal("0.00"), Decimal("1.50"), Decimal("-2.25")]),
        chosen.choice([None, 0.0, -0.0, 0.5, 3.0]),
        dt.datetime(2024, 1, 1) + dt.timedelta(seconds=chosen.randrange(100_000)),
    )


def epochs(seed: int, format_: str) -> Epochs:
    """Three epochs of rows; of a changelog some go again, at times before they come."""
    chosen = random.Random(seed)
    found: list[list[tuple[Row, int]]] = [[(_row(chosen), 1) for _ in range(20)] for _ in range(3)]
    if format_ == CHANGES:
        come = [row for epoch in found for row, _ in epoch]
        for epoch in found:
            epoch += [(chosen.choice(come), -1) for _ in range(6)]
            chosen.shuffle(epoch)
    return found


_LOADED: dict[tuple[str, str], Loaded] = {}


def _loaded(plan: Planned, given: Epochs) -> Loaded:
    """A plan run over some epochs, once."""
    key = (plan.rendered.text, repr(given))
    if key not in _LOADED:
        _LOADED[key] = loaded(plan, given)
    return _LOADED[key]


def assert_goes_on(old: Planned, new: Planned, given: Epochs, allowed: set[Verdict]) -> None:
    """No state is computed anew, and each is what the new operator has over the same rows."""
    edits = needed(old, new)
    assert {e.verdict for e in edits} <= allowed, [(e.verdict, e.reason, e.missing) for e in edits]
    if any(edit.derivation is not None for edit in edits):
        assert_derived(old, new, given)
    kept = [edit for edit in edits if edit.derivation is None]
    before, after = (_loaded(old, given), _loaded(new, given)) if kept else (None, None)
    for edit in kept:
        assert edit.old is not None
        assert edit.new is not None
        assert before is not None
        assert after is not None
        for table in edit.new.state.tables:
            was = edit.old.state.table(table.name)
            names = {(part, f.fingerprint): f.name for part, f in _parts(was)}
            reported = [(names[part, f.fingerprint], f.name) for part, f in _parts(table)]
            time = [TIME] if table.layout == "time" else []
            theirs = after.rows(edit.new.state.state_id, table)
            for mine, wanted in zip(before.rows(edit.old.state.state_id, was), theirs, strict=True):
                ours = mine.select([*time, *(name for name, _ in reported)])
                ours = ours.rename_columns([*time, *(name for _, name in reported)])
                same_rows(ours, wanted, table, set(), sums=plan_changes(new.physical))


def _parts(table: StateTable) -> list[tuple[str, StateField]]:
    parts = (("key", table.key), ("sub", table.sub_key), ("value", table.value))
    return [(part, f) for part, fields in parts for f in fields]


def _grouped(what: str, where: str = "") -> str:
    return f"SELECT k, {what} FROM bid {where} GROUP BY k"


def _by(key: str) -> str:
    return f"SELECT {key} AS q, COUNT(*) AS n FROM bid GROUP BY {key}"


def _where(condition: str) -> str:
    return _grouped("COUNT(*) AS n, SUM(v) AS s, MAX(w) AS m", f"WHERE {condition}")


def _summed(rows: str) -> str:
    return f"SELECT k, COUNT(*) AS n, SUM(v) AS s FROM ({rows}) GROUP BY k"


FIRST = "SELECT k, v FROM bid UNION ALL SELECT v, k FROM bid WHERE w > 1"
SECOND = "SELECT v AS k, k AS v FROM bid WHERE w > 1 UNION ALL SELECT k, v FROM bid"


def _listed(rows: str) -> str:
    return f"SELECT k, STRING_AGG(CAST(v AS STRING), ',') AS n FROM ({rows}) GROUP BY k"


def _counted(rows: str) -> str:
    return f"SELECT n, COUNT(*) AS m FROM ({rows}) GROUP BY n"


def _best(condition: str) -> str:
    rank = "ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, g)"
    return f"SELECT k, v FROM (SELECT *, {rank} AS rn FROM bid WHERE {condition}) WHERE rn <= 2"


#: Conditions that the same rows pass: the state stays as it is.
CONDITIONS = [
    ("v > 4", "v >= 5"),
    ("v > 4", "NOT v < 5"),
    ("v > 4", "v > 4 AND TRUE"),
    ("v > 4", "1 = 1 AND v > 4"),
    ("v > 4", "v > 4 AND v IS NOT NULL"),
    ("v > 4", "(v > 4) = TRUE"),
    ("v > 4", "(v > 4) IS TRUE"),
    ("v > 4", "v > '4'"),
    ("v > 10 * 100", "v > 1000"),
    ("v IN (1, 2)", "v = 1 OR v = 2"),
    ("v NOT IN (1, 2)", "v <> 1 AND v <> 2"),
    ("g IN ('a', 'b')", "g = 'a' OR g = 'b'"),
    ("ts > '2024-01-01 10:00:00'", "ts > TIMESTAMP '2024-01-01 10:00:00'"),
    ("YEAR(ts) = 2024", "EXTRACT(YEAR FROM ts) = 2024"),
    ("MOD(v, 2) = 1", "v % 2 = 1"),
    ("LEFT(g, 1) = 'a'", "SUBSTR(g, 1, 1) = 'a'"),
    ("COALESCE(v, 0) > 0", "CASE WHEN v IS NULL THEN 0 ELSE v END > 0"),
    ("d > 1.50", "d > 1.5"),
    ("d >= -2.250", "d >= -2.25"),
    ("x > 0.50", "x > .5"),
    ("x = 0.0", "x = 0"),
    ("v > 4.0", "v >= 5"),
    ("v > 1e3", "v > 1000"),
    ("x < 1e3", "x < 1000.0"),
    ("CAST(v AS BIGINT) > 4", "v > 4"),
    ("g LIKE 'a'", "g = 'a'"),
    ("g NOT LIKE ''", "g <> ''"),
    ("g LIKE 'a%'", "STARTS_WITH(g, 'a')"),
    ("g LIKE '%b'", "ENDS_WITH(g, 'b')"),
    ("g LIKE '%b%'", "CONTAINS(g, 'b')"),
    ("STARTS_WITH(g, 'a')", "STARTS_WITH(g, 'a') AND g IS NOT NULL"),
    ("g IS NOT DISTINCT FROM 'a'", "g = 'a'"),
    ("v IS NOT DISTINCT FROM 4 OR w > 4", "v = 4 OR w > 4"),
    ("NULLIF(v, 0) > 1", "CASE WHEN v = 0 THEN NULL ELSE v END > 1"),
    ("v + 0 > 4", "v > 4"),
    ("1 * v - 0 > 4", "v > 4"),
]

#: Other calls and keys: fields go where they belong now.
QUERIES = [
    (_grouped("COUNT(*) AS n"), _grouped("COUNT(1) AS n")),
    (_grouped("COUNT(*) AS n"), _grouped("COUNT('x') AS n")),
    (_grouped("COUNT(*) AS n"), _grouped("SUM(1) AS n")),
    (_grouped("COUNT(v) AS n", "WHERE v > 1"), _grouped("COUNT(*) AS n", "WHERE v >= 2")),
    (_grouped("COUNT(*) FILTER (WHERE v > 4) AS n"), _grouped("COUNT(CASE WHEN v >= 5 THEN 1 END) AS n")),
    (
        _grouped("COUNT(*) FILTER (WHERE v > 4) AS n"),
        _grouped("SUM(CASE WHEN v > 4 THEN 1 ELSE 0 END) AS n"),
    ),
    (_grouped("COUNT(v) FILTER (WHERE v > 4) AS n"), _grouped("COUNT(CASE WHEN v > 4 THEN v END) AS n")),
    (_grouped("COUNT(v) FILTER (WHERE v > 4) AS n"), _grouped("COUNT(*) FILTER (WHERE v >= 5) AS n")),
    (_grouped("SUM(w) FILTER (WHERE g = 'a') AS n"), _grouped("SUM(CASE WHEN g = 'a' THEN w END) AS n")),
    (_grouped("SUM(w) FILTER (WHERE g = 'a') AS n"), _grouped("SUM(CASE g WHEN 'a' THEN w END) AS n")),
    (_grouped("SUM(v) AS n"), _grouped("SUM(CAST(v AS BIGINT)) AS n")),
    (_by("YEAR(ts)"), _by("EXTRACT(YEAR FROM ts)")),
    (_by("DATE_PART('year', ts)"), _by("EXTRACT(YEAR FROM ts)")),
    (_by("v % 2"), _by("MOD(v, 2)")),
    (_by("LEFT(g, 2)"), _by("SUBSTR(g, 1, 2)")),
    (_by("DATE(ts)"), _by("CAST(ts AS DATE)")),
    (_by("COALESCE(v, 0)"), _by("CASE WHEN v IS NOT NULL THEN v ELSE 0 END")),
    (_by("k"), "SELECT k, COUNT(*) AS n FROM bid GROUP BY GROUPING SETS ((k))"),
    (
        "SELECT k, COUNT(*) AS n FROM (SELECT k FROM bid UNION ALL SELECT v FROM bid WHERE w > 1) GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM (SELECT v AS k FROM bid WHERE w > 1 UNION ALL SELECT k FROM bid) GROUP BY k",
    ),
    (
        "SELECT k, v FROM bid UNION SELECT v, k FROM bid WHERE w > 1",
        "SELECT v, k FROM bid WHERE w > 1 UNION SELECT k, v FROM bid",
    ),
    # Both branches are of the same rows.
    ("SELECT k FROM bid UNION SELECT v FROM bid", "SELECT v FROM bid UNION SELECT k FROM bid"),
    ("SELECT k, v FROM bid UNION SELECT v, 7 FROM bid", "SELECT v, 7 FROM bid UNION SELECT k, v FROM bid"),
    (
        _summed("SELECT k, v FROM bid UNION ALL SELECT v, k FROM bid UNION ALL SELECT v, w FROM bid"),
        _summed(
            "SELECT v AS k, w AS v FROM bid UNION ALL SELECT v, k FROM bid UNION ALL SELECT k, v FROM bid"
        ),
    ),
    (
        _summed("SELECT k, v FROM bid UNION ALL SELECT v, k FROM bid"),
        _summed("SELECT v AS k, k AS v FROM bid UNION ALL SELECT k, v FROM bid"),
    ),
    (
        _summed("SELECT k, v FROM bid WHERE w > 1 UNION ALL SELECT v, k FROM bid WHERE w > 1"),
        _summed("SELECT v AS k, k AS v FROM bid WHERE w >= 2 UNION ALL SELECT k, v FROM bid WHERE w >= 2"),
    ),
    (
        "SELECT k FROM bid INTERSECT SELECT v FROM bid WHERE w > 1",
        "SELECT v FROM bid WHERE w > 1 INTERSECT SELECT k FROM bid",
    ),
    (
        "SELECT k FROM bid INTERSECT ALL SELECT v FROM bid WHERE w > 1",
        "SELECT v FROM bid WHERE w > 1 INTERSECT ALL SELECT k FROM bid",
    ),
    (
        _best("v > 4"),
        _best("v >= 5"),
    ),
    (_grouped("COUNT(DISTINCT g) AS n", "WHERE v > 4"), _grouped("COUNT(DISTINCT g) AS n", "WHERE v >= 5")),
    (_grouped("MEDIAN(v) AS n", "WHERE v > 4"), _grouped("MEDIAN(v) AS n", "WHERE v >= 5")),
]
#: Of append-only input.
APPENDED = [
    (
        "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS s FROM bid WHERE v > 4",
        "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS s FROM bid WHERE v >= 5",
    ),
    (
        "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' HOUR)) WHERE v > 4 "
        "GROUP BY window_start, window_end",
        "SELECT window_end, COUNT(1) AS n FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' HOUR)) WHERE v >= 5 "
        "GROUP BY window_start, window_end",
    ),
]
FORMATS = pytest.mark.parametrize("format_", [APPEND, CHANGES])


def chosen_format(one: str, other: str) -> str:
    """One of the two, always the same for a pair."""
    return (APPEND, CHANGES)[(len(one) + len(other)) % 2]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("one", "other"), CONDITIONS)
def test_conditions_in_other_words_keep_the_state(one: str, other: str) -> None:
    format_ = chosen_format(one, other)
    old, new = planned(_where(one), format_), planned(_where(other), format_)
    assert old.physical.states[-1].state_id != new.physical.states[-1].state_id
    for seed in seeds(1):
        assert_goes_on(old, new, epochs(seed, format_), KEPT)
    assert {e.verdict for e in needed(new, old)} == KEPT


@pytest.mark.parametrize(("one", "other"), [*QUERIES, *APPENDED])
@pytest.mark.sampled(3)
def test_queries_in_other_words_go_on(one: str, other: str) -> None:
    for format_ in (APPEND,) if (one, other) in APPENDED else (APPEND, CHANGES):
        old, new = planned(one, format_), planned(other, format_)
        for seed in seeds(1):
            # Each way over one of the formats; over both in the long searches.
            if format_ == APPEND or is_long():
                assert_goes_on(old, new, epochs(seed, format_), ADAPTED)
            if format_ == CHANGES or is_long() or (one, other) in APPENDED:
                assert_goes_on(new, old, epochs(seed, format_), ADAPTED)
        for edits in (needed(old, new), needed(new, old)):
            assert {e.verdict for e in edits} <= ADAPTED


MEDIANS = _grouped("MEDIAN(v) AS n")
#: One way only: the other is not in what is kept.
ONE_WAY = [
    (_grouped("COUNT_IF(v > 4) AS n"), _grouped("COUNT(*) FILTER (WHERE v > 4) AS n")),
    (_grouped("ARRAY_AGG(v) AS n"), _grouped("COLLECT(v) AS n")),
    (_grouped("ARRAY_AGG(v) AS n"), MEDIANS),
]


@pytest.mark.sampled(2)
@FORMATS
@pytest.mark.parametrize(("one", "other"), ONE_WAY)
def test_what_is_kept_is_enough_one_way(one: str, other: str, format_: str) -> None:
    old, new = planned(one, format_), planned(other, format_)
    for seed in seeds(1):
        assert_goes_on(old, new, epochs(seed, format_), ADAPTED)
    if other == MEDIANS and format_ == CHANGES:
        # Rows that can go are counted, those with NULL too, so that the list is known from the values and the count.
        for seed in seeds(1):
            assert_goes_on(new, old, epochs(seed, format_), ADAPTED)
    else:
        assert Verdict.BACKFILL in {e.verdict for e in needed(new, old)}


#: What looks alike, and isn't.
OTHERWISE = [
    (_where("v > 4"), _where("v >= 4")),
    (_where("x > 4"), _where("x >= 5")),
    (_where("d > 4"), _where("d >= 5")),
    (_where("v > 4"), _where("v > 4 AND g IS NOT NULL")),
    (_where("d > 1.505"), _where("d > 1.5")),
    (_where("v > 4.5"), _where("v > 4")),
    (_where("v > 1e3"), _where("v > 100")),
    (_where("w > 9007199254740993e0"), _where("w > 9007199254740993")),
    (_where("g LIKE 'a_'"), _where("g = 'a_'")),
    (_where("g LIKE 'a_%'"), _where("STARTS_WITH(g, 'a_')")),
    (_where("g LIKE 'a\\b'"), _where("g = 'a\\b'")),
    (_where("g ILIKE 'a'"), _where("g = 'a'")),
    (_where("g LIKE 'a%'"), _where("CONTAINS(g, 'a')")),
    (_where("NOT (g IS NOT DISTINCT FROM 'a')"), _where("NOT g = 'a'")),
    (_where("v IS NOT DISTINCT FROM k"), _where("v = k")),
    (_where("-v < -4"), _where("v > 4")),
    (_where("0 - v < -4"), _where("v < -4")),
    (_where("NULLIF(v, 0) > 1"), _where("NULLIF(v, 1) > 1")),
    (_where("v * 0 > 4"), _where("v > 4")),
    (_by("x + 0"), _by("x")),
    (_where("v > 4 OR w > 4"), _where("(v > 4 OR w > 4) AND g IS NOT NULL")),
    (_where("NOT (v > 4)"), _where("(v > 4) IS NOT TRUE")),
    (_where("v IN (1, 2)"), _where("v = 1 OR v = 3")),
    (_where("v NOT IN (1, NULL)"), _where("v <> 1")),
    (_where("v > 4"), _where("v > 4 OR 1 = 1")),
    (_where("ts > '2024-01-01 10:00:00'"), _where("ts > TIMESTAMP '2024-01-01 10:00:01'")),
    (_where("LEFT(g, 1) = 'a'"), _where("SUBSTR(g, 1, 2) = 'a'")),
    (_grouped("COUNT(*) AS n"), _grouped("COUNT(v) AS n")),
    (
        _grouped("COUNT(*) FILTER (WHERE v > 4 OR w > 4) AS n"),
        _grouped("COUNT(v) FILTER (WHERE v > 4 OR w > 4) AS n"),
    ),
    (_grouped("COUNT(*) AS n"), _grouped("SUM(2) AS n")),
    (_grouped("COUNT(*) AS n", "WHERE v > 1 OR w > 1"), _grouped("COUNT(v) AS n", "WHERE v > 1 OR w > 1")),
    (_grouped("COUNT(*) FILTER (WHERE v > 4) AS n"), _grouped("COUNT(v > 4) AS n")),
    (
        _grouped("SUM(w) FILTER (WHERE g = 'a') AS n"),
        _grouped("SUM(CASE WHEN g = 'a' THEN w ELSE 0 END) AS n"),
    ),
    (
        _grouped("SUM(w) FILTER (WHERE g = 'a') AS n"),
        _grouped("SUM(CASE WHEN g <> 'a' THEN NULL ELSE w END) AS n"),
    ),
    (_grouped("SUM(v) AS n"), _grouped("SUM(CAST(v AS DOUBLE)) AS n")),
    (_grouped("SUM(x) AS n"), _grouped("SUM(CAST(x AS BIGINT)) AS n")),
    (_grouped("COUNT(x) AS n"), _grouped("COUNT(TRY_CAST(g AS INT)) AS n")),
    (_by("YEAR(ts)"), _by("MONTH(ts)")),
    (_by("v % 2"), _by("v % 3")),
    (_by("LEFT(g, 2)"), _by("SUBSTR(g, 2, 2)")),
    # Of rows that come at once, those of the first branch are first.
    (_listed(FIRST), _listed(SECOND)),
    (_counted(_listed(FIRST)), _counted(_listed(SECOND))),
    ("SELECT k FROM bid EXCEPT SELECT v FROM bid", "SELECT v FROM bid EXCEPT SELECT k FROM bid"),
    (
        _summed("SELECT k, v FROM bid UNION ALL SELECT v, k FROM bid WHERE w > 1"),
        _summed("SELECT v AS k, v FROM bid WHERE w > 1 UNION ALL SELECT k, k FROM bid"),
    ),
    (
        _summed("SELECT k, v FROM bid UNION ALL SELECT v, k FROM bid"),
        _summed("SELECT k, k AS v FROM bid UNION ALL SELECT v, v FROM bid"),
    ),
    # Branches of the same rows are exchanged in one column only.
    (
        _summed("SELECT k, v FROM bid UNION ALL SELECT v, w FROM bid"),
        _summed("SELECT v AS k, v FROM bid UNION ALL SELECT k, w FROM bid"),
    ),
    (
        "SELECT k, v FROM bid UNION SELECT v, 7 FROM bid",
        "SELECT v AS k, v FROM bid UNION SELECT k, 7 FROM bid",
    ),
    (
        _counted(_listed("SELECT k, v FROM bid UNION ALL SELECT v, k FROM bid")),
        _counted(_listed("SELECT v AS k, k AS v FROM bid UNION ALL SELECT k, v FROM bid")),
    ),
]


@pytest.mark.parametrize(("one", "other"), OTHERWISE)
def test_what_looks_alike_is_never_kept_as_it_is(one: str, other: str) -> None:
    """It is computed anew, or a rule gives what the new operator has."""
    old, new = planned(one), planned(other)
    found = {e.verdict for e in needed(old, new)}
    assert found - {Verdict.KEEP}
    if Verdict.BACKFILL not in found:
        for seed in seeds(1):
            assert_derived(old, new, epochs(seed, APPEND))


def _of_rows(query: str, null: str) -> Planned:
    table = (
        f"CREATE TABLE r (k INT, v INT{null}, who ROW<name STRING, age INT>) "
        "WITH ('connector' = 'filesystem', 'path' = 'r', 'format' = 'json');\n"
    )
    return plan_file(f"{table}CREATE TABLE o WITH ('connector' = 'print') AS {query};", file="p.sql")


def _verdicts(old: Planned, new: Planned) -> set[Verdict]:
    return {e.verdict for e in decide(old.physical, new.physical, new.state_nodes) if e.new is not None}


def test_a_column_that_is_never_null_is_counted_like_rows() -> None:
    rows, values = "SELECT k, COUNT(*) AS n FROM r GROUP BY k", "SELECT k, COUNT(v) AS n FROM r GROUP BY k"
    never, maybe = " NOT NULL", ""
    assert _verdicts(_of_rows(rows, never), _of_rows(values, never)) == {Verdict.ADAPT}
    assert _verdicts(_of_rows(values, never), _of_rows(rows, never)) == {Verdict.ADAPT}
    # What was read while it might be NULL may have had some.
    assert _verdicts(_of_rows(rows, maybe), _of_rows(values, never)) == {Verdict.BACKFILL}
    assert _verdicts(_of_rows(rows, never), _of_rows(values, maybe)) == {Verdict.BACKFILL}


def test_fields_of_rows_are_found_in_any_case() -> None:
    one = _of_rows("SELECT who.name, COUNT(*) AS n FROM r GROUP BY who.name", "")
    other = _of_rows("SELECT who.NAME, COUNT(*) AS n FROM r GROUP BY who.NAME", "")
    mixed = _of_rows("SELECT who.NAME, COUNT(*) AS n FROM r GROUP BY who.name", "")
    assert _verdicts(one, other) <= ADAPTED
    assert _verdicts(other, one) <= ADAPTED
    assert _verdicts(mixed, other) <= ADAPTED
    upper = _of_rows("SELECT UPPER(who.NAME), COUNT(*) AS n FROM r GROUP BY UPPER(who.name)", "")
    assert _verdicts(upper, upper) == KEPT
    age = _of_rows("SELECT who.age, COUNT(*) AS n FROM r GROUP BY who.age", "")
    assert _verdicts(one, age) == {Verdict.BACKFILL}


def test_fields_of_json_are_not_found_in_any_case() -> None:
    def of(field: str) -> Planned:
        table = (
            "CREATE TABLE r (j JSON) WITH ('connector' = 'filesystem', 'path' = 'r', 'format' = 'json');\n"
        )
        query = f"SELECT j->>'{field}' AS f, COUNT(*) AS n FROM r GROUP BY j->>'{field}'"
        return plan_file(f"{table}CREATE TABLE o WITH ('connector' = 'print') AS {query};", file="p.sql")

    assert _verdicts(of("a"), of("A")) == {Verdict.BACKFILL}
