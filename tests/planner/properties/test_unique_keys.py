"""Which PRIMARY KEY of a table is a key of the query that fills it, and which look-alikes are none."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError

TABLE = """CREATE TABLE t (
  k STRING, j STRING NOT NULL, n BIGINT NOT NULL, m BIGINT, a BIGINT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
"""
WINDOWS = {
    "TUMBLE": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    "HOP": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)",
    "CUMULATE": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)",
}


def is_key(type_: str, query: str) -> bool:
    """Whether the first of a query's two columns is taken as its key."""
    sink = f"CREATE TABLE o (x {type_}, y DECIMAL(38, 0), PRIMARY KEY (x) NOT ENFORCED) "
    try:
        plan_file(
            f"{TABLE}{sink} WITH ('connector' = 'duckdb', 'path' = 'o.db', 'table-name' = 'o');INSERT INTO o {query};"
        )
    except DiagnosticError as error:
        if {d.code for d in error.diagnostics} != {"SQL071"}:
            raise
        return False
    return True


@pytest.mark.sampled(2)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("column", ["window_start", "window_end", "window_time"])
@pytest.mark.parametrize("partition", ["window_start, window_end", "window_end, window_start"])
def test_the_first_row_of_a_window_has_the_window_as_its_key(
    window: str, column: str, partition: str
) -> None:
    def first(more: str, ranks: str) -> str:
        return (
            f"SELECT {column}, a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {partition}{more} ORDER BY a) AS rn "
            f"FROM TABLE({WINDOWS[window]})) WHERE rn {ranks}"
        )

    # All windows of a CUMULATE's cycle have one start.
    assert is_key("TIMESTAMP(3)", first("", "= 1")) == ((window, column) != ("CUMULATE", "window_start"))
    assert not is_key("TIMESTAMP(3)", first("", "<= 2"))
    assert not is_key("TIMESTAMP(3)", first("", "= 1").replace("ROW_NUMBER", "RANK"))
    assert not is_key("TIMESTAMP(3)", first(", k", "= 1"))


def test_ends_of_other_windows_are_no_key() -> None:
    inner = (
        "SELECT window_start AS s, window_end AS e, window_time AS w, k, SUM(a) AS a "
        f"FROM TABLE({WINDOWS['TUMBLE']}) GROUP BY window_start, window_end, window_time, k"
    )
    outer = "FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(w), INTERVAL '1' HOUR)) GROUP BY window_start, window_end"
    ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY s, e ORDER BY a) AS rn FROM ({inner})"
    view = f"(SELECT e, a FROM ({ranked}) WHERE rn = 1)"
    assert is_key("TIMESTAMP(3)", f"SELECT e, a FROM {view}")
    sink = "CREATE TABLE o (x TIMESTAMP(3), y DECIMAL(38, 0), PRIMARY KEY (x) NOT ENFORCED) "
    options = "WITH ('connector' = 'duckdb', 'path' = 'o.db', 'table-name' = 'o');"
    with pytest.raises(DiagnosticError, match="SQL071"):
        plan_file(
            f"{TABLE}CREATE VIEW v AS {inner};{sink}{options}INSERT INTO o SELECT e, SUM(a) {outer}, e;"
        )


@pytest.mark.parametrize(
    ("type_", "item", "key", "holds"),
    [
        ("STRING", "COALESCE(j, '')", "j", True),
        ("STRING", "IFNULL(j, 'x')", "j", True),
        ("STRING", "NVL(j, 'x')", "j", True),
        ("STRING", "COALESCE(CAST(n AS STRING), '')", "n", True),
        ("BIGINT", "COALESCE(n, 0)", "n", True),
        ("STRING", "COALESCE(k, '')", "k", False),  # NULL and '' are one
        ("STRING", "NVL(k, '')", "k", False),
        ("BIGINT", "COALESCE(m, 0)", "m", False),
        ("STRING", "COALESCE('x', j)", "j", False),
        ("STRING", "COALESCE(NULLIF(j, 'x'), 'y')", "j", False),
        ("STRING", "COALESCE(UPPER(j), '')", "j", False),
        ("STRING", "NULLIF(j, 'x')", "j", False),
        ("DOUBLE", "COALESCE(n, CAST(0.5 AS DOUBLE))", "n", False),  # as a DOUBLE, large ones are one
        ("STRING", "COALESCE(k, '')", "COALESCE(k, '')", True),
    ],
)
def test_coalesce_keeps_apart_what_is_never_null(type_: str, item: str, key: str, holds: bool) -> None:
    assert is_key(type_, f"SELECT {item}, SUM(a) FROM t GROUP BY {key}") == holds


