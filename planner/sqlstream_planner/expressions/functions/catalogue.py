"""What functions DuckDB has: names, overloads, and whether the answer is the same at every replay.

The data file is written by planner/dump_duckdb_functions.py; it is read on the first question only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

from sqlstream_planner.name_lists import names_in


class FunctionKind(StrEnum):
    """What a function does with rows."""

    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    MACRO = "macro"


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature: types as DuckDB spells them; `optional` trailing parameters may be left out."""

    parameters: tuple[str, ...]
    returns: str
    variadic: str | None = None
    optional: int = 0

    def accepts(self, count: int) -> bool:
        """Whether it takes `count` arguments."""
        least = len(self.parameters) - self.optional
        return count >= least and (self.variadic is not None or count <= len(self.parameters))

    def parameter(self, index: int) -> str:
        """The type of the argument at `index` (0-based)."""
        if index < len(self.parameters):
            return self.parameters[index]
        assert self.variadic is not None
        return self.variadic


@dataclass(frozen=True, slots=True)
class Function:
    """All overloads of one name."""

    name: str
    kind: FunctionKind
    overloads: tuple[Overload, ...]

    def signatures(self) -> list[str]:
        """The overloads as text for a message: `round(DECIMAL, INTEGER) -> DECIMAL`."""
        lines = []
        for overload in self.overloads:
            required = len(overload.parameters) - overload.optional
            parts = [p if i < required else f"[{p}]" for i, p in enumerate(overload.parameters)]
            if overload.variadic is not None:
                parts.append(f"{overload.variadic}...")
            lines.append(f"{self.name}({', '.join(parts)}) -> {overload.returns}")
        return lines


# `duckdb_functions()` does not say which parameters have a default.
_OPTIONAL = {"to_base": 1, "reservoir_quantile": 1, "lag": 2, "lead": 2}

# DuckDB's macros and special forms: they are typed by functions/generics.py, not by an overload.
MACROS = {
    "array_append": ("T[], T", "T[]"),
    "array_pop_back": ("T[]", "T[]"),
    "array_pop_front": ("T[]", "T[]"),
    "array_prepend": ("T, T[]", "T[]"),
    "array_push_back": ("T[], T", "T[]"),
    "array_push_front": ("T[], T", "T[]"),
    "array_reverse": ("T[]", "T[]"),
    "array_to_string": ("ANY[], VARCHAR", "VARCHAR"),
    "array_to_string_comma_default": ("ANY[], VARCHAR", "VARCHAR"),
    "coalesce": ("ANY...", "ANY"),
    "date_add": ("DATE or TIMESTAMP, INTERVAL", "TIMESTAMP"),
    "days_in_month": ("DATE or TIMESTAMP", "BIGINT"),
    "fdiv": ("DOUBLE, DOUBLE", "DOUBLE"),
    "fmod": ("DOUBLE, DOUBLE", "DOUBLE"),
    "if": ("BOOLEAN, ANY, ANY", "ANY"),
    "ifnull": ("ANY, ANY", "ANY"),
    "json": ("JSON", "JSON"),
    "list_append": ("T[], T", "T[]"),
    "list_prepend": ("T, T[]", "T[]"),
    "list_reverse": ("T[]", "T[]"),
    "map_contains_entry": ("MAP(K, V), K, V", "BOOLEAN"),
    "map_contains_value": ("MAP(K, V), V", "BOOLEAN"),
    "nullif": ("ANY, ANY", "ANY"),
    "pg_typeof": ("ANY", "VARCHAR"),
    "split_part": ("VARCHAR, VARCHAR, BIGINT", "VARCHAR"),
    "try": ("ANY", "ANY"),
    "unnest": ("T[]", "T"),
    "date": ("ANY", "DATE"),
}
AGGREGATE_MACROS = {
    "geomean": ("DOUBLE", "DOUBLE"),
    "geometric_mean": ("DOUBLE", "DOUBLE"),
    "weighted_avg": ("DOUBLE, DOUBLE", "DOUBLE"),
    "wavg": ("DOUBLE, DOUBLE", "DOUBLE"),
    "json_group_array": ("ANY", "JSON"),
    "json_group_object": ("VARCHAR, ANY", "JSON"),
    "json_group_structure": ("ANY", "JSON"),
}
# `list_sum(l)` is `list_aggregate(l, 'sum')`.
LIST_AGGREGATES = names_in(
    """
    any_value approx_count_distinct avg bit_and bit_or bit_xor bool_and bool_or count entropy first
    histogram kurtosis kurtosis_pop last mad max median min mode product sem skewness stddev_pop
    stddev_samp string_agg sum var_pop var_samp
    """
)

