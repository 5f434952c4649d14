"""The physical plan of some sinks: scans and sinks, and between them the stages of the operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.spec import (
    KIND_COLUMN,
    WEIGHT_COLUMN,
    FragmentStep,
    JobOptions,
    PhysicalPlan,
    SinkOutput,
    SinkSpec,
    SourceSpec,
)
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.block import Block, compose, weight, with_rows
from sqlstream_planner.fingerprint import Provenance
from sqlstream_planner.logical import (
    GroupAggregate,
    KeepFirst,
    Node,
    Normalize,
    Scan,
    Sink,
    TopN,
    WindowAggregate,
    WindowGate,
    column,
    raw,
    sql,
    walk,
)
from sqlstream_planner.physical.places import by_place, reads_of
from sqlstream_planner.physical.stages import Stages
from sqlstream_planner.physical.states import States
from sqlstream_planner.physical.updating import UpdatingOperators
from sqlstream_planner.physical.window_aggregates import WindowAggregates
from sqlstream_planner.properties import consolidated


def plan_physical(roots: tuple[Sink, ...], options: JobOptions | None = None) -> PhysicalPlan:
    """Lay a logical plan out over levels; see `sqlstream_operators.plan.spec` for what comes out."""
    return _Builder(roots).build(roots, options or JobOptions())


class _Builder:
    def __init__(self, roots: tuple[Sink, ...]) -> None:
        self._sources = _merge_sources(roots)
        self._stages = Stages()
        self._states = States()
        provenance = Provenance()
        self._windows = WindowAggregates(self._stages, self._states, provenance, self._blocks)
        self._updating = UpdatingOperators(self._stages, self._states, provenance, self._blocks)

    def build(self, roots: tuple[Sink, ...], options: JobOptions) -> PhysicalPlan:
        sinks: dict[str, SinkSpec] = {}
        for root in roots:
            sinks[root.sink.name] = root.sink
            self._write(root)
        return PhysicalPlan(
            tuple(self._sources.values()),
            tuple(sinks.values()),
            self._stages.built(),
            self._states.all,
            options,
        )

    def _blocks(self, node: Node, *, rows: bool = False, timeless: bool = False) -> list[Block]:
        def leaf(inner: Node) -> list[Block] | None:
            match inner:
                case Scan():
                    return [self._scan(inner, rows=rows)]
                case WindowAggregate():
                    return [self._windows.block(inner)]
                case GroupAggregate() | WindowGate() | TopN() | Normalize() | KeepFirst():
                    block = self._updating.block(inner)
                    return [_with_row(block, inner) if rows else block]
            return None

        return compose(node, leaf, timeless=timeless)

    def _scan(self, node: Scan, *, rows: bool) -> Block:
        source = self._sources[node.source.name]
        columns: dict[str, exp.Expr] = {f.id: column(f.name) for f in node.fields}
        if node.changelog:
            kind = quote_identifier(KIND_COLUMN)
            columns[KIND_COLUMN] = column(KIND_COLUMN)
            columns[WEIGHT_COLUMN] = raw(f"CASE WHEN {kind} IN ('+I', '+U') THEN 1 ELSE -1 END")
        place = self._stages.reading(source.name)
        block = Block(place, quote_identifier(source.name), (source.name,), columns)
        if not rows:
            return block
        return with_rows(block, _as_json({c.name: quote_identifier(c.name) for c in source.physical}))

    def _write(self, root: Sink) -> None:
        for place, blocks in by_place(self._blocks(root.input)).items():
            weighted = root.sink.changelog != "append"
            rows = []
            for b in blocks:
                items = [
                    (sql(b.columns[f.id]), c.name) for f, c in zip(root.fields, root.sink.schema, strict=True)
                ]
                rows.append(b.select([*items, *([(sql(weight(b)), WEIGHT_COLUMN)] if weighted else [])]))
            text = "\nUNION ALL\n".join(rows)
            if weighted and not consolidated(root):
                text = _consolidated([c.name for c in root.sink.schema], text)
            step = FragmentStep(self._stages.name(f"{root.sink.name}.rows"), text, reads_of(blocks))
            self._stages[place].steps.append(step)
            self._stages[place].outputs.append(SinkOutput(step.name, root.sink.name))


def _with_row(block: Block, node: Node) -> Block:
    """What an operator gives, whole: it stands for the source's row where that can't be told any more."""
    row = _as_json({f.name: sql(block.columns[f.id]) for f in node.fields})
    return with_rows(block, row)


def _as_json(items: Mapping[str, str]) -> exp.Expr:
    """SQL expressions by their names as one JSON object."""
    packed = ", ".join(f"{quote_identifier(name)} := {text}" for name, text in items.items())
    return raw(f"CAST(to_json(struct_pack({packed})) AS VARCHAR)")


def _consolidated(columns: Sequence[str], changes_sql: str) -> str:
    """Each row of some changes once, with the sum of its weights; rows that came and went are left out."""
    listed = ", ".join(quote_identifier(name) for name in columns)
    total = f"sum({quote_identifier(WEIGHT_COLUMN)})"
    inner = changes_sql.replace("\n", "\n  ")
    return (
        f"SELECT {listed}, CAST({total} AS BIGINT) AS {quote_identifier(WEIGHT_COLUMN)}\n"
        f"FROM (\n  {inner}\n) AS t\nGROUP BY {listed}\nHAVING {total} <> 0"
    )


def _merge_sources(roots: tuple[Sink, ...]) -> dict[str, SourceSpec]:
    """One spec a source table, with the columns that any scan of it needs, in declared order."""
    merged: dict[str, SourceSpec] = {}
    for node in walk(tuple(roots)):
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
