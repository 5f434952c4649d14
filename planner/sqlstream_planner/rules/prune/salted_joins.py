"""a JOIN (one row) ON a.x > y  ->  the same by a part that each row of a is in, with the one row in every part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.join_spec import gives_alone
from sqlstream_operators.plan.types import BIGINT, INTEGERS, Kind
from sqlstream_planner.logical import (
    Field,
    Join,
    JoinKind,
    Node,
    Project,
    Sink,
    Unnest,
    column,
    raw,
    rebuild,
    sql,
)
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.properties.unique_keys import UniqueKeys
from sqlstream_planner.streaming import EqualKey, RegularJoin

#: How many parts there are: where a row is in state depends on it, so that it must never change.
PARTS = 128
#: Equal values of these kinds have one text, which no setting of DuckDB changes.
_EXACT = frozenset(
    {*INTEGERS, Kind.DECIMAL, Kind.VARCHAR, Kind.BOOLEAN, Kind.UUID, Kind.DATE, Kind.TIMESTAMP}
)


def salted_joins(roots: tuple[Sink, ...], facts: Facts) -> tuple[Sink, ...]:
    """Share the rows of a join without an equality out, where the other side has one row at most: a broadcast.

    By no key all rows would be in one shard. The one row (of an aggregate without GROUP BY, of what a sub-query stands for)
    is repeated for every part, and a row of the large side is in the part that its shortest unique key says, or all its
    columns. A preserved side can't be repeated: each part would give a row without a partner.

    >>> from sqlstream_planner.rules.streaming.aggregates import aggregates
    >>> from sqlstream_planner.rules.streaming.regular_joins import regular_joins
    >>> from sqlstream_planner.testing import logical, streaming
    >>> groups, one = "SELECT c, SUM(a) AS n FROM t GROUP BY c", "SELECT MAX(a) AS m FROM t"
    >>> query = f"SELECT g.c FROM ({groups}) AS g JOIN ({one}) AS x ON n > m"
    >>> text = logical(query, rules=(*streaming(aggregates, regular_joins), salted_joins))
    >>> print(text.replace(sql(_part_of(["c_3"])).replace('"', ""), "part of c_3"))
    sink result
      project c = c_3
        project c = c_3, n = n, m = m
          inner regular join on part of c_3 = "m.part" AND n > m
            project c = c_2, n = sum
              group aggregate by c calls sum(a)
                scan t (a, c, ts)
            project m = m, part = "m.part"
              unnest RANGE(0, 128) as number
                project m = max
                  group aggregate calls max(a_2)
                    scan t (a, c, ts)
    """
    keys = facts.keys

    def rewrite(node: Node, _: Node) -> Node:
        if not isinstance(node, RegularJoin) or node.keys or not isinstance(node.meaning, Join):
            return node
        for number in (1, 0):
            one, many = node.inputs[number], node.inputs[1 - number]
            if () in keys(one) and () not in keys(many) and _can_be_repeated(node.kind, number):
                read = _part_columns(many, keys)
                return _by_part(node, number, read) if read else node
        return node

    return rebuild(roots, rewrite)


def _can_be_repeated(kind: JoinKind, side: int) -> bool:
    """Whether a join of a kind gives the same where the rows of a side (0: the left) come again in every part."""
    if side == 0 and kind in (JoinKind.SEMI, JoinKind.ANTI):
        return False
    return not gives_alone(kind.lower(), ("left", "right")[side])


def _part_columns(node: Node, keys: UniqueKeys) -> Sequence[str]:
    """The columns that say which part a row is in."""
    exact = [f.id for f in node.fields if f.type.kind in _EXACT]
    return min((key for key in keys(node) if set(key) <= set(exact)), key=len, default=tuple(exact))


def _by_part(node: RegularJoin, side: int, read: Sequence[str]) -> Project:
    part = Field(f"{node.inputs[side].fields[0].id}.part", "part", BIGINT, False)
    mine, theirs = column(part.id), _part_of(read)
    key = EqualKey(mine, theirs, BIGINT) if side == 0 else EqualKey(theirs, mine, BIGINT)
    condition = None if node.condition == exp.true() else node.condition
    left, right = _with_part(node.inputs, side, part)
    meant = _with_part(node.meaning.inputs, side, part)
    meaning = node.meaning.with_inputs(meant)
    made = replace(node, left=left, right=right, keys=(key,), condition=condition, meaning=meaning)
    return Project(made, node.fields, tuple(column(f.id) for f in node.fields))


def _part_of(columns: Sequence[str]) -> exp.Expr:
    """The number of a row's part: a digest of its texts, which is the same for ever."""
    texts = ", ".join(f"CAST({sql(column(id_))} AS VARCHAR)" for id_ in columns)
    number = f"CAST('0x' || substr(md5(concat_ws(' ', {texts})), 1, 4) AS BIGINT) % {PARTS} + 1"
    return raw(f"coalesce({number}, 1)")


def _with_part(inputs: Sequence[Node], side: int, part: Field) -> tuple[Node, Node]:
    """The inputs of a join, of which one has each row once for each part."""
    left, right = (_repeated(node, part) if n == side else node for n, node in enumerate(inputs))
    return left, right


def _repeated(node: Node, part: Field) -> Project:
    number = Field(f"{part.id}.number", "number", BIGINT, False)
    copies = Unnest(node, raw(f"range({PARTS})"), (number,), False, part, False)
    fields = (*node.fields, part)
    return Project(copies, fields, tuple(column(f.id) for f in fields))
