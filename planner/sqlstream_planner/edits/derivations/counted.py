"""Sums that count: SUM(1) and SUM(CASE WHEN c THEN 1 ELSE 0 END), from counts of rows and the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlstream_operators.plan.state_schema import StateField
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.identity.canonical import Canonical
from sqlstream_planner.identity.form import Form, form

_ONE, _ZERO = form("number", "1"), form("number", "0")
#: What accumulators are, as identities call them: many functions have one of these.
_COUNTED, _SUMMED = "count", "sum"


@dataclass(frozen=True, slots=True)
class _Count:
    """How many rows there are for which `where` holds (None: all); `none` is what a sum is where there are none."""

    where: Form | None
    none: str


def counted(
    old: Stored, fields: Sequence[StateField], new: Stored, wanted: Sequence[StateField], *, keyed: bool
) -> dict[str, str]:
    """Those of the accumulators `wanted` that are known from the old ones `fields`: SQL by name.

    `keyed`: a group is only there if it has rows.

    In a group of rows, SUM(CASE WHEN c THEN 1 ELSE 0 END) is the number of rows where c holds, 0 if there are none, while
    SUM(1) FILTER (WHERE c) is NULL then.
    """
    counts: dict[Form | None, str] = {}
    for f in fields:
        count = _count(old.meaning(f), keyed=keyed)
        if count is not None:
            counts.setdefault(count.where, f"coalesce({quote_identifier(f.name)}, 0)")
    found = {}
    for f in wanted:
        count = _count(new.meaning(f), keyed=keyed)
        if count is not None and count.where in counts:
            number = counts[count.where]
            found[f.name] = number if count.none == "0" else f"nullif({number}, 0)"
    return found


def _count(meaning: Form | None, *, keyed: bool) -> _Count | None:
    """What an accumulator counts; None if it does not count rows."""
    match meaning:
        case Form(
            "accumulator", (kind, _, Form("aggregate call", (_, None, Form("arguments", values), where)))
        ):
            pass
        case _:
            return None
    condition = where if isinstance(where, Form) else None
    if kind == _COUNTED:
        return None if values else _Count(condition, "0")
    match values:
        case (Form() as value,) if kind == _SUMMED and value == _ONE:
            return _Count(condition, "NULL")
        case (Form("case", (Form() as test, Form() as one, Form() as zero)),) if kind == _SUMMED:
            if keyed and condition is None and (one, zero) == (_ONE, _ZERO):
                return _Count(_spelled_filter(test), "0")
    return None


def _spelled_filter(test: Form) -> Form | None:
    """A condition as it stands in the FILTER of a count."""
    call = form("aggregate call", "", None, form("arguments"), test)
    spelled = Canonical()(form("accumulator", "count", "BIGINT", call))
    found = spelled.args[2]
    assert isinstance(found, Form)
    where = found.args[3]
    return where if isinstance(where, Form) else None
