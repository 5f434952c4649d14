"""How near each other in time the rows of a join's pairs are, as its condition says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_operators.plan.window_spec import WindowKind
from sqlstream_planner.logical import ColumnId, Field, Node, TimeBound
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.sql.datatypes import sql_type_of
from sqlstream_planner.sql.dialect import constant_value

_DAY = 86_400_000_000
#: Bounds beyond this (µs, 36,000 years) bound nothing: sums of them and of times stay in 64 bits.
_FAR = 1 << 60

_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def time_bound(
    left: Node, right: Node, condition: exp.Expr | None, timed: Callable[[Node], frozenset[str] | None]
) -> TimeBound | None:
    """How far apart in time the rows of a pair are, by a join's condition; None if that is not bounded.

    `timed` gives the columns that follow the watermark (`TimedColumns`): an updating side is not bounded.
    """
    sides = [_Side.of(node, timed(node)) for node in (left, right)]
    if condition is None or not all(side.fields for side in sides):
        return None
    found: dict[tuple[str, str], _Range] = defaultdict(_Range)
    for term in conjuncts(condition):
        for a, b, range_ in _ranges(term, sides[0], sides[1]):
            found[a, b] = found[a, b].and_(range_)
    bounded = [
        TimeBound(ColumnId(a), ColumnId(b), range_.low, max(range_.low, range_.high))
        for (a, b), range_ in found.items()
        if range_.low is not None and range_.high is not None
    ]
    return min(bounded, key=lambda bound: _rank(bound, sides[0], sides[1]), default=None)


@dataclass(frozen=True, slots=True)
class _Range:
    """What is known of a difference: at least `low`, at most `high`, µs; None: not bounded."""

    low: int | None = None
    high: int | None = None

    def and_(self, other: _Range) -> _Range:
        lows = [v for v in (self.low, other.low) if v is not None]
        highs = [v for v in (self.high, other.high) if v is not None]
        return _Range(max(lows, default=None), min(highs, default=None))


@dataclass(frozen=True, slots=True)
class _Side:
    """The columns of a side that follow the watermark, and each as another one and how far behind that it is, µs."""

    fields: Mapping[str, Field]
    shifts: Mapping[str, tuple[str, int, int]]

    @classmethod
    def of(cls, node: Node, timed: frozenset[str] | None) -> _Side:
        fields = {f.id: f for f in node.fields if timed is not None and f.id in timed}
        shifts = {id_: (id_, 0, 0) for id_ in fields}
        windows = defaultdict(list)
        for f in fields.values():
            if f.window is not None:
                windows[f.window.window, f.window.time].append((f.window.role, f.id))
        for (window, _), bounds in windows.items():
            roles = [role for role, _ in bounds]
            if roles.count("end") != 1 or len(set(roles)) != len(roles):
                continue  # which of them are of one window is not certain
            end = next(id_ for role, id_ in bounds if role == "end")
            latest = window.slide_us if window.kind is WindowKind.CUMULATE else window.size_us
            for role, id_ in bounds:
                if role == "start":
                    shifts[id_] = (end, -window.size_us, -latest)
                elif role == "time":
                    shifts[id_] = (end, -1_000, -1_000)
        return cls(fields, shifts)


def _rank(bound: TimeBound, left: _Side, right: _Side) -> tuple[int, int]:
    """Ends of windows first: what is in them is known to be complete; then what is nearest."""
    ends = sum(
        1
        for side, id_ in ((left, bound.left), (right, bound.right))
        if (window := side.fields[id_].window) is not None and window.role == "end"
    )
    same_windows = ends == 2 and bound.lower_us == bound.upper_us
    return (0 if same_windows else 1, bound.upper_us - bound.lower_us)


# --------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class _Linear:
    """Columns, each so many times, and a constant between `low` and `high` µs."""

    columns: Mapping[str, int]
    low: int
    high: int

    def times(self, by: int) -> _Linear:
        low, high = sorted((self.low * by, self.high * by))
        return _Linear({id_: n * by for id_, n in self.columns.items()}, low, high)

    def plus(self, other: _Linear) -> _Linear:
        columns = dict(self.columns)
        for id_, n in other.columns.items():
            columns[id_] = columns.get(id_, 0) + n
        kept = {id_: n for id_, n in columns.items() if n}
        return _Linear(kept, self.low + other.low, self.high + other.high)


def _ranges(term: exp.Expr, left: _Side, right: _Side) -> Iterable[tuple[str, str, _Range]]:
    """The bounds of a condition on differences of the left's and the right's times."""
    for operator, a, b in _compared(term):
        one, other = (_linear(e, {**left.fields, **right.fields}) for e in (a, b))
        if one is None or other is None:
            continue
        difference = one.plus(other.times(-1))
        if sorted(difference.columns.values()) != [-1, 1]:
            continue
        first = next(id_ for id_, n in difference.columns.items() if n == 1)
        second = next(id_ for id_, n in difference.columns.items() if n == -1)
        if first in right.fields:
            first, second = second, first
            difference, operator = difference.times(-1), _FLIPPED[operator]
        if first not in left.fields or second not in right.fields:
            continue
        if left.fields[first].type != right.fields[second].type:
            continue
        # left - right + constant is compared with 0.
        range_ = _Range(
            -difference.high + (operator == ">") if operator in ("=", ">", ">=") else None,
            -difference.low - (operator == "<") if operator in ("=", "<", "<=") else None,
        )
        a_id, a_low, a_high = left.shifts[first]
        b_id, b_low, b_high = right.shifts[second]
        low = None if range_.low is None else range_.low - a_high + b_low
        high = None if range_.high is None else range_.high - a_low + b_high
        if any(v is not None and abs(v) > _FAR for v in (low, high)):
            continue
        yield a_id, b_id, _Range(low, high)


def _compared(term: exp.Expr) -> Iterable[tuple[str, exp.Expr, exp.Expr]]:
    """The comparisons that hold where a condition is true."""
    bare = term.unnest()
    if isinstance(bare, exp.Between) and not bare.args.get("symmetric"):
        yield ">=", bare.this, bare.args["low"]
        yield "<=", bare.this, bare.args["high"]
    elif type(bare) in _COMPARISONS:
        yield _COMPARISONS[type(bare)], bare.this, bare.expression
    elif isinstance(bare, exp.Not):
        inner = bare.this.unnest()
        operator = _NEGATED.get(_COMPARISONS.get(type(inner), ""))
        if operator is not None:
            yield operator, inner.this, inner.expression


def _linear(expression: exp.Expr, times: Mapping[str, Field]) -> _Linear | None:
    """An expression as a sum of times and constant intervals; None if it is something else."""
    bare = expression.unnest()
    if isinstance(bare, exp.Column):
        return _Linear({bare.name: 1}, 0, 0) if bare.name in times else None
    if isinstance(bare, exp.Cast) and isinstance(bare.this.unnest(), exp.Column):
        f = times.get(bare.this.unnest().name)
        return _linear(bare.this, times) if f is not None and sql_type_of(bare.to) == f.type else None
    if isinstance(bare, exp.Neg):
        inner = _linear(bare.this, times)
        return None if inner is None or inner.columns else inner.times(-1)
    if isinstance(bare, exp.Mul):
        for factor, interval in ((bare.this, bare.expression), (bare.expression, bare.this)):
            number, inner = _integer(factor), _linear(interval, times)
            if number is not None and inner is not None and not inner.columns:
                return inner.times(number)
        return None
    if isinstance(bare, exp.Add | exp.Sub):
        one, other = _linear(bare.this, times), _linear(bare.expression, times)
        if one is None or other is None:
            return None
        made = one.plus(other.times(-1 if isinstance(bare, exp.Sub) else 1))
        zoned = any(times[id_].type.kind is Kind.TIMESTAMPTZ for id_ in made.columns)
        # A day is not 24 hours where the clock is changed; an interval may be of days.
        return replace(made, low=made.low - _DAY, high=made.high + _DAY) if zoned and _days(bare) else made
    if isinstance(bare, exp.Interval):
        try:
            value = constant_value(bare)
        except ValueError:
            return None
        if value is None:
            return None
        fixed = value.days * _DAY + value.micros
        low, high = sorted((28 * value.months * _DAY, 31 * value.months * _DAY))
        return _Linear({}, fixed + low, fixed + high)
    return None


def _days(expression: exp.Expr) -> bool:
    """Whether an expression has an interval of days or longer."""
    for found in expression.find_all(exp.Interval):
        value = constant_value(found)
        if value is None or value.days or value.months:
            return True
    return False


def _integer(expression: exp.Expr) -> int | None:
    bare = expression.unnest()
    if isinstance(bare, exp.Neg):
        inner = _integer(bare.this)
        return None if inner is None else -inner
    if isinstance(bare, exp.Literal) and not bare.is_string and bare.name.isdigit():
        return int(bare.name)
    return None
