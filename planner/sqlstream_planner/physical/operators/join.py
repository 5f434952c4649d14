"""RegularJoin: pairs of the rows of two relations, which are both kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.changelog_spec import JoinSideSpec, JoinSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.types import BIGINT, BLOB, Kind, SqlType
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.identity.form import Data, Form, form, sort_forms
from sqlstream_planner.identity.relation import Columns, form_over
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import Join, JoinKind, Node, RegularJoin, sql
from sqlstream_planner.physical.block import Block, weight
from sqlstream_planner.physical.by_stage import each, result_of
from sqlstream_planner.physical.operators.over_rows import columns_of_rows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.physical.state_node import StateNode, clause_of

_SIDES = ("left", "right")
#: The sides of which rows without a partner are given, by the kind.
_GIVEN_WHOLE = {
    JoinKind.LEFT: frozenset({"left"}),
    JoinKind.ANTI: frozenset({"left"}),
    JoinKind.RIGHT: frozenset({"right"}),
    JoinKind.FULL: frozenset(_SIDES),
}
#: Values of these kinds can be equal without being the same, inside of others too: the key does not say which it was.
_INEXACT = frozenset({Kind.FLOAT, Kind.DOUBLE, Kind.INTERVAL, Kind.JSON, Kind.ARRAY, Kind.MAP, Kind.STRUCT})


def plan_join(planner: Planner, node: Node) -> Block:
    """The stage that keeps the rows of both sides by their keys."""
    if not isinstance(node, RegularJoin):
        raise InternalError(f"a {type(node).__name__} is no join")
    if not isinstance(node.meaning, Join):
        raise InternalError("a join was made of something else")
    sides = [_Side.of(planner, node, side) for side in _SIDES]
    identity = _identity(planner, node, node.meaning, sides)
    shown = " and ".join(", ".join(f.name for f in side.node.fields[:1]) or "rows" for side in sides)
    kind = node.kind.lower()
    described = (
        f"{kind} join by {', '.join(sql(key.left) for key in node.keys)}" if node.keys else f"{kind} join"
    )
    keys = tuple(
        Column(name, key.type, False) for name, key in zip(sides[0].key_names, node.keys, strict=True)
    )
    spec = planner.states.keep(
        JoinSpec(
            identity.schema("join", described or shown),
            kind,
            keys,
            sides[0].spec,
            sides[1].spec,
            sql(node.condition) if node.condition is not None else None,
            columns_of_rows(node.fields),
        ),
        node.ttl_us,
        planner.ttls(node),
    )
    planner.state_nodes[spec.state.state_id] = StateNode(
        node, planner.meanings, {}, at=clause_of(node.meaning)
    )
    name = planner.stages.name(spec.kind)
    blocks = [planner.blocks(side.node) for side in sides]
    draft = planner.stages.behind(name, [*blocks[0], *blocks[1]])
    hashed = tuple(f.name for f in spec.state.tables[0].key)
    inputs = []
    for side, mine in zip(sides, blocks, strict=True):
        shipment = Shipment(f"{name}.{side.name}", each(side.sql), side.shipped)
        inputs += planner.stages.ship(mine, [shipment], hashed)
    draft.run(name, spec, inputs)
    return result_of(name, node, weighted=spec.emits_changes)


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a join: `keys` are its expressions, of the types `types`; `whole`: rows without a partner are given."""

    name: str
    node: Node
    keys: tuple[exp.Expr, ...]
    types: tuple[SqlType, ...]
    spec: JoinSideSpec
    meanings: Columns
    whole: bool

    @classmethod
    def of(cls, planner: Planner, join: RegularJoin, name: str) -> _Side:
        node = join.left if name == "left" else join.right
        keys = tuple((key.left if name == "left" else key.right).unnest() for key in join.keys)
        types = tuple(key.type for key in join.keys)
        by_id = {f.id: f for f in node.fields}
        plain: list[str] = []
        for key, type_ in zip(keys, types, strict=True):
            is_column = isinstance(key, exp.Column) and by_id[key.name].type == type_
            exact = is_column and type_.kind not in _INEXACT and key.name not in plain
            plain.append(key.name if exact else "")
        spec = JoinSideSpec(columns_of_rows(node.fields), tuple(plain), planner.changes(node))
        whole = name in _GIVEN_WHOLE.get(join.kind, ())
        return cls(name, node, keys, types, spec, planner.meanings.columns(node), whole)

    @property
    def key_names(self) -> tuple[str, ...]:
        """What the keys are called, on both sides alike: no column's id begins so."""
        return tuple(f"__key_{n + 1}" for n in range(len(self.keys)))

    @property
    def shipped(self) -> Schema:
        """What is shipped to the join."""
        keys = tuple(Column(n, t, self.whole) for n, t in zip(self.key_names, self.types, strict=True))
        weights = (Column(WEIGHT_COLUMN, BIGINT, False),) if self.spec.retracting else ()
        return (*keys, *self.spec.stored, *weights)

    def sql(self, block: Block) -> str:
        """The rows of a block as the join takes them; those that can't be in the answer are left out."""
        known = {f.id: (f.type, f.nullable) for f in self.node.fields}
        keys, missing = [], []
        for key, name, type_ in zip(self.keys, self.key_names, self.types, strict=True):
            value = block.expression(key)
            found = infer(key, known)
            if found.type != type_:
                value = exp.cast(value.copy(), exp.DataType.build(str(type_), dialect="duckdb"))
            keys.append((sql(value), name))
            if found.nullable:
                missing.append(exp.Is(this=exp.paren(block.expression(key)), expression=exp.Null()))
        if not self.whole:
            block = replace(block, where=(*block.where, *(exp.Not(this=is_null) for is_null in missing)))
        items = [*keys, *((sql(block.columns[c.name]), c.name) for c in self.spec.stored)]
        if self.spec.retracting:
            items.append((f"CAST({sql(weight(block))} AS BIGINT)", WEIGHT_COLUMN))
        return block.select(items)

    def table(self, equal: tuple[Form, ...]) -> StoredTable:
        """The rows of the side in state."""
        key = tuple(
            Stored(name, type_, meaning)
            for name, type_, meaning in zip(self.key_names, self.types, equal, strict=True)
        )
        row = Stored("__row", BLOB, form("row"))
        count = Stored("__count", BIGINT, form("how often"), rank="0 ")
        value = tuple(Stored(c.name, c.type, self.meanings[c.name]) for c in self.spec.stored)
        return StoredTable(self.name, "key", key, (row,), (count, *value))

    def payload(self) -> tuple[Form, ...]:
        """What the columns of the side mean, as the digest of a row has them."""
        return sort_forms({form("payload", self.meanings[c.name], str(c.type)) for c in self.spec.columns})


