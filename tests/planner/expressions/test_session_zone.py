"""A session's time zone: what a file's expressions give in it is what DuckDB gives with that `TimeZone`."""

from __future__ import annotations

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.spec import FragmentStep
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned

TABLE = (
    "CREATE TABLE t (x TIMESTAMP_LTZ(6), y TIMESTAMP_LTZ(6), l TIMESTAMP(6), d DATE, s STRING, n INT) "
    "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');\n"
)
ZONES = ("Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe")
#: As the user writes them, for DuckDB and for us.
EXPRESSIONS = [
    "CAST(x AS TIMESTAMP)",
    "CAST(x AS DATE)",
    "CAST(x AS VARCHAR)",
    "CAST(CAST(x AS VARCHAR) AS TIMESTAMPTZ)",
    "CAST(l AS TIMESTAMPTZ)",
    "CAST(d AS TIMESTAMPTZ)",
    "TRY_CAST(s AS TIMESTAMPTZ)",
    "CAST('2024-03-31 12:00:00' AS TIMESTAMPTZ)",
    "CAST('2024-03-31 12:00:00+05:30' AS TIMESTAMPTZ)",
    "EXTRACT(HOUR FROM x)",
    "EXTRACT(EPOCH FROM x)",
    "date_part('doy', x)",
    "year(x) * 100 + month(x)",
    "dayname(x) || monthname(x)",
    "isodow(x)",
    "strftime(x, '%Y-%m-%d %H:%M %j')",
    "date_trunc('day', x)",
    "date_trunc('month', x)",
    "date_trunc('hour', x)",
    "date_trunc('minute', x)",
    "CASE WHEN isfinite(x) THEN age(x, y) END",
    "x + INTERVAL '90' MINUTE",
    "x > l",
    "x = CAST(CAST(x AS TIMESTAMP) AS TIMESTAMPTZ)",
    "x BETWEEN d AND l",
    "CASE WHEN x > y THEN x ELSE y END",
    "coalesce(x, y)",
    "greatest(x, y)",
    "x AT TIME ZONE 'Asia/Tokyo'",
    "epoch_ms(x)",
    "make_timestamptz(2024, 3, 31, n % 24, 30, 0.0)",
    "make_timestamptz(2024, n % 40 - 15, n % 50 - 9, n % 70, n % 200 - 60, n / 7.5 - 60)",
    "CAST('epoch' AS TIMESTAMPTZ)",
    "TRY_CAST(CASE WHEN n % 2 = 0 THEN ' Epoch' ELSE s END AS TIMESTAMPTZ)",
    "year(make_timestamptz(epoch_us(CASE WHEN isfinite(x) THEN x END) - 64800000000000000))",
    "EXTRACT(DECADE FROM make_timestamptz(epoch_us(CASE WHEN isfinite(x) THEN x END) - 64800000000000000))",
    "EXTRACT(ERA FROM make_timestamptz(epoch_us(CASE WHEN isfinite(x) THEN x END) - 64800000000000000))",
    "date_part('years', make_timestamptz(epoch_us(CASE WHEN isfinite(x) THEN x END) - 64800000000000000))",
    # DuckDB takes a text without an offset to have that of the row before, if this had one.
    "try_strptime(CASE WHEN n % 8 <> 6 THEN s END, ['%Y-%m-%d', '%Y-%m-%d %H:%M:%S %z', '%Y-%m-%d %H:%M'])",
    "try_strptime(s, ['%Y-%m-%d %H:%M', '%Y-%m-%d'])",
    "CAST(try_strptime(s, '%Y-%m-%d %H:%M:%S %z') AS VARCHAR)",
    "CAST('01:00:00+02' AS TIMETZ)",
    "x IS NOT NULL AND CAST(x AS DATE) = d",
    "[x, y]",
    "to_timestamp(n)",
]


def planned(query: str, zone: str = "Europe/Berlin") -> Planned:
    return plan_file(f"SET 'table.local-time-zone' = '{zone}';\n{TABLE}{query};", file="p.sql")


@pytest.fixture(scope="module")
def rows() -> duckdb.DuckDBPyConnection:
    """Instants of 1998 to 2030, half of them near where clocks are changed."""
    con = duckdb.connect(":memory:", config={"threads": 1})
    con.execute("SET TimeZone = 'UTC'; SELECT setseed(0.25)")
    changed = (
        "[1711846800, 1729990800, 1541300400, 1570291200, 1712419200, 1518919200, 1540695600, 504921600]"
    )
    con.execute(
        f"""CREATE TABLE t AS SELECT
          make_timestamptz(CAST(CASE WHEN i % 2 = 0 THEN 9e14 + random() * 1e15
            ELSE ({changed}[1 + i % 8] + random() * 20000 - 10000) * 1e6 END AS BIGINT)) AS x,
          make_timestamptz(CAST(9e14 + random() * 1e15 AS BIGINT)) AS y,
          make_timestamp(CAST(({changed}[1 + i % 7] + random() * 90000 - 45000) * 1e6 AS BIGINT)) AS l,
          CAST(make_timestamp(CAST(9e14 + random() * 1e15 AS BIGINT)) AS DATE) AS d,
          ['2024-05-01 10:00', '2024-05-01', '2024-12-01T10:00Z', '2024-05-01 10:00:00.5-03', 'x',
           '2024-05-01 10:00 Asia/Tokyo', '2024-05-01 10:00:00 +05:45', NULL][1 + i % 8] AS s,
          CAST(i AS INTEGER) AS n FROM range(4000) AS r (i)"""
    )
    con.execute(
        "INSERT INTO t VALUES (NULL, NULL, NULL, NULL, NULL, NULL), ('infinity', '-infinity', 'infinity', 'infinity', '', 1)"
    )
    return con