SUBQUERIES = [
    "(SELECT MAX(i.a) FROM t AS i WHERE i.k = g.k)",
    "(SELECT COUNT(*) FROM t AS i WHERE i.a < g.n)",
    "(SELECT MAX(a) FROM t)",
    "CASE WHEN g.k IN (SELECT k FROM t WHERE a > 1) THEN 1 ELSE 0 END",
    "CASE WHEN EXISTS (SELECT 1 FROM t AS i WHERE i.n > g.n) THEN 1 ELSE 0 END",
]


@pytest.mark.parametrize("value", SUBQUERIES)
def test_the_value_of_a_subquery_beside_a_row_leaves_its_key(value: str) -> None:
    groups = "(SELECT k, MAX(n) AS n, MAX(m) AS m FROM t GROUP BY k) AS g"
    assert is_key("STRING", f"SELECT k, {value} FROM {groups}")
    assert not is_key("BIGINT", f"SELECT m, {value} FROM {groups}")


@pytest.mark.parametrize("condition", ["EXISTS", "NOT EXISTS"])
def test_rows_that_a_subquery_lets_pass_have_their_key(condition: str) -> None:
    groups = "(SELECT k, MAX(n) AS n FROM t GROUP BY k) AS g"
    assert is_key(
        "STRING", f"SELECT k, n FROM {groups} WHERE {condition} (SELECT 1 FROM t AS i WHERE i.a < g.n)"
    )


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("column", ["window_start", "window_end"])
@pytest.mark.parametrize(
    ("type_", "item"),
    [
        ("STRING", "CAST({0} AS STRING)"),
        ("TIMESTAMP_LTZ(3)", "{0}"),
        ("TIMESTAMP_LTZ(3)", "CAST({0} AS TIMESTAMP_LTZ)"),
        ("STRING", "CAST(CAST({0} AS TIMESTAMP_LTZ) AS STRING)"),
        ("TIMESTAMP(3)", "CAST(CAST({0} AS TIMESTAMP_LTZ) AS TIMESTAMP)"),
    ],
)
def test_a_window_by_its_bound_as_another_type_is_a_key(
    window: str, column: str, type_: str, item: str
) -> None:
    item = item.format(column)
    query = f"SELECT {item}, SUM(a) FROM TABLE({WINDOWS[window]}) GROUP BY window_start, window_end"
    assert is_key(type_, query) == ((window, column) != ("CUMULATE", "window_start"))


@pytest.mark.parametrize(
    ("type_", "item"),
    [
        ("STRING", "DATE_FORMAT(window_start, 'HH:mm')"),
        ("DATE", "CAST(window_start AS DATE)"),
        ("TIMESTAMP(3)", "DATE_TRUNC('hour', window_start)"),
        ("TIMESTAMP(3)", "CAST(window_start AS TIMESTAMP(0))"),
    ],
)
def test_a_part_of_a_windows_bound_is_no_key(type_: str, item: str) -> None:
    query = f"SELECT {item}, SUM(a) FROM TABLE({WINDOWS['TUMBLE']}) GROUP BY window_start, window_end"
    assert not is_key(type_, query)


def test_instants_of_another_time_zone_are_no_key() -> None:
    """Where clocks are set back two wall clocks are one instant."""
    query = f"SELECT window_start, SUM(a) FROM TABLE({WINDOWS['TUMBLE']}) GROUP BY window_start, window_end"
    sink = "CREATE TABLE o (x TIMESTAMP_LTZ(3), y DECIMAL(38, 0), PRIMARY KEY (x) NOT ENFORCED) "
    options = "WITH ('connector' = 'duckdb', 'path' = 'o.db', 'table-name' = 'o');"
    zone = "SET 'table.local-time-zone' = 'Europe/Berlin';\n"
    with pytest.raises(DiagnosticError, match="SQL071"):
        plan_file(f"{zone}{TABLE}{sink}{options}INSERT INTO o {query};")


def test_a_groups_window_by_its_functions() -> None:
    query = (
        "SELECT CAST(TUMBLE_START(ts, INTERVAL '1' MINUTE) AS STRING), SUM(a) FROM t "
        "GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
    )
    assert is_key("STRING", query)
