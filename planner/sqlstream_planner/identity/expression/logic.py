"""Forms of conditions, in one spelling: comparisons one way, AND and OR sorted, NOT pushed to what it negates.

All of it holds in SQL's three-valued logic, and in DuckDB's total order of values (NaN equals NaN and is greater
than every number), so that NOT a < b is b <= a for every a and b.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream_planner.identity.form import Form, form, sort_forms

#: Operators whose operands may be exchanged.
SYMMETRIC = frozenset({"=", "<>", "is not distinct from"})
#: Forms that are a BOOLEAN whatever they are applied to.
_BOOLEAN = SYMMETRIC | {
    "<", "<=", "and", "or", "not", "in", "between", "boolean", "is null", "is true", "is false", "is json",
    "like", "ilike", "glob", "similar to", "~", "~*",
}  # fmt: skip


def compare(op: str, left: Form, right: Form) -> Form:
    """A comparison; `>` and `>=` are turned around.

    >>> a, b = form("a"), form("b")
    >>> compare(">", a, b) == compare("<", b, a), compare("=", a, b) == compare("=", b, a)
    (True, True)
    """
    match op:
        case ">" | ">=":
            return form("<" if op == ">" else "<=", right, left)
        case "is distinct from":
            return form("not", compare("is not distinct from", left, right))
        case _ if op in SYMMETRIC:
            return Form(op, sort_forms((left, right)))
    return form(op, left, right)


def junction(op: str, operands: Iterable[Form]) -> Form:
    """`and` or `or` over operands, without repetition; one condition alone is that condition.

    What is no BOOLEAN becomes one (7 AND 7 is TRUE), so that it stays inside.

    >>> a, b = form("<", form("x"), form("y")), form("column", "b")
    >>> junction("and", (a, a)) == a, junction("and", (b, b)) == b
    (True, False)
    >>> junction("or", (a, junction("or", (b, a)))) == junction("or", (b, a))
    True
    """
    flat: set[Form] = set()
    for operand in operands:
        if operand.op == op:
            flat.update(a for a in operand.args if isinstance(a, Form))
        else:
            flat.add(operand)
    if len(flat) == 1 and is_boolean(next(iter(flat))):
        return flat.pop()
    return Form(op, sort_forms(flat))


def negation(condition: Form) -> Form:
    """NOT `condition`.

    >>> a, b = form("a"), form("b")
    >>> negation(compare("<", a, b)) == compare(">=", a, b), negation(compare("=", a, b)).op
    (True, '<>')
    """
    # Iterative by hand: AND and OR may nest as deep as the user likes to write.
    done: dict[Form, Form] = {}
    stack = [condition]
    while stack:
        at = stack[-1]
        inside = [a for a in at.args if isinstance(a, Form)] if at.op in ("and", "or") else []
        missing = [a for a in inside if a not in done]
        if missing:
            stack.extend(missing)
            continue
        done[stack.pop()] = _negated(at, [done[a] for a in inside])
    return done[condition]


def _negated(condition: Form, inside: list[Form]) -> Form:
    match condition.op:
        case "and" | "or":
            return junction("or" if condition.op == "and" else "and", inside)
        case "=" | "<>":
            return Form("<>" if condition.op == "=" else "=", condition.args)
        case "<" | "<=":
            left, right = condition.args
            return form("<=" if condition.op == "<" else "<", right, left)
        case "not":
            [inner] = condition.args
            assert isinstance(inner, Form)
            return junction("and", (inner,))
    return form("not", condition)


def is_boolean(condition: Form) -> bool:
    """Whether a form is certainly a BOOLEAN, and not something that becomes one where a condition is wanted."""
    if condition.op in ("cast", "try cast"):
        return condition.args[1:] == (form("type", "BOOLEAN"),)
    return condition.op in _BOOLEAN
