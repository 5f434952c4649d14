"""Branches of UNION ALL and INTERSECT, in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlstream_planner.identity.canonical.types import whole
from sqlstream_planner.identity.expression import OPERATORS
from sqlstream_planner.identity.form import Form, form, walk

_SET_OPERATIONS = frozenset({"union", "intersect", "except"})
#: What does not depend on which row arrived first, whatever it is computed of: of rows that arrived at once, the branches
#: of a UNION decide that. What is not here may depend on it.
_IN_ANY_ORDER = frozenset(
    {
        "source", "column", "either", "field", "filter", "conditions", "query", "columns", "payload", "set", "groups",
        "branch", "set column", "windows", "window", "window start", "window end", "window time", "in window", "given",
        "arguments", "how often", "distinct value", "value", "values", "rows", "key", "grouping",
        *_SET_OPERATIONS, *OPERATORS,
    }
) - {"order by", "within group"}  # fmt: skip
_AGGREGATES = frozenset(
    {"count", "sum", "min", "max", "avg", "count_if", "count_if_not", "bool_and", "bool_or"}
)
#: What says which rows there are and by which keys.
_DECIDING = frozenset({"groups", "filter", "conditions", "set"})
#: The order of the branches, by how many there are.
Orders = Mapping[int, tuple[int, ...]]


def branch_orders(roots: Iterable[Form], spelled: Callable[[Form], Form]) -> Orders:
    """In which order the branches of a UNION ALL or INTERSECT are put; nothing where that is not known.

    A column says what it is in each branch, and not of which set operation: so only one may be there. Nor where something
    depends on the order of arrival. Whatever the order, it is that of the rows and of all columns, so that it
    changes nothing of what they mean together: equal branches are distinguished by their columns, first by those that decide
    which rows there are, as they are in states that keep other values too.
    """
    forms = list(walk(*roots))
    found = [f for f in forms if f.op in _SET_OPERATIONS]
    if len(found) != 1 or found[0].op == "except" or not all(map(_is_in_any_order, forms)):
        return {}
    branches = [spelled(a).digest for a in found[0].args if isinstance(a, Form)]
    deciding = list(walk(*(f for f in forms if f.op in _DECIDING)))
    given = list(walk(*(f for f in forms if f.op == "columns")))  # in an order that says what is where
    d, a, g = (_by_branch(fs, len(branches), spelled) for fs in (deciding, forms, given))
    keys = [(branch, sorted(d[n]), sorted(a[n]), g[n]) for n, branch in enumerate(branches)]
    return {len(branches): tuple(sorted(range(len(branches)), key=keys.__getitem__))}


def _by_branch(forms: Iterable[Form], count: int, spelled: Callable[[Form], Form]) -> list[list[str]]:
    """What the columns of a set operation are in each of its branches."""
    found: list[list[str]] = [[] for _ in range(count)]
    for each in forms:
        parts = [a for a in each.args if isinstance(a, Form)] if each.op == "either" else []
        if len(parts) == count:
            for branch, part in zip(found, parts, strict=True):
                branch.append(spelled(part).digest)
    return found


def _is_in_any_order(found: Form) -> bool:
    match found.op, found.args:
        case "accumulator", (str(kind), *_):
            return kind in _AGGREGATES
        case "aggregate", (_, Form("aggregate call", (str(name), *_))):
            return name.lower() in _AGGREGATES
        case "aggregate call", (_, _, _, _, *order):
            return not order
    return found.op in _IN_ANY_ORDER


def reordered(found: Form, orders: Orders) -> Form:
    """A UNION ALL, an INTERSECT or a column of one with its branches in their order."""
    first = 1 if found.op in ("intersect", "either") else 0
    branches = found.args[first:]
    if len(branches) not in orders or not all(isinstance(b, Form) for b in branches):
        return found
    ordered = [branches[n] for n in orders[len(branches)]]
    if found.op == "either" and len(set(ordered)) == 1 and isinstance(ordered[0], Form):
        return ordered[0]
    return Form(found.op, (*found.args[:first], *ordered))


def of_branches(found: Form) -> Form | None:
    """Which branches' rows pass a comparison with the number that each branch gives its rows.

    >>> def tag(n): return form("cast", form("number", n), form("type", "TINYINT"))
    >>> print(of_branches(form("=", form("number", "1"), form("either", 2, tag("0"), tag("1")))).args)
    (2, 2, 1)
    """
    match found.op, found.args:
        case "=", (Form() as one, Form() as other):
            number, tagged = (one, other) if other.op == "either" else (other, one)
        case _:
            return None
    wanted = whole(number)
    if wanted is None or tagged.op != "either":
        return None
    depth, *tags = tagged.args
    numbers = [_tag(t) for t in tags]
    if None in numbers:
        return None
    return form("of branches", depth, len(tags), *(n for n, tag in enumerate(numbers) if tag == wanted))


def _tag(found: object) -> int | None:
    match found:
        case Form("cast", (Form() as number, Form("type"))):
            return whole(number)
    return None
