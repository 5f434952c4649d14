"""The ROWS, RANGE or GROUPS of an OVER."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.sql.dialect import duckdb_sql


@dataclass(frozen=True, slots=True)
class BoundFrame:
    """A frame as `WindowCall` has it; `of_distances`: of RANGE, with a bound that is a distance of values."""

    text: str = ""
    bounds: tuple[exp.Expr, ...] = ()
    of_distances: bool = False


def bind_frame(scope: Scope, spec: exp.Expr) -> BoundFrame:
    """The ROWS, RANGE or GROUPS of a window. Raises DiagnosticError."""
    context, frame = scope.context, spec.args.get("spec")
    if frame is None:
        return BoundFrame()
    _check_bounds(context, frame)
    frame = frame.copy()
    by_value = str(frame.args["kind"]).upper() == "RANGE"
    bounds: list[exp.Expr] = []
    distances = False
    for key in ("kind", "start", "start_side", "end", "end_side"):
        value = frame.args.get(key)
        if isinstance(value, str):
            frame.set(key, value.upper())
        elif isinstance(value, exp.Expr):
            distances = True
            varies = value.find(exp.Column, exp.Query) is not None
            bound = context.translated(scope.resolve(value), scope.fields)
            kind = context.type_of(bound, scope.fields).type
            if not by_value and not kind.is_numeric:
                context.fail(
                    value, "SQL060", f"a frame of ROWS or GROUPS needs a number of rows or groups, not {kind}"
                )
            if varies:
                frame.set(key, exp.var(f"{{{len(bounds)}}}"))
                bounds.append(bound)
    return BoundFrame(duckdb_sql(frame), tuple(bounds), distances and by_value)


def _check_bounds(context: BindContext, frame: exp.Expr) -> None:
    """Refuse a frame that ends before it begins, and negative numbers."""
    places = ("UNBOUNDED PRECEDING", "PRECEDING", "CURRENT ROW", "FOLLOWING", "UNBOUNDED FOLLOWING")

    def place(key: str) -> int:
        value, side = frame.args.get(key) or "CURRENT ROW", str(frame.args.get(f"{key}_side") or "")
        if isinstance(value, exp.Expr):
            if isinstance(value.unnest(), exp.Neg) and value.find(exp.Column, exp.Query) is None:
                context.fail(value, "SQL060", "a bound of a frame is not negative")
            return places.index(side.upper())
        return places.index(f"{value} {side}".strip().upper())

    first, last = place("start"), place("end")
    if first > last or first == len(places) - 1 or last == 0:
        context.fail(
            frame,
            "SQL060",
            "the frame ends before it begins",
            help="write BETWEEN … PRECEDING AND … FOLLOWING",
        )
