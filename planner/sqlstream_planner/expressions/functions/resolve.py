"""Choose the overload of a call as DuckDB does: the cheapest sum of implicit casts, a tie is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from sqlstream_operators.plan.types import INTEGERS, NULL, UNKNOWN, Kind, SqlType, array, map_of, struct
from sqlstream_planner.expressions.casts import TypedExpr, common_type, implicit_cast, target_cost
from sqlstream_planner.expressions.functions.catalogue import Function, Overload

ANY_COST = 5


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parameter or return type with holes.

    `form` is `type` (with `type`), `any`, `hole` (T, K, V by `name`), `list` (of `parts[0]`), `map` (of two
    parts), `struct` (`names` and `parts`), `tuple` (`parts`), `decimal` (of any size), `bare` (STRUCT, TUPLE,
    MAP, LIST of anything), `lambda`, or `foreign`: a type that no column of ours can have.
    """

    form: str
    name: str = ""
    type: SqlType = UNKNOWN
    parts: tuple[Pattern, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LambdaArgument:
    """Stands for a lambda among the arguments."""

    parameters: tuple[str, ...]


Argument = TypedExpr | LambdaArgument


@dataclass(frozen=True, slots=True)
class Resolved:
    """The overload of a call, its type (`None`: a generic function, see functions/generics.py), and its T, K and V."""

    overload: Overload
    returns: SqlType | None
    holes: Mapping[str, SqlType] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why no overload was chosen: `none` matches, `several` match equally, or a hole can't be `filled`."""

    reason: str
    candidates: tuple[Overload, ...] = ()


_STRUCT_FIELD = re.compile(r'\s*"([^"]+)" (.+)')


@cache
def pattern(text: str) -> Pattern:
    """Read a type as `duckdb_functions()` spells it.

    >>> pattern("MAP(K, V)").form, pattern("T[]").parts[0].name, pattern("DECIMAL").form
    ('map', 'T', 'decimal')
    """
    if text.endswith("[]"):
        return Pattern("list", parts=(pattern(text[:-2]),))
    if text.startswith("MAP("):
        return Pattern("map", parts=tuple(pattern(p.strip()) for p in text[4:-1].split(",")))
    if text.startswith(("STRUCT(", "TUPLE(")):
        fields = [_STRUCT_FIELD.match(p) for p in text[text.index("(") + 1 : -1].split(",")]
        if all(fields):
            return Pattern(
                "struct",
                names=tuple(f.group(1) for f in fields if f),
                parts=tuple(pattern(f.group(2)) for f in fields if f),
            )
        parts = (pattern(p.strip()) for p in text[text.index("(") + 1 : -1].split(","))
        return Pattern("tuple", parts=tuple(parts))
    if text in ("T", "K", "V"):
        return Pattern("hole", name=text)
    if text in ("STRUCT", "TUPLE", "MAP", "LIST"):
        return Pattern("bare", name=text)
    if text == '"NULL"':
        return Pattern("type", type=NULL)
    if text in ("ANY", "LAMBDA", "DECIMAL"):
        return Pattern(text.lower())
    try:
        return Pattern("type", type=SqlType(Kind(text)))
    except ValueError:
        return Pattern("foreign", name=text)


def resolve(function: Function, arguments: Sequence[Argument]) -> Resolved | Unresolved:
    """The overload that DuckDB chooses for these arguments."""
    best: list[Overload] = []
    lowest: int | None = None
    for overload in function.overloads:
        cost = _cost(overload, arguments)
        if cost is None or (lowest is not None and cost > lowest):
            continue
        if lowest is None or cost < lowest:
            best = []
        lowest = cost
        best.append(overload)
    if not best:
        return Unresolved("none")
    if len(best) > 1:
        if any(isinstance(a, TypedExpr) and _has_unknown(a.type) for a in arguments):
            kinds = {o.returns for o in best}
            return Resolved(best[0], None if len(kinds) == 1 else UNKNOWN)
        return Unresolved("several", tuple(best))
    chosen = best[0]
    holes = _fill(chosen, arguments)
    if holes is None:
        return Unresolved("filled", (chosen,))
    return Resolved(chosen, substitute(pattern(chosen.returns), holes), holes)


def _has_unknown(type_: SqlType) -> bool:
    return type_.kind is Kind.UNKNOWN or any(
        _has_unknown(part)
        for part in (type_.element, type_.key, type_.value, *(t for _, t in type_.fields))
        if part is not None
    )


def _cost(overload: Overload, arguments: Sequence[Argument]) -> int | None:
    if not overload.accepts(len(arguments)):
        return None
    total = 0
    for index, argument in enumerate(arguments):
        wanted = pattern(overload.parameter(index))
        if isinstance(argument, LambdaArgument):
            if wanted.form != "lambda":
                return None
            continue
        cost = argument_cost(argument, wanted)
        if cost is None:
            return None
        total += cost
    return total


_BARE = {"STRUCT": (Kind.STRUCT,), "TUPLE": (Kind.STRUCT,), "MAP": (Kind.MAP,), "LIST": (Kind.ARRAY,)}
_UNSIGNED = (Kind.UTINYINT, Kind.USMALLINT, Kind.UINTEGER, Kind.UBIGINT)
_FOREIGN_COST = {"TIMESTAMP_NS": 119, "TIMESTAMP_MS": 121, "TIMESTAMP_S": 122}


def argument_cost(argument: TypedExpr, wanted: Pattern) -> int | None:
    """The cost of passing `argument` for a parameter, None if it can't be."""
    type_ = argument.type
    if wanted.form in ("any", "hole"):
        return ANY_COST
    if wanted.form == "lambda":
        return None
    if type_.kind is Kind.UNKNOWN:
        return 0
    if wanted.form == "type":
        return implicit_cast(argument, wanted.type)
    if wanted.form == "foreign":
        return _foreign_cost(argument, wanted.name)
    if isinstance(argument.literal, str):
        return 20 if wanted.form in ("list", "struct", "map") and _closed(wanted) else None
    if type_.kind is Kind.NULL:
        return target_cost({"decimal": Kind.DECIMAL, "list": Kind.ARRAY}.get(wanted.form, Kind.STRUCT))
    if wanted.form == "decimal":
        if type_.kind is Kind.DECIMAL:
            return 0
        return target_cost(Kind.DECIMAL) if type_.kind in INTEGERS else None
    if wanted.form == "list":
        if type_.kind is not Kind.ARRAY or type_.element is None:
            return None
        cost = argument_cost(TypedExpr(type_.element), wanted.parts[0])
        return None if cost is None else max(cost - 1, 0)
    if wanted.form == "map":
        return 0 if type_.kind is Kind.MAP else None
    if wanted.form in ("struct", "tuple"):
        return 0 if type_.kind is Kind.STRUCT and len(type_.fields) == len(wanted.parts) else None
    return 0 if type_.kind in _BARE[wanted.name] else None


def _foreign_cost(argument: TypedExpr, name: str) -> int | None:
    kind = argument.type.kind
    if kind is Kind.NULL:
        return 110
    if isinstance(argument.literal, str):
        return 20
    if name in _FOREIGN_COST and kind in (Kind.DATE, Kind.TIMESTAMP):
        return _FOREIGN_COST[name] if kind is Kind.DATE or name == "TIMESTAMP_NS" else None
    if name == "UHUGEINT":
        if isinstance(argument.literal, int) and argument.literal >= 0:
            return 20
        return 110 if kind in _UNSIGNED else None
    return None


def _closed(wanted: Pattern) -> bool:
    return wanted.form in ("type", "hole") or (bool(wanted.parts) and all(_closed(p) for p in wanted.parts))


def _fill(overload: Overload, arguments: Sequence[Argument]) -> dict[str, SqlType] | None:
    found: dict[str, list[TypedExpr]] = {}
    for index, argument in enumerate(arguments):
        if isinstance(argument, TypedExpr):
            _collect(argument, pattern(overload.parameter(index)), found)
    holes = {}
    for name, values in found.items():
        joined = common_type(values, keep_literals=True)
        if joined is None:
            return None
        holes[name] = joined
    return holes


def _collect(argument: TypedExpr, wanted: Pattern, found: dict[str, list[TypedExpr]]) -> None:
    type_ = argument.type
    if wanted.form == "hole":
        found.setdefault(wanted.name, []).append(argument)
    elif wanted.form == "list":
        if isinstance(argument.literal, str):
            return  # '[1, 2]' becomes whatever list the others say
        element = type_.element if type_.element is not None else _hollow(type_)
        _collect(TypedExpr(element), wanted.parts[0], found)
    elif wanted.form == "map":
        _collect(TypedExpr(type_.key or _hollow(type_)), wanted.parts[0], found)
        _collect(TypedExpr(type_.value or _hollow(type_)), wanted.parts[1], found)
    elif wanted.form in ("struct", "tuple"):
        for (_, field), part in zip(type_.fields, wanted.parts, strict=False):
            _collect(TypedExpr(field), part, found)


def _hollow(type_: SqlType) -> SqlType:
    return NULL if type_.kind is Kind.NULL else UNKNOWN


def substitute(wanted: Pattern, holes: dict[str, SqlType]) -> SqlType | None:
    """The pattern with its holes filled; None if it is generic (ANY, DECIMAL …), UNKNOWN if foreign."""
    if wanted.form == "type":
        return wanted.type
    if wanted.form == "hole":
        return holes.get(wanted.name, UNKNOWN)
    if wanted.form in ("foreign", "tuple"):
        return UNKNOWN
    parts = [substitute(p, holes) for p in wanted.parts]
    if not parts or any(p is None for p in parts):
        return None
    filled = [p for p in parts if p is not None]
    if wanted.form == "list":
        return array(filled[0])
    if wanted.form == "map":
        return map_of(filled[0], filled[1])
    return struct(*zip(wanted.names, filled, strict=True))
