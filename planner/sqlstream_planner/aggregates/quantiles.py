"""MEDIAN, QUANTILE, MODE and other functions of the distribution of all values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.aggregates.batch_parts import in_whole_order, rounded_in_value_order, varies
from sqlstream_planner.aggregates.function import (
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
    Spelling,
    WithinGroup,
    WrongConstant,
)
from sqlstream_planner.aggregates.kept_values import holistic, kept_values
from sqlstream_planner.aggregates.parts import (
    AS_LIST,
    as_list,
    distinct_in_order,
    order_of,
    over_distinct,
    over_ordered_distinct,
    repeated,
)
from sqlstream_planner.logical import AggregateCall

_SHARE = "write a number from 0 to 1, such as 0.5"
#: DuckDB takes one, and makes of ORDER BY another column DESC an order of its own argument.
_ITS_OWN_ORDER = "PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY x DESC) counts from the top"


def _check_share(arguments: Sequence[exp.Expr]) -> WrongConstant | None:
    """The second argument is a share from 0 to 1 (negative: from the top), or a list of them."""
    if len(arguments) < 2:
        return (
            WrongConstant(arguments[0], "the share of the quantile is missing", _SHARE) if arguments else None
        )
    shares = arguments[1].unnest()
    listed = shares.expressions if isinstance(shares, exp.Array) else [shares]
    if len({isinstance(share.unnest(), exp.Neg) for share in listed}) > 1:
        return WrongConstant(arguments[1], "some of these shares are negative and some are not", _SHARE)
    return next((wrong for wrong in map(_wrong_share, listed) if wrong is not None), None)


def _wrong_share(share: exp.Expr) -> WrongConstant | None:
    value = share.unnest()
    number = value.this if isinstance(value, exp.Neg) else value
    is_number = isinstance(number, exp.Literal) and not number.is_string
    if not isinstance(value, exp.Null) and not (is_number and not 0 <= float(number.name) <= 1):
        return None
    return _wrong(share)


def _wrong(share: exp.Expr) -> WrongConstant:
    return WrongConstant(share, f"the share of a quantile can't be {share.unnest().sql()}", _SHARE)


MEDIAN = AggregateFunction(
    name="median",
    arguments=Arguments(ordered=True),
    append_only=holistic,
    values=AS_LIST,
    over_distinct=over_distinct,
)

QUANTILE_CONT = AggregateFunction(
    name="quantile_cont",
    spellings=(
        Spelling(
            "PERCENTILE(x, share)", "quantile_cont(x, share)", "the interpolated value at a share from 0 to 1"
        ),
    ),
    within_group=WithinGroup("percentile_cont"),
    arguments=Arguments(check=_check_share, unordered_help=_ITS_OWN_ORDER),
    append_only=holistic,
    values=AS_LIST,
    over_distinct=over_distinct,
)

#: Which of two neighbours it is differs from the top: DuckDB counts from there by a negative share.
QUANTILE_DISC = AggregateFunction(
    name="quantile_disc",
    within_group=WithinGroup("percentile_disc", "CASE WHEN (share) = 0 THEN 1 ELSE -(share) END"),
    arguments=Arguments(check=_check_share, unordered_help=_ITS_OWN_ORDER),
    append_only=holistic,
    values=AS_LIST,
    over_distinct=over_distinct,
)

QUANTILE = AggregateFunction(
    name="quantile",
    arguments=Arguments(check=_check_share, unordered_help=_ITS_OWN_ORDER),
    append_only=holistic,
    values=AS_LIST,
    over_distinct=over_distinct,
)


def _approximate(name: str, at_most: int, instead: str) -> AggregateFunction:
    """The interpolated quantile as a value of the argument's type: exact, so that it is the same at every replay."""

    def exact(call: AggregateCall) -> AggregateCall:
        return replace(call, name=QUANTILE_CONT.name)

    def batch(_: AggregateCall, written: BatchCall) -> BatchCall:
        return replace(written, name=QUANTILE_CONT.name)

    return AggregateFunction(
        name=name,
        arguments=Arguments(
            at_most=at_most,
            instead=instead,
            check=_check_approximate,
            unordered_help=_ITS_OWN_ORDER,
            instead_over="QUANTILE_CONT(x, 0.5) OVER (…)",
        ),
        append_only=lambda call: holistic(exact(call)),
        values=Multiset(lambda call, values: as_list(exact(call), values)),
        over_distinct=lambda call, values, flag: over_distinct(exact(call), values, flag),
        batch_in_order=batch,
        batch_any_order=batch,
    )


