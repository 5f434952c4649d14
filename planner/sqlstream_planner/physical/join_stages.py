"""Joins by the same keys, one behind the other, in one stage: what the first gives is in the right shard already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_operators.plan.spec import ExchangeOutput
from sqlstream_operators.plan.types import INTEGERS, Kind, SqlType
from sqlstream_planner.logical import Filter, JoinKind, Node, Project, substitute
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.stages import Draft, Stages
from sqlstream_planner.streaming import EqualKey, RegularJoin

#: By the kind of a join, the sides (0: left) whose keys its rows are in the shard of.
_KEPT = {
    JoinKind.INNER: (0, 1),
    JoinKind.LEFT: (0,),
    JoinKind.SEMI: (0,),
    JoinKind.ANTI: (0,),
    JoinKind.RIGHT: (1,),
}


#: Equal numbers of these kinds are in one shard, whatever their type.
_EXACT = frozenset({*INTEGERS, Kind.DECIMAL})


def _hashed_alike(one: SqlType, other: SqlType) -> bool:
    return one == other or {one.kind, other.kind} <= _EXACT


@dataclass(slots=True)
class JoinStages:
    """The stages of the joins that are planned, and the keys, in the order in which they are hashed, that say which shard a
    row of each is in.
    """

    _known: dict[int, tuple[RegularJoin, str, tuple[EqualKey, ...]]] = field(default_factory=dict)

    def note(self, node: RegularJoin, stage: str, keys: tuple[EqualKey, ...]) -> None:
        """Remember where a join is."""
        self._known[id(node)] = (node, stage, keys)

    def home(
        self,
        stages: Stages,
        node: RegularJoin,
        keys: tuple[EqualKey, ...],
        blocks: Sequence[Sequence[Block]],
    ) -> tuple[Draft, frozenset[int]] | None:
        """A stage in whose shards the rows of a side are by a join's `keys`, and the sides (0: left) of which that is so.

        `blocks` are those of both sides. What comes from elsewhere must come from lower stage levels: the stage is given a
        higher one if nothing reads it yet. None if there is none.
        """
        found: dict[str, set[int]] = {}
        for number, mine in enumerate(blocks):
            stage = self._of(node.inputs[number], [(key.left, key.right)[number] for key in keys], keys)
            if stage is not None and {block.stage for block in mine} == {stage}:
                found.setdefault(stage, set()).add(number)
        for stage, there in found.items():
            draft = stages[stage]
            others = [block for n, mine in enumerate(blocks) if n not in there for block in mine]
            if any(block.stage == stage for block in others):
                continue  # what is shipped goes to another stage
            level = 1 + max((stages[block.stage].level for block in others), default=0)
            # A stage that another reads stays where it is; until then it can wait for what is computed later.
            if level <= draft.level or not any(isinstance(o, ExchangeOutput) for o in draft.outputs):
                draft.level = max(level, draft.level)
                return draft, frozenset(there)
        return None

    def _of(self, node: Node, values: Sequence[exp.Expr], keys: Sequence[EqualKey]) -> str | None:
        """The stage of the join that a node's rows come from, if these values are what they are kept by there."""
        while isinstance(node, Project | Filter):
            if isinstance(node, Project):
                items = {f.id: e for f, e in zip(node.fields, node.items, strict=True)}
                values = [substitute(value, items) for value in values]
            node = node.input
        if not keys or not isinstance(node, RegularJoin) or id(node) not in self._known:
            return None
        _, stage, theirs = self._known[id(node)]
        sides = _KEPT.get(node.kind, ())
        same = len(theirs) == len(keys) and all(
            _hashed_alike(mine.type, other.type)
            and any(value.unnest() == (other.left, other.right)[n].unnest() for n in sides)
            for value, mine, other in zip(values, keys, theirs, strict=True)
        )
        return stage if same else None
