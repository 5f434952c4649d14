"""A physical plan as a graph: sources, what is done in the tasks, operators, exchanges between them, and sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sqlstream_operators.plan.spec import (
    DimensionInput,
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    JoinStep,
    LateStep,
    OperatorStep,
    PhysicalPlan,
    SourceInput,
    Stage,
    Step,
    made_by,
    read_by,
)
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.explain.meaning import JOIN_KEY, described_keys, field_meaning, field_meanings
from sqlstream_planner.explain.operators import state_bounds, step_lines, step_title

if TYPE_CHECKING:
    from sqlstream_planner.pipeline import Planned


NodeKind = Literal["source", "dimension", "sql", "operator", "sink"]


@dataclass(slots=True)
class GraphNode:
    """A part of a plan; `stage` and `level` say in which tasks it is (level -1: none).

    `step` is the operator's step in the plan, `state` the id of its state ("": it keeps none). `lines` say more about it,
    `sql` is what DuckDB runs in it.
    """

    id: str
    kind: NodeKind
    title: str
    detail: str = ""
    stage: str = ""
    level: int = -1
    step: str = ""
    state: str = ""
    lines: list[str] = field(default_factory=list)
    sql: list[str] = field(default_factory=list)
    watermark_sources: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "id": self.id,
            "kind": self.kind,
            "title": self.title,
            "detail": self.detail,
            "stage": self.stage,
            "level": self.level,
            "step": self.step,
            "state": self.state,
            "lines": self.lines,
            "sql": self.sql,
        }


@dataclass(frozen=True, slots=True, order=True)
class GraphEdge:
    """Rows of the node `source` go to `target`; `label` has the columns by whose hash they are exchanged."""

    source: str
    target: str
    kind: str = "local"
    label: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"from": self.source, "to": self.target, "kind": self.kind, "label": self.label}


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes in the order of the plan, and the edges between them."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


def graph_of(plan: PhysicalPlan) -> Graph:
    """The graph of a plan."""
    nodes: dict[str, GraphNode] = {}
    edges: dict[GraphEdge, None] = {}
    for source in plan.sources:
        lines = []
        if source.watermark is not None:
            lines.append(f"watermark max({source.watermark.expression})")
        lines.append(f"reads {', '.join(source.columns)}")
        _add(nodes, GraphNode(f"source:{source.name}", "source", source.name, source.connector, lines=lines))
    for dimension in plan.dimensions:
        node = GraphNode(
            f"dimension:{dimension.name}", "dimension", dimension.name, dimension.source.connector
        )
        _add(nodes, node)
    sent: dict[str, tuple[str, tuple[str, ...]]] = {}
    for stage in plan.stages:
        _stage(plan, stage, nodes, edges, sent)
    return Graph(tuple(nodes.values()), tuple(edges))


def clauses_of(planned: Planned) -> dict[str, Span]:
    """By the id of a graph's node, the place of the clause that it was made of, where that is known."""
    found: dict[str, Span | None] = {}
    for step in planned.physical.operators:
        node = planned.state_nodes.get(step.operator.state.state_id)
        found[f"op:{step.name}"] = None if node is None else node.at
    for name, written in planned.written.items():
        found[f"sink:{name}"] = written.query or written.table
    for source in planned.physical.sources:
        table = planned.catalog.table(source.name)
        found[f"source:{source.name}"] = None if table is None else table.span
    return {node: at for node, at in found.items() if at is not None}


