"""What functions there are: DuckDB's, as it lists them itself, and whether the answer is the same at every replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlstream_planner.expressions.functions.of_epoch import CLOCK_NAMES, RANDOM_NAMES
from sqlstream_planner.expressions.functions.refused import (
    asks_the_clock,
    changes_each_time,
    reads_tables,
    why_refused,
    words_of,
)
from sqlstream_planner.expressions.oracle import Listed, Signature, current
from sqlstream_planner.text.name_lists import names_in


class FunctionKind(StrEnum):
    """What a function does with rows."""

    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    MACRO = "macro"


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its name in lower case."""

    name: str
    kind: FunctionKind

    @property
    def overloads(self) -> tuple[Signature, ...]:
        """What it can be called with."""
        return current().signatures(self.name)

    def signatures(self) -> list[str]:
        """The overloads as text for a message: `round(DECIMAL, INTEGER) -> DECIMAL`."""
        return [f"{self.name}{overload}" for overload in self.overloads]


#: What DuckDB's grammar has and its list of functions has not.
_FORMS = ("coalesce", "date", "ifnull", "try", "unnest")

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


def lookup(name: str) -> Function | None:
    """The function of that name (any case); None if there is none, or it is refused on purpose."""
    name = name.lower()
    listed = current().functions().get(name)
    if listed is None:
        return Function(name, FunctionKind.MACRO) if name in _FORMS else None
    if why_refused(name) is not None or (listed.kind is FunctionKind.MACRO and reads_tables(listed)):
        return None
    return Function(name, _kind(listed))


def _kind(listed: Listed) -> FunctionKind:
    """A macro over an aggregate is an aggregate."""
    if listed.kind != FunctionKind.MACRO:
        return FunctionKind(listed.kind)
    functions = current().functions()
    inside = (functions[word] for word in words_of(listed) if word in functions)
    aggregate = any(f.kind == FunctionKind.AGGREGATE or _is_macro_of_aggregate(f, functions) for f in inside)
    return FunctionKind.AGGREGATE if aggregate else FunctionKind.MACRO


def _is_macro_of_aggregate(listed: Listed, functions: Mapping[str, Listed]) -> bool:
    words = words_of(listed) & functions.keys()
    return any(functions[word].kind == FunctionKind.AGGREGATE for word in words)


def names() -> tuple[str, ...]:
    """All function names, without operators, sorted."""
    return tuple(n for n in every_name() if n[0].isalpha() and " " not in n)


def every_name() -> tuple[str, ...]:
    """All names, those of operators too, sorted."""
    listed = {*current().functions(), *_FORMS}
    return tuple(sorted(n for n in listed if is_deterministic(n) and lookup(n) is not None))


def volatile_names() -> tuple[str, ...]:
    """Names for which `is_deterministic` is false, and that no epoch answers, sorted."""
    known = {*current().functions(), *_MORE_VOLATILE} - {*CLOCK_NAMES, *RANDOM_NAMES}
    return tuple(sorted(n for n in known if not is_deterministic(n)))


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


def is_deterministic(name: str, arguments: int | None = None) -> bool:
    """Whether a replay of the same rows gives the same answer; true for names that are not known.

    Of a few functions that depends on the number of their arguments.

    >>> is_deterministic("upper"), is_deterministic("NOW"), is_deterministic("uuid"), is_deterministic("age", 1)
    (True, False, False, False)
    """
    name = name.lower()
    if name in _MORE_VOLATILE or (arguments is not None and asks_the_clock(name, arguments)):
        return False
    functions = current().functions()
    listed = functions.get(name)
    if listed is None:
        return True
    inside = {word: functions[word] for word in words_of(listed) if word in functions}
    return not any(changes_each_time(n, f) for n, f in ({name: listed} | inside).items())
