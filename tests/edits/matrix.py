"""The edit matrix: pairs of queries, what must become of the state between them, and that the result is exact.

Rows are those of docs/edits.md. `{t}` is the table that is read, or a view over it whose rows are taken back.
"""

from __future__ import annotations

from dataclasses import dataclass

#: A view of `t` whose rows can go.
RETRACTING = "(SELECT k, s, b, MAX(v) AS v, MIN(ts) AS ts FROM t GROUP BY k, s, b)"


@dataclass(frozen=True)
class Edit:
    """A row of the matrix: the verdicts about the new query's states, as a set of words, where `{t}` only grows and, if that
    is another, where its rows can go.
    """

    row: int
    name: str
    old: str
    new: str
    verdicts: str
    retracting: str | None = ""  # None: not over such rows; "": the same
    windowed: bool = False
    tick_us: int = 1_000  # a window with end E is closed at watermark W if E - tick <= W

    @property
    def id(self) -> str:
        return f"row{self.row:02d}-{self.name}"


def _top(n: int, order: str = "v DESC, s", key: str = "k", what: str = "v") -> str:
    inner = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {order}) AS rn FROM {{t}}"
    return f"SELECT CAST(k AS STRING), v, {what} FROM ({inner}) WHERE rn <= {n}"


def _group(aggregates: str, keys: str = "k", where: str = "", group: str = "") -> str:
    return f"SELECT CAST({keys} AS STRING), {aggregates} FROM {{t}} {where} GROUP BY {group or keys}"


def _window(call: str, aggregates: str = "COUNT(*), SUM(v)") -> str:
    source = f"TABLE({call.format(t='TABLE t, DESCRIPTOR(ts)')})"
    return f"SELECT window_end, k, {aggregates} FROM {source} GROUP BY window_start, window_end, k"


def _sessions(gap: int, aggregates: str = "COUNT(*), SUM(v)", table: str = "{t}") -> str:
    source = f"TABLE(SESSION(TABLE {table} PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{gap}' SECOND))"
    return f"SELECT window_end, k, {aggregates} FROM {source} GROUP BY window_start, window_end, k"


def _join(kind: str, on: str, what: str = "a.v, b.v AS w") -> str:
    return f"SELECT CAST(a.k AS STRING), {what} FROM {{t}} AS a {kind} {{t}} AS b {on}"


def _over(*functions: str, frame: str = "") -> str:
    first, *others = (f"{f} OVER (PARTITION BY k ORDER BY v, ts {frame})" for f in functions)
    return f"SELECT CAST(k AS STRING), v, {' + '.join([first, *others])} FROM {{t}}"


def _by_time(function: str, frame: str = "") -> str:
    by = "PARTITION BY k ORDER BY ts"
    value = f"CAST({function} OVER ({by} {frame}) AS BIGINT)"
    return f"SELECT ts AS w, k, {value}, ROW_NUMBER() OVER ({by}, v) FROM {{t}}"


_MINUTE = "TUMBLE({t}, INTERVAL '1' MINUTE)"

