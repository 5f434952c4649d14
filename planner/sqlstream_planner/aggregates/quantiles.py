"""MEDIAN, QUANTILE, MODE and other functions of the distribution of all values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.aggregates.batch_parts import in_value_order, rounded_in_value_order
from sqlstream_planner.aggregates.function import (
    AggregateFunction,
    Arguments,
    Decomposition,
    Multiset,
    Spelling,
    WithinGroup,
    WrongConstant,
)
from sqlstream_planner.aggregates.kept_values import holistic
from sqlstream_planner.aggregates.parts import AS_LIST, over_distinct
from sqlstream_planner.logical import AggregateCall

_SHARE = "write a number from 0 to 1, such as 0.5"


def _check_share(arguments: Sequence[exp.Expr]) -> WrongConstant | None:
    """The second argument is a share from 0 to 1 (negative: from the top)."""
    if len(arguments) < 2:
        return (
            WrongConstant(arguments[0], "the share of the quantile is missing", _SHARE) if arguments else None
        )
    value = arguments[1].unnest()
    number = value.this if isinstance(value, exp.Neg) else value
    is_number = isinstance(number, exp.Literal) and not number.is_string
    if not isinstance(value, exp.Null) and not (is_number and not 0 <= float(number.name) <= 1):
        return None
    return WrongConstant(
        arguments[1],
        f"the share of a quantile can't be {value.sql()}",
        _SHARE,
    )


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
    arguments=Arguments(check=_check_share),
    append_only=holistic,
    values=AS_LIST,
    over_distinct=over_distinct,
)

#: Which of two neighbours it is differs from the top: DuckDB counts from there by a negative share.
QUANTILE_DISC = AggregateFunction(
    name="quantile_disc",
    within_group=WithinGroup("percentile_disc", "CASE WHEN (share) = 0 THEN 1 ELSE -(share) END"),
    arguments=Arguments(check=_check_share),
    append_only=holistic,
    values=AS_LIST,
    over_distinct=over_distinct,
)

QUANTILE = AggregateFunction(
    name="quantile",
    arguments=Arguments(check=_check_share),
    append_only=holistic,
    values=AS_LIST,
    over_distinct=over_distinct,
)


def _most_frequent(call: AggregateCall, values: tuple[str, ...]) -> str:
    x = values[0]
    return f"min({x})" if call.distinct else f'first({x} ORDER BY "count" DESC, {x})'


MODE = AggregateFunction(
    name="mode",
    within_group=WithinGroup("mode"),
    append_only=holistic,
    values=Multiset(_most_frequent),
    over_distinct=over_distinct,
    batch_any_order=in_value_order,
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

FUNCTIONS = (MEDIAN, QUANTILE_CONT, QUANTILE_DISC, QUANTILE, MODE, MAD, ENTROPY)
