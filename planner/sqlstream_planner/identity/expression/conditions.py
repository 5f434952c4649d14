"""Comparisons, AND, OR, NOT, BETWEEN, IN, LIKE and CASE."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_planner.identity.expression.logic import compare, junction, negation
from sqlstream_planner.identity.expression.reader import Handler, Reader, has_only
from sqlstream_planner.identity.form import Form, form, sort_forms
from sqlstream_planner.sql.as_written import as_written

_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "is not distinct from",
    exp.NullSafeNEQ: "is distinct from",
}
_JUNCTIONS: Mapping[type[exp.Expr], str] = {exp.And: "and", exp.Or: "or"}
_LIKES: Mapping[type[exp.Expr], str] = {exp.Like: "like", exp.ILike: "ilike"}
_EXACT_DIGITS = 18  # of a literal that is kept as a DECIMAL or an integer, whatever it is compared with


def _comparison(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "expression"):
        return None
    if _is_quantified(node.this) or _is_quantified(node.expression):
        return None  # NOT a = ANY(b) is not a <> ANY(b)
    return compare(_COMPARISONS[type(node)], reader.form(node.this), reader.form(node.expression))


def _junction(reader: Reader, node: exp.Expr) -> Form:
    return junction(_JUNCTIONS[type(node)], [reader.form(o) for o in _operands(node, type(node))])


def _not(reader: Reader, node: exp.Expr) -> Form:
    return negation(reader.form(node.this))


def _is(reader: Reader, node: exp.Expr) -> Form | None:
    match node.expression:
        case exp.Null():
            return form("is null", reader.form(node.this))
        case exp.Boolean():
            return form("is true" if node.expression.this else "is false", reader.form(node.this))
    return None


def _between(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "low", "high"):
        return None
    low, high = node.args["low"], node.args["high"]
    value, least, greatest = reader.form(node.this), reader.form(low), reader.form(high)
    if not _compared_alike(reader, low, high):
        # DuckDB compares all three in one type: with a DOUBLE above, a BIGINT below is rounded, too.
        return form("between", value, least, greatest)
    return junction("and", (compare(">=", value, least), compare("<=", value, greatest)))


def _compared_alike(reader: Reader, low: exp.Expr, high: exp.Expr) -> bool:
    """Whether a value is compared with both in the same type, whatever its own is."""
    kinds = [_literal_kind(b) for b in (low, high)]
    if None not in kinds:
        return kinds[0] == kinds[1]
    if any(kinds):
        return False
    type_ = reader.type_of(low)
    return type_.is_known and type_ == reader.type_of(high)


def _in(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "expressions") or not node.expressions:
        return None
    value = reader.form(node.this)
    listed = set(map(reader.form, node.expressions))
    if len(node.expressions) == 1 and not reader.is_no_array(node.expressions[0]):
        return form("in one", value, *listed)  # x IN (array) looks into the array
    if len(listed) == 1 and not isinstance(node.this, exp.Tuple):
        return compare("=", value, listed.pop())
    return form("in", value, *sort_forms(listed))


def _like(reader: Reader, node: exp.Expr, escape: exp.Expr | None = None) -> Form | None:
    if not has_only(node, "this", "expression", "negate") or isinstance(node.expression, exp.Any):
        return None
    operands = [node.this, node.expression, *([escape] if escape is not None else [])]
    found = form(_LIKES[type(node)], *(reader.form(o) for o in operands))
    return negation(found) if node.args.get("negate") else found


def _escape(reader: Reader, node: exp.Expr) -> Form | None:
    return _like(reader, node.this, node.expression) if type(node.this) in _LIKES else None


def _case(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "ifs", "default"):
        return None
    parts = []
    chosen = reader.form(node.this) if node.this is not None else None
    for branch in node.args["ifs"]:
        condition = reader.form(branch.this)
        parts += [condition if chosen is None else compare("=", chosen, condition)]
        parts += [reader.form(branch.args["true"])]
    default = node.args.get("default")
    return form("case", *parts, form("null") if default is None else reader.form(default))


def _operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of ANDs, or of ORs, that stand in each other, from left to right."""
    found: list[exp.Expr] = []
    stack = [node]
    while stack:
        at = stack.pop()
        while isinstance(at, exp.Paren) and as_written(at) is None:
            at = at.this
        if type(at) is kind:
            stack += [at.args["expression"], at.this]
        else:
            found.append(at)
    return found


def _literal_kind(node: exp.Expr) -> str | None:
    """The kind of a literal for which all values that it is compared with are taken alike; None if there is none."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        node = node.this.unnest()
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return "string"
    written = str(node.this)
    if sum(c.isdigit() for c in written) > _EXACT_DIGITS:
        return None
    if written.isdigit():
        return "integer"
    return "double" if "e" in written.lower() else "decimal"


def _is_quantified(node: exp.Expr) -> bool:
    """Whether a comparison with this is one with some or all of many."""
    inner = node.unnest()
    if isinstance(inner, exp.Anonymous):
        return inner.name.lower() in ("any", "all", "some")
    return isinstance(inner, exp.Any | exp.All)


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_JUNCTIONS, _junction),
    **dict.fromkeys(_LIKES, _like),
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Escape: _escape,
    exp.Case: _case,
}
