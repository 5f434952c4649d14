"""Types of the functions whose result `duckdb_functions()` gives as ANY, DECIMAL, STRUCT … only.

Each rule is a small function of the call; `RULES` names them all. Measured against DuckDB 2.0 in
tests/planner/test_functions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import (
    BIGINT,
    BLOB,
    DATE,
    DOUBLE,
    INTEGERS,
    JSON,
    NULL,
    TIMESTAMP,
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
from sqlstream_planner.expressions.functions.catalogue import LIST_AGGREGATES
from sqlstream_planner.name_lists import names_in


class NotTypableError(Exception):
    """The arguments do not go together; the text says why."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call whose overload is chosen: name, argument types, and their expressions (for constants)."""

    name: str
    types: tuple[TypedExpr, ...]
    nodes: tuple[exp.Expr, ...]
    returns: str

    def constant(self, index: int) -> int | str | None:
        """The value of the argument at `index`, if it is a literal (numbers as int)."""
        if index >= len(self.types):
            return None
        return self.types[index].literal


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
    return _list_of_first(call) if len(call.types) > 2 else _first(call)


def _per_quantile(call: Call, type_: SqlType) -> SqlType:
    return array(type_) if len(call.types) > 1 and _second(call).kind is Kind.ARRAY else type_


def _interpolated(type_: SqlType) -> SqlType:
    if type_.kind in INTEGERS:
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
    return join(call.types, "list concatenation")


def _equi_width_bins(call: Call) -> SqlType:
    return array(DOUBLE if _second(call).kind is Kind.DECIMAL else _second(call))


_DOUBLE_PARTS = frozenset({"epoch", "julian"})
DATE_PARTS = frozenset(
    names_in(
        """
    century centuries day days dayofmonth d dayofweek dow weekday dayofyear doy decade decades epoch era
    hour hours hr hrs h isodow isoyear julian microsecond microseconds us usec usecs usecond useconds
    millennium millennia mil mils millisecond milliseconds ms msec msecs msecond mseconds minute minutes
    min mins m month months mon mons nanosecond nanoseconds ns quarter quarters second seconds sec secs
    s timezone timezone_hour timezone_minute week weeks weekofyear w year years yr yrs y yearweek cent
    cents c dec decs
    """
    )
)


def part_type(part: str) -> SqlType:
    """The type of `date_part` for a literal part; NotTypableError if there is no such part."""
    if part.lower() not in DATE_PARTS:
        raise NotTypableError(f"there is no date part `{part}`")
    return DOUBLE if part.lower() in _DOUBLE_PARTS else BIGINT


def _date_part(call: Call) -> SqlType:
    part = call.constant(0)
    if isinstance(part, str):
        return part_type(part)
    if call.returns != "STRUCT":
        return DOUBLE
    node = call.nodes[0]
    parts = [e.name for e in node.expressions if e.is_string] if isinstance(node, exp.Array) else []
    if not parts:
        return UNKNOWN
    return struct(*((p, part_type(p)) for p in parts))


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
    if any(t.type.kind is not Kind.STRUCT for t in call.types):
        return UNKNOWN
    return struct(*(field for t in call.types for field in t.type.fields))


def _list_append(call: Call) -> SqlType:
    return join([call.types[0], array(_second(call))], "list concatenation")


def _list_prepend(call: Call) -> SqlType:
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


# Which argument must be a constant.
_FORMATS = frozenset({"strftime", "strptime", "try_strptime"})


def check_constants(call: Call) -> None:
    """Raise NotTypableError if an argument that must be a literal (a date part, a format) is wrong."""
    if call.name in ("date_trunc", "datetrunc") and isinstance(part := call.constant(0), str):
        part_type(part)
    if call.name in _FORMATS:
        formats = [t for t in call.types if t.type.kind is Kind.VARCHAR]
        if call.name == "strftime" and formats and all(t.literal is None for t in formats):
            raise NotTypableError("the format of strftime must be a literal")


def return_type(call: Call) -> SqlType:
    """The type of a generic call; UNKNOWN if its function has no rule. Raises NotTypableError."""
    return RULES.get(call.name, _unknown)(call)


# `list_aggregate(l, 'sum')` and its short forms `list_sum(l)`: typed as the aggregate over the elements.
LIST_CALLS = frozenset(
    {"list_aggregate", "list_aggr", "array_aggregate", "array_aggr", "aggregate"}
    | {f"list_{name}" for name in LIST_AGGREGATES}
)