def _check_approximate(arguments: Sequence[exp.Expr]) -> WrongConstant | None:
    """As of other quantiles, but that DuckDB counts from the top in none of these."""
    negative = next((n for a in arguments[1:2] for n in a.find_all(exp.Neg)), None)
    return _check_share(arguments) if negative is None else _wrong(negative)


APPROX_QUANTILE = replace(
    _approximate("approx_quantile", 2, ""),
    spellings=(
        Spelling(
            "APPROX_PERCENTILE(x, share)",
            "quantile_disc(x, share)",
            "the value at a share from 0 to 1, found exactly",
            "Spark",
        ),
        Spelling(
            "PERCENTILE_APPROX(x, share)",
            "quantile_disc(x, share)",
            "the value at a share from 0 to 1, found exactly",
            "Spark",
        ),
    ),
)
RESERVOIR_QUANTILE = _approximate(
    "reservoir_quantile", 2, "leave out the size of the sample: the quantile is of all values"
)


def _direction(call: AggregateCall) -> str:
    """DESC if of the most frequent values the greatest is wanted, else ASC: the least."""
    return "DESC" if call.order_by and call.order_by[0][1] else "ASC"


def _mode(call: AggregateCall) -> Decomposition:
    kept, values = kept_values(replace(call, order_by=()), nulls=False)
    return Decomposition((kept,), f"list_aggregate(list_sort({values}, '{_direction(call)}'), 'mode')")


def _most_frequent(call: AggregateCall, values: tuple[str, ...]) -> str:
    order = f"{values[0]} {_direction(call)}"
    x = order if call.distinct else f'"count" DESC, {order}'
    return f"first({values[0]} ORDER BY {x})"


def _mode_batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    return replace(written, order=f"{written.arguments[0]} {_direction(call)}" if varies(call) else "")


#: Of the most frequent values the least, or with ORDER BY x DESC the greatest.
MODE = AggregateFunction(
    name="mode",
    within_group=WithinGroup("mode"),
    in_order=(("mode", "mode_in_order"),),
    arguments=Arguments(ordered=True, orders_itself=True),
    append_only=_mode,
    values=Multiset(_most_frequent),
    over_distinct=over_ordered_distinct,
    batch_in_order=_mode_batch,
    batch_any_order=_mode_batch,
)


def _mode_of_list(call: AggregateCall) -> Decomposition:
    kept, values = kept_values(call, nulls=False)
    return Decomposition((kept,), f"list_aggregate({values}, 'mode')")


def _mode_of_values(call: AggregateCall, values: tuple[str, ...]) -> str:
    return f"list_aggregate({repeated(call, values[0], order_of(call, values))}, 'mode')"


def _first_mode_batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    return replace(in_whole_order(call, written), name="mode")


#: With an ORDER BY of other values: of the most frequent the one that comes first in it.
MODE_IN_ORDER = AggregateFunction(
    name="mode_in_order",
    arguments=Arguments(ordered=True),
    order_sensitive=True,
    append_only=_mode_of_list,
    values=Multiset(_mode_of_values),
    over_distinct=lambda call, values, flag: distinct_in_order("mode", call, values, flag),
    batch_in_order=_first_mode_batch,
    batch_any_order=_first_mode_batch,
)

MAD = AggregateFunction(name="mad", append_only=holistic, values=AS_LIST, over_distinct=over_distinct)


def _entropy(call: AggregateCall) -> Decomposition:
    made = holistic(call)
    return replace(made, final=f"coalesce({made.final}, 0)")


#: Over no values it is 0.
ENTROPY = AggregateFunction(
    name="entropy",
    empty="0",
    append_only=_entropy,
    values=AS_LIST,
    over_distinct=over_distinct,
    batch_any_order=rounded_in_value_order,
)

FUNCTIONS = (
    MEDIAN,
    QUANTILE_CONT,
    QUANTILE_DISC,
    QUANTILE,
    APPROX_QUANTILE,
    RESERVOIR_QUANTILE,
    MODE,
    MODE_IN_ORDER,
    MAD,
    ENTROPY,
)
