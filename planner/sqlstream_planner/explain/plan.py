"""Plans for people and for tools: text, JSON and Mermaid, stable from run to run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlstream_operators.large_stack import on_large_stack
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import (
    DimensionInput,
    DimensionSpec,
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    JoinStep,
    LateStep,
    OperatorStep,
    PhysicalPlan,
    SinkOutput,
    SourceInput,
    SourceSpec,
    Stage,
)
from sqlstream_planner.catalog.secrets import without_secrets
from sqlstream_planner.explain.graph import clauses_of, graph_of
from sqlstream_planner.explain.graph_text import Paint, graph_lines, plain
from sqlstream_planner.explain.meaning import field_meaning, field_meanings
from sqlstream_planner.explain.operators import state_bounds, step_lines, step_title
from sqlstream_planner.logical import Sink, walk
from sqlstream_planner.logical.text import duration, logical_text, title_of
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.properties.summary import Properties, Summary


@on_large_stack
def explain_text(planned: Planned, paint: Paint = plain) -> str:
    """The graph, the logical plan with each node's properties, then stages, then state; `paint` is for the graph alone."""
    parts = ["== Graph ==", *graph_lines(graph_of(planned.physical), clauses_of(planned), paint=paint)]
    parts += ["", "== Logical plan ==", logical_text(planned.logical)]
    parts += ["", "== Properties ==", *_property_lines(planned.logical)]
    parts += ["", "== Stages =="]
    for source in planned.physical.sources:
        parts += _source_lines(source)
    for dimension in planned.physical.dimensions:
        parts += _dimension_lines(dimension)
    for stage in planned.physical.stages:
        parts += _stage_lines(planned.physical, stage)
    parts += ["", "== State =="]
    parts += _state_lines(planned.physical) or ["none: every row is done with when its epoch is"]
    return "\n".join(parts) + "\n"