def _identity(planner: Planner, node: RegularJoin, meaning: Join, sides: list[_Side]) -> StateIdentity:
    """What the state of a join means: the rows of both sides, by what is equal, and what it makes of them."""
    left, right = sides
    equal = tuple(
        form(
            "equal",
            planner.meanings.expression(key.left, left.node),
            planner.meanings.expression(key.right, right.node),
            str(key.type),
        )
        for key in node.keys
    )
    compared = left.meanings.and_of(right.meanings)
    if node.condition is not None:
        level = {id_: form(side.name, f) for side in sides for id_, f in side.meanings.items()}
        condition: Form | None = form_over(node.condition, Columns(level, compared.types))
    else:
        condition = None
    attributes: dict[str, Data] = {
        "kind": node.kind.value,
        "condition": condition,
        "left payload": left.payload(),
        "right payload": right.payload(),
        "left rows can go": left.spec.retracting,
        "right rows can go": right.spec.retracting,
        "time to live": node.ttl_us,
    }
    rows = form("sides", planner.meanings.relation(meaning.left), planner.meanings.relation(meaning.right))
    tables = tuple(side.table(equal) for side in sides)
    return StateIdentity("joined rows", rows, equal, attributes, tables)


def explain_join(name: str, spec: JoinSpec) -> list[str]:
    """The lines of the operator's step."""
    lines = [
        f"  {name} = {spec.type} join, kept up to date, state {spec.state.state_id}, all rows of both sides are kept"
    ]
    for key, left, right in zip(spec.keys, spec.left.keys, spec.right.keys, strict=True):
        sides = " = ".join(
            f"{side}'s {column or 'expression'}" for side, column in (("left", left), ("right", right))
        )
        lines.append(f"    {key.name}: {sides}")
    if not spec.keys:
        lines.append("    by no key: all rows are in one shard")
    if spec.condition is not None:
        lines.append(f"    where {spec.condition}")
    return lines
