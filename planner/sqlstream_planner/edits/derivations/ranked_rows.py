"""Ranked rows (Top-N, deduplication) from other ranked rows of the same relation.

Over updating rows, all are kept: whatever is computed from their columns can be. Over append-only rows, the
best are kept: those are enough for fewer of them in the same order of the same partitions. Rows that are equal in the
order are distinguished by all columns that the query reads, so that leaving one out may bring another row to the front:
the new order with its ties must be the beginning of the old one. RANK keeps all rows that are equal in its order.
"""

from __future__ import annotations

from sqlstream_operators.plan.schema import SLICE_COLUMN, WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import TIME, StateField
from sqlstream_operators.plan.top_n_spec import DeduplicateSpec, TopNSpec, WindowTopNSpec
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_planner.edits.derivations.conditions import narrowing
from sqlstream_planner.edits.derivations.kept_rows import items_of_rows
from sqlstream_planner.edits.derivations.parts import select
from sqlstream_planner.edits.derivations.rewritten import Rewriter
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, filtered
from sqlstream_planner.edits.verdict import Derivation, DerivedInput
from sqlstream_planner.identity.form import Form, form

_COUNT = form("how often")
#: By the function of the new ranking, those whose kept rows have its rows among them.
_WIDER = {
    "row_number": ("row_number", "rank", "dense_rank"),
    "rank": ("rank", "dense_rank"),
    "dense_rank": ("dense_rank",),
}


def derive_ranked_rows(old: Stored, wanted: Wanted) -> Derived | None:
    """The ranked rows of `wanted` from those of `old`."""
    new = wanted.state
    was, now = old.spec, new.spec
    kinds = TopNSpec | DeduplicateSpec | WindowTopNSpec
    if not isinstance(was, kinds) or not isinstance(now, kinds):
        return None
    (base, before), (new_base, after) = filtered(old.rows), filtered(new.rows)
    if base != new_base or old.differs(new, frozenset(old.attributes) - {"rows can go", "window"}):
        return None
    all_rows = bool(old.attributes["rows can go"])
    same_keys = old.keys().keys() == new.keys().keys()
    if not same_keys and (old.forgetful or not all_rows):
        return None
    if not all_rows and not _has_best(old, new):
        return None
    stored = _columns(old)
    meanings, node = wanted.node.meanings, wanted.node.node
    # Where only the best are kept, one that a condition takes away would have let another in.
    exact = {m: f for m, f in stored.items() if m not in old.retyped}
    narrowed = Rewriter(meanings, exact if all_rows else {m: f for m, f in old.keys().items() if m in exact})
    where = narrowing(before, after, node.meaning.inputs[0], narrowed)  # type: ignore[attr-defined]
    if where is None:
        return None
    items = items_of_rows(wanted, now.columns, stored, Rewriter(meanings, exact))
    if items is None:
        return None
    rest = f"\nWHERE {' AND '.join(where)}" if where else ""
    given = _input(old, now, items, now.columns, rest)
    return Derived(Derivation("ranked rows", (), (given,)), _reason(old, new, all_rows=all_rows))


def _columns(old: Stored) -> dict[Form, StateField]:
    """All columns of the rows that are kept, by what they mean."""
    table = old.spec.state.tables[0]
    found = old.fields((*table.key, *table.value))
    found.pop(_COUNT, None)
    return found


def _input(
    old: Stored,
    now: TopNSpec | DeduplicateSpec | WindowTopNSpec,
    items: list[str],
    columns: Schema,
    rest: str,
) -> DerivedInput:
    """The rows as the new operator takes them: with a weight, or as often as they are there."""
    table = old.spec.state.tables[0]
    count = old.fields(table.value).get(_COUNT)
    if isinstance(now, WindowTopNSpec):
        columns = (Column(SLICE_COLUMN, BIGINT), *columns)
        items = [f"{quote_identifier(TIME)} AS {quote_identifier(SLICE_COLUMN)}", *items]
    if isinstance(now, TopNSpec) and now.retracting:
        assert count is not None
        columns = (*columns, Column(WEIGHT_COLUMN, BIGINT, False))
        items = [*items, f"{quote_identifier(count.name)} AS {quote_identifier(WEIGHT_COLUMN)}"]
    text = select(items, table.name, rest)
    if count is not None and not (isinstance(now, TopNSpec) and now.retracting):
        names = ", ".join(quote_identifier(c.name) for c in columns)
        times = f"{quote_identifier(count.name)} AS times"
        text = f"SELECT {names}\nFROM (\n{select([*items, times], table.name, rest)}\n), range(times)"
    keys = tuple(f.name for f in now.state.tables[0].key)
    return DerivedInput((table.name,), text, columns, keys)


def _has_best(old: Stored, new: Stored) -> bool:
    """Whether the rows that `old` keeps of append-only rows have all that `new` keeps among them."""
    was, now = old.attributes, new.attributes
    functions = _WIDER[str(now["function"])]
    if was["function"] not in functions or _last(new) > _last(old):
        return False
    order, wanted = _order(old), _order(new)
    if was["function"] == "row_number":
        order, wanted = [*order, *_ties(old)], [*wanted, *_ties(new)]
        order, wanted = _once(order, old), _once(wanted, new)
        return order[: len(wanted)] == wanted
    return order == wanted


def _last(state: Stored) -> int:
    limit, offset = state.attributes["limit"], state.attributes["offset"]
    assert isinstance(limit, int)
    assert isinstance(offset, int)
    return limit + offset


def _order(state: Stored) -> list[Form]:
    return _listed(state, "order")


def _ties(state: Stored) -> list[Form]:
    """The terms by which rows that are equal in the order are ranked."""
    return [form("order", column, "asc", "first") for column in _listed(state, "payload")]


def _listed(state: Stored, name: str) -> list[Form]:
    found = state.attributes[name]
    assert isinstance(found, list | tuple)
    return [f for f in found if isinstance(f, Form)]


def _once(terms: list[Form], state: Stored) -> list[Form]:
    """The terms that distinguish rows of a partition: each column once, and none that all of them have in common."""
    met = set(state.keys())
    found = []
    for term in terms:
        column = term.args[0]
        if isinstance(column, Form) and column not in met:
            met.add(column)
            found.append(term)
    return found


def _reason(old: Stored, new: Stored, *, all_rows: bool) -> str:
    if all_rows:
        return "all rows are kept: they are ranked anew"
    if _last(new) < _last(old):
        return f"the first {_last(new)} of the {_last(old)} rows that are kept"
    return "from the rows that are kept"
