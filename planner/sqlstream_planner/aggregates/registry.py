"""Every aggregate function that can be run, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from sqlglot import exp

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.types import NESTED, SqlType
from sqlstream_planner.aggregates import (
    bits,
    by_order,
    count,
    extremes,
    frequencies,
    in_order,
    json_values,
    lists,
    logic,
    means,
    moments,
    pairs,
    precise_sums,
    quantiles,
    several,
    sums,
)
from sqlstream_planner.aggregates.function import AggregateFunction
from sqlstream_planner.logical import AggregateCall

_FAMILIES = (
    count,
    sums,
    extremes,
    lists,
    by_order,
    logic,
    bits,
    quantiles,
    moments,
    pairs,
    precise_sums,
    means,
    frequencies,
    several,
    in_order,
    json_values,
)

#: DuckDB's name of every aggregate that can be run -> what is known about it.
AGGREGATES: Mapping[str, AggregateFunction] = MappingProxyType(
    {function.name: function for family in _FAMILIES for function in family.FUNCTIONS}
)


def names() -> tuple[str, ...]:
    """Every name by which an aggregate can be called, of DuckDB's, Flink's and Spark's, sorted.

    >>> [name in names() for name in ("count", "countif", "listagg", "first_in_order", "lttb")]
    [True, True, True, False, False]
    """
    inside = {name for f in _functions() for name in (f.with_count, *(chosen for _, chosen in f.in_order))}
    called = {name for f in _functions() if f.name not in inside for name in (f.name, *f.also, *f.by_time)}
    spelled = {s.call.partition("(")[0].lower() for f in _functions() for s in f.spellings}
    return tuple(sorted(called | spelled))


def function_of(call: AggregateCall) -> AggregateFunction:
    """The function of a call in a plan."""
    function = AGGREGATES.get(call.name)
    if function is None:
        raise InternalError(f"a call of {call.name}, which is no aggregate, in a plan")
    return function


def values_of(call: AggregateCall) -> tuple[tuple[exp.Expr, SqlType], ...]:
    """The arguments of a call that are values of each row, with their types."""
    each = zip(call.arguments, call.argument_types, strict=True)
    return tuple(each)[: function_of(call).arguments.of_rows]


def find(name: str) -> AggregateFunction | None:
    """The function that is called `name` or one of its other names (lower case), None if it can't be run.

    >>> find("max_by").name, find("first_value").name, find("upper")
    ('arg_max', 'arg_min', None)
    """
    return AGGREGATES.get(name) or next(
        (f for f in _functions() if name in f.also or name in f.by_time), None
    )


def variant(name: str, arguments: int, *, ordered: bool) -> AggregateFunction | None:
    """The function of a call with so many arguments, and an ORDER BY or not; else as `find`.

    >>> variant("max", 2, ordered=False).name, variant("first", 1, ordered=True).name
    ('max_several', 'first_in_order')
    >>> variant("max", 1, ordered=False).name, variant("first_value", 1, ordered=True).name
    ('max', 'arg_min')
    """
    function = find(name)
    if function is None:
        return None
    most = function.arguments.at_most
    if most is not None and arguments > most and function.with_count is not None:
        return AGGREGATES[function.with_count]
    chosen = dict(function.in_order).get(name) if ordered else None
    return function if chosen is None else AGGREGATES[chosen]


def orders_by_time(name: str) -> bool:
    """Whether a function called `name` takes the rows' event time as its second argument.

    >>> orders_by_time("first_value"), orders_by_time("arg_min")
    (True, False)
    """
    return any(name in f.by_time for f in _functions())


def shown(name: str) -> str:
    """A function's name as people know it.

    >>> shown("first"), shown("max_by")
    ('first_value', 'max_by')
    """
    return next((f.by_time[0] for f in _functions() if name in f.by_time), name)


def is_spelled(name: str) -> bool:
    """Whether Flink or Spark call a function `name` (lower case).

    >>> is_spelled("listagg"), is_spelled("string_agg")
    (True, False)
    """
    return any(s.call.partition("(")[0].lower() == name for f in _functions() for s in f.spellings)


def calls_of(name: str) -> tuple[str, ...]:
    """How a function is called that Flink or Spark call `name` (lower case), with its arguments.

    >>> calls_of("listagg"), calls_of("string_agg")
    (('LISTAGG(x)', 'LISTAGG(x, separator)'), ())
    """
    calls = (s.call for f in _functions() for s in f.spellings)
    return tuple(call for call in calls if call.partition("(")[0].lower() == name)


def instead_of(name: str) -> str | None:
    """What to write instead of the function `name`, which can't be run; None if nothing is known."""
    return next((text for f in _functions() for other, text in f.replaces if other == name), None)


def before_within_group(name: str) -> AggregateFunction | None:
    """The function whose name before WITHIN GROUP (ORDER BY x) is `name`."""
    return next((f for f in _functions() if f.within_group is not None and f.within_group.name == name), None)


def _functions() -> Iterator[AggregateFunction]:
    yield from AGGREGATES.values()


def read_at_once(call: AggregateCall, *, retracting: bool) -> bool:
    """Whether an aggregate is kept as it is, or one value away, and not as all values of the group."""
    function = function_of(call)
    if call.distinct and not function.distinct_is_noop:
        return function.over_changes is not None and function.over_changes(call) is not None
    if function.decomposed(call, None, retracting=retracting) is not None:
        return True
    nested = any(type_.kind in NESTED for type_ in call.argument_types)
    return function.values.pick != "all" and not nested and not call.order_by
