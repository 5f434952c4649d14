"""Types of the functions whose result `duckdb_functions()` gives as ANY, DECIMAL, STRUCT … only.

Each rule is a small function of the call; `RULES` names them all. Measured against DuckDB 2.0 in
tests/planner/test_functions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlstream_operators.plan.types import (
    BIGINT,
    BLOB,
    DATE,
    DOUBLE,
    INTEGERS,
    JSON,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)
from sqlstream_planner.expressions.casts import TypedExpr, common_type, decimal_of
from sqlstream_planner.expressions.functions.call import Call, NotTypableError
from sqlstream_planner.expressions.functions.catalogue import LIST_AGGREGATES
from sqlstream_planner.expressions.functions.constant_arguments import (
    JSON_PATHS,
    STRPTIMES,
    group_names,
    has_wildcard,
    literal_texts,
    specifiers,
    unique_fields,
)
from sqlstream_planner.expressions.functions.resolve import pattern, substitute
from sqlstream_planner.name_lists import names_in

Rule = Callable[[Call], SqlType]
UBIGINT = SqlType(Kind.UBIGINT)


def join(types: Sequence[TypedExpr | SqlType], what: str, *, keep_literals: bool = False) -> SqlType:
    """The common type, or NotTypableError with the types that do not mix."""
    joined = common_type(types, keep_literals=keep_literals)
    if joined is None:
        shown = ", ".join(dict.fromkeys(str(t.type if isinstance(t, TypedExpr) else t) for t in types))
        raise NotTypableError(f"{what} mixes {shown}, which have no common type")
    return joined


def _first(call: Call) -> SqlType:
    return call.types[0].type


def _second(call: Call) -> SqlType:
    return call.types[1].type


def _common(call: Call) -> SqlType:
    return join(call.types, call.name)


def _list_of_first(call: Call) -> SqlType:
    return array(_first(call))


def element_of(type_: SqlType) -> SqlType:
    """The element type of an array, NULL of NULL, else UNKNOWN."""
    if type_.kind is Kind.ARRAY and type_.element is not None:
        return type_.element
    return NULL if type_.kind is Kind.NULL else UNKNOWN


def _text_as_list(type_: SqlType) -> SqlType:
    return VARCHAR if type_.kind is Kind.JSON else type_


def _slice(call: Call) -> SqlType:
    type_ = _text_as_list(_first(call))
    if type_.kind not in (Kind.ARRAY, Kind.VARCHAR, Kind.BLOB, Kind.NULL, Kind.UNKNOWN):
        raise NotTypableError(f"{type_} can't be sliced, only lists and strings can")
    if len(call.types) > 3 and type_.kind in (Kind.VARCHAR, Kind.BLOB):
        raise NotTypableError(f"only lists can be sliced with a step, this is {type_}")
    return type_


def _sorted(call: Call) -> SqlType:
    return NULL if any(t.type.kind is Kind.NULL for t in call.types) else _first(call)


def _float_or_double(call: Call) -> SqlType:
    kinds = [t.type.kind for t in call.types]
    return SqlType(Kind.FLOAT) if Kind.FLOAT in kinds and Kind.DOUBLE not in kinds else DOUBLE


def _struct_keys(call: Call) -> SqlType:
    if _first(call).kind not in (Kind.STRUCT, Kind.NULL, Kind.UNKNOWN):
        raise NotTypableError(f"{_first(call)} is no struct")
    return array(VARCHAR)


def _min_max(call: Call) -> SqlType:
    return _list_of_first(call) if len(call.types) > 1 else _first(call)


def _arg_min_max(call: Call) -> SqlType:
    if call.returns != "VARCHAR" or _first(call).kind is Kind.JSON:
        return _list_of_first(call) if len(call.types) > 2 else _first(call)
    return VARCHAR


def _per_quantile(call: Call, type_: SqlType) -> SqlType:
    return array(type_) if len(call.types) > 1 and _second(call).kind is Kind.ARRAY else type_


def _interpolated(type_: SqlType) -> SqlType:
    if type_.kind in INTEGERS or type_.kind is Kind.NULL:
        return DOUBLE
    return TIMESTAMP if type_.kind is Kind.DATE else type_


def _median(call: Call) -> SqlType:
    return _interpolated(_first(call))


def _quantile_cont(call: Call) -> SqlType:
    return _per_quantile(call, _interpolated(_first(call)))


def _quantile_disc(call: Call) -> SqlType:
    return _per_quantile(call, _first(call))


def _histogram(call: Call) -> SqlType:
    key = _first(call)
    if len(call.types) > 1 and key.kind is Kind.DECIMAL:
        key = DOUBLE
    return map_of(key, UBIGINT)


def _sizes(call: Call) -> list[tuple[int, int]] | None:
    """Precision and scale of both operands (NULL takes no room), None if one is UNKNOWN."""
    kinds = [t.type.kind for t in call.types]
    if any(k is not Kind.NULL and k is not Kind.DECIMAL and k not in INTEGERS for k in kinds):
        return None
    return [(0, 0) if t.type.kind is Kind.NULL else decimal_of(t.type) for t in call.types]


def _add(call: Call) -> SqlType:
    if call.returns == "ANY[]":
        return _concat_lists(call)
    if len(call.types) == 1:
        return _first(call)
    sizes = _sizes(call)
    if sizes is None:
        return UNKNOWN
    (a, a_scale), (b, b_scale) = sizes
    scale = max(a_scale, b_scale)
    return decimal(min(max(a - a_scale, b - b_scale) + scale + 1, 38), scale)


_INT64_DIGITS = 18


def _multiply_decimals(call: Call) -> SqlType:
    sizes = _sizes(call)
    if sizes is None:
        return UNKNOWN
    (a, a_scale), (b, b_scale) = sizes
    precision, scale = a + b, a_scale + b_scale
    if scale > 38:
        raise NotTypableError(
            f"{_first(call)} * {_second(call)} needs {scale} digits after the point, 38 is the most"
        )
    if precision > _INT64_DIGITS and max(a, b) <= _INT64_DIGITS and scale < _INT64_DIGITS:
        precision = _INT64_DIGITS
    return decimal(min(precision, 38), scale)


def _mod_decimals(call: Call) -> SqlType:
    sizes = _sizes(call)
    if sizes is None:
        return UNKNOWN
    (a, a_scale), (b, b_scale) = sizes
    scale = max(a_scale, b_scale)
    precision = max(a - a_scale, b - b_scale) + scale
    return DOUBLE if precision > 38 else decimal(precision, scale)


def _round_decimal(call: Call) -> SqlType:
    if _first(call).kind is not Kind.DECIMAL:
        return UNKNOWN
    precision, scale = decimal_of(_first(call))
    if len(call.types) == 1:
        return decimal(precision, 0)
    places = call.constant(1)
    if not isinstance(places, int):
        raise NotTypableError(f"the number of places of {call.name} must be a literal for a DECIMAL")
    if places < 0 and scale == 0 and -places <= precision < 38 and call.name != "trunc":
        precision += 1  # 995 becomes 1000
    return decimal(precision, min(max(places, 0), scale))


def _sum_decimal(call: Call) -> SqlType:
    return decimal(38, decimal_of(_first(call))[1]) if _first(call).kind is Kind.DECIMAL else UNKNOWN


def _double(_: Call) -> SqlType:
    return DOUBLE


def _concat(call: Call) -> SqlType:
    types = [t.type for t in call.types]
    if any(t.kind is Kind.UNKNOWN for t in types):
        return UNKNOWN
    if call.name == "||" and any(t.kind is Kind.NULL for t in types):
        return NULL
    present = [t for t in types if t.kind is not Kind.NULL]
    if any(t.kind is Kind.ARRAY for t in present):
        if not all(t.kind is Kind.ARRAY for t in present):
            shown = " and ".join(dict.fromkeys(map(str, present)))
            raise NotTypableError(f"{shown} can't be concatenated: a list is concatenated with lists only")
        return join(present, "list concatenation")
    if call.name == "||" and present and all(t.kind is Kind.BLOB for t in present):
        return BLOB
    return VARCHAR


def _concat_lists(call: Call) -> SqlType:
    if not call.types:
        raise NotTypableError(f"`{call.name}` takes at least one list")
    return join(call.types, "list concatenation")


def _equi_width_bins(call: Call) -> SqlType:
    return array(DOUBLE if _second(call).kind is Kind.DECIMAL else _second(call))


_DOUBLE_PARTS = frozenset({"epoch", "julian"})
#: Parts that a TIME has, too.
_CLOCK_PARTS = frozenset(
    names_in(
        """
    epoch hour hours hr hrs h microsecond microseconds us usec usecs usecond useconds
    millisecond milliseconds ms msec msecs msecond mseconds minute minutes min mins m
    second seconds sec secs s timezone timezone_hour timezone_minute
    """
    )
)
#: Parts that a stretch of time does not have.
_CALENDAR_PARTS = frozenset(
    names_in(
        """
    dayofweek dow weekday dayofyear doy isodow week weeks weekofyear w isoyear yearweek era julian
    timezone timezone_hour timezone_minute
    """
    )
)
_DATE_PARTS = frozenset(
    names_in(
        """
    century centuries cent c day days dayofmonth d decade decades dec decs millennium millennia mil mils
    month months mon mons quarter quarters year years yr yrs y
    """
    )
)
DATE_PARTS = _CLOCK_PARTS | _CALENDAR_PARTS | _DATE_PARTS
#: What only a time with a zone is cut to.
_NEVER_CUT_TO = frozenset(names_in("era timezone timezone_hour timezone_minute"))


def part_type(part: str, kind: Kind = Kind.TIMESTAMP) -> SqlType:
    """The type of `date_part` for a literal part of a `kind`; NotTypableError if there is no such part."""
    name = part.lower()
    if name not in DATE_PARTS:
        raise NotTypableError(f"there is no date part `{part}`")
    has = name in _CLOCK_PARTS if kind is Kind.TIME else name not in _CALENDAR_PARTS
    if kind in (Kind.TIME, Kind.INTERVAL) and not has:
        raise NotTypableError(f"{kind.value} has no `{part}`")
    return DOUBLE if name in _DOUBLE_PARTS else BIGINT


def _date_part(call: Call) -> SqlType:
    part, kind = call.constant(0), _second(call).kind
    if isinstance(part, str):
        return part_type(part, kind)
    if call.returns != "STRUCT":
        return DOUBLE
    parts = literal_texts(call, 0)
    if not parts:
        raise NotTypableError(f"the parts of `{call.name}` must be literals")
    unique_fields(parts)
    return struct(*((p, part_type(p, kind)) for p in parts))


def field_of(type_: SqlType, name: str) -> SqlType | None:
    """The type of a field (case-insensitive), None if there is none."""
    return next((t for n, t in type_.fields if n.lower() == name.lower()), None)


def _struct_extract(call: Call) -> SqlType:
    name = call.constant(1)
    if _first(call).kind is not Kind.STRUCT or not isinstance(name, str):
        return UNKNOWN
    found = field_of(_first(call), name)
    if found is None:
        raise NotTypableError(f"there is no field `{name}` in {_first(call)}")
    return found


def _struct_concat(call: Call) -> SqlType:
    if not call.types:
        raise NotTypableError("struct_concat takes at least one struct")
    for typed in call.types:
        if typed.type.kind not in (Kind.STRUCT, Kind.UNKNOWN):
            raise NotTypableError(f"{typed.type} is no struct")
    if any(t.type.kind is not Kind.STRUCT for t in call.types):
        return UNKNOWN
    unique_fields([name for t in call.types for name, _ in t.type.fields])
    return struct(*(field for t in call.types for field in t.type.fields))


def _list_append(call: Call) -> SqlType:
    _no_text(call, 0)
    return join([call.types[0], array(_second(call))], "list concatenation")


def _no_text(call: Call, index: int) -> None:
    if isinstance(call.types[index].literal, str):
        raise NotTypableError(f"'{call.types[index].literal}' is no list: write [a, b]")


def _list_prepend(call: Call) -> SqlType:
    _no_text(call, 1)
    return join([array(_first(call)), call.types[1]], "list concatenation")


def _map_concat(call: Call) -> SqlType:
    maps = [t.type for t in call.types if t.type.kind is not Kind.NULL]
    if any(t.kind not in (Kind.MAP, Kind.UNKNOWN) for t in maps):
        raise NotTypableError("map_concat takes maps only")
    if len(set(maps)) > 1:
        raise NotTypableError(
            "map_concat needs maps of one type: " + ", ".join(map(str, dict.fromkeys(maps)))
        )
    return maps[0] if maps else NULL


def _json_paths(call: Call) -> SqlType:
    returns = substitute(pattern(call.returns), {}) or UNKNOWN
    several = len(call.types) > 1 and has_wildcard(call, 1)
    return array(returns) if several else returns


def _regexp_extract(call: Call) -> SqlType:
    found: SqlType = VARCHAR
    if len(call.types) > 2 and call.types[2].type.kind is Kind.ARRAY:
        found = struct(*((name, VARCHAR) for name in group_names(call)))
    return array(found) if call.name == "regexp_extract_all" else found


def _strptime(call: Call) -> SqlType:
    formats = literal_texts(call, 1)
    if call.types[1].type.kind is Kind.NULL:
        return TIMESTAMP
    if not formats:
        raise NotTypableError(f"the format of `{call.name}` must be a literal")
    letters = {letter for format_ in formats for letter in specifiers(format_)}
    if "n" in letters:
        raise NotTypableError("'%n' reads nanoseconds, and time is kept in microseconds: write '%f'")
    return TIMESTAMPTZ if letters & {"z", "Z"} else TIMESTAMP


def _list_zip(call: Call) -> SqlType:
    for typed in call.types:
        if typed.type.kind not in (Kind.ARRAY, Kind.NULL, Kind.UNKNOWN, Kind.BOOLEAN):
            raise NotTypableError(f"{typed.type} is no list")
    return UNKNOWN


def _json_object(call: Call) -> SqlType:
    for typed in call.types[::2]:
        if typed.type.kind not in (Kind.VARCHAR, Kind.UNKNOWN):
            raise NotTypableError(f"the keys of {call.name} are VARCHAR, this is {typed.type}")
    return JSON


def _unknown(_: Call) -> SqlType:
    return UNKNOWN


_SAME_AS_FIRST = names_in(
    """
    abs @ any_value arbitrary first last mode
    list_resize array_resize first_value last_value nth_value fill array_pop_back array_pop_front
    array_reverse list_reverse mad decimal_average array_filter
    list_filter filter
    """
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME_AS_FIRST, _first),
    **dict.fromkeys(("+", "-", "add", "subtract"), _add),
    **dict.fromkeys(("*", "multiply"), _multiply_decimals),
    **dict.fromkeys(("%", "mod"), _mod_decimals),
    **dict.fromkeys(("round", "trunc", "round_even", "roundbankers"), _round_decimal),
    **dict.fromkeys(("ceil", "ceiling", "floor"), _round_decimal),
    **dict.fromkeys(("sum", "sum_no_overflow"), _sum_decimal),
    **dict.fromkeys(("avg", "mean"), _double),
    **dict.fromkeys(("min", "max"), _min_max),
    **dict.fromkeys(
        names_in(
            """
    arg_min arg_max argmin argmax min_by max_by arg_min_null arg_max_null arg_min_nulls_last
    arg_max_nulls_last
    """
        ),
        _arg_min_max,
    ),
    "median": _median,
    "quantile_cont": _quantile_cont,
    "approx_quantile": _quantile_disc,
    "reservoir_quantile": _quantile_disc,
    "quantile_disc": _quantile_disc,
    "quantile": _quantile_disc,
    "histogram": _histogram,
    "histogram_exact": _histogram,
    "approx_top_k": _list_of_first,
    "concat": _concat,
    "||": _concat,
    **dict.fromkeys(("list_concat", "list_cat", "array_concat", "array_cat"), _concat_lists),
    **dict.fromkeys(("greatest", "least", "coalesce", "ifnull"), _common),
    **dict.fromkeys(("list_slice", "array_slice"), _slice),
    "equi_width_bins": _equi_width_bins,
    **dict.fromkeys(("list_sort", "array_sort", "list_reverse_sort", "array_reverse_sort"), _sorted),
    **dict.fromkeys(("fdiv", "fmod"), _float_or_double),
    "struct_keys": _struct_keys,
    **dict.fromkeys(("date_part", "datepart"), _date_part),
    **dict.fromkeys(JSON_PATHS, _json_paths),
    **dict.fromkeys(("regexp_extract", "regexp_extract_all"), _regexp_extract),
    **dict.fromkeys(STRPTIMES, _strptime),
    **dict.fromkeys(("list_zip", "array_zip"), _list_zip),
    "json_object": _json_object,
    **dict.fromkeys(("struct_extract", "array_extract"), _struct_extract),
    "struct_concat": _struct_concat,
    **dict.fromkeys(("list_append", "array_append", "array_push_back"), _list_append),
    **dict.fromkeys(("list_prepend", "array_prepend"), _list_prepend),
    "array_push_front": _list_append,
    "map_concat": _map_concat,
    "array_to_string": lambda _: VARCHAR,
    "array_to_string_comma_default": lambda _: VARCHAR,
    "split_part": lambda _: VARCHAR,
    "pg_typeof": lambda _: VARCHAR,
    "days_in_month": lambda _: BIGINT,
    "date": lambda _: DATE,
    "json": lambda _: JSON,
    "json_group_array": lambda _: JSON,
    "json_group_object": lambda _: JSON,
    "json_group_structure": lambda _: JSON,
    "map_contains_entry": lambda _: SqlType(Kind.BOOLEAN),
    "map_contains_value": lambda _: SqlType(Kind.BOOLEAN),
    "unnest": lambda call: element_of(call.types[0].type),
    "try": _first,
    "geomean": _double,
    "geometric_mean": _double,
    "weighted_avg": _double,
    "wavg": _double,
}

# Functions whose type depends on a value, or is a type that we have no columns of.
TYPE_UNKNOWN = frozenset(
    names_in(
        """
    from_json from_json_strict json_transform json_transform_strict list_zip array_zip row struct_values
    decimal_division struct_extract_at current_setting getvariable
    """
    )
)


def check_part(call: Call) -> None:
    """Raise NotTypableError for a part of a time that there is not."""
    if call.name in ("date_trunc", "datetrunc") and isinstance(part := call.constant(0), str):
        part_type(part)
        if part.lower() in _NEVER_CUT_TO and _second(call).kind is not Kind.TIMESTAMPTZ:
            raise NotTypableError(f"{_second(call)} can't be cut to `{part}`")


def return_type(call: Call) -> SqlType:
    """The type of a generic call; UNKNOWN if its function has no rule. Raises NotTypableError."""
    return RULES.get(call.name, _unknown)(call)


# `list_aggregate(l, 'sum')` and its short forms `list_sum(l)`: typed as the aggregate over the elements.
LIST_CALLS = frozenset(
    {"list_aggregate", "list_aggr", "array_aggregate", "array_aggr", "aggregate"}
    | {f"list_{name}" for name in LIST_AGGREGATES}
)
