"""Two sub-plans that are the same but for the ids of their columns  ->  one, which both consumers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as attributes
from typing import Any

from sqlglot import exp

from sqlstream_planner.logical import (
    Apply,
    AsOfJoin,
    ColumnId,
    Field,
    Fields,
    Join,
    JoinKind,
    LateralJoin,
    LookupJoin,
    Node,
    Project,
    Sink,
    column,
    columns_of,
    sql,
    substitute,
    walk,
)
from sqlstream_planner.logical.node import Part
from sqlstream_planner.properties.facts import Facts


def share_equal_subplans(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """Make one node of all nodes that are structurally equal.

    Nodes are equal if every attribute is, over inputs that are the same: only the ids and the names of columns may
    differ, and places in the file. What state means takes no part in it: two nodes that mean the same in two spellings
    stay two, which costs work, while two that differ in anything are never taken for one.

    >>> from sqlstream_planner.testing import logical
    >>> print(logical("SELECT a AS x FROM t UNION ALL SELECT a AS y FROM t", rules=(share_equal_subplans,)))
    sink result
      project x = x_2
        union all
          [1] project x = a
            scan t (a, c, ts)
          [1]
    """
    return _shared(roots, pairs=True)


def share_all_but_pairs(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """The same, but for all pairs of two relations: FROM t, u has its conditions in WHERE, and is what they make of it.

    >>> from sqlstream_planner.testing import logical
    >>> pairs = "SELECT x.a FROM t AS x, (SELECT a + 1 AS b FROM t) AS y"
    >>> query = f"{pairs} WHERE x.a = b UNION ALL {pairs} WHERE x.a < b"
    >>> logical(query, rules=(share_equal_subplans,)).count("cross join")
    1
    >>> logical(query, rules=(share_all_but_pairs,)).count("cross join")
    2
    """
    return _shared(roots, pairs=False)


def _shared(roots: tuple[Sink, ...], *, pairs: bool) -> tuple[Sink, ...]:
    shared: dict[object, Node] = {}
    made: dict[int, Node] = {}
    for node in walk(roots):
        inputs = _disambiguated(node, tuple(made[id(i)] for i in node.inputs))
        renamed = _renamed(node, inputs)
        apart = isinstance(node, Sink) or (
            not pairs and isinstance(node, Join) and node.kind is JoinKind.CROSS
        )
        made[id(node)] = renamed if apart else shared.setdefault(_structure(renamed), renamed)
    return tuple(root for root in (made[id(r)] for r in roots) if isinstance(root, Sink))


def _disambiguated(node: Node, inputs: tuple[Node, ...]) -> tuple[Node, ...]:
    """The inputs, columns under the ids that they had where others would not do: in a Join of a relation with itself,
    around a sub-query, which names them deep inside, and there, where they would have the ids of the outer rows.
    """
    if not isinstance(node, Join | AsOfJoin | LookupJoin | Apply | LateralJoin):
        return tuple(
            _under(after, before.fields) if _reads_around(node, before, after) else after
            for before, after in zip(node.inputs, inputs, strict=True)
        )
    found: list[Node] = []
    for before, after in zip(node.inputs, inputs, strict=True):
        taken = {f.id for i in found for f in i.fields}
        if (
            isinstance(node, Apply | LateralJoin)
            or any(f.id in taken for f in after.fields)
            or _reads_around(node, before, after)
        ):
            after = _under(after, before.fields)
        found.append(after)
    if len({f.id for i in found for f in i.fields}) < sum(len(i.fields) for i in found):
        # What is shared can have the ids that another input had before.
        return tuple(_under(i, before.fields) for before, i in zip(node.inputs, inputs, strict=True))
    return tuple(found)


def _reads_around(node: Node, before: Node, after: Node) -> bool:
    """Whether a node of a sub-query reads a column of the outer rows that would be one of its input's by its id."""
    added = {f.id for f in after.fields} - {f.id for f in before.fields}
    if not added:
        return False
    read = set(node.references()).union(*(columns_of(e) for e in node.expressions()))
    return bool(added & read)


def _under(node: Node, fields: Fields) -> Node:
    if tuple(f.id for f in node.fields) == tuple(f.id for f in fields):
        return node
    return Project(node, fields, tuple(column(f.id) for f in node.fields))


def _renamed(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over other inputs, whose columns stand at the same positions under other ids."""
    ids = {
        old.id: new.id
        for before, after in zip(node.inputs, inputs, strict=True)
        for old, new in zip(before.fields, after.fields, strict=True)
        if old.id != new.id
    }
    node = node.with_inputs(inputs)
    if not ids:
        return node
    columns = {old: column(new) for old, new in ids.items()}
    renamed = node.with_expressions(lambda e: substitute(e, columns) if columns.keys() & columns_of(e) else e)
    return renamed.with_references(lambda r: ColumnId(ids.get(r, r)))


def _structure(node: Node) -> object:
    """Everything that a node is, with columns by position: its own, and those of its inputs."""
    positions = {f.id: f"#{p}" for p, f in enumerate(node.fields)}
    positions |= {f.id: f"#{n}.{p}" for n, i in enumerate(node.inputs) for p, f in enumerate(i.fields)}
    own = tuple(_value(getattr(node, name), positions) for name in node.own_attributes())
    return type(node), tuple(id(i) for i in node.inputs), own


def _value(value: Any, positions: Mapping[str, str]) -> object:
    if isinstance(value, exp.Column):
        return exp.Column, positions.get(value.name, value.name)
    if isinstance(value, exp.Expr):
        named = {id_: column(positions[id_]) for id_ in columns_of(value) if id_ in positions}
        return type(value), sql(substitute(value, named))
    if isinstance(value, ColumnId):
        return positions.get(value, value)
    if isinstance(value, Field):
        return str(value.type), value.nullable, repr(value.time), repr(value.window), value.orders
    if isinstance(value, tuple):
        return tuple(_value(v, positions) for v in value)
    if isinstance(value, Part):
        return type(value), tuple(
            _value(getattr(value, a.name), positions)
            for a in attributes(value)
            if not a.metadata.get("non_semantic", False)
        )
    return type(value), repr(value)
