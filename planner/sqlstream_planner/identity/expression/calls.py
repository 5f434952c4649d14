"""Calls, with what stands inside and behind their parentheses."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_planner.expressions.functions.translate.rewrite import is_translated
from sqlstream_planner.identity.expression.nested import struct_form
from sqlstream_planner.identity.expression.reader import Handler, Reader
from sqlstream_planner.identity.expression.synonyms import SYNONYMS
from sqlstream_planner.identity.form import Form, form, sort_forms
from sqlstream_planner.sql.as_written import SIDE_BY_SIDE
from sqlstream_planner.sql.written_calls import WrittenCall, written_call

_LIMITS = (exp.Limit, exp.HavingMax, exp.IgnoreNulls, exp.RespectNulls)


def _anonymous(reader: Reader, node: exp.Expr) -> Form | None:
    if isinstance(node.parent, exp.Dot) and node.arg_key == "expression":
        return None
    call = written_call(node)
    return call_form(reader, call) if call is not None and _unwrapped_whole(node) else None


def as_written_form(reader: Reader, call: WrittenCall) -> Form:
    """A call that is something else in DuckDB, as it was written."""
    arguments = [_argument(reader, a) for a in call.arguments]
    if call.name == "cast":
        return arguments[0]
    if call.name in ("if", "iff") and len(arguments) == 3:
        return form("case", *arguments)
    if call.name in ("ifnull", "nvl") and len(arguments) == 2:
        return form("call", "coalesce", *arguments)
    if call.name == SIDE_BY_SIDE:
        return form(SIDE_BY_SIDE, *sort_forms(arguments))
    if call.name == "similar to" or call.name.startswith("is json"):
        return form(call.name, *arguments)
    return form("call", call.name, *arguments)


def call_form(reader: Reader, call: WrittenCall) -> Form | None:
    """A call of a function by one name for all its synonyms; None if something in its parentheses is not known."""
    if any(isinstance(a, _LIMITS) for a in call.arguments):
        return None
    if call.name == "struct_pack":
        return struct_form(reader, call.arguments)
    name = call.name if is_translated(call.name) else SYNONYMS.get(call.name, call.name)
    arguments = [_argument(reader, a) for a in call.arguments]
    if name == "map" and len(arguments) == 2:
        return form("map", *arguments)
    if name == "xor" and len(arguments) == 2:
        return Form("xor", sort_forms(arguments))
    if call.distinct:
        arguments.append(form("distinct"))
    if call.order is not None:
        arguments.append(form("order by", *(_ordered(reader, o) for o in call.order.expressions)))
    return form("call", name, *arguments)


def _argument(reader: Reader, node: exp.Expr) -> Form:
    if isinstance(node, exp.PropertyEQ | exp.Kwarg):
        return form("named", node.this.name, reader.form(node.expression))
    if isinstance(node, exp.Alias):
        return form("named", node.alias, reader.form(node.this))
    return reader.form(node)


def _ordered(reader: Reader, node: exp.Expr) -> Form:
    if not isinstance(node, exp.Ordered):
        return form("ascending", reader.form(node), "nulls last")
    nulls = "nulls first" if node.args.get("nulls_first") else "nulls last"
    return form("descending" if node.args.get("desc") else "ascending", reader.form(node.this), nulls)


def _filter(reader: Reader, node: exp.Expr) -> Form | None:
    if not isinstance(node.expression, exp.Where):
        return None
    return form("filter", reader.form(node.this), reader.form(node.expression.this))


def _within_group(reader: Reader, node: exp.Expr) -> Form | None:
    if not isinstance(node.expression, exp.Order):
        return None
    order = form("order by", *(_ordered(reader, o) for o in node.expression.expressions))
    return form("within group", reader.form(node.this), order)


def _nulls(reader: Reader, node: exp.Expr) -> Form:
    return form(
        "ignore nulls" if isinstance(node, exp.IgnoreNulls) else "respect nulls", reader.form(node.this)
    )


def _unwrapped_whole(node: exp.Expr) -> bool:
    """Whether `written_call` keeps all that the arguments have around them."""
    for argument in node.expressions:
        inner = argument
        if isinstance(inner, _LIMITS):
            return False
        if isinstance(inner, exp.Order):
            inner = inner.this
        if isinstance(inner, exp.Distinct) and inner.args.get("on") is not None:
            return False
        if isinstance(inner, exp.IgnoreNulls | exp.RespectNulls):
            return False
    return True


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.Anonymous: _anonymous,
    exp.Filter: _filter,
    exp.WithinGroup: _within_group,
    exp.IgnoreNulls: _nulls,
    exp.RespectNulls: _nulls,
}
