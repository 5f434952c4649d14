"""Which values are instants (TIMESTAMPTZ), and where an expression mixes them with times without a zone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.logical.expressions import columns_of
from sqlstream_planner.sql.datatypes import sql_type_of
from sqlstream_planner.sql.written_calls import WrittenCall, written_call
from sqlstream_planner.text.name_lists import names_in

#: Calls that give instants of what is none.
_GIVE_INSTANTS = frozenset(
    names_in("make_timestamptz to_timestamp timezone strptime try_strptime uuid_extract_timestamp")
)
Types = Mapping[str, tuple[SqlType, bool]]


def mixes_instants(types: Sequence[SqlType]) -> bool:
    """Whether values of these types have a common one only by a time zone."""
    kinds = {t.kind for t in types if t.kind is not Kind.NULL}
    return Kind.TIMESTAMPTZ in kinds and len(kinds) > 1


def has_instants(expression: exp.Expr, types: Types) -> bool:
    """Whether an expression over columns of these types reads or makes an instant."""
    for id_ in columns_of(expression):
        found = next((t for name, (t, _) in types.items() if name.lower() == id_.lower()), None)
        if found is not None and holds_instants(found):
            return True
    for node in expression.walk():
        if isinstance(node, exp.Cast):
            to = sql_type_of(node.to)
            if holds_instants(to) or to.kind is Kind.TIMETZ:
                return True
        call = written_call(node)
        if call is not None and call.name in _GIVE_INSTANTS:
            return True
    return bool(expression.find(exp.AtTimeZone))


def holds_instants(type_: SqlType) -> bool:
    """Whether a type is, or has inside, one of instants."""
    inside = (type_.element, type_.key, type_.value, *(t for _, t in type_.fields))
    return type_.kind is Kind.TIMESTAMPTZ or any(t is not None and holds_instants(t) for t in inside)


def has_offset(node: exp.Expr) -> bool:
    """Whether a time of day is a constant that says by how much it is ahead of UTC."""
    bare = node.unnest()
    text = str(bare.this) if isinstance(bare, exp.Literal) and bare.is_string else ""
    return re.search(r":[0-9.]+\s*([Zz]|[+-][0-9:]+)\s*$", text) is not None


def alike(call: WrittenCall, types: Sequence[SqlType]) -> Sequence[SqlType]:
    """The arguments of a call that must be of one type."""
    alike = call.name in (
        "coalesce",
        "ifnull",
        "nullif",
        "greatest",
        "least",
        "list_value",
        "array_value",
        "list_contains",
    )
    if call.name in ("if", "iff"):
        return types[1:]
    return types if alike else ()


def text_of(node: exp.Expr) -> str:
    """The text of a literal, in lower case; '' of anything else."""
    bare = node.unnest()
    return str(bare.this).lower() if isinstance(bare, exp.Literal) and bare.is_string else ""
