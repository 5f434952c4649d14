"""The physical plan of some sinks: scans and sinks, and between them the stages of the operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.equal_values import exactly
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import (
    WEIGHT_COLUMN,
    DimensionSpec,
    FragmentStep,
    JobOptions,
    LateStep,
    OperatorStep,
    PhysicalPlan,
    SinkOutput,
    SourceSpec,
)
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import Node, Scan, Sink, Values, sql, walk
from sqlstream_planner.physical.block import weight
from sqlstream_planner.physical.by_stage import by_stage, reads_of
from sqlstream_planner.physical.operators.registry import OPERATORS
from sqlstream_planner.physical.planner import Operators, Planner
from sqlstream_planner.physical.state_node import StateNodes
from sqlstream_planner.physical.written_rows import one_row
from sqlstream_planner.properties.facts import Facts


def plan_physical(
    roots: tuple[Sink, ...], options: JobOptions | None = None, operators: Operators = OPERATORS
) -> PhysicalPlan:
    """Lay a streaming plan out over stage levels; see `sqlstream_operators.plan.spec` for what comes out."""
    return plan_with_states(roots, Facts(), options, operators)[0]


def plan_with_states(
    roots: tuple[Sink, ...], facts: Facts, options: JobOptions | None = None, operators: Operators = OPERATORS
) -> tuple[PhysicalPlan, StateNodes]:
    """As `plan_physical`, with what each of the plan's states is made of; `facts` are those of the plan."""
    sources = _merge_sources(roots)
    planner = _planned(Planner(roots, sources, operators, facts=facts), roots)
    if planner.states.ambiguous:
        planner = _planned(Planner(roots, sources, operators, facts=facts, ttl_in_ids=True), roots)
    for root in roots:
        _write(planner, root, consolidated=planner.facts.consolidated(root))
    plan = PhysicalPlan(
        tuple(sources.values()),
        tuple({root.sink.name: root.sink for root in roots}.values()),
        planner.stages.built(),
        planner.states.all,
        options or JobOptions(),
        dimensions=_dimensions(roots),
    )
    _check_watermarks(plan)
    _check_states(plan)
    return plan, planner.state_nodes


def _check_watermarks(plan: PhysicalPlan) -> None:
    """Raise InternalError if a step waits for the watermark of a source that is not read, or that has none."""
    timed = {source.name for source in plan.sources if source.watermark is not None} | {EPOCH_RELATION}
    for stage in plan.stages:
        for step in stage.steps:
            if isinstance(step, LateStep):
                waits = set(step.watermark_sources)
            elif isinstance(step, OperatorStep):
                waits = set(step.operator.watermark_sources)
            else:
                continue
            if waits - timed:
                raise InternalError(
                    f"{step.name} waits for watermarks of {sorted(waits - timed)}, which has none"
                )


def _check_states(plan: PhysicalPlan) -> None:
    """Raise InternalError unless the plan has the state of each operator, and no other.

    A state that the plan does not name is in no manifest: each epoch would begin with an empty one.
    """
    kept = {state.state_id: state for state in plan.states}
    for step in plan.operators:
        state = step.operator.state
        if kept.pop(state.state_id, None) != state:
            raise InternalError(
                f"{step.name} keeps the state {state.state_id}, which the plan has not as its own: "
                "planner.states.keep or .add gives the one to plan with"
            )
    if kept:
        raise InternalError(f"no operator keeps the states {sorted(kept)}")


def _planned(planner: Planner, roots: Sequence[Node]) -> Planner:
    """The planner with all operators planned, inputs before their consumers: a long chain nests no calls."""
    for node in walk(roots):
        if planner.is_operator(node):
            planner.result(node)
    return planner


def _write(planner: Planner, root: Sink, *, consolidated: bool) -> None:
    """The steps and outputs that bring a sink its rows."""
    for stage, blocks in by_stage(planner.blocks(root.input)).items():
        weighted = root.sink.changelog != "append"
        rows = []
        for b in blocks:
            items = [
                (sql(b.columns[f.id]), c.name) for f, c in zip(root.fields, root.sink.schema, strict=True)
            ]
            rows.append(b.select([*items, *([(sql(weight(b)), WEIGHT_COLUMN)] if weighted else [])]))
        text = "\nUNION ALL\n".join(rows)
        if weighted and not consolidated:
            text = _consolidated(root.sink.schema, text)
        step = FragmentStep(planner.stages.name(f"{root.sink.name}.rows"), text, reads_of(blocks))
        planner.stages[stage].steps.append(step)
        planner.stages[stage].outputs.append(SinkOutput(step.name, root.sink.name))


def _consolidated(columns: Sequence[Column], changes_sql: str) -> str:
    """Each row of some changes once, with the sum of its weights; rows that were inserted and retracted are left out."""
    listed = ", ".join(quote_identifier(column.name) for column in columns)
    total = f"sum({quote_identifier(WEIGHT_COLUMN)})"
    inner = changes_sql.replace("\n", "\n  ")
    return (
        f"SELECT {listed}, CAST({total} AS BIGINT) AS {quote_identifier(WEIGHT_COLUMN)}\n"
        f"FROM (\n  {inner}\n) AS t\nGROUP BY {', '.join(exactly(columns))}\nHAVING {total} <> 0"
    )


def _merge_sources(roots: Sequence[Node]) -> dict[str, SourceSpec]:
    """One spec a source table, with the columns that any scan of it needs, in declared order; last what VALUES read."""
    merged: dict[str, SourceSpec] = {}
    nodes = walk(roots)
    for node in nodes:
        if not isinstance(node, Scan) or node.is_dimension:
            continue
        spec = node.source
        if spec.name in merged:
            spec = _together(spec, merged[spec.name])
        merged[spec.name] = spec
    if any(isinstance(node, Values) for node in nodes):
        spec = one_row(merged)
        merged[spec.name] = spec
    return merged


def _together(spec: SourceSpec, other: SourceSpec) -> SourceSpec:
    """A table with what two scans of it read."""
    wanted = {*spec.columns, *other.columns}
    columns = tuple(c.name for c in spec.physical if c.name in wanted)
    metadata = tuple(dict.fromkeys((*other.metadata, *spec.metadata)))
    paths = tuple(sorted({*spec.needed_paths, *other.needed_paths}))
    return replace(spec, columns=columns, metadata=metadata, needed_paths=paths, filter=None)


def _dimensions(roots: Sequence[Node]) -> tuple[DimensionSpec, ...]:
    """One spec a dimension table, with the columns that any lookup of it reads, and those of its key."""
    found: dict[str, DimensionSpec] = {}
    for node in walk(roots):
        if isinstance(node, Scan) and node.reload_us is not None:
            spec = replace(node.source, needed_paths=())
            key = {name.lower() for name in spec.primary_key}
            read = tuple(c.name for c in spec.physical if c.name in spec.columns or c.name.lower() in key)
            spec = replace(spec, columns=read)
            if spec.name in found:
                spec = _together(spec, found[spec.name].source)
            found[spec.name] = DimensionSpec(spec, node.reload_us)
    return tuple(found.values())
