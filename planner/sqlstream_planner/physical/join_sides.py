"""The sides of a join: what is shipped of each, what is kept of it, and what that means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.join_spec import JoinSideSpec, gives_alone
from sqlstream_operators.plan.schema import SLICE_COLUMN, WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import Layout
from sqlstream_operators.plan.types import BIGINT, BLOB, NESTED, Kind, SqlType
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.identity.form import Data, Form, form, sort_forms
from sqlstream_planner.identity.parts import Columns, form_over
from sqlstream_planner.identity.state import Stored, StoredTable
from sqlstream_planner.logical import Join, Node, sql
from sqlstream_planner.physical.block import Block, weight
from sqlstream_planner.physical.operators.over_rows import columns_of_rows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.sql.datatypes import as_type
from sqlstream_planner.streaming import IntervalJoin, RegularJoin, TemporalJoin

SIDES = ("left", "right")
#: Values of these kinds can be equal without being the same, inside of others too: the key does not say which it was.
_INEXACT = NESTED | {Kind.FLOAT, Kind.DOUBLE, Kind.INTERVAL, Kind.JSON}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join: `keys` are its expressions, of the types `types`; `whole`: rows without a partner are given."""

    name: str
    node: Node
    keys: tuple[exp.Expr, ...]
    types: tuple[SqlType, ...]
    spec: JoinSideSpec
    meanings: Columns
    whole: bool

    @classmethod
    def of(cls, planner: Planner, join: RegularJoin | IntervalJoin | TemporalJoin, name: str) -> Side:
        """The side of a join that is called `name`."""
        node = join.left if name == "left" else join.right
        keys = tuple((key.left if name == "left" else key.right).unnest() for key in join.keys)
        types = tuple(key.type for key in join.keys)
        whole = gives_alone(join.kind.lower(), name)
        return cls.over(planner, node, name, keys, types, whole=whole, counts=isinstance(join, RegularJoin))

    @classmethod
    def over(
        cls,
        planner: Planner,
        node: Node,
        name: str,
        keys: tuple[exp.Expr, ...],
        types: tuple[SqlType, ...],
        *,
        whole: bool,
        counts: bool = True,
    ) -> Side:
        """The rows of `node` by `keys`; `counts`: those of a key may come as one, where they are the same."""
        by_id = {f.id: f for f in node.fields}
        plain: list[str] = []
        for key, type_ in zip(keys, types, strict=True):
            is_column = isinstance(key, exp.Column) and by_id[key.name].type == type_
            exact = is_column and type_.kind not in _INEXACT and key.name not in plain
            plain.append(key.name if exact else "")
        changes = planner.changes(node)
        spec = JoinSideSpec(
            columns_of_rows(node.fields), tuple(plain), changes, distinct=changes and planner.holds_once(node)
        )
        spec = replace(spec, counted=counts and bool(keys) and not spec.stored)
        return cls(name, node, keys, types, spec, planner.meanings.columns(node), whole)

    @property
    def key_names(self) -> tuple[str, ...]:
        """What the keys are called, on both sides alike: no column's id begins so."""
        return tuple(f"__key_{n + 1}" for n in range(len(self.keys)))

    @property
    def shipped(self) -> Schema:
        """What is shipped to the join."""
        keys = tuple(Column(n, t, self.whole) for n, t in zip(self.key_names, self.types, strict=True))
        weighted = self.spec.retracting or self.spec.counted
        weights = (Column(WEIGHT_COLUMN, BIGINT, False),) if weighted else ()
        return (*keys, *self.spec.stored, *weights)

    def sql(self, block: Block, slice_: str | None = None) -> str:
        """The rows of a block as the join takes them; those that can't be in the result are left out.

        With `slice_`, an expression over the block, they have it as SLICE_COLUMN.
        """
        known = {f.id: (f.type, f.nullable) for f in self.node.fields}
        keys, missing = [], []
        for key, name, type_ in zip(self.keys, self.key_names, self.types, strict=True):
            value = block.expression(key)
            found = infer(key, known)
            if found.type != type_:
                value = as_type(value, type_)
            keys.append((sql(value), name))
            if found.nullable:
                missing.append(exp.Is(this=exp.paren(block.expression(key)), expression=exp.Null()))
        if not self.whole:
            block = replace(block, where=(*block.where, *(exp.Not(this=is_null) for is_null in missing)))
        items = [*keys, *((sql(block.columns[c.name]), c.name) for c in self.spec.stored)]
        if self.spec.counted:
            items.append((f"CAST(sum({sql(weight(block))}) AS BIGINT)", WEIGHT_COLUMN))
            # Keys that are constants make one group even of no rows.
            return block.select(items, group_by="ALL\nHAVING count(*) > 0")
        if self.spec.retracting:
            items.append((f"CAST({sql(weight(block))} AS BIGINT)", WEIGHT_COLUMN))
        if slice_ is not None:
            items.append((slice_, SLICE_COLUMN))
        return block.select(items)

    def table(
        self, equal: tuple[Form, ...], layout: Layout = "key", *, as_listed: bool = False
    ) -> StoredTable:
        """The rows of the side in state; `as_listed`: by the keys in the order that they have here."""
        key = tuple(
            Stored(name, type_, meaning, f"{number:03} " if as_listed else "")
            for number, (name, type_, meaning) in enumerate(
                zip(self.key_names, self.types, equal, strict=True)
            )
        )
        row = Stored("__row", BLOB, form("row"))
        count = Stored("__count", BIGINT, form("how often"), rank="0 ")
        value = tuple(Stored(c.name, c.type, self.meanings[c.name]) for c in self.spec.stored)
        return StoredTable(self.name, layout, key, (row,), (count, *value))

    def payload(self) -> tuple[Form, ...]:
        """What the columns of the side mean, as the digest of a row has them."""
        return sort_forms({form("payload", self.meanings[c.name], str(c.type)) for c in self.spec.columns})


def relational(node: RegularJoin | IntervalJoin) -> Join:
    """The Join that one was made of."""
    if not isinstance(node.meaning, Join):
        raise InternalError("a join was made of something else")
    return node.meaning


def equal_forms(planner: Planner, node: RegularJoin | IntervalJoin | TemporalJoin) -> tuple[Form, ...]:
    """What a join's keys mean."""
    return tuple(
        form(
            "equal",
            planner.meanings.expression(key.left, node.left),
            planner.meanings.expression(key.right, node.right),
            str(key.type),
        )
        for key in node.keys
    )


def shared_attributes(
    node: RegularJoin | IntervalJoin | TemporalJoin, sides: Sequence[Side]
) -> dict[str, Data]:
    """What is compared of the states of two joins of the same rows."""
    left, right = sides
    compared = left.meanings.and_of(right.meanings)
    if node.condition is not None:
        columns = {id_: form(side.name, f) for side in sides for id_, f in side.meanings.items()}
        condition: Form | None = form_over(node.condition, Columns(columns, compared.types))
    else:
        condition = None
    return {
        "kind": node.kind.value,
        "condition": condition,
        "left payload": left.payload(),
        "right payload": right.payload(),
    }


def described(node: RegularJoin | IntervalJoin) -> str:
    """A join for people."""
    kind = node.kind.lower()
    if node.keys:
        return f"{kind} join by {', '.join(sql(key.left) for key in node.keys)}"
    return f"{kind} join"
