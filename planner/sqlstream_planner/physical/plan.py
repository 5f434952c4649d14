"""The physical plan of some sinks: scans and sinks, and between them the stages of the operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlstream_operators.plan.spec import (
    WEIGHT_COLUMN,
    FragmentStep,
    JobOptions,
    PhysicalPlan,
    SinkOutput,
    SourceSpec,
)
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.logical import Node, Scan, Sink, sql, walk
from sqlstream_planner.physical.block import weight
from sqlstream_planner.physical.by_stage import by_stage, reads_of
from sqlstream_planner.physical.operators.registry import OPERATORS
from sqlstream_planner.physical.planner import Operators, Planner
from sqlstream_planner.physical.state_node import StateNodes
from sqlstream_planner.properties.consolidated import Consolidated


def plan_physical(
    roots: tuple[Sink, ...], options: JobOptions | None = None, operators: Operators = OPERATORS
) -> PhysicalPlan:
    """Lay a streaming plan out over levels; see `sqlstream_operators.plan.spec` for what comes out."""
    return plan_with_states(roots, options, operators)[0]


def plan_with_states(
    roots: tuple[Sink, ...], options: JobOptions | None = None, operators: Operators = OPERATORS
) -> tuple[PhysicalPlan, StateNodes]:
    """As `plan_physical`, with what each of the plan's states is made of."""
    sources = _merge_sources(roots)
    planner = _planned(Planner(roots, sources, operators), roots)
    if planner.states.ambiguous:
        planner = _planned(Planner(roots, sources, operators, ttl_in_ids=True), roots)
    consolidated = Consolidated(planner.changes)
    for root in roots:
        _write(planner, root, consolidated=consolidated(root))
    plan = PhysicalPlan(
        tuple(sources.values()),
        tuple({root.sink.name: root.sink for root in roots}.values()),
        planner.stages.built(),
        planner.states.all,
        options or JobOptions(),
    )
    return plan, planner.state_nodes


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
            text = _consolidated([c.name for c in root.sink.schema], text)
        step = FragmentStep(planner.stages.name(f"{root.sink.name}.rows"), text, reads_of(blocks))
        planner.stages[stage].steps.append(step)
        planner.stages[stage].outputs.append(SinkOutput(step.name, root.sink.name))


def _consolidated(columns: Sequence[str], changes_sql: str) -> str:
    """Each row of some changes once, with the sum of its weights; rows that came and went are left out."""
    listed = ", ".join(quote_identifier(name) for name in columns)
    total = f"sum({quote_identifier(WEIGHT_COLUMN)})"
    inner = changes_sql.replace("\n", "\n  ")
    return (
        f"SELECT {listed}, CAST({total} AS BIGINT) AS {quote_identifier(WEIGHT_COLUMN)}\n"
        f"FROM (\n  {inner}\n) AS t\nGROUP BY {listed}\nHAVING {total} <> 0"
    )


def _merge_sources(roots: Sequence[Node]) -> dict[str, SourceSpec]:
    """One spec a source table, with the columns that any scan of it needs, in declared order."""
    merged: dict[str, SourceSpec] = {}
    for node in walk(roots):
        if not isinstance(node, Scan):
            continue
        spec = node.source
        if spec.name in merged:
            other = merged[spec.name]
            wanted = {*spec.columns, *other.columns}
            columns = tuple(c.name for c in spec.physical if c.name in wanted)
            metadata = tuple(dict.fromkeys((*other.metadata, *spec.metadata)))
            paths = tuple(sorted({*spec.needed_paths, *other.needed_paths}))
            spec = replace(spec, columns=columns, metadata=metadata, needed_paths=paths, filter=None)
        merged[spec.name] = spec
    return merged