# Names of Flink, Spark and the SQL standard for functions that DuckDB does not list as volatile by that name.
_MORE_VOLATILE = frozenset(
    names_in(
        """
    current_date current_time current_timestamp localtime localtimestamp now today rand rand_integer
    random uuid gen_random_uuid proctime current_row_timestamp unix_timestamp_now
    monotonically_increasing_id shuffle randn current_localtime current_localtimestamp
    get_current_timestamp get_current_time transaction_timestamp statement_timestamp ago
    current_watermark current_user session_user user current_database curdate
    """
    )
)


@cache
def _document() -> tuple[frozenset[str], Mapping[str, Function]]:
    text = resources.files(__package__).joinpath("data", "duckdb_functions.json").read_text(encoding="utf-8")
    head, *entries = json.loads(text)
    functions: dict[str, Function] = {}
    for kind, names, signatures in entries:
        for name in names:
            overloads = tuple(_overload(signature, _OPTIONAL.get(name, 0)) for signature in signatures)
            functions.setdefault(name.lower(), Function(name, FunctionKind(kind), overloads))
    for name, (parameters, returns) in MACROS.items():
        functions[name] = _macro(name, parameters, returns, FunctionKind.MACRO)
    for name, (parameters, returns) in AGGREGATE_MACROS.items():
        functions[name] = _macro(name, parameters, returns, FunctionKind.AGGREGATE)
    for name in LIST_AGGREGATES:
        functions[f"list_{name}"] = _macro(f"list_{name}", "T[]", "ANY", FunctionKind.MACRO)
    return frozenset(head["volatile"]) | _MORE_VOLATILE, functions


def _overload(signature: str, optional: int) -> Overload:
    given, _, returns = signature.rpartition(">")
    parts = given.split("|") if given else []
    variadic = parts.pop()[1:] if parts and parts[-1].startswith("*") else None
    return Overload(tuple(parts), returns, variadic, optional)


def _macro(name: str, parameters: str, returns: str, kind: FunctionKind) -> Function:
    variadic = parameters.removesuffix("...") if parameters.endswith("...") else None
    parts = () if variadic else tuple(parameters.replace("MAP(K, V)", "MAP(K|V)").split(", "))
    parts = tuple(p.replace("|", ", ") for p in parts)
    first = parts[0].split(" or ") if parts else []
    forms = [(one, *parts[1:]) for one in first] or [parts]
    return Function(name, kind, tuple(Overload(form, returns, variadic) for form in forms))


def lookup(name: str) -> Function | None:
    """The DuckDB function of that name (any case), or None."""
    return _document()[1].get(name.lower())


def names() -> tuple[str, ...]:
    """All function names, without operators, sorted."""
    return tuple(sorted(n for n in _document()[1] if n[0].isalpha() and " " not in n))


def every_name() -> tuple[str, ...]:
    """All names, those of operators too, sorted."""
    return tuple(sorted(_document()[1]))


def volatile_names() -> tuple[str, ...]:
    """Names for which `is_deterministic` is false, sorted."""
    return tuple(sorted(_document()[0]))


def is_aggregate(name: str) -> bool:
    """Whether `name` folds many rows into one value.

    >>> is_aggregate("SUM"), is_aggregate("upper")
    (True, False)
    """
    function = lookup(name)
    return function is not None and function.kind is FunctionKind.AGGREGATE


def is_window_function(name: str) -> bool:
    """Whether `name` is allowed with OVER only, like ROW_NUMBER."""
    function = lookup(name)
    return function is not None and function.kind is FunctionKind.WINDOW


def is_deterministic(name: str) -> bool:
    """Whether a replay of the same rows gives the same answer; true for names that are not known.

    >>> is_deterministic("upper"), is_deterministic("NOW"), is_deterministic("uuid")
    (True, False, False)
    """
    return name.lower() not in _document()[0]
