"""Functions OVER all rows up to a row, as accumulators that go on from row to row: no row is needed again."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.over_spec import BY_PEER, BY_ROW, CarriedCall, CarriedPart, Kept
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_planner.aggregates import registry
from sqlstream_planner.aggregates.registry import AGGREGATES
from sqlstream_planner.logical import AggregateCall, WindowCall, raw
from sqlstream_planner.logical.parts import PEER_FUNCTIONS
from sqlstream_planner.logical.window_frames import frame_of
from sqlstream_planner.windows.over_reach import kept_for

_SUM = "sum({f})"


def carried_call(call: WindowCall) -> CarriedCall | None:
    """The call as parts that go on, or None if it needs rows one by one.

    >>> from sqlstream_planner.logical import Field
    >>> carried_call(WindowCall(Field("n", "n", BIGINT), "row_number")).final
    '"n.0"'
    >>> carried_call(WindowCall(Field("n", "n", BIGINT), "count", frame="ROWS 2 PRECEDING")) is None
    True
    """
    if call.order_by:
        return None
    made = Column(call.field.id, call.field.type, call.field.nullable)
    names = [f"{call.field.id}.{n}" for n in range(4)]

    def part(number: int, text: str, merge: str | None = _SUM) -> CarriedPart:
        quoted = quote_identifier(names[number])
        return CarriedPart(
            Column(names[number], BIGINT), text, merge.format(f=quoted) if merge is not None else None
        )

    first, second = (quote_identifier(name) for name in names[:2])
    match call.name:
        case "row_number":
            return CarriedCall(made, (part(0, f"row_number() OVER {BY_ROW}"),), first)
        case "dense_rank":
            return CarriedCall(made, (part(0, f"dense_rank() OVER {BY_PEER}"),), first)
        case "rank":
            behind = f"row_number() OVER {BY_ROW} - rank() OVER {BY_PEER}"
            return CarriedCall(
                made, (part(0, f"row_number() OVER {BY_ROW}"), part(1, behind, None)), f"{first} - {second}"
            )
    if call.name in PEER_FUNCTIONS or call.name not in AGGREGATES or call.distinct:
        return None
    return _aggregate(call, made, names)


def _aggregate(call: WindowCall, made: Column, names: list[str]) -> CarriedCall | None:
    frame, function = frame_of(call), AGGREGATES[call.name]
    if not frame.runs or function.any_order is None or function.order_sensitive:
        return None
    if registry.variant(call.name, len(call.arguments), ordered=False) is not function:
        return None  # MAX(x, 2) is another function
    plain = AggregateCall(call.field, call.name, call.arguments, call.argument_types, filter=call.filter)
    found = function.any_order(plain)
    if found is None or len(found.accumulators) > len(names):
        return None
    window = BY_ROW if frame.unit == "ROWS" else BY_PEER
    parts = []
    for name, accumulator in zip(names, found.accumulators, strict=False):
        if not _is_one_aggregate(accumulator.partial):
            return None
        over = f"{accumulator.partial} OVER ({window} {frame.unit} BETWEEN {frame.first} AND {frame.last})"
        merge = accumulator.merge.format(f=quote_identifier(name))
        parts.append(CarriedPart(Column(name, accumulator.type), over, merge))
    quoted = [quote_identifier(name) for name in names]
    return CarriedCall(made, tuple(parts), found.final.format(*quoted))


def _is_one_aggregate(text: str) -> bool:
    """Whether SQL is nothing but one aggregate, behind which OVER can stand."""
    parsed = raw(text)
    while isinstance(parsed, exp.Filter):
        parsed = parsed.this
    return isinstance(parsed, exp.AggFunc)


def kept_of(calls: tuple[WindowCall, ...]) -> Kept:
    """The rows that calls, none of which are carried, need of those that were given."""
    kept = Kept()
    for call in calls:
        kept = kept.both(kept_for(call))
    return kept
