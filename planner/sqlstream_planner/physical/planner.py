"""What the planning of every operator shares: the stages and states so far, and what is known of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from sqlstream_operators.plan.schema import KIND_COLUMN, WEIGHT_COLUMN
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.catalog.descriptor import ONE_ROW
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import form, sort_forms
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import (
    EpochValues,
    EventTime,
    Field,
    Node,
    Scan,
    StreamingOperator,
    Values,
    column,
    consumers,
    raw,
    sql,
    walk,
)
from sqlstream_planner.physical.block import ANY_STAGE, Block, with_numbers, with_rows
from sqlstream_planner.physical.by_stage import by_stage
from sqlstream_planner.physical.fragments import Fragments
from sqlstream_planner.physical.join_stages import JoinStages
from sqlstream_planner.physical.late_rows import LateRows
from sqlstream_planner.physical.stages import Draft, Stages
from sqlstream_planner.physical.state_node import StateNode
from sqlstream_planner.physical.states import States
from sqlstream_planner.physical.written_rows import written_rows
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.streaming import Arrangement, RegularJoin


@dataclass(frozen=True, slots=True)
class Partial:
    """The partial of a window aggregate over the rows of each of `stages`, without those that are late: `relation` there.

    `keys` are its columns with the aggregate's keys, `accumulators` those of the calls that have one, by the ids of these.
    """

    relation: str
    stages: frozenset[str]
    keys: tuple[str, ...]
    accumulators: Mapping[str, str]


class Planner:
    """Plans the operators of one streaming plan, each once.

    `operators` gives for each kind of node how it is planned: the function makes its stage and gives the block with its
    result.
    """

    def __init__(
        self,
        roots: Sequence[Node],
        sources: Mapping[str, SourceSpec],
        operators: Operators,
        *,
        facts: Facts,
        ttl_in_ids: bool = False,
    ) -> None:
        self.stages = Stages()
        self.states = States(ttl_in_ids=ttl_in_ids)
        self.join_stages = JoinStages()
        self.meanings = Meanings()
        self.facts = facts
        self.changes = self.facts.changes
        #: By the id of a state that was planned, what it is made of.
        self.state_nodes: dict[str, StateNode] = {}
        #: By their group, the arrangements that run together.
        self.arrangements: dict[int, list[Arrangement]] = {}
        for node in walk(roots):
            if isinstance(node, Arrangement):
                self.arrangements.setdefault(node.group, []).append(node)
        #: By `id(node)`, the groups of arrangements that operators run with; by their group, the stages of these.
        self._together = {id(a.kept_by): a.group for group in self.arrangements.values() for a in group}
        self._stages_of_groups: dict[int, str] = {}
        self._sources = sources
        self._operators = operators
        self._results: dict[int, tuple[Node, Block]] = {}
        self._partials: dict[int, tuple[Node, Partial]] = {}
        numbering = [node for node in walk(roots) if isinstance(node, EpochValues) and node.numbers_rows]
        #: By `id(node)`, the leaves whose rows are numbered, for random values and the order of arrival.
        self._numbered = {id(leaf) for leaf in walk(numbering) if isinstance(leaf, Scan | Values)}
        self._fragments = Fragments(self.stages, consumers(roots), self._leaf)

    def blocks(self, node: Node, *, rows: bool = False, timeless: bool = False) -> list[Block]:
        """The blocks whose rows together are the node's rows.

        `rows`: with the source rows as JSON, for dead letters. `timeless`: with rows that have no event time.
        """
        return self._fragments.blocks(node, rows=rows, timeless=timeless)

    def result(self, node: Node) -> Block:
        """Where an operator's result is; its stage is made when it is first needed."""
        if id(node) not in self._results:
            self.note(node, self._operators[type(node)](self, node))
        return self._results[id(node)][1]

    def note(self, node: Node, result: Block) -> None:
        """Remember where an operator's result is, which was planned with another's."""
        self._results[id(node)] = (node, result)

    def partial(self, node: Node) -> Partial | None:
        """The partial of a window aggregate that was planned, if there is one that says something of the others' rows."""
        found = self._partials.get(id(node))
        return None if found is None else found[1]

    def note_partial(self, node: Node, partial: Partial) -> None:
        """Remember what a window aggregate ships."""
        self._partials[id(node)] = (node, partial)

    def stage_of(self, node: Node, name: str, blocks: Sequence[Block]) -> Draft:
        """The stage of an operator behind some blocks: its own, called `name`, or that of its group of arrangements."""
        group = self._together.get(id(node))
        if group is None:
            return self.stages.behind(name, blocks)
        if group not in self._stages_of_groups:
            self._stages_of_groups[group] = self.stages.behind(name, blocks).id
        return self.stages.put_behind(self._stages_of_groups[group], blocks)

    def ttls(self, node: Node) -> str:
        """Tells apart what forgets at and below a node, and when; '' where nothing does."""
        found = [
            form("forgets", n.stored_as, self.meanings.relation(n.meaning), n.time_to_live)
            for n in walk((node,))
            if isinstance(n, StreamingOperator) and n.time_to_live is not None
        ]
        return form("all", *sort_forms(set(found))).digest[:8] if found else ""

    def holds_once(self, node: Node) -> bool:
        """Whether no row of a node is ever there twice; what forgets gives again what it has forgotten."""
        return bool(self.facts.keys(node)) and not self.ttls(node)

    def is_operator(self, node: Node) -> bool:
        """Whether a node is planned by itself: it keeps state, or joins what others keep."""
        if not isinstance(node, StreamingOperator):
            return False
        if type(node) not in self._operators:
            raise InternalError(f"it is not defined how a {type(node).__name__} is planned")
        return not (isinstance(node, RegularJoin) and node.merged)

    def late_rows(
        self, name: str, input_: Node, end: Field, time: EventTime, lateness_us: int = 0
    ) -> LateRows | None:
        """The rows of an operator's input whose window is closed; `end` is its column with the window's end."""
        if end.window is None or not time.direct:
            return None
        # The column with a row's own event time gives how late it is.
        event_time = next((f.id for f in input_.fields if f.time is not None and f.window is None), None)
        return LateRows(
            operator=name,
            window=replace(end.window.window, shared_slices=False),
            slice_column=end.id,
            time_column=event_time,
            time=time,
            rows=by_stage(self.blocks(input_, rows=True, timeless=True)),
            lateness_us=lateness_us,
        )

    def _leaf(self, node: Node, rows: bool) -> list[Block] | None:
        if isinstance(node, Scan) and node.is_dimension:
            relation = self.stages.looking_up(node.source.name)
            columns: dict[str, exp.Expr] = {f.id: column(f.name) for f in node.fields}
            return [Block(ANY_STAGE, quote_identifier(relation), (relation,), columns)]
        if isinstance(node, Scan):
            return [self._scan(node, rows=rows)]
        if isinstance(node, Values):
            [source] = (name for name, spec in self._sources.items() if spec.connector == ONE_ROW)
            block = written_rows(node, self.stages.reading(source), source)
            if rows:
                return [_with_row(block, node)]
            return [with_numbers(block) if id(node) in self._numbered else block]
        if not self.is_operator(node):
            return None
        block = self.result(node)
        return [_with_row(block, node) if rows else block]

    def _scan(self, node: Scan, *, rows: bool) -> Block:
        source = self._sources[node.source.name]
        columns: dict[str, exp.Expr] = {f.id: column(f.name) for f in node.fields}
        if node.changelog:
            kind = quote_identifier(KIND_COLUMN)
            columns[KIND_COLUMN] = column(KIND_COLUMN)
            columns[WEIGHT_COLUMN] = raw(f"CASE WHEN {kind} IN ('+I', '+U') THEN 1 ELSE -1 END")
        stage = self.stages.reading(source.name)
        block = Block(stage, quote_identifier(source.name), (source.name,), columns)
        if not rows:
            return with_numbers(block) if id(node) in self._numbered else block
        return with_rows(block, _as_json({c.name: quote_identifier(c.name) for c in source.physical}))


#: By the class of node, how it is planned.
Operators: TypeAlias = Mapping[type[Node], Callable[[Planner, Node], Block]]


def _with_row(block: Block, node: Node) -> Block:
    """What an operator gives, whole: it stands for the source's row where that is not known any more."""
    row = _as_json({f.name: sql(block.columns[f.id]) for f in node.fields})
    return with_rows(block, row)


def _as_json(items: Mapping[str, str]) -> exp.Expr:
    """SQL expressions by their names as one JSON object."""
    packed = ", ".join(f"{quote_identifier(name)} := {text}" for name, text in items.items())
    return raw(f"CAST(to_json(struct_pack({packed})) AS VARCHAR)")
