"""Date and time functions of Flink and Spark, as they are in UTC; `session_zone` writes another zone out."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.expressions.functions.translate.entry import (
    FLINK,
    POSTGRES,
    SPARK,
    Context,
    call,
    entry,
    literal_text,
    text,
)
from sqlstream_planner.expressions.functions.translate.java_patterns import strftime_format
from sqlstream_planner.expressions.functions.translate.postgres_patterns import (
    Change,
    parse_format,
    pieces_of,
)
from sqlstream_planner.sql.problems import TypeProblem


def _parse_format(node: exp.Expr, context: Context) -> exp.Expr:
    """The format of a pattern of Java's, else of PostgreSQL's, else of strptime itself."""
    pattern = literal_text(node)
    if pattern is not None and "%" in pattern:
        return text(pattern)
    try:
        return _format(node, context)
    except TypeProblem:
        if pattern is None:
            raise
        try:
            return text(parse_format(pattern))
        except ValueError:
            pass
        raise


def _to_char(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    time, pattern = arguments[0], literal_text(arguments[1])
    if _is_number(time, context):
        raise context.refuse("TO_CHAR of a number", "write FORMAT('{:,.2f}', x), or PRINTF('%010.2f', x)")
    if pattern is None:
        raise context.refuse("the date pattern must be a literal", "write it as a string, 'YYYY-MM-DD'")
    if "%" in pattern:
        return call("strftime", _as_timestamp(time, context), text(pattern))
    try:
        pieces = pieces_of(pattern)
    except ValueError as reason:
        raise context.refuse(
            str(reason),
            "DATE_FORMAT(time, 'yyyy-MM-dd HH:mm') takes Java's patterns, STRFTIME(time, '%H:%M') DuckDB's",
        ) from None
    parts: list[exp.Expr] = []
    for piece in pieces:
        part: exp.Expr = call("strftime", _as_timestamp(time.copy(), context), text(piece.format))
        if piece.change is Change.QUARTER:
            part = exp.Cast(
                this=call("quarter", _as_timestamp(time.copy(), context)), to=exp.DataType.build("TEXT")
            )
        elif piece.change is not Change.NONE:
            part = call(piece.change.value, part)
        if piece.width:
            part = call("rpad", part, exp.Literal.number(piece.width), text(" "))
        parts.append(part)
    made = parts[0] if parts else text("")
    for part in parts[1:]:
        made = exp.DPipe(this=made, expression=part)
    return exp.Paren(this=made) if len(parts) > 1 else made


def _format(node: exp.Expr, context: Context) -> exp.Expr:
    pattern = literal_text(node)
    if pattern is None:
        raise context.refuse("the date pattern must be a literal", "write it as a string, 'yyyy-MM-dd'")
    try:
        return text(strftime_format(pattern))
    except ValueError as reason:
        raise context.refuse(str(reason), "DuckDB's STRFTIME(ts, '%Y-%m-%d') has more formats") from None


def _as_timestamp(node: exp.Expr, context: Context) -> exp.Expr:
    """DATE_FORMAT and kin take strings too: '2020-01-01 00:00:00'."""
    known = context.type(node)
    if isinstance(node, exp.Literal) or (known is not None and known.kind is Kind.VARCHAR):
        return exp.Cast(this=node, to=exp.DataType.build("TIMESTAMP", dialect="duckdb"))
    return node


def _date_format(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    return call("strftime", _as_timestamp(arguments[0], context), _format(arguments[1], context))


def _is_number(node: exp.Expr, context: Context) -> bool:
    if isinstance(node, exp.Literal):
        return not node.is_string
    known = context.type(node)
    return known is not None and known.is_numeric


def _try_cast(node: exp.Expr, type_: str) -> exp.Expr:
    return exp.TryCast(this=node, to=exp.DataType.build(type_, dialect="duckdb"), safe=True)


def _to_timestamp(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr | None:
    if _is_number(arguments[0], context):
        return None
    return _try_cast(arguments[0], "TIMESTAMP")


def _to_timestamp_format(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    return call("try_strptime", arguments[0], _parse_format(arguments[1], context))


def _to_date_format(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    parsed = call("try_strptime", arguments[0], _parse_format(arguments[1], context))
    return exp.Cast(this=parsed, to=exp.DataType.build("DATE"))


def _to_timestamp_ltz(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    precision = str(arguments[1].this) if isinstance(arguments[1], exp.Literal) else ""
    factors = {"0": 1_000_000, "3": 1_000}
    if precision not in factors:
        raise context.refuse(
            "the precision of TO_TIMESTAMP_LTZ must be the literal 0 (seconds) or 3 (milliseconds)",
            "write TO_TIMESTAMP_LTZ(n, 3)",
        )
    return call("make_timestamptz", _micros(arguments[0], factors[precision]))


def _micros(number: exp.Expr, factor: int) -> exp.Expr:
    """`number` times `factor` as BIGINT; the product of two INTEGERs would be one, and too small for a time."""
    wide = exp.Cast(this=exp.Literal.number(factor), to=exp.DataType.build("BIGINT"))
    micros = exp.Mul(this=exp.Paren(this=number), expression=wide)
    return exp.Cast(this=micros, to=exp.DataType.build("BIGINT"))


def _from_millis(arguments: Sequence[exp.Expr], _: Context) -> exp.Expr:
    return call("make_timestamptz", _micros(arguments[0], 1_000))


def _from_seconds(arguments: Sequence[exp.Expr], _: Context) -> exp.Expr:
    return call("make_timestamptz", _micros(arguments[0], 1_000_000))


def _from_unixtime(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    moment = call("make_timestamp", _micros(arguments[0], 1_000_000))
    format_ = _format(arguments[1], context) if len(arguments) > 1 else text("%Y-%m-%d %H:%M:%S")
    return call("strftime", moment, format_)


def _unix_timestamp_format(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    parsed = call("epoch", call("try_strptime", arguments[0], _format(arguments[1], context)))
    return exp.Cast(this=parsed, to=exp.DataType.build("BIGINT"))


def _timestampadd(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    unit = literal_text(arguments[0]) or arguments[0].name
    step = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this=unit.upper()))
    amount = exp.Mul(this=exp.Paren(this=arguments[1]), expression=step)
    moment = arguments[2]
    if isinstance(moment, exp.Literal) and moment.is_string:
        moment = _as_timestamp(moment, context)
    return exp.Paren(this=exp.Add(this=exp.Paren(this=moment), expression=amount))


def _timestampdiff(arguments: Sequence[exp.Expr], _: Context) -> exp.Expr:
    unit = literal_text(arguments[0]) or arguments[0].name
    return call("date_sub", text(unit.lower()), arguments[1], arguments[2])


_UNITS = {
    "year": ("year", "yyyy", "yy"),
    "quarter": ("quarter",),
    "month": ("month", "mm", "mon"),
    "week": ("week",),
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _trunc(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr | None:
    written = literal_text(arguments[1])
    if written is None:
        return None  # DuckDB's: places behind the point
    unit = next((unit for unit, names in _UNITS.items() if written.lower() in names), None)
    if unit is None:
        raise context.refuse(f"TRUNC to '{written}'", "write 'YEAR', 'QUARTER', 'MONTH' or 'WEEK'")
    date = exp.Cast(this=arguments[0], to=exp.DataType.build("DATE"))
    return exp.Cast(this=call("date_trunc", text(unit), date), to=exp.DataType.build("DATE"))


def _next_day(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    written = (literal_text(arguments[1]) or "").lower()
    number = next((n for n, day in enumerate(_DAYS, 1) if written in (day, day[:3], day[:2])), None)
    if number is None:
        raise context.refuse("NEXT_DAY needs the name of a day", "write NEXT_DAY(d, 'MON')")
    date = exp.Cast(this=arguments[0], to=exp.DataType.build("DATE"))
    # 1 to 7 days on: from a Monday to the next Monday it is 7.
    before = exp.Sub(this=exp.Literal.number(number + 6), expression=call("isodow", date.copy()))
    ahead = exp.Add(
        this=exp.Mod(this=exp.Paren(this=before), expression=exp.Literal.number(7)),
        expression=exp.Literal.number(1),
    )
    days = exp.Cast(this=exp.Paren(this=ahead), to=exp.DataType.build("INT"))
    return exp.Paren(this=exp.Add(this=date, expression=days))


_DAYS_AND_MORE = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DECADE", "CENTURY", "MILLENNIUM"})


def _step(unit: str) -> exp.Interval:
    return exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this=unit))


def _down(unit: str, time: exp.Expr) -> exp.Expr:
    """The greatest start of a `unit` at or before `time`; weeks begin on Sunday, as in Flink."""
    if unit != "WEEK":
        return call("date_trunc", text(unit.lower()), time)
    later = exp.Add(this=exp.Paren(this=time), expression=_step("DAY"))
    return exp.Paren(this=exp.Sub(this=call("date_trunc", text("week"), later), expression=_step("DAY")))


def _round(arguments: Sequence[exp.Expr], context: Context, *, up: bool) -> exp.Expr:
    unit, time = str(literal_text(arguments[0])).upper(), arguments[1]
    known = context.type(time)
    kind = None if known is None else known.kind
    if kind is Kind.DATE and unit not in _DAYS_AND_MORE:
        return time
    if kind is Kind.TIME and unit in _DAYS_AND_MORE:
        raise context.refuse(f"a TIME can't be rounded to a {unit}", "HOUR, MINUTE and SECOND can")
    if kind is Kind.TIME:
        time = exp.Add(this=exp.Cast(this=text("1970-01-01"), to=exp.DataType.build("DATE")), expression=time)
    down = _down(unit, time)
    if up:
        exact = exp.EQ(this=down, expression=exp.Paren(this=time.copy()))
        next_ = exp.Add(this=down.copy(), expression=_step(unit))
        down = exp.Case(ifs=[exp.If(this=exact, true=time.copy())], default=next_)
    if kind not in (Kind.DATE, Kind.TIME):
        return down
    return exp.Cast(this=down, to=exp.DataType.build(kind.name))


def _floor_to(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    return _round(arguments, context, up=False)


def _ceil_to(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    return _round(arguments, context, up=True)


TIMES = (
    entry(
        "FLOOR_TO(unit, time)",
        "date_trunc(unit, time)",
        "FLOOR(time TO unit): the start of its unit; a DATE stays a DATE, a TIME a TIME; weeks begin on Sunday",
        FLINK,
        _floor_to,
    ),
    entry(
        "CEIL_TO(unit, time)",
        "CASE WHEN date_trunc(unit, time) = time THEN time ELSE date_trunc(unit, time) + INTERVAL 1 unit END",
        "CEIL(time TO unit): `time` if it is the start of a unit, else the next start",
        FLINK,
        _ceil_to,
    ),
    entry(
        "DATE_FORMAT(time, pattern)",
        "strftime(time, format)",
        "time as text by a Java pattern; the pattern is a literal",
        builder=_date_format,
    ),
    entry(
        "TO_TIMESTAMP(string)",
        "TRY_CAST(string AS TIMESTAMP)",
        "text as a timestamp, NULL if it is none (of a number: seconds since 1970, DuckDB's form)",
        FLINK,
        _to_timestamp,
    ),
    entry(
        "TO_TIMESTAMP(string, pattern)",
        "try_strptime(string, format)",
        "text as a timestamp by a pattern of Java's or PostgreSQL's, NULL if it does not fit",
        builder=_to_timestamp_format,
    ),
    entry("TO_DATE(string)", "TRY_CAST(string AS DATE)", "text as a date, NULL if it is none"),
    entry(
        "TO_DATE(string, pattern)",
        "CAST(try_strptime(string, format) AS DATE)",
        "text as a date by a pattern of Java's or PostgreSQL's, NULL if it does not fit",
        builder=_to_date_format,
    ),
    entry(
        "TO_CHAR(time, pattern)",
        "strftime(time, format)",
        "time as text by a pattern of PostgreSQL's (YYYY-MM-DD HH24:MI:SS); the pattern is a literal",
        POSTGRES,
        _to_char,
    ),
    entry(
        "TO_TIMESTAMP_LTZ(number, precision)",
        "make_timestamptz(number * 1000)",
        "seconds (0) or milliseconds (3) since 1970 as an instant",
        FLINK,
        _to_timestamp_ltz,
    ),
    entry(
        "TO_TIMESTAMP_LTZ(number)",
        "make_timestamptz(number * 1000)",
        "milliseconds since 1970 as an instant",
        FLINK,
        _from_millis,
    ),
    entry(
        "TIMESTAMP_SECONDS(number)",
        "make_timestamptz(CAST(number * 1000000 AS BIGINT))",
        "seconds since 1970",
        SPARK,
        _from_seconds,
    ),
    entry(
        "TIMESTAMP_MILLIS(number)",
        "make_timestamptz(number * 1000)",
        "milliseconds since 1970",
        SPARK,
        _from_millis,
    ),
    entry("TIMESTAMP_MICROS(number)", "make_timestamptz(number)", "microseconds since 1970", SPARK),
    entry(
        "FROM_UNIXTIME(number)",
        "strftime(make_timestamp(number * 1000000), '%Y-%m-%d %H:%M:%S')",
        "seconds since 1970 as text in UTC",
        builder=_from_unixtime,
    ),
    entry(
        "FROM_UNIXTIME(number, pattern)",
        "strftime(make_timestamp(number * 1000000), format)",
        "seconds since 1970 as text in UTC by a Java pattern",
        builder=_from_unixtime,
    ),
    entry(
        "UNIX_TIMESTAMP(string)",
        "CAST(epoch(TRY_CAST(string AS TIMESTAMP)) AS BIGINT)",
        "seconds since 1970 of a text in UTC, NULL if it is no time",
    ),
    entry(
        "UNIX_TIMESTAMP(string, pattern)",
        "CAST(epoch(try_strptime(string, format)) AS BIGINT)",
        "seconds since 1970 of a text in UTC by a Java pattern, NULL if it does not fit",
        builder=_unix_timestamp_format,
    ),
    entry(
        "TO_UNIX_TIMESTAMP(string)",
        "CAST(epoch(TRY_CAST(string AS TIMESTAMP)) AS BIGINT)",
        "seconds since 1970 of a text in UTC, NULL if it is no time",
        SPARK,
    ),
    entry("UNIX_MICROS(time)", "epoch_us(time)", "microseconds since 1970", SPARK),
    entry(
        "UNIX_MILLIS(time)",
        "((epoch_us(time) - ((epoch_us(time) % 1000) + 1000) % 1000) // 1000)",
        "milliseconds since 1970, rounded down",
        SPARK,
    ),
    entry(
        "TIMESTAMPADD(unit, number, time)",
        "time + number * INTERVAL 1 unit",
        "time moved by a number of units; a DATE becomes a TIMESTAMP",
        builder=_timestampadd,
    ),
    entry(
        "TIMESTAMPDIFF(unit, from_, to_)",
        "date_sub(unit, from_, to_)",
        "how many whole units passed (DuckDB's date_diff counts boundaries)",
        builder=_timestampdiff,
    ),
    entry(
        "DATEDIFF(to_, from_)",
        "date_diff('day', CAST(from_ AS DATE), CAST(to_ AS DATE))",
        "days between",
        SPARK,
    ),
    entry(
        "DATE_FROM_UNIX_DATE(days)",
        "(DATE '1970-01-01' + CAST(days AS INTEGER))",
        "days after 1970-01-01",
        SPARK,
    ),
    entry(
        "UNIX_DATE(date_)",
        "CAST(date_diff('day', DATE '1970-01-01', date_) AS INTEGER)",
        "days since 1970-01-01",
        SPARK,
    ),
    entry("DATE_SUB(date_, days)", "(CAST(date_ AS DATE) - days)", "days earlier", SPARK),
    entry(
        "ADD_MONTHS(date_, months)", "CAST(date_ + months * INTERVAL 1 MONTH AS DATE)", "months later", SPARK
    ),
    entry(
        "TRUNC(time, unit)",
        "CAST(date_trunc(unit, CAST(time AS DATE)) AS DATE)",
        "the first day of the year, quarter, month or week; the unit is a literal (of a number: DuckDB's)",
        SPARK,
        _trunc,
    ),
    entry(
        "NEXT_DAY(date_, day)",
        "CAST(date_ AS DATE) + 1 to 7 days",
        "the first such day of the week behind it; the day is a literal",
        SPARK,
        _next_day,
    ),
    entry("DAYOFWEEK(time)", "(dayofweek(time) + 1)", "1 is Sunday, 7 Saturday (DuckDB: 0 is Sunday)"),
    entry("WEEKDAY(time)", "(isodow(time) - 1)", "0 is Monday, 6 Sunday (DuckDB: 0 is Sunday)", SPARK),
    entry("DAY_OF_WEEK(time)", "(dayofweek(time) + 1)", "1 is Sunday, 7 Saturday", SPARK),
    entry(
        "CONVERT_TZ(string, from_zone, to_zone)",
        "strftime(timezone(to_zone, timezone(from_zone, CAST(string AS TIMESTAMP))), '%Y-%m-%d %H:%M:%S')",
        "the same moment as text in another zone",
        FLINK,
    ),
    entry(
        "FROM_UTC_TIMESTAMP(time, zone)",
        "timezone(zone, timezone('UTC', CAST(time AS TIMESTAMP)))",
        "wall clock time of a zone",
        SPARK,
    ),
    entry(
        "TO_UTC_TIMESTAMP(time, zone)",
        "timezone('UTC', timezone(zone, CAST(time AS TIMESTAMP)))",
        "UTC of a zone's wall clock time",
        SPARK,
    ),
)