def _stage(
    plan: PhysicalPlan,
    stage: Stage,
    nodes: dict[str, GraphNode],
    edges: dict[GraphEdge, None],
    sent: dict[str, tuple[str, tuple[str, ...]]],
) -> None:
    """Add what a stage does; `sent` says of each edge from which node its rows come, and by which columns."""
    made: dict[str, GraphEdge] = {}  # by relation, the beginning of an edge
    keys: dict[str, tuple[str, ...]] = {}  # by relation that was exchanged, the columns
    for read in stage.inputs:
        if isinstance(read, SourceInput):
            made[read.name] = GraphEdge(f"source:{read.source}", "")
        elif isinstance(read, DimensionInput):
            made[read.name] = GraphEdge(f"dimension:{read.dimension}", "", "lookup")
        elif isinstance(read, ExchangeInput) and read.edge in sent:
            sender, keys[read.name] = sent[read.edge]
            made[read.name] = GraphEdge(sender, "", "exchange", _label(keys[read.name], plan.names))
    groups = _groups(stage)
    for step in stage.steps:
        node = _node(stage, step, groups)
        if node.id in nodes:
            nodes[node.id].sql += node.sql
            nodes[node.id].lines += node.lines
            nodes[node.id].title = _joined(nodes[node.id].title, node.title)
        else:
            _add(nodes, node)
        for name in read_by(step):
            begin = made.get(name)
            if begin is not None and begin.source != node.id:
                label = _label(keys[name], _names(step, plan)) if name in keys else begin.label
                edges[GraphEdge(begin.source, node.id, begin.kind, label)] = None
        for name in made_by(step):
            made[name] = GraphEdge(node.id, "")
    for output in stage.outputs:
        begin = made.get(output.input)
        if isinstance(output, ExchangeOutput):
            if begin is not None:
                sent[output.edge] = begin.source, output.keys
            continue
        sink = next(s for s in plan.sinks if s.name == output.sink)
        node = GraphNode(f"sink:{sink.name}", "sink", sink.name, f"{sink.connector}, {sink.changelog}")
        _add(nodes, node)
        if begin is not None:
            edges[GraphEdge(begin.source, node.id, begin.kind, begin.label)] = None


def _names(step: Step, plan: PhysicalPlan) -> Mapping[str, str]:
    """What columns are called that a step reads: a join numbers its keys, and its state says what they are."""
    if not isinstance(step, OperatorStep):
        return plan.names
    state = step.operator.state
    keys = [f for table in state.tables for f in table.key if f.name.startswith(JOIN_KEY)]
    if not keys:
        return plan.names
    named = described_keys(state)
    if len(named) != len({f.name for f in keys}):  # there are commas inside of one
        meanings = field_meanings(state)
        return {**plan.names, **{f.name: field_meaning(f, meanings) for f in keys}}
    return {**plan.names, **{f"{JOIN_KEY}{n + 1}": name for n, name in enumerate(named)}}


def _label(keys: Sequence[str], names: Mapping[str, str]) -> str:
    return ", ".join(names.get(key, key) for key in keys) or "one shard"


def _groups(stage: Stage) -> Mapping[str, str]:
    """By stateless step, the node that it is shown in: one for all that are connected and come after the same operators."""
    behind: dict[str, frozenset[str]] = {}  # by relation, the operators of this stage that it comes of
    group: dict[str, str] = {}  # by relation that a stateless step makes, its node
    found: dict[str, str] = {}
    for step in stage.steps:
        inputs = [name for name in read_by(step) if name in behind]
        after = frozenset().union(*(behind[name] for name in inputs))
        if isinstance(step, OperatorStep | JoinStep):
            after |= {step.name}
        else:
            joined = next((group[n] for n in inputs if n in group and behind[n] == after), None)
            found[step.name] = joined or f"sql:{stage.id}:{step.name}"
        for name in made_by(step):
            behind[name] = after
            if step.name in found:
                group[name] = found[step.name]
    return found


def _node(stage: Stage, step: Step, groups: Mapping[str, str]) -> GraphNode:
    if isinstance(step, OperatorStep | JoinStep):
        node = GraphNode(
            f"op:{step.name}",
            "operator",
            step_title(step),
            step.name,
            stage.id,
            stage.level,
            step.name,
            lines=[line.strip() for line in step_lines(step)],
        )
        if isinstance(step, OperatorStep):
            node.state = step.operator.state.state_id
            node.lines.append(state_bounds(step.operator))
            node.watermark_sources = tuple(step.operator.watermark_sources)
        return node
    node = GraphNode(groups[step.name], "sql", _title(step), stage=stage.id, level=stage.level)
    if isinstance(step, FragmentStep):
        node.sql.append(f"-- {step.name}\n{step.sql}")
    elif isinstance(step, LateStep):
        node.lines.append(
            f"leaves out rows of closed windows (watermark of {', '.join(step.watermark_sources)})"
        )
    return node


def _title(step: Step) -> str:
    if isinstance(step, LateStep):
        return "late rows"
    return "partial aggregate" if step.name.endswith(".partial") else "SQL"


def _joined(title: str, more: str) -> str:
    """The titles of two steps in one node: `SQL` says nothing beside another."""
    parts = [part for part in (*title.split(", "), more) if part != "SQL"]
    return ", ".join(dict.fromkeys(parts)) or "SQL"


def _add(nodes: dict[str, GraphNode], node: GraphNode) -> None:
    nodes.setdefault(node.id, node)
