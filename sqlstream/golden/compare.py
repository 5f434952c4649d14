"""Compares two multisets of rows: order-free, duplicates counted, by type, floats with a tolerance."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlstream.golden.rows import Row, Rows, is_nested
from sqlstream_operators.plan.types import Kind, SqlType

#: Two doubles are equal if they differ by no more than this part of the larger one. Sums of FLOATs are DOUBLEs, so that
#: a FLOAT can differ by the rounding of its last bits only: two of 24.
RELATIVE, RELATIVE_FLOAT = 1e-9, 2**-22
#: What is left of numbers that cancel out where both sides are computed, in another order: golden files allow it.
CANCELLED = 1e-12
#: How many rows that have no exact partner are searched for the row that they most resemble.
_SEARCHED = 500


@dataclass(frozen=True, slots=True)
class Difference:
    """What distinguishes the actual rows from the expected ones; empty if nothing does.

    `missing`: expected and not there; `extra`: there and not expected; `changed`: (expected, actual) where
    most cells agree.
    """

    missing: Sequence[Row]
    extra: Sequence[Row]
    changed: Sequence[tuple[Row, Row]]

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.changed)


def compare(expected: Rows, actual: Rows, *, cancelled: float = 0.0) -> Difference:
    """Compare as multisets; both have the same schema.

    Floats that are no further from zero than `cancelled` agree with zero, and with those of the other sign.

    Exact columns decide which rows can be the same; among those, columns with floating-point numbers are
    matched within the tolerance. What is left in such a group is `changed`, and so are left-over rows that
    agree in at least half of their cells.
    """
    types = [column.type for column in expected.schema]
    fuzzy = [i for i, type_ in enumerate(types) if has_floats(type_)]
    exact = [i for i in range(len(types)) if i not in set(fuzzy)]

    def grouped(rows: Iterable[Row]) -> dict[tuple[Any, ...], list[tuple[tuple[Any, ...], Row]]]:
        groups: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], Row]]] = defaultdict(list)
        for row in rows:
            key = tuple(comparable(row[i], types[i]) for i in exact)
            groups[key].append((tuple(_value(row[i], types[i]) for i in fuzzy), row))
        return groups

    wanted, found = grouped(expected.rows), grouped(actual.rows)
    near = [types[i] for i in fuzzy]
    missing: list[Row] = []
    extra: list[Row] = []
    changed: list[tuple[Row, Row]] = []
    for key in dict.fromkeys([*wanted, *found]):
        ours, theirs = _unmatched(wanted.get(key, []), found.get(key, []), near, cancelled)
        pairs = min(len(ours), len(theirs))
        changed += zip(ours[:pairs], theirs[:pairs], strict=True)
        missing += ours[pairs:]
        extra += theirs[pairs:]
    return _similar(missing, extra, changed, types)


def has_floats(type_: SqlType) -> bool:
    """Whether values of the type hold floating-point numbers."""
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE):
        return True
    inner = [t for t in (type_.element, type_.key, type_.value) if t is not None]
    return any(has_floats(t) for t in [*inner, *(t for _, t in type_.fields)])


def comparable(cell: str | None, type_: SqlType) -> Any:
    """A value that is equal for equal cells, however they are spelled.

    >>> from sqlstream_operators.plan.types import decimal, TIMESTAMP
    >>> comparable("1.50", decimal(10, 2)) == comparable("1.5", decimal(10, 2))
    True
    >>> comparable("2024-01-01T10:00:00.500", TIMESTAMP)
    '2024-01-01 10:00:00.5'
    """
    if cell is None:
        return None
    try:
        if type_.is_integer or type_.kind is Kind.DECIMAL:
            return Decimal(cell)
        if is_nested(type_) or type_.kind is Kind.JSON:
            return json.dumps(json.loads(cell, parse_float=_exact), sort_keys=True)
    except (InvalidOperation, ValueError):
        return cell
    if type_.kind is Kind.BOOLEAN:
        return cell.lower()
    if type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIMESTAMP_NS, Kind.TIME):
        text = cell.replace("T", " ", 1)
        body, plus, zone = text.partition("+")
        if "." in body:
            body = body.rstrip("0").rstrip(".")
        return body.removesuffix("Z") + (plus + zone if zone not in ("", "00", "00:00") else "")
    return cell


def _exact(text: str) -> str:
    return f"\0{Decimal(text).normalize()}"  # no text of the same digits


def _value(cell: str | None, type_: SqlType) -> Any:
    """A cell with floating-point numbers as Python values; numbers in nested values are Decimals, or int."""
    if cell is None:
        return None
    try:
        return json.loads(cell, parse_float=Decimal) if is_nested(type_) else float(cell)
    except ValueError:
        return cell


def close(one: Any, other: Any, type_: SqlType, cancelled: float = 0.0) -> bool:
    """Whether two values agree: FLOAT and DOUBLE in them within their tolerances, all else exactly; NaN equals NaN.

    >>> from sqlstream_operators.plan.types import BIGINT, DOUBLE, array
    >>> close([0.1 + 0.2, None], [0.3, None], array(DOUBLE)), close(float("nan"), float("nan"), DOUBLE)
    (True, True)
    >>> close(0.0, None, DOUBLE), close(1.6e-19, 9.1e-31, DOUBLE), close([1], [1.0000000001], array(BIGINT))
    (False, False, False)
    """
    if isinstance(one, list) and isinstance(other, list):
        inner = [t for _, t in type_.fields] or [type_.element or type_] * len(one)
        return len(one) == len(other) == len(inner) and all(
            close(a, b, t, cancelled) for a, b, t in zip(one, other, inner, strict=True)
        )
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        fields = dict(type_.fields)
        return one.keys() == other.keys() and all(
            close(one[k], other[k], fields.get(k, type_.value or type_), cancelled) for k in one
        )
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE) and _is_number(one) and _is_number(other):
        return _near(
            float(one), float(other), RELATIVE_FLOAT if type_.kind is Kind.FLOAT else RELATIVE, cancelled
        )
    return type(one) is type(other) and bool(one == other) if isinstance(one, bool) else bool(one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _near(one: float, other: float, relative: float, cancelled: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    if one == other or math.isclose(one, other, rel_tol=relative):
        return True
    return one * other <= 0 and max(abs(one), abs(other)) <= cancelled


def _unmatched(
    ours: list[tuple[tuple[Any, ...], Row]],
    theirs: list[tuple[tuple[Any, ...], Row]],
    types: Sequence[SqlType],
    cancelled: float,
) -> tuple[list[Row], list[Row]]:
    """What is left of two groups with equal exact columns when equal rows are taken away in pairs."""
    if not types:
        pairs = min(len(ours), len(theirs))
        return [row for _, row in ours[pairs:]], [row for _, row in theirs[pairs:]]
    # Rows that are spelled alike first: groups can be large, and the search below is quadratic.
    spare = Counter(row for _, row in theirs)
    left = []
    for item in ours:
        if spare[item[1]]:
            spare[item[1]] -= 1
        else:
            left.append(item)
    rest = []
    for item in theirs:
        if spare[item[1]]:
            spare[item[1]] -= 1
            rest.append(item)
    missing = []
    for values, row in left:
        for place, (other, _) in enumerate(rest):
            if all(close(a, b, t, cancelled) for a, b, t in zip(values, other, types, strict=True)):
                del rest[place]
                break
        else:
            missing.append(row)
    return missing, [row for _, row in rest]


def _similar(
    missing: list[Row], extra: list[Row], changed: list[tuple[Row, Row]], types: Sequence[SqlType]
) -> Difference:
    """Pair left-over rows that agree in at least half of their cells, the most alike first."""
    width = len(types)
    candidates = []
    for i, one in enumerate(missing[:_SEARCHED]):
        for j, other in enumerate(extra[:_SEARCHED]):
            same = sum(a == b for a, b in zip(one, other, strict=True))
            if same and 2 * same >= width:
                candidates.append((-same, i, j))
    used_missing: set[int] = set()
    used_extra: set[int] = set()
    for _, i, j in sorted(candidates):
        if i not in used_missing and j not in used_extra:
            used_missing.add(i)
            used_extra.add(j)
            changed.append((missing[i], extra[j]))
    return Difference(
        [row for i, row in enumerate(missing) if i not in used_missing],
        [row for j, row in enumerate(extra) if j not in used_extra],
        changed,
    )