@on_large_stack
def explain_json(planned: Planned) -> str:
    """The plan as one JSON object: `logical` (text), `properties`, `physical` (the plan that runs)."""
    document: dict[str, Any] = {
        "logical": logical_text(planned.logical).split("\n"),
        "properties": [{"node": name, **found.to_json()} for name, found in _properties(planned.logical)],
        "physical": json.loads(plan_json.to_text(without_secrets(planned.physical))),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


@on_large_stack
def explain_mermaid(planned: Planned) -> str:
    """The stages as a Mermaid flowchart."""
    plan = planned.physical
    lines = ["flowchart LR"]
    ids: dict[str, str] = {}

    def id_of(name: str) -> str:
        return ids.setdefault(name, f"n{len(ids)}")

    for source in plan.sources:
        lines.append(f'  {id_of("source " + source.name)}[("{source.name}<br/>{source.connector}")]')
    for dimension in plan.dimensions:
        label = f"{dimension.name}<br/>{dimension.source.connector}, looked up"
        lines.append(f'  {id_of("dimension " + dimension.name)}[("{label}")]')
    for stage in plan.stages:
        lines.append(f'  {id_of("stage " + stage.id)}["{"<br/>".join(_stage_words(stage))}"]')
    for sink in plan.sinks:
        lines.append(f'  {id_of("sink " + sink.name)}[/"{sink.name}<br/>{sink.connector}"/]')
    readers = {i.edge: s.id for s in plan.stages for i in s.inputs if isinstance(i, ExchangeInput)}
    for stage in plan.stages:
        me = id_of("stage " + stage.id)
        for stage_input in stage.inputs:
            if isinstance(stage_input, SourceInput):
                lines.append(f"  {id_of('source ' + stage_input.source)} --> {me}")
            elif isinstance(stage_input, DimensionInput):
                lines.append(f"  {id_of('dimension ' + stage_input.dimension)} -.-> {me}")
        for output in stage.outputs:
            if isinstance(output, SinkOutput):
                lines.append(f"  {me} --> {id_of('sink ' + output.sink)}")
            else:
                keys = ", ".join(output.keys) or "one shard"
                lines.append(f'  {me} -->|"{keys}"| {id_of("stage " + readers[output.edge])}')
    return "\n".join(lines) + "\n"


def _stage_words(stage: Stage) -> list[str]:
    words = [stage.id]
    for step in stage.steps:
        if isinstance(step, OperatorStep | JoinStep):
            words.append(step_title(step))
        elif isinstance(step, FragmentStep) and step.name.endswith(".partial"):
            words.append("partial aggregate")
    return words


# --------------------------------------------------------------------------------------------- properties


def _properties(roots: tuple[Sink, ...]) -> Iterable[tuple[str, Properties]]:
    names: dict[str, int] = {}
    summary = Summary(Facts())
    for node in walk(roots):
        kind = title_of(node)
        names[kind] = names.get(kind, 0) + 1
        number = f" {names[kind]}" if names[kind] > 1 else ""
        yield f"{kind}{number}", summary.of(node)


def _property_lines(roots: tuple[Sink, ...]) -> list[str]:
    return [f"{name}: {found.text()}" for name, found in _properties(roots)]


# ------------------------------------------------------------------------------------------------- stages


def _source_lines(source: SourceSpec) -> list[str]:
    lines = [f"source {source.name} ({source.connector})"]
    listed = ", ".join((*source.columns, *(m.name for m in source.metadata)))
    lines.append(f"  reads {listed}")
    nested = [p for p in source.needed_paths if "." in p]
    if nested:
        lines.append(f"  of nested columns only {', '.join(nested)}")
    if source.watermark is not None:
        idle = source.watermark.idle_timeout_us
        lines.append(
            f"  watermark max({source.watermark.expression})"
            + (f", idle after {duration(idle)}" if idle else "")
            + ("" if source.watermark.max_ahead_us is not None else ", however far ahead of the clock")
        )
    return lines


def _dimension_lines(dimension: DimensionSpec) -> list[str]:
    when = f"at most {duration(dimension.reload_us)} old" if dimension.reload_us else "as it is then"
    return [
        f"dimension {dimension.name} ({dimension.source.connector})",
        f"  reads {', '.join(c.name for c in dimension.schema)}, all rows, one copy for all tasks of an epoch, {when}",
    ]


def _stage_lines(plan: PhysicalPlan, stage: Stage) -> list[str]:
    where = "one task per split" if stage.level == 0 else "one task per shard"
    lines = [f"stage {stage.id} (stage level {stage.level}, {where})"]
    for step in stage.steps:
        if isinstance(step, FragmentStep):
            lines.append(f"  {step.name} = DuckDB")
            lines += [f"    {line}" for line in step.sql.split("\n")]
        elif isinstance(step, LateStep):
            sources = ", ".join(step.watermark_sources)
            late = f", {duration(step.lateness_us)} late" if step.lateness_us else ""
            lines.append(
                f"  {step.name} = {step.input} without closed windows (watermark of {sources}{late})"
            )
        elif isinstance(step, OperatorStep | JoinStep):
            lines += step_lines(step)
    for output in stage.outputs:
        if isinstance(output, ExchangeOutput):
            keys = f"hash({', '.join(output.keys)})" if output.keys else "one shard"
            lines.append(f"  exchange {output.input} by {keys}")
        else:
            sink = next(s for s in plan.sinks if s.name == output.sink)
            lines.append(f"  write {output.input} to {sink.name} ({sink.connector}, {sink.changelog})")
    return lines


def _state_lines(plan: PhysicalPlan) -> list[str]:
    lines = []
    specs = {step.operator.state.state_id: step.operator for step in plan.operators}
    for state in plan.states:
        meanings = field_meanings(state)
        lines.append(f"{state.state_id} {state.operator}: {state.description}")
        for table in state.tables:
            by = {"key": "key", "time": "time, key", "list": "key, its rows as one value"}[table.layout]
            lines.append(f"  table {table.name}, by {by}")
            for part, fields in (("key", table.key), ("sub-key", table.sub_key), ("value", table.value)):
                for f in fields:
                    lines.append(f"    {part} {f.name} {f.type}: {field_meaning(f, meanings)}")
        lines.append(f"  {state_bounds(specs[state.state_id])}")
    return lines