def computed(con: duckdb.DuckDBPyConnection, sql: str, zone: str) -> list[tuple[object, ...]]:
    """Its rows, instants as µs."""
    con.execute(f"SET TimeZone = '{zone}'")
    described = con.sql(f"DESCRIBE {sql}").fetchall()
    instants = {
        "TIMESTAMP WITH TIME ZONE": 'CASE WHEN isfinite("{0}") THEN epoch_us("{0}") END',
        "TIMESTAMP WITH TIME ZONE[]": 'list_transform("{0}", lambda e: CASE WHEN isfinite(e) THEN epoch_us(e) END)',
    }
    plain = ", ".join(
        instants.get(type_, 'CAST("{0}" AS VARCHAR)').format(name) for name, type_, *_ in described
    )
    found: list[tuple[object, ...]] = con.sql(f"SELECT {plain} FROM ({sql})").fetchall()
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_it_is_what_duckdb_gives_in_that_zone(rows: duckdb.DuckDBPyConnection, zone: str) -> None:
    items = ", ".join(f"{e} AS e{n}" for n, e in enumerate(EXPRESSIONS))
    found = planned(f"SELECT {items} FROM t", zone)
    [step] = [s for stage in found.physical.stages for s in stage.steps if isinstance(s, FragmentStep)]
    given = computed(rows, step.sql, "UTC")
    wanted = computed(rows, f"SELECT {items} FROM t", zone)
    for number, expression in enumerate(EXPRESSIONS):
        differ = [
            (g[number], w[number]) for g, w in zip(given, wanted, strict=True) if g[number] != w[number]
        ]
        assert not differ, (expression, differ[:3])


@pytest.mark.parametrize(
    "expression",
    [
        "x - y",
        "x + INTERVAL '1' DAY",
        "x + INTERVAL '1' MONTH",
        "date_diff('hour', x, y)",
        "time_bucket(INTERVAL '1' DAY, x)",
        "to_json(x)",
        "CAST([x] AS VARCHAR)",
        "x || ''",
        "concat(x, 'a')",
        "strftime(x, '%z')",
        "EXTRACT(TIMEZONE_HOUR FROM x)",
        "coalesce(x, l)",
        "CASE WHEN n > 1 THEN x ELSE l END",
        "list_transform([x], e -> CAST(e AS DATE))",
        "generate_series(x, y, INTERVAL '1' HOUR)",
        "SUM(n) OVER (ORDER BY x RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW)",
        "CAST('01:00:00' AS TIMETZ)",
        "CAST(CAST(l AS TIME) AS TIMETZ)",
        "TIMETZ '01:00:00+02' = '01:00:00'",
    ],
)
def test_what_is_not_written_out_is_refused(expression: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        planned(f"SELECT {expression} AS e FROM t")
    [problem] = caught.value.diagnostics
    assert "Europe/Berlin" in problem.message, problem.message
    assert problem.help
    planned(f"SELECT {expression} AS e FROM t", "Etc/UTC")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM t UNION ALL SELECT l FROM t",
        "SELECT n FROM t WHERE x IN (SELECT l FROM t)",
        "SELECT n FROM t AS a JOIN (SELECT l AS x FROM t) AS b USING (x)",
        "SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(x), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end",
    ],
)
def test_what_goes_by_the_zone_without_an_expression_is_refused(query: str) -> None:
    table = TABLE.replace("TABLE t (", "TABLE u (").replace("n INT)", "n INT, WATERMARK FOR x AS x)")
    with pytest.raises(DiagnosticError, match="Europe/Berlin"):
        plan_file(f"SET TimeZone = 'europe/berlin';\n{TABLE}{table}{query};", file="p.sql")


def test_the_zone_is_in_what_state_means() -> None:
    query = "SELECT CAST(x AS DATE) AS day, COUNT(*) AS n FROM t GROUP BY CAST(x AS DATE)"
    ids = [[s.identity for s in planned(query, zone).physical.states] for zone in ("UTC", *ZONES, "Z")]
    assert ids[0] == ids[-1]
    assert len({str(i) for i in ids}) == 1 + len(ZONES)
    same = "SELECT epoch_ms(x) AS ms, COUNT(*) AS n FROM t GROUP BY epoch_ms(x)"
    assert planned(same, "UTC").physical.states == planned(same).physical.states


@pytest.mark.parametrize(
    ("zone", "near"), [("Europe/Berln", "Europe/Berlin"), ("+02:00", "Europe/Berlin"), ("", "UTC")]
)
def test_an_unknown_zone_is_refused_with_a_near_one(zone: str, near: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        planned("SELECT n FROM t", zone)
    [problem] = caught.value.diagnostics
    assert problem.code == "SET002"
    assert problem.help is not None
    assert near in problem.help


def test_the_clock_is_of_the_zone() -> None:
    found = planned(
        "SELECT CURRENT_DATE AS d, LOCALTIMESTAMP AS l, NOW() AS n, CAST(NOW() AS DATE) AS e FROM t"
    )
    [step] = [s for stage in found.physical.stages for s in stage.steps if isinstance(s, FragmentStep)]
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x, 1 AS n")
        con.execute("SET VARIABLE sqlstream_clock = TIMESTAMPTZ '2024-06-30 23:30:00+00'")
        con.execute("SET TimeZone = 'UTC'")
        [row] = con.sql(
            f"SELECT CAST(d AS VARCHAR), CAST(l AS VARCHAR), CAST(e AS VARCHAR) FROM ({step.sql})"
        ).fetchall()
    assert row == ("2024-07-01", "2024-07-01 01:30:00", "2024-07-01")