MATRIX = (
    Edit(
        1,
        "names-views-comments",
        _group("COUNT(*), SUM(v)"),
        "WITH q AS (SELECT k AS kk, v AS vv FROM {t}) /* sums */ "
        "SELECT CAST(kk AS STRING) AS g, COUNT(*), SUM(vv) FROM q AS a GROUP BY kk",
        "KEEP",
    ),
    Edit(
        2,
        "equivalent-spelling",
        _group("COUNT(*), SUM(v)", where="WHERE v >= 1 AND b"),
        _group("COUNT(*), SUM(v)", where="WHERE b AND 1 <= v"),
        "KEEP",
    ),
    Edit(
        2,
        "between",
        _group("COUNT(*), SUM(v)", where="WHERE v BETWEEN 1 AND 4"),
        _group("COUNT(*), SUM(v)", where="WHERE v <= 4 AND v >= 1"),
        "KEEP",
    ),
    Edit(
        3,
        "projection-and-having",
        _group("COUNT(*), SUM(v)"),
        _group("COUNT(*) * 10, SUM(v) - 1") + " HAVING SUM(v) > 3",
        "KEEP",
    ),
    Edit(
        2,
        "join-by-comma",
        _join("JOIN", "ON a.k = b.v AND a.b"),
        "SELECT CAST(x.k AS STRING), x.v, y.v AS z FROM {t} AS x, {t} AS y WHERE x.b AND y.v = x.k",
        "KEEP",
    ),
    Edit(
        3,
        "above-a-join",
        _join("LEFT JOIN", "ON a.k = b.v"),
        _join("LEFT JOIN", "ON a.k = b.v WHERE b.v IS NULL OR b.v > a.v", "a.v * 10, b.v - 1"),
        "KEEP",
    ),
    Edit(
        28,
        "another-column-of-a-join",
        _join("LEFT JOIN", "ON a.k = b.v"),
        _join("LEFT JOIN", "ON a.k = b.v", "a.v, b.k"),
        "BACKFILL",
    ),
    Edit(
        21,
        "filter-of-a-side-of-a-join",
        _join("JOIN", "ON a.k = b.v", "a.v, b.k"),
        _join("JOIN", "ON a.k = b.v AND a.v > 1", "a.v, b.k"),
        "ADAPT",
    ),
    Edit(
        27,
        "a-column-of-a-join-less",
        _join("LEFT JOIN", "ON a.k = b.v", "a.v, b.k"),
        _join("LEFT JOIN", "ON a.k = b.v", "a.v, b.v * 2"),
        "ADAPT",
    ),
    Edit(
        28,
        "a-column-of-a-join-that-is-computed",
        _join("LEFT JOIN", "ON a.k = b.v", "a.v, b.k"),
        _join("LEFT JOIN", "ON a.k = b.v AND a.v < b.k", "a.v * 2, b.k"),
        "ADAPT",
    ),
    Edit(
        29,
        "left-to-full-join",
        _join("LEFT JOIN", "ON a.k = b.v"),
        _join("FULL JOIN", "ON a.k = b.v"),
        "BACKFILL",
    ),
    Edit(
        29,
        "full-to-left-join",
        _join("FULL JOIN", "ON a.k = b.v"),
        _join("LEFT JOIN", "ON a.k = b.v"),
        "ADAPT",
    ),
    Edit(
        29,
        "left-to-inner-join",
        _join("LEFT JOIN", "ON a.k = b.v"),
        _join("JOIN", "ON a.k = b.v"),
        "ADAPT",
    ),
    Edit(
        29,
        "inner-to-full-join-of-rows-with-keys",
        _join("JOIN", "ON coalesce(a.k, 0) = coalesce(b.v, 0)"),
        _join("FULL JOIN", "ON coalesce(a.k, 0) = coalesce(b.v, 0)"),
        "ADAPT",
    ),
    Edit(
        29,
        "full-to-anti-join",
        _join("FULL JOIN", "ON a.k = b.v"),
        _join("ANTI JOIN", "ON a.k = b.v", "a.v, a.v"),
        "ADAPT",
    ),
    Edit(
        30,
        "a-condition-of-a-join-more",
        _join("LEFT JOIN", "ON a.k = b.v", "a.v, b.k"),
        _join("LEFT JOIN", "ON a.k = b.v AND a.v < b.k", "a.v, b.k"),
        "ADAPT",
    ),
    Edit(
        30,
        "a-condition-on-what-a-join-does-not-keep",
        _join("LEFT JOIN", "ON a.k = b.v"),
        _join("LEFT JOIN", "ON a.k = b.v AND a.v < b.k"),
        "BACKFILL",
    ),
    Edit(5, "order-of-aggregates", _group("COUNT(*), SUM(v)"), _group("SUM(v), COUNT(*)"), "KEEP"),
    Edit(
        5,
        "order-of-keys",
        _group("COUNT(*), SUM(v)", group="k, s"),
        _group("COUNT(*), SUM(v)", group="s, k"),
        "KEEP",
    ),
    Edit(6, "less", _group("COUNT(*), SUM(v)"), _group("COUNT(*), 1"), "KEEP"),
    Edit(6, "less-distinct", _group("COUNT(DISTINCT v), SUM(v)"), _group("1, SUM(v)"), "KEEP"),
    Edit(
        7,
        "parts-of-an-average",
        _group("CAST(AVG(v) * 1000 AS BIGINT), 1"),
        _group("COUNT(v), SUM(v)"),
        "KEEP",
    ),
    Edit(
        7,
        "average-of-its-parts",
        _group("COUNT(v), SUM(v)"),
        _group("CAST(AVG(v) * 1000 AS BIGINT), SUM(v)"),
        "KEEP",
    ),
    Edit(
        7,
        "sum-where-distinct-values-are-counted",
        _group("COUNT(DISTINCT v), COUNT(*)"),
        _group("SUM(DISTINCT v), COUNT(*)"),
        "ADAPT",
    ),
    Edit(8, "not-derivable", _group("COUNT(*), SUM(v)"), _group("COUNT(*), MAX(v)"), "BACKFILL"),
    Edit(
        12,
        "drop-a-key",
        _group("COUNT(*), SUM(v)", group="k, s"),
        _group("COUNT(*), SUM(v)"),
        "ADAPT",
    ),
    Edit(
        12,
        "drop-a-key-max",
        _group("COUNT(*), MAX(v)", group="k, s"),
        _group("COUNT(*), MAX(v)"),
        "ADAPT",
    ),
    Edit(
        12,
        "drop-a-key-distinct",
        _group("COUNT(DISTINCT v), SUM(DISTINCT v)", group="k, s"),
        _group("COUNT(DISTINCT v), SUM(DISTINCT v)"),
        "ADAPT",
    ),
    Edit(
        12,
        "drop-a-key-distinct-global",
        "SELECT '', COUNT(DISTINCT v), COUNT(*) FROM {t} GROUP BY k, s",
        "SELECT '', COUNT(DISTINCT v), COUNT(*) FROM {t}",
        "ADAPT",
    ),
    Edit(
        12,
        "grouping-sets",
        _group("COUNT(*), SUM(v)", group="GROUPING SETS ((k, s), (k))"),
        _group("COUNT(*), SUM(v)", group="ROLLUP (k)"),
        "ADAPT",
    ),
    Edit(
        14,
        "float-key",
        _group("COUNT(*), SUM(v)", keys="v / 4"),
        _group("COUNT(*), SUM(v)", keys="FLOOR(v / 4)"),
        "ADAPT",
    ),
    Edit(
        13,
        "add-a-key",
        _group("COUNT(*), SUM(v)"),
        _group("COUNT(*), SUM(v)", group="k, s"),
        "BACKFILL",
    ),
    Edit(
        14,
        "function-of-a-key",
        _group("COUNT(*), SUM(v)", keys="s"),
        _group("COUNT(*), SUM(v)", keys="UPPER(s)"),
        "ADAPT",
    ),
    Edit(
        14,
        "coarser-number",
        _group("COUNT(*), MIN(v)", keys="k", group="k, s"),
        _group("COUNT(*), MIN(v)", keys="k % 2"),
        "ADAPT",
    ),
    Edit(
        15,
        "longer-tumble",
        _window(_MINUTE),
        _window("TUMBLE({t}, INTERVAL '5' MINUTE)"),
        "BACKFILL",
        None,
        windowed=True,
    ),
    Edit(
        16,
        "tumble-to-hop",
        _window(_MINUTE),
        _window("HOP({t}, INTERVAL '1' MINUTE, INTERVAL '3' MINUTE)"),
        "BACKFILL",
        None,
        windowed=True,
    ),
    Edit(
        16,
        "hop-to-tumble",
        _window("HOP({t}, INTERVAL '1' MINUTE, INTERVAL '3' MINUTE)"),
        _window(_MINUTE),
        "ADAPT",
        None,
        windowed=True,
    ),
    Edit(
        1,
        "session-by-view",
        _sessions(60),
        _sessions(60, table="(SELECT k, ts, v FROM {t})"),
        "KEEP",
        None,
        True,
        -1,
    ),
    Edit(
        8, "session-aggregate", _sessions(60), _sessions(60, "COUNT(*), MAX(v)"), "BACKFILL", None, True, -1
    ),
    Edit(17, "longer-gap", _sessions(60), _sessions(200), "BACKFILL", None, True, -1),
    Edit(
        17,
        "shorter-tumble",
        _window("TUMBLE({t}, INTERVAL '5' MINUTE)"),
        _window(_MINUTE),
        "BACKFILL",
        None,
        windowed=True,
    ),
    Edit(
        8, "window-aggregate", _window(_MINUTE), _window(_MINUTE, "COUNT(*), MAX(v)"), "BACKFILL", None, True
    ),
    Edit(6, "window-less", _window(_MINUTE), _window(_MINUTE, "COUNT(*), 1"), "KEEP", None, True),
    Edit(
        19,
        "filter-on-a-key-added",
        _group("COUNT(*), SUM(v)"),
        _group("COUNT(*), SUM(v)", where="WHERE k > 0"),
        "ADAPT",
    ),
    Edit(
        19,
        "filter-on-a-key-removed",
        _group("COUNT(*), SUM(v)", where="WHERE k > 0"),
        _group("COUNT(*), SUM(v)"),
        "BACKFILL",
    ),
    Edit(
        20,
        "filter-on-another-column",
        _group("COUNT(*), SUM(v)"),
        _group("COUNT(*), SUM(v)", where="WHERE b"),
        "BACKFILL",
    ),
    Edit(
        5,
        "branches",
        "SELECT CAST(k AS STRING), COUNT(*), SUM(v) FROM (SELECT k, v FROM t WHERE b UNION ALL SELECT v, v FROM t) "
        "GROUP BY k",
        "SELECT CAST(k AS STRING), COUNT(*), SUM(v) FROM (SELECT v AS k, v FROM t UNION ALL SELECT k, v FROM t WHERE b) "
        "GROUP BY k",
        "ADAPT",
        None,
    ),
    Edit(22, "smaller-top", _top(3), _top(2), "ADAPT", "KEEP"),
    Edit(23, "larger-top", _top(1), _top(3), "BACKFILL", "KEEP"),
    Edit(24, "payload-dropped", _top(2, what="ASCII(s)"), _top(2, order="v DESC", what="1"), "ADAPT", ""),
    Edit(25, "other-order", _top(2), _top(2, order="v, s"), "BACKFILL", "ADAPT"),
    Edit(25, "other-partition", _top(2), _top(2, key="s"), "BACKFILL", "ADAPT"),
    Edit(
        26,
        "first-to-last",
        _top(1, order="ts"),
        _top(1, order="ts DESC"),
        "BACKFILL",
        None,
    ),
    Edit(32, "by-time-another-function", _by_time("SUM(v)"), _by_time("AVG(v)"), "BACKFILL", None, True, 0),
    Edit(
        32,
        "by-time-another-frame",
        _by_time("SUM(v)"),
        _by_time("SUM(v)", "ROWS 2 PRECEDING"),
        "BACKFILL",
        None,
        True,
        0,
    ),
    Edit(32, "function-added", _over("SUM(v)"), _over("SUM(v)", "COUNT(*)"), "ADAPT"),
    Edit(
        32,
        "shorter-frame",
        _over("SUM(v)", frame="ROWS 3 PRECEDING"),
        _over("SUM(v)", frame="ROWS 1 PRECEDING"),
        "ADAPT",
    ),
    Edit(32, "longer-frame", _over("SUM(v)", frame="ROWS 1 PRECEDING"), _over("SUM(v)"), "ADAPT"),
    Edit(
        43,
        "several-at-once",
        _group("COUNT(*), SUM(v)", group="k, s"),
        _group("MAX(v), COUNT(*) + 1", where="WHERE k > 0") + " HAVING COUNT(*) > 1",
        "BACKFILL",
    ),
)
