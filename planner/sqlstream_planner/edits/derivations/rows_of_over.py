"""Functions OVER from the rows that other functions OVER keep of the same relation.

All rows are kept, whatever the frames are: other functions, frames, orders and partitions are computed over them anew.
What the functions gave is not looked at.
"""

from __future__ import annotations

from sqlstream_operators.plan.over_spec import COPY, ROW, ROWS, SORT, OverSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column
from sqlstream_operators.plan.state_schema import StateField
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_planner.edits.derivations.conditions import narrowing
from sqlstream_planner.edits.derivations.kept_rows import items_of_rows
from sqlstream_planner.edits.derivations.parts import select
from sqlstream_planner.edits.derivations.rewritten import Rewriter
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, filtered
from sqlstream_planner.edits.verdict import Derivation, DerivedInput
from sqlstream_planner.identity.form import Form


def derive_rows_of_over(old: Stored, wanted: Wanted) -> Derived | None:
    """The rows of the OVER of `wanted` from those of `old`."""
    new = wanted.state
    was, now = old.spec, new.spec
    if not isinstance(was, OverSpec) or not isinstance(now, OverSpec):
        return None
    (base, before), (new_base, after) = filtered(old.rows), filtered(new.rows)
    if base != new_base or was.retracting != now.retracting:
        return None
    if old.forgetful and old.keys().keys() != new.keys().keys():
        return None
    columns = _columns(old, was)
    meanings, node = wanted.node.meanings, wanted.node.node
    rewriter = Rewriter(meanings, {m: f for m, f in columns.items() if m not in old.retyped})
    where = narrowing(before, after, node.meaning.inputs[0], rewriter)  # type: ignore[attr-defined]
    items = items_of_rows(wanted, now.columns, columns, rewriter)
    if where is None or items is None:
        return None
    schema = now.columns
    if now.retracting:
        schema = (*schema, Column(WEIGHT_COLUMN, BIGINT, False))
        # A copy with a negative number is a row that is owed.
        items.append(
            f"CAST(CASE WHEN {quote_identifier(COPY)} < 0 THEN -1 ELSE 1 END AS BIGINT) AS {WEIGHT_COLUMN}"
        )
    rest = f"\nWHERE {' AND '.join(where)}" if where else ""
    keys = tuple(f.name for f in now.state.tables[0].key)
    given = DerivedInput((ROWS,), select(items, ROWS, rest), schema, keys)
    return Derived(
        Derivation("rows of over", (), (given,)), "all rows are kept: it is computed over them anew"
    )


def _columns(old: Stored, spec: OverSpec) -> dict[Form, StateField]:
    """The columns of the rows that are kept, by what they mean, without what the functions gave."""
    table = spec.state.tables[0]
    given = {call.column.name for call in spec.calls} | {SORT, ROW, COPY}
    return old.fields([f for f in (*table.key, *table.value) if f.name not in given])
