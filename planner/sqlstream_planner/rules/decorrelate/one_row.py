"""How many rows a sub-query gives for each row around it."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from sqlstream_planner.logical import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Node,
    OrderLimit,
    OverWindow,
    Project,
    Scan,
    Values,
    columns_of,
)
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.rules.streaming.rank_bounds import rank_bounds


def gives_one_row(node: Node) -> bool:
    """Whether a query gives one row whatever is read: an aggregate without GROUP BY, and what projects it."""
    while isinstance(node, Project):
        node = node.input
    if isinstance(node, Values):
        return len(node.rows) == 1
    return isinstance(node, Aggregate) and node.sets == ((),)


def gives_one_row_at_most(node: Node, fixed: Iterable[str] = (), *, declared: bool = False) -> bool:
    """Whether a query gives at most one row for one row around it, of the rows in which the columns `fixed` have one value.

    Columns that are no node's of the query are of the row around: they have one value. `declared`: a PRIMARY KEY counts
    that nothing enforces, where a table is append-only; no result may depend on it.
    """
    known = frozenset(fixed)
    match node:
        case Project():
            inside = {e.unnest().name for f, e in zip(node.fields, node.items, strict=True)
                      if f.id in known and isinstance(e.unnest(), exp.Column)}  # fmt: skip
            return gives_one_row_at_most(node.input, inside, declared=declared)
        case Filter():
            terms = conjuncts(node.predicate)
            return _ranked_first(node.input, terms, known) or gives_one_row_at_most(
                node.input, _closed(known, terms, node.input), declared=declared
            )
        case Aggregate():
            if node.grouping is not None or len(node.sets) != 1:
                return False
            keys = list(zip(node.keys, node.key_expressions, strict=True))
            given = {f.id for f in node.input.fields}
            if all(f.id in known or not columns_of(e) & given for f, e in keys):
                return True
            inside = {e.name for f, e in keys if f.id in known and isinstance(e, exp.Column)}
            return gives_one_row_at_most(node.input, inside, declared=declared)
        case OrderLimit():
            return node.limit <= 1 or gives_one_row_at_most(node.input, known, declared=declared)
        case OverWindow():
            return gives_one_row_at_most(node.input, known, declared=declared)
        case Values():
            return len(node.rows) <= 1
        case Scan():
            if declared and not node.changelog and node.source.primary_key:
                key = {name.lower() for name in node.source.primary_key}
                return key <= {f.name.lower() for f in node.fields if f.id in known}
            return node.changelog and bool(node.primary_key) and known.issuperset(node.primary_key)
        case Join():
            return _joined(node, known, declared=declared)
    return False


def _joined(node: Join, known: frozenset[str], *, declared: bool) -> bool:
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return gives_one_row_at_most(node.left, known, declared=declared)
    if node.kind not in (JoinKind.INNER, JoinKind.CROSS):
        return False
    terms = conjuncts(node.condition) if node.condition is not None else []
    for first, second in ((node.left, node.right), (node.right, node.left)):
        if gives_one_row_at_most(first, _closed(known, terms, node), declared=declared):
            every = known | {f.id for f in first.fields}
            return gives_one_row_at_most(second, _closed(every, terms, node), declared=declared)
    return False


def _ranked_first(node: Node, terms: list[exp.Expr], known: frozenset[str]) -> bool:
    """Whether conditions leave the first row of each partition, of which there is one."""
    names = {f.id: f.id for f in node.fields}
    while isinstance(node, Project):
        inside = {
            f.id: e.name for f, e in zip(node.fields, node.items, strict=True) if isinstance(e, exp.Column)
        }
        names = {outer: inside[id_] for outer, id_ in names.items() if id_ in inside}
        node = node.input
    if not isinstance(node, OverWindow):
        return False
    numbers = {call.field.id for call in node.calls if call.rank == "row_number"}
    ranks = [outer for outer, id_ in names.items() if id_ in numbers]
    inner = {names[id_] for id_ in known if id_ in names}
    if not ranks or not inner.issuperset(node.partition):
        return False
    bounds, _ = rank_bounds(terms, ranks[0])
    return bounds.high is not None and bounds.high <= bounds.low


def _closed(known: frozenset[str], terms: Iterable[exp.Expr], node: Node) -> frozenset[str]:
    """The columns with one value, those among them that equalities say of."""
    given = {f.id for f in node.fields}
    found, before = set(known), -1
    equalities = [t.unnest() for t in terms if isinstance(t.unnest(), exp.EQ)]
    while len(found) != before:
        before = len(found)
        for equality in equalities:
            for mine, theirs in (
                (equality.this.unnest(), equality.expression),
                (equality.expression.unnest(), equality.this),
            ):
                known_there = not (columns_of(theirs) & given) - found
                if known_there and isinstance(mine, exp.Column) and mine.name in given:
                    found.add(mine.name)
    return frozenset(found)
