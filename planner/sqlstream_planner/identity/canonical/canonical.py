"""Forms in one spelling: from the leaves up, each distinct form once."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream_planner.identity.canonical import aggregates, conditions, values
from sqlstream_planner.identity.canonical.sets import Orders, branch_orders, of_branches, reordered
from sqlstream_planner.identity.form import Argument, Data, Form, form, sort_forms, walk

#: What has its operands in the order of their digests, behind as many others.
_SORTED: Mapping[str, int] = {
    "=": 0, "<>": 0, "is not distinct from": 0, "and": 0, "or": 0, "+": 0, "*": 0, "&": 0, "|": 0, "xor": 0,
    "set": 0, "partition": 0, "values": 0, "in": 1, "filter": 1,
}  # fmt: skip
#: Where the condition of a join stands among its arguments.
_CONDITION_AT = {"join": 3, "lookup": 3}


class Canonical:
    """Brings forms to one spelling; `never_null` are columns that are never NULL, in no relation.

    `present` are those that are not NULL in the rows that accumulators are of: what their own relation's conditions say
    must change nothing of these conditions.

    Two forms that have one spelling mean the same: the same rows, the same values of the same types, NULLs included.

    >>> k = form("column", form("source", ""), '{"name":"k","type":"INTEGER"}')
    >>> spelled = Canonical()
    >>> spelled(form("<", form("number", "4"), k)) == spelled(form("<=", form("number", "5"), k))
    True
    >>> spelled(form("<", form("number", "4.5"), k)) == spelled(form("<=", form("number", "5"), k))
    False
    """

    def __init__(
        self, never_null: frozenset[Form] = frozenset(), present: frozenset[Form] = frozenset()
    ) -> None:
        self._never_null = never_null
        self._present = never_null | present
        self._made: dict[str, Form] = {}
        self._orders: Orders = {}

    def __call__(self, found: Form) -> Form:
        """The form in its one spelling."""
        for each in walk(found):
            if each.digest not in self._made:
                self._made[each.digest] = self._one(each)
        return self._made[found.digest]

    def data(self, value: Data) -> Data:
        """Plain data with each form in it in its one spelling."""
        match value:
            case Form():
                return self(value)
            case None | str() | int():
                return value
            case Mapping():
                return {name: self.data(inner) for name, inner in value.items()}
            case _:
                return tuple(self.data(inner) for inner in value)

    def knowing_branches_of(self, *roots: Form) -> Canonical:
        """The same where the branches of the one UNION ALL or INTERSECT that is in these forms may stand in any order."""
        made = Canonical(self._never_null, self._present)
        made._orders = branch_orders(roots, self)
        return made

    def _one(self, found: Form) -> Form:
        """A form whose arguments have their spelling already."""
        args = tuple(self._made[a.digest] if isinstance(a, Form) else a for a in found.args)
        made = Form(found.op, _ordered(found.op, args)) if args != found.args else found
        return self._rewritten(made)

    def _rewritten(self, made: Form) -> Form:
        known = self._never_null
        match made.op, made.args:
            case "filter", (Form() as base, *rest):
                left = conditions.conjuncts((c for c in rest if isinstance(c, Form)), known)
                return form("filter", base, *left) if left else base
            case "conditions", all_:
                return form(
                    "conditions", *conditions.conjuncts((c for c in all_ if isinstance(c, Form)), known)
                )
            case "groups", (Form() as inside, *rest):
                forms = [r for r in rest if isinstance(r, Form)]
                sets = sort_forms({f for f in forms if f.op == "set"})
                return form("groups", inside, *(f for f in forms if f.op != "set"), *sets)
            case (("union" | "intersect" | "either"), _):
                return reordered(made, self._orders)
            case "accumulator", _:
                return aggregates.accumulator(made, known, self._present) or made
            case "aggregate call", _:
                return aggregates.call(made, known) or made
        if made.op in _CONDITION_AT:
            at = _CONDITION_AT[made.op]
            test = made.args[at] if len(made.args) > at else None
            if isinstance(test, Form):
                return Form(
                    made.op, (*made.args[:at], conditions.condition(test, known), *made.args[at + 1 :])
                )
            return made
        found = of_branches(made) or conditions.rewritten(made, known)
        return found if found is not None else values.rewritten(made) or made


def _ordered(op: str, args: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Operands that were in the order of their digests, in that of those that they have now."""
    if op not in _SORTED:
        return args
    first = _SORTED[op]
    rest = [a for a in args[first:] if isinstance(a, Form)]
    if len(rest) != len(args) - first:
        return args
    return (*args[:first], *sort_forms(rest))
