"""Join as JOIN, LateralJoin as JOIN LATERAL, Apply as a sub-query in the SELECT list."""

from __future__ import annotations

from sqlstream_planner.batch.select import Select, beside, by_id, cast, indented, names
from sqlstream_planner.logical import Apply, Join, JoinKind, LateralJoin, LookupJoin, SubqueryKind, sql

_WORDS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "SEMI JOIN",
    JoinKind.ANTI: "ANTI JOIN",
}


def joined(node: Join | LookupJoin, left: Select, right: Select) -> Select:
    """The pairs, columns by their ids; a chain of joins is written as one. What is looked up is what the table has today."""
    first = left.source if left.is_by_id and not left.named else left.as_item("__left")
    second = right.as_item(f"__right_{first.count(' AS __right_') + 1}")
    if node.kind is JoinKind.CROSS or (node.kind is JoinKind.INNER and node.condition is None):
        return by_id(f"{first}\nCROSS JOIN {second}", node.fields)
    on = "true" if node.condition is None else sql(node.condition)
    return by_id(f"{first}\n{_WORDS[node.kind]} {second} ON {on}", node.fields)


def beside_queries(node: LateralJoin, rows: Select, query: Select) -> str:
    """The rows beside those of a query that reads them."""
    words = "LEFT JOIN LATERAL" if node.kind is JoinKind.LEFT else "CROSS JOIN LATERAL"
    on = " ON true" if node.kind is JoinKind.LEFT else ""
    text = indented(query.text_of(f.id for f in node.query.fields))
    return (
        f"SELECT {names(f.id for f in node.fields)}\nFROM {rows.as_item('__rows')}\n"
        f"{words} (\n{text}\n) AS __query{on}"
    )


def applied(node: Apply, rows: Select, query: Select) -> str:
    """The rows with the value of the sub-query beside each."""
    ids = [f.id for f in node.input.fields]
    value = f"{cast(_value(node, query), node.result.type)} AS {names([node.result.id])}"
    return beside(rows, ids, value)


def _value(node: Apply, query: Select) -> str:
    given = [f.id for f in node.query.fields]
    match node.kind:
        case SubqueryKind.SCALAR:
            return f"(\n{indented(query.text_of(given))}\n)"
        case SubqueryKind.EXISTS:
            return f"EXISTS (\n{indented(query.text([('1', '__one')]))}\n)"
        case SubqueryKind.ALL:
            quantifier = "ALL"
        case SubqueryKind.IN | SubqueryKind.ANY:
            quantifier = "ANY"
    operands = [sql(e) for e in node.operand]
    operand = f"({operands[0]})" if len(operands) == 1 else f"({', '.join(operands)})"
    return f"{operand} {node.comparison} {quantifier} (\n{indented(query.text_of(given))}\n)"
