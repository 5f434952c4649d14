"""The session's time zone, written out: what DuckDB would compute of instants by its setting `TimeZone`, over wall clocks.

Tasks run in UTC, as readers and operators go by it. So `CAST(x AS DATE)` of a TIMESTAMP WITH TIME ZONE becomes the date of
`timezone('Europe/Berlin', x)`. What a zone changes and is not written out here is refused, and never computed in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import VARCHAR, Kind, SqlType, quote_literal
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.expressions.instants import (
    Types,
    alike,
    has_instants,
    has_offset,
    holds_instants,
    mixes_instants,
    text_of,
)
from sqlstream_planner.logical.expressions import raw, substitute
from sqlstream_planner.sql.as_written import without_marks
from sqlstream_planner.sql.datatypes import sql_type_of
from sqlstream_planner.sql.dialect import constant_value
from sqlstream_planner.sql.problems import UNTRANSLATABLE, TypeProblem
from sqlstream_planner.sql.written_calls import WrittenCall, written_call
from sqlstream_planner.text.name_lists import names_in

UTC = "UTC"
_HELP = (
    "CAST(x AS TIMESTAMP) is the wall clock there: apply it to that, or SET 'table.local-time-zone' = 'UTC'"
)
_HOUR_US = 3_600_000_000

#: Calls that give of instants what they give in any zone, as long as all of these are instants.
_ANYWHERE = frozenset(
    names_in(
        """
    epoch epoch_ms epoch_us epoch_ns isfinite isinf coalesce ifnull nullif greatest least hash typeof if iff
    count min max first last any_value arbitrary arg_min arg_max min_by max_by list array_agg mode count_if
    first_value last_value nth_value lag lead median struct_pack row struct_extract list_value array_value map
    map_keys map_values map_extract element_at list_extract array_extract len length cardinality unnest
    list_contains list_distinct list_sort to_timestamp approx_count_distinct histogram
    """
    )
)
#: Calls of an instant that are those of its wall clock.
_OF_WALL_CLOCK = frozenset(
    names_in(
        """
    year quarter month week weekofyear yearweek day dayofmonth dayofweek dayofyear weekday isodow isoyear hour minute
    second millisecond microsecond nanosecond century decade millennium era julian dayname monthname last_day age
    """
    )
)
_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In
)  # fmt: skip
#: They give on what they are made of, or say nothing of it.
_PASSING = (
    exp.Paren, exp.Alias, exp.Not, exp.Connector, exp.Is, exp.Ordered, exp.Order, exp.Distinct, exp.Filter, exp.Where,
    exp.Window, exp.WindowSpec, exp.IgnoreNulls, exp.RespectNulls, exp.Dot, exp.Bracket, exp.Struct, exp.PropertyEQ,
    exp.Star, exp.WithinGroup, exp.Tuple, exp.If,
)  # fmt: skip
_LARGE_UNITS = frozenset(
    names_in("hour hours day days week weeks month months quarter quarters year years isoyear")
)
#: Units of several years, by all names that DuckDB has for them.
_UNITS_OF_YEARS = {
    **dict.fromkeys(names_in("decade decades dec decs"), 10),
    **dict.fromkeys(names_in("century centuries cent c"), 100),
    **dict.fromkeys(names_in("millennium millennia millenium mil mils"), 1000),
}
_SMALL_UNITS = frozenset(
    names_in("minute minutes second seconds millisecond milliseconds ms microsecond microseconds us")
)
#: Says that a text has an offset, or a zone, behind its time of day, or is the instant 'epoch'.
_HAS_ZONE = r"':[0-9.]+\s*([Zz]|[+-][0-9:]+|[A-Za-z].*)\s*$|^\s*[Ee][Pp][Oo][Cc][Hh]\s*$'"
#: Fields that DuckDB counts from the year of the era for instants, and from the year 0 for wall clocks.
_OF_ERA = {
    **dict.fromkeys(("year", "years", "yr", "yrs", "y"), 1),
    **dict.fromkeys(("decade", "decades", "dec", "decs"), 10),
}
_DONE = "in_zone"


def in_zone(expression: exp.Expr, types: Types, zone: str) -> exp.Expr:
    """An expression as it is in a session of `zone`, for one of UTC; itself if there is no difference.

    Raises TypeProblem for what may mean something else, with how to write it.
    """
    if zone == UTC or not has_instants(expression, types):
        return expression
    plain = without_marks(expression).copy()
    writer = _Writer(types, zone)
    made = writer.written(plain)
    return made if writer.changed else expression


@dataclass(slots=True)
class _Writer:
    types: Types
    zone: str
    changed: bool = False

    def written(self, node: exp.Expr) -> exp.Expr:
        """A part of the expression as of the zone; it is changed in place where it can be."""
        if node.meta.get(_DONE) or isinstance(node, exp.Column | exp.Literal | exp.DataType | exp.Interval):
            return node
        if isinstance(node, exp.Lambda):
            raise self._refused(node, "a lambda beside instants", "UNNEST the elements in a sub-query")
        before = node
        for key, value in list(node.args.items()):
            if isinstance(value, list):
                node.set(key, [self.written(v) if isinstance(v, exp.Expr) else v for v in value])
            elif isinstance(value, exp.Expr):
                node.set(key, self.written(value))
        made = self._one(node)
        if made is not before:
            self.changed = True
            for part in made.walk():
                part.meta.setdefault("span", before.meta.get("span"))
        return made

    def _one(self, node: exp.Expr) -> exp.Expr:
        """One node over parts that are written already."""
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, _COMPARISONS):
            return self._comparison(node)
        if isinstance(node, exp.Extract):
            return self._extract(node)
        call = written_call(node)
        if call is not None and call.name == "timezone":
            return self._at_zone(node, call.arguments[-1])
        if isinstance(node, exp.AtTimeZone):
            return self._at_zone(node, node.this)
        if call is not None:
            return self._call(node, call)
        parts = [(p, self._type(p)) for p in _values(node)]
        if not any(holds_instants(t) for _, t in parts):
            return node
        if isinstance(node, exp.Case | exp.Array):
            if any(mixes_instants([self._type(p) for p in alike]) for alike in _choices(node)):
                raise self._refused(
                    node, "a value that is an instant, or something else,", "CAST both to one type"
                )
            return node
        if isinstance(node, _PASSING):
            return node
        if isinstance(node, exp.Add | exp.Sub) and self._moved_by_hours(node):
            return node
        raise self._refused(node, f"{node.key.upper()} of an instant")

    def _cast(self, node: exp.Cast) -> exp.Expr:
        from_, to = self._type(node.this), sql_type_of(node.to)
        if from_ == to or from_.kind is Kind.NULL:
            return node
        if from_.kind is Kind.TIMESTAMPTZ and to.kind in (Kind.TIMESTAMP, Kind.DATE, Kind.TIME):
            node.set("this", self._local(node.this))
            self.changed = True
            return node
        if from_.kind is Kind.TIMESTAMPTZ and to == VARCHAR:
            return self._text(node.this)
        if to.kind is Kind.TIMESTAMPTZ and from_.kind in (Kind.TIMESTAMP, Kind.DATE):
            return self._instant(node.this, from_)
        if to.kind is Kind.TIMESTAMPTZ and from_ == VARCHAR:
            return self._read(node)
        if holds_instants(from_) or holds_instants(to):
            raise self._refused(node, f"a cast of {from_} to {to}", "cast the instants themselves")
        if to.kind is Kind.TIMETZ and not has_offset(node.this):
            raise self._refused(node, f"a cast of {from_} to {to}", "write the offset: TIMETZ '01:00:00+02'")
        return node

    def _comparison(self, node: exp.Expr) -> exp.Expr:
        operands = _values(node)
        types = [self._type(o) for o in operands]
        if any(t.kind is Kind.TIMETZ for t in types):
            for operand, type_ in zip(operands, types, strict=True):
                if type_.kind not in (Kind.TIMETZ, Kind.NULL) and not has_offset(operand):
                    raise self._refused(node, f"a comparison of TIME WITH TIME ZONE and {type_}")
            return node
        if not any(holds_instants(t) for t in types):
            return node
        for operand, type_ in zip(operands, types, strict=True):
            if type_.kind in (Kind.TIMESTAMPTZ, Kind.NULL) or not mixes_instants(types):
                continue
            if type_.kind in (Kind.TIMESTAMP, Kind.DATE):
                instant = self._instant(operand.copy(), type_)
            elif type_ == VARCHAR:
                instant = self._read(
                    exp.Cast(this=operand.copy(), to=exp.DataType.build("TIMESTAMPTZ", dialect="duckdb"))
                )
            else:
                raise self._refused(node, f"a comparison of an instant and {type_}")
            operand.replace(instant)
            self.changed = True
        return node

    def _extract(self, node: exp.Extract) -> exp.Expr:
        if self._type(node.expression).kind is not Kind.TIMESTAMPTZ:
            return node
        field = node.this.name.lower()
        if field == "epoch":
            return node
        if field.startswith("timezone"):
            raise self._refused(node, f"EXTRACT({field.upper()} …)")
        if field in _OF_ERA:
            return self._of_era(node.expression, field)
        node.set("expression", self._local(node.expression))
        self.changed = True
        return node

    def _at_zone(self, node: exp.Expr, of: exp.Expr) -> exp.Expr:
        if self._type(of).kind is Kind.DATE:
            raise self._refused(node, "AT TIME ZONE of a DATE", "CAST the DATE to TIMESTAMP")
        return node

    def _call(self, node: exp.Expr, call: WrittenCall) -> exp.Expr:
        types = [self._type(a) for a in call.arguments]
        if call.name == "make_timestamptz" and len(types) == 6:
            return self._instant(self._made(call.arguments), SqlType(Kind.TIMESTAMP))
        if call.name in ("strptime", "try_strptime") and len(types) == 2:
            return self._parsed(node, call)
        if not any(holds_instants(t) for t in types):
            return node
        if call.name in _OF_ERA and types[0].kind is Kind.TIMESTAMPTZ:
            return self._of_era(call.arguments[0], call.name)
        if call.name in ("date_trunc", "datetrunc") and types[-1].kind is Kind.TIMESTAMPTZ:
            return self._truncated(node, call)
        if call.name in _OF_WALL_CLOCK and all(t.kind is Kind.TIMESTAMPTZ for t in types):
            return self._with_arguments(node, [self._local(a) for a in call.arguments])
        if call.name in ("date_part", "datepart"):
            field = text_of(call.arguments[0])
            if field == "epoch":
                return node
            if field in _OF_ERA and types[-1].kind is Kind.TIMESTAMPTZ:
                return self._of_era(call.arguments[1], field)
            if field and not field.startswith("timezone"):
                return self._with_arguments(node, [call.arguments[0].copy(), self._local(call.arguments[1])])
        if call.name == "strftime":
            pattern = text_of(call.arguments[1])
            if pattern and "%z" not in pattern:
                return self._with_arguments(node, [self._local(call.arguments[0]), call.arguments[1].copy()])
        if call.name == "make_timestamptz" or (
            call.name in _ANYWHERE and not mixes_instants(alike(call, types))
        ):
            return node
        if call.name == "time_bucket" and self._is_short(call.arguments[0]):
            return node  # digits of a second that a precision cuts off
        raise self._refused(node, f"{call.name.upper()} of an instant")

    def _made(self, parts: Sequence[exp.Expr]) -> exp.Expr:
        """The wall clock of a year, month, day, hour, minute and seconds, which go on counting beyond their ranges."""
        names = ("y", "m", "d", "h", "n", "s")
        return self._filled(
            'make_timestamp(CASE WHEN "y" < 0 THEN "y" + 1 ELSE "y" END, 1, 1, 0, 0, 0.0) '
            '+ to_months(CAST("m" - 1 AS INTEGER)) + to_days(CAST("d" - 1 AS INTEGER)) + to_hours(CAST("h" AS BIGINT)) '
            '+ to_minutes(CAST("n" AS BIGINT)) + to_microseconds(CAST(round("s" * 1000000) AS BIGINT))',
            **dict(zip(names, parts, strict=True)),
        )

    def _of_era(self, x: exp.Expr, field: str) -> exp.Expr:
        """The year of an instant, or its decade, as DuckDB counts them: 44 before Christ is 44, and no -43."""
        return self._filled(
            f'CASE WHEN year("l") > 0 THEN year("l") ELSE 1 - year("l") END // {_OF_ERA[field]}'
            if _OF_ERA[field] > 1
            else 'CASE WHEN year("l") > 0 THEN year("l") ELSE 1 - year("l") END',
            l=self._local(x),
        )

    def _parsed(self, node: exp.Expr, call: WrittenCall) -> exp.Expr:
        """A text by the first of several formats that it has; of those without an offset it is a wall clock of the zone."""
        if self._type(node).kind is not Kind.TIMESTAMPTZ:
            return node
        x, formats = call.arguments[0], call.arguments[1].unnest()
        if not isinstance(formats, exp.Array):
            return node  # the one format has an offset
        if not all(isinstance(f, exp.Literal) and f.is_string for f in formats.expressions):
            raise self._refused(node, f"{call.name.upper()} with formats that are no constants")
        tried = []
        for each in formats.expressions:
            read = exp.Anonymous(this="try_strptime", expressions=[x.copy(), each.copy()])
            is_instant = "%z" in each.name.lower()
            tried.append(read if is_instant else self._instant(read, SqlType(Kind.TIMESTAMP)))
        if call.name == "strptime":
            tried.append(node.copy())  # fails as it should
        self.changed = True
        made = exp.Coalesce(this=tried[0], expressions=tried[1:])
        for part in made.walk():
            part.meta[_DONE] = True
        return made

    def _truncated(self, node: exp.Expr, call: WrittenCall) -> exp.Expr:
        unit = text_of(call.arguments[0])
        x = call.arguments[1]
        cut = exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), self._local(x)])
        if unit in _LARGE_UNITS:
            return self._instant(cut, SqlType(Kind.TIMESTAMP))
        if unit in _UNITS_OF_YEARS:
            # Of instants DuckDB cuts the years before Christ as they are counted: 165 BC to 160 BC, not 161.
            years = _UNITS_OF_YEARS[unit]
            before = f'make_timestamp(1 - (1 - year("l")) // {years} * {years}, 1, 1, 0, 0, 0.0)'
            era = f'CASE WHEN year("l") <= 0 THEN {before} ELSE "c" END'
            return self._instant(self._filled(era, l=self._local(x), c=cut), SqlType(Kind.TIMESTAMP))
        if unit not in _SMALL_UNITS:
            shown = f"the unit '{unit}'" if unit else "a unit that is no constant"
            raise self._refused(node, f"DATE_TRUNC of an instant to {shown}")
        # What has passed since the minute began is taken off: the wall clock may show it twice. Of an hour DuckDB takes the
        # later one then.
        return self._filled(
            'CASE WHEN isfinite("x") THEN make_timestamptz(epoch_us("x") - (epoch_us("l") - epoch_us("c"))) ELSE "x" END',
            x=x,
            l=self._local(x),
            c=cut,
        )

    def _moved_by_hours(self, node: exp.Expr) -> bool:
        """Whether an instant is moved by hours and less, which are as long everywhere."""
        left, right = node.this, node.expression
        instant, moved = (left, right) if self._type(left).kind is Kind.TIMESTAMPTZ else (right, left)
        if self._type(instant).kind is not Kind.TIMESTAMPTZ:
            return False
        value = constant_value(moved.unnest())
        return value is not None and value.months == 0 and value.days == 0

    def _is_short(self, node: exp.Expr) -> bool:
        value = constant_value(node.unnest())
        return value is not None and value.total_micros is not None and value.total_micros < 1_000_000

    # --------------------------------------------------------------------------------------------- writing

    def _local(self, x: exp.Expr) -> exp.Expr:
        """The wall clock of an instant."""
        return self._filled(f'timezone({quote_literal(self.zone)}, "x")', x=x)

    def _instant(self, x: exp.Expr, type_: SqlType) -> exp.Expr:
        """The instant of a wall clock; of a DATE, of its midnight."""
        midnight = '"x"' if type_.kind is Kind.TIMESTAMP else 'CAST("x" AS TIMESTAMP)'
        return self._filled(f"timezone({quote_literal(self.zone)}, {midnight})", x=x)

    def _text(self, x: exp.Expr) -> exp.Expr:
        """An instant as text: the wall clock, and by how much it is ahead of UTC."""
        ahead = '((epoch_us("l") - epoch_us("x")) // 60000000)'
        return self._filled(
            f"CASE WHEN isfinite(\"x\") THEN CAST(\"l\" AS VARCHAR) || CASE WHEN {ahead} < 0 THEN '-' ELSE '+' END || "
            f"lpad(CAST(abs({ahead}) // 60 AS VARCHAR), 2, '0') || CASE WHEN abs({ahead}) % 60 = 0 THEN '' "
            f"ELSE ':' || lpad(CAST(abs({ahead}) % 60 AS VARCHAR), 2, '0') END ELSE CAST(\"l\" AS VARCHAR) END",
            x=x,
            l=self._local(x),
        )

    def _read(self, cast: exp.Cast) -> exp.Expr:
        """A text as an instant: of the zone that it names, else of the session's."""
        word = "TRY_CAST" if isinstance(cast, exp.TryCast) else "CAST"
        made = self._filled(
            f'CASE WHEN regexp_matches("x", {_HAS_ZONE}) THEN {word}("x" AS TIMESTAMPTZ) '
            f'ELSE timezone({quote_literal(self.zone)}, {word}("x" AS TIMESTAMP)) END',
            x=cast.this,
        )
        for part in made.find_all(exp.Cast):
            if holds_instants(sql_type_of(part.to)):
                part.meta[_DONE] = True
        return made

    def _filled(self, text: str, **parts: exp.Expr) -> exp.Expr:
        self.changed = True
        template = raw(text)
        return substitute(template, {name: part.copy() for name, part in parts.items()})

    def _with_arguments(self, node: exp.Expr, arguments: list[exp.Expr]) -> exp.Expr:
        call = written_call(node)
        assert call is not None
        self.changed = True
        return exp.Anonymous(this=call.name, expressions=arguments)

    def _type(self, node: exp.Expr) -> SqlType:
        return infer(node, self.types, aggregates=True, windows=True).type

    def _refused(self, node: exp.Expr, what: str, help_: str | None = None) -> TypeProblem:
        return TypeProblem(
            node,
            UNTRANSLATABLE,
            f"{what} goes by the session's time zone, which is {self.zone}",
            help=f"{help_}; {_HELP}" if help_ else _HELP,
        )


def _values(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a node that are values."""
    skipped = (exp.Identifier, exp.DataType, exp.Var, exp.Lambda, exp.Interval)
    found: list[exp.Expr] = []
    for part in node.iter_expressions():
        if isinstance(part, exp.If):
            found += [p for p in part.iter_expressions() if isinstance(p, exp.Expr)]
        elif not isinstance(part, skipped) and not isinstance(part, _STRUCTURE):
            found.append(part)
    return found


def _choices(node: exp.Case | exp.Array) -> list[list[exp.Expr]]:
    """Groups of parts that must be of one type."""
    if isinstance(node, exp.Array):
        return [list(node.expressions)]
    branches: list[exp.If] = node.args.get("ifs") or []
    default = [node.args["default"]] if node.args.get("default") is not None else []
    compared = [node.this, *(b.this for b in branches)] if node.this is not None else []
    return [[*(b.args["true"] for b in branches), *default], compared]


#: Parts that have no value of their own.
_STRUCTURE = (
    exp.Ordered, exp.Order, exp.Where, exp.WindowSpec, exp.PropertyEQ, exp.Star, exp.Distinct, exp.Tuple
)  # fmt: skip
