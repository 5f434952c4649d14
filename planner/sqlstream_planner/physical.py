"""Logical plan to physical plan: stages, partial aggregates before the exchange, state schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from sqlglot import exp

from sqlstream_operators.changelog_spec import (
    DeduplicateSpec,
    DistinctValuesSpec,
    GroupAggregateSpec,
    KeepFirstSpec,
    NormalizeSpec,
    TopNSpec,
    WindowTopNSpec,
)
from sqlstream_operators.spec import (
    KIND_COLUMN,
    SLICE_COLUMN,
    WEIGHT_COLUMN,
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    JobOptions,
    LateStep,
    OperatorSpec,
    OperatorStep,
    PhysicalPlan,
    Schema,
    SinkOutput,
    SinkSpec,
    SourceInput,
    SourceSpec,
    Stage,
    Step,
    WindowSpec,
)
from sqlstream_operators.state_schema import StateSchema
from sqlstream_operators.state_ttl import with_ttl
from sqlstream_operators.types import quote_identifier
from sqlstream_planner import window_sql
from sqlstream_planner.aggregate_plan import AggregatePlan, plan_aggregate
from sqlstream_planner.aggregates import sql
from sqlstream_planner.block import ROW_COLUMN, Block, compose, hidden, weight
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.distinct_values import DistinctPlan
from sqlstream_planner.fingerprint import Provenance
from sqlstream_planner.gate_plan import plan_gate
from sqlstream_planner.group_plan import GroupPlan, plan_group
from sqlstream_planner.logical import (
    EventTime,
    Field,
    GroupAggregate,
    KeepFirst,
    Node,
    Normalize,
    Project,
    Scan,
    Sink,
    TopN,
    WindowAggregate,
    WindowGate,
    column,
    columns_of,
    raw,
    walk,
)
from sqlstream_planner.properties import changes
from sqlstream_planner.top_plan import RowsPlan, plan_keep_first, plan_normalize, plan_top

_Keyed: TypeAlias = (
    GroupAggregateSpec | DistinctValuesSpec | TopNSpec | DeduplicateSpec | NormalizeSpec | KeepFirstSpec
)
_SpecT = TypeVar("_SpecT", bound=_Keyed)
_PlanT = TypeVar("_PlanT", AggregatePlan, GroupPlan)
_Updating: TypeAlias = GroupAggregate | WindowGate | TopN | Normalize | KeepFirst


@dataclass(slots=True)
class _Draft:
    id: str
    level: int
    inputs: list[SourceInput | ExchangeInput] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[ExchangeOutput | SinkOutput] = field(default_factory=list)

    def stage(self) -> Stage:
        return Stage(self.id, self.level, tuple(self.inputs), tuple(self.steps), tuple(self.outputs))


def plan_physical(roots: tuple[Sink, ...], options: JobOptions | None = None) -> PhysicalPlan:
    """Lay a logical plan out over levels; see `sqlstream_operators.spec` for what comes out."""
    return _Builder(roots).build(roots, options or JobOptions())


class _Builder:
    def __init__(self, roots: tuple[Sink, ...]) -> None:
        self._provenance = Provenance()
        self._drafts: dict[str, _Draft] = {}
        self._sources = _merge_sources(roots)
        self._states: dict[str, StateSchema] = {}
        self._aggregates: dict[int, Block] = {}
        self._updating: dict[tuple[object, ...], list[_Updating]] = {}
        self._operators: list[tuple[AggregatePlan, str]] = []
        self._names: dict[str, int] = {}

    def build(self, roots: tuple[Sink, ...], options: JobOptions) -> PhysicalPlan:
        sinks: dict[str, SinkSpec] = {}
        for root in roots:
            sinks[root.sink.name] = root.sink
            self._write(root)
        stages = sorted((d.stage() for d in self._drafts.values()), key=lambda s: s.level)
        return PhysicalPlan(
            tuple(self._sources.values()),
            tuple(sinks.values()),
            tuple(stages),
            tuple(self._states.values()),
            options,
        )

    def _name(self, prefix: str) -> str:
        self._names[prefix] = self._names.get(prefix, 0) + 1
        return f"{prefix}_{self._names[prefix]}"

    # ------------------------------------------------------------------------------------------ leaves

    def _blocks(self, node: Node, *, rows: bool = False, timeless: bool = False) -> list[Block]:
        def leaf(inner: Node) -> list[Block] | None:
            match inner:
                case Scan():
                    return [self._scan(inner, rows=rows)]
                case WindowAggregate():
                    return [self._aggregate(inner)]
                case GroupAggregate():
                    return [self._once(inner, self._group)]
                case TopN():
                    return [self._once(inner, self._top)]
                case Normalize():
                    return [self._once(inner, self._normalize)]
                case KeepFirst():
                    return [self._once(inner, self._keep_first)]
                case WindowGate():
                    return [self._once(inner, self._gate)]
            return None

        return compose(node, leaf, timeless=timeless)

    def _scan(self, node: Scan, *, rows: bool) -> Block:
        source = self._sources[node.source.name]
        stage = f"scan:{source.name}"
        if stage not in self._drafts:
            self._drafts[stage] = _Draft(stage, 0, inputs=[SourceInput(source.name, source.name)])
        columns: dict[str, exp.Expr] = {f.id: column(f.name) for f in node.fields}
        if rows:
            packed = ", ".join(
                f"{quote_identifier(c.name)} := {quote_identifier(c.name)}" for c in source.physical
            )
            columns[ROW_COLUMN] = raw(f"CAST(to_json(struct_pack({packed})) AS VARCHAR)")
        if node.changelog:
            kind = quote_identifier(KIND_COLUMN)
            columns[KIND_COLUMN] = column(KIND_COLUMN)
            columns[WEIGHT_COLUMN] = raw(f"CASE WHEN {kind} IN ('+I', '+U') THEN 1 ELSE -1 END")
        return Block(stage, quote_identifier(source.name), (source.name,), columns)

    # ----------------------------------------------------------------------------------------- operators

    def _aggregate(self, node: WindowAggregate) -> Block:
        if id(node) in self._aggregates:
            return self._aggregates[id(node)]
        plan = plan_aggregate(node, self._provenance)
        meanings = self._provenance.columns(node)
        for known_plan, name in self._operators:
            if known_plan.spec.state != plan.spec.state:
                continue
            known_node = known_plan.node
            outputs = {m: id_ for id_, m in self._provenance.columns(known_node).items()}
            if all(m in outputs for m in meanings.values()):
                columns: dict[str, exp.Expr] = {id_: column(outputs[m]) for id_, m in meanings.items()}
                self._aggregates[id(node)] = Block(name, quote_identifier(name), (name,), columns)
                return self._aggregates[id(node)]
        plan = self._with_own_state(plan)
        state_id = plan.spec.state.state_id
        self._states[state_id] = plan.spec.state
        name = self._name("window_aggregate")
        # Rows without a time are taken out with the late ones.
        blocks = self._blocks(node.input, timeless=node.time.direct)
        late = _by_place(self._blocks(node.input, rows=True, timeless=True)) if node.time.direct else {}
        level = 1 + max(self._drafts[b.place].level for b in blocks)
        draft = _Draft(name, level)
        self._drafts[name] = draft
        edges = [f"{name}.in", *(f"{name}.{d.name}" for d in plan.spec.distincts)]
        schemas = [plan.partial_schema, *plan.distinct_schemas]
        draft.inputs = [ExchangeInput(e, e, s) for e, s in zip(edges, schemas, strict=True)]
        for place, here in _by_place(blocks).items():
            self._partial(name, node, plan, here, late.get(place), edges)
        draft.steps.append(OperatorStep(name, plan.spec, tuple(edges)))
        self._operators.append((plan, name))
        self._aggregates[id(node)] = self._result(name, node)
        return self._aggregates[id(node)]

    def _with_own_state(self, plan: _PlanT) -> _PlanT:
        """The plan with a state id of its own: two aggregates over the same groups need two states."""
        if plan.spec.state.state_id not in self._states:
            return plan
        return plan.with_state_id(self._free_id(plan.distinguishing_state_id))

    def _free_id(self, state_id: str) -> str:
        """The id, with a number behind it where a state has it."""
        wanted, number = state_id, 1
        while wanted in self._states:
            number += 1
            wanted = f"{state_id}-{number}"
        return wanted

    def _result(self, name: str, node: WindowAggregate) -> Block:
        columns: dict[str, exp.Expr] = {f.id: column(f.id) for f in node.fields}
        return Block(name, quote_identifier(name), (name,), columns)

    def _partial(
        self,
        name: str,
        node: WindowAggregate,
        plan: AggregatePlan,
        blocks: list[Block],
        late: list[Block] | None,
        edges: list[str],
    ) -> None:
        """Adds the partial aggregates over the blocks of one stage, and their exchange."""
        draft = self._drafts[blocks[0].place]
        reads = reads_of(blocks)
        made = []
        for position, edge in enumerate(edges):
            text = "\nUNION ALL\n".join(plan.partial_sql(b, position) for b in blocks)
            step = FragmentStep(f"{edge}.partial", text, reads)
            draft.steps.append(step)
            made.append(step.name)
        kept = made
        if late is not None:
            step_name = f"{name}.kept"
            draft.steps.append(
                LateStep(
                    name=step_name,
                    input=made[0],
                    also=tuple(made[1:]),
                    window=node.window,
                    tick_us=node.time.tick_us,
                    watermark_sources=node.time.sources,
                    operator=name,
                    table=blocks[0].reads[0],
                    late_sql="\nUNION ALL\n".join(
                        _late_sql(node.window, node.slice_column, node.time_column, node.time.tick_us, b)
                        for b in late
                    ),
                    inputs=reads,
                )
            )
            kept = [step_name, *(f"{m}.kept" for m in made[1:])]
        keys = tuple(c.name for c in plan.spec.keys)
        schemas = [plan.partial_schema, *plan.distinct_schemas]
        for relation, edge, schema in zip(kept, edges, schemas, strict=True):
            draft.outputs.append(ExchangeOutput(relation, edge, keys, tuple(c.name for c in schema)))

    # ------------------------------------------------------------------------------- operators that update

    def _once(self, node: _Updating, build: Callable[[Any], Block]) -> Block:
        """The block of an operator: planned once, also where two nodes mean the same."""
        if id(node) in self._aggregates:
            return self._aggregates[id(node)]
        meaning = (type(node).__name__, self._provenance.relation(node), self._times_to_live(node))
        meanings = self._provenance.columns(node)
        for known in self._updating.get(meaning, []):
            outputs = {m: id_ for id_, m in self._provenance.columns(known).items()}
            if all(meanings[f.id] in outputs for f in node.fields):
                block = self._aggregates[id(known)]
                columns = {f.id: block.columns[outputs[meanings[f.id]]] for f in node.fields}
                self._aggregates[id(node)] = replace(block, columns={**columns, **hidden(block)})
                return self._aggregates[id(node)]
        self._aggregates[id(node)] = build(node)
        self._updating.setdefault(meaning, []).append(node)
        return self._aggregates[id(node)]

    def _times_to_live(self, node: Node) -> frozenset[tuple[str, str, int]]:
        """The operators at and below a node that forget, which no fingerprint says, and when they do."""
        found = []
        for below in walk((node,)):
            ttl_us = getattr(below, "ttl_us", None)
            if ttl_us is not None:
                found.append((type(below).__name__, self._provenance.relation(below), ttl_us))
        return frozenset(found)

    def _own_state(self, state: StateSchema) -> StateSchema:
        """The state under an id that no other has."""
        state = replace(state, state_id=self._free_id(state.state_id))
        self._states[state.state_id] = state
        return state

    def _stage(self, name: str, blocks: list[Block]) -> _Draft:
        draft = _Draft(name, 1 + max(self._drafts[b.place].level for b in blocks))
        self._drafts[name] = draft
        return draft

    def _ship(
        self,
        edge: str,
        blocks: list[Block],
        text: Callable[[Block], str],
        keys: tuple[str, ...],
        schema: Schema,
        late: Callable[[str, str], LateStep] | None = None,
    ) -> ExchangeInput:
        """What `text` gives over each block goes over `edge` by `keys`, without the rows that `late` takes out."""
        for place, here in _by_place(blocks).items():
            reads = reads_of(here)
            step = FragmentStep(
                self._name(f"{edge}.part"), "\nUNION ALL\n".join(text(b) for b in here), reads
            )
            draft = self._drafts[place]
            draft.steps.append(step)
            relation = step.name
            if late is not None:
                draft.steps.append(late(place, relation))
                relation = f"{relation}.kept"
            draft.outputs.append(ExchangeOutput(relation, edge, keys, tuple(c.name for c in schema)))
        return ExchangeInput(edge, edge, schema)

    def _group(self, node: GroupAggregate) -> Block:
        over = with_key_columns(node) if node.expiry is None else node
        plan = self._with_own_state(plan_group(over, self._provenance, retracting=changes(node.input)))
        spec = self._keeping(plan.spec, node.ttl_us)
        name = self._name("group_aggregate")
        blocks = self._blocks(over.input, timeless=node.expiry is not None and node.expiry.time.direct)
        keys = tuple(c.name for c in spec.keys)
        if node.expiry is not None:
            return self._expiring(name, node, plan, spec, blocks)
        if plan.distinct or plan.counted:
            blocks = self._computed(name, blocks, columns_read(over))
        partials = [
            self._distinct(f"{name}.distinct_{n}", d, blocks, node.ttl_us)
            for n, d in enumerate(plan.distinct, 1)
        ]
        draft = self._stage(name, [*blocks, *partials])
        edge = self._ship(f"{name}.in", blocks, plan.partial_sql, keys, plan.partial_schema)
        for partial in partials:

            def given(block: Block) -> str:
                return block.select([(quote_identifier(c.name), c.name) for c in plan.partial_schema])

            self._ship(edge.edge, [partial], given, keys, plan.partial_schema)
        counted = [
            self._ship(
                f"{name}.{c.name}", blocks, partial_of(plan.counted_sql, n), keys, plan.counted_schemas[n]
            )
            for n, c in enumerate(spec.counted)
        ]
        draft.inputs = [edge, *counted]
        draft.steps.append(OperatorStep(name, spec, tuple(i.name for i in draft.inputs)))
        return self._changing(name, node, weighted=changes(node))

    def _computed(self, name: str, blocks: list[Block], wanted: Sequence[str]) -> list[Block]:
        """The rows of some blocks as one relation a stage, which several fragments then read."""
        made = []
        for place, here in _by_place(blocks).items():
            weighted = any(WEIGHT_COLUMN in b.columns for b in here)
            texts = []
            for b in here:
                items = [(sql(b.columns[id_]), id_) for id_ in wanted] or [("1", "__one")]
                texts.append(b.select([*items, *([(sql(weight(b)), WEIGHT_COLUMN)] if weighted else [])]))
            reads = reads_of(here)
            step = FragmentStep(self._name(f"{name}.rows"), "\nUNION ALL\n".join(texts), reads)
            self._drafts[place].steps.append(step)
            columns: dict[str, exp.Expr] = {id_: column(id_) for id_ in wanted}
            if weighted:
                columns[WEIGHT_COLUMN] = column(WEIGHT_COLUMN)
            made.append(Block(place, quote_identifier(step.name), (step.name,), columns))
        return made

    def _expiring(
        self, name: str, node: GroupAggregate, plan: GroupPlan, spec: GroupAggregateSpec, blocks: list[Block]
    ) -> Block:
        """Groups of windows: late rows are taken out before the exchange."""
        assert node.expiry is not None
        assert spec.expiry is not None
        draft = self._stage(name, blocks)
        edges = [f"{name}.in", *(f"{name}.{c.name}" for c in spec.counted)]
        schemas = [plan.partial_schema, *plan.counted_schemas]
        [read] = [
            columns_of(e)
            for f, e in zip(node.keys, node.key_expressions, strict=True)
            if f.id == node.expiry.column
        ]
        end = next(f for f in node.input.fields if f.id in read)
        late = self._late_rows(name, node.input, end, node.expiry.time, node.expiry.lateness_us)
        slices = f"epoch_us({quote_identifier(spec.expiry.column)}) AS {quote_identifier(SLICE_COLUMN)}"
        for place, here in _by_place(blocks).items():
            reads = reads_of(here)
            made = []
            for number, edge in enumerate(edges):
                partial = plan.partial_sql if number == 0 else partial_of(plan.counted_sql, number - 1)
                text = "\nUNION ALL\n".join(partial(b) for b in here)
                if late is not None:
                    inner = text.replace("\n", "\n  ")
                    text = f"SELECT *, {slices}\nFROM (\n  {inner}\n) AS t"
                made.append(FragmentStep(self._name(f"{edge}.part"), text, reads))
            given = self._drafts[place]
            given.steps += made
            kept = [step.name for step in made]
            if late is not None:
                step = late(place, kept[0])
                given.steps.append(replace(step, also=tuple(kept[1:])))
                kept = [step.name, *(f"{other}.kept" for other in kept[1:])]
            for relation, edge, schema in zip(kept, edges, schemas, strict=True):
                keys = tuple(c.name for c in spec.keys)
                given.outputs.append(ExchangeOutput(relation, edge, keys, tuple(c.name for c in schema)))
        draft.inputs = [ExchangeInput(e, e, s) for e, s in zip(edges, schemas, strict=True)]
        draft.steps.append(OperatorStep(name, spec, tuple(edges)))
        return self._changing(name, node, weighted=changes(node))

    def _gate(self, node: WindowGate) -> Block:
        """Runs where its groups are, by whose keys its state is."""
        groups = self._once(node.input, self._group)
        draft = self._drafts[groups.place]
        spec = plan_gate(node, groups, self._provenance)
        spec = replace(spec, state=self._own_state(spec.state))
        name = self._name(spec.kind)
        draft.steps.append(OperatorStep(name, spec, groups.reads))
        columns: dict[str, exp.Expr] = {f.id: groups.columns[f.id] for f in node.fields}
        return Block(groups.place, quote_identifier(name), (name,), {**columns, **hidden(groups)})

    def _keep_first(self, node: KeepFirst) -> Block:
        return self._rows(node, plan_keep_first(node, self._provenance), weighted=False)

    def _keeping(self, spec: _SpecT, ttl_us: int | None) -> _SpecT:
        """The spec with a state of its own and, where that has keys, its time to live."""
        state = self._own_state(spec.state)
        if ttl_us is None or not state.tables[0].key:
            return replace(spec, state=state)
        state = with_ttl(state)
        self._states[state.state_id] = state
        return replace(spec, state=state, ttl_us=ttl_us)

    def _distinct(self, name: str, plan: DistinctPlan, blocks: list[Block], ttl_us: int | None) -> Block:
        spec = self._keeping(plan.spec, ttl_us)
        draft = self._stage(name, blocks)
        keys = tuple(f.name for f in spec.state.table("seen").key)
        draft.inputs = [self._ship(f"{name}.in", blocks, plan.partial_sql, keys, plan.input_schema)]
        draft.steps.append(OperatorStep(name, spec, (draft.inputs[0].name,)))
        columns: dict[str, exp.Expr] = {c.name: column(c.name) for c in spec.output}
        return Block(name, quote_identifier(name), (name,), columns)

    def _top(self, node: TopN) -> Block:
        plan = plan_top(node, self._provenance, retracting=changes(node.input))
        if isinstance(plan.spec, WindowTopNSpec):
            spec: OperatorSpec = replace(plan.spec, state=self._own_state(plan.spec.state))
        else:
            spec = self._keeping(plan.spec, node.ttl_us)
        name = self._name(spec.kind)
        direct = node.window_end is not None and node.time is not None and node.time.direct
        blocks = self._blocks(node.input, timeless=direct)
        draft = self._stage(name, blocks)
        keys = tuple(f.name for f in spec.state.tables[0].key)
        late = None
        if node.window_end is not None and node.time is not None:
            end = next(f for f in node.input.fields if f.id == node.window_end)
            late = self._late_rows(name, node.input, end, node.time)
        edge = self._ship(f"{name}.in", blocks, plan.partial_sql, keys, plan.input_schema, late)
        draft.inputs = [edge]
        draft.steps.append(OperatorStep(name, spec, (edge.name,)))
        return self._changing(name, node, weighted=changes(node))

    def _late_rows(
        self, name: str, input_: Node, end: Field, time: EventTime, lateness_us: int = 0
    ) -> Callable[[str, str], LateStep] | None:
        """Makes the step that takes rows of closed windows out, for the rows of one stage.

        `end` is the column of `input_` with the end of a row's window.
        """
        if end.window is None or not time.direct:
            return None
        window = replace(end.window.window, shared_slices=False)
        time_column = _event_time(input_)
        rows = _by_place(self._blocks(input_, rows=True, timeless=True))

        def step(place: str, relation: str) -> LateStep:
            late = rows[place]
            reads = reads_of(late)
            tick_us = time.tick_us - lateness_us
            texts = [_late_sql(window, end.id, time_column, tick_us, b) for b in late]
            return LateStep(
                name=f"{relation}.kept",
                input=relation,
                also=(),
                window=window,
                tick_us=time.tick_us,
                watermark_sources=time.sources,
                operator=name,
                table=late[0].reads[0],
                late_sql="\nUNION ALL\n".join(texts),
                inputs=reads,
                lateness_us=lateness_us,
            )

        return step

    def _normalize(self, node: Normalize) -> Block:
        return self._rows(node, plan_normalize(node, self._provenance), weighted=True)

    def _rows(self, node: Normalize | KeepFirst, plan: RowsPlan, *, weighted: bool) -> Block:
        if isinstance(plan.spec, WindowTopNSpec):
            raise InternalError("a window's Top-N is planned with its window")
        spec = self._keeping(plan.spec, node.ttl_us)
        name = self._name(spec.kind)
        blocks = self._blocks(node.input)
        draft = self._stage(name, blocks)
        keys = tuple(f.name for f in spec.state.tables[0].key)
        draft.inputs = [self._ship(f"{name}.in", blocks, plan.partial_sql, keys, plan.input_schema)]
        draft.steps.append(OperatorStep(name, spec, (draft.inputs[0].name,)))
        return self._changing(name, node, weighted=weighted)

    def _changing(self, name: str, node: Node, *, weighted: bool) -> Block:
        columns: dict[str, exp.Expr] = {f.id: column(f.id) for f in node.fields}
        if weighted:
            columns[WEIGHT_COLUMN] = column(WEIGHT_COLUMN)
        return Block(name, quote_identifier(name), (name,), columns)

    # --------------------------------------------------------------------------------------------- sinks

    def _write(self, root: Sink) -> None:
        for blocks in _by_place(self._blocks(root.input)).values():
            draft = self._drafts[blocks[0].place]
            reads = reads_of(blocks)
            weighted = root.sink.changelog != "append"
            rows = []
            for b in blocks:
                items = [
                    (sql(b.columns[f.id]), c.name) for f, c in zip(root.fields, root.sink.schema, strict=True)
                ]
                rows.append(b.select([*items, *([(sql(weight(b)), WEIGHT_COLUMN)] if weighted else [])]))
            text = "\nUNION ALL\n".join(rows)
            if weighted and not (len(blocks) == 1 and _told_apart(blocks[0], draft, root)):
                text = consolidated([c.name for c in root.sink.schema], text)
            step = FragmentStep(self._name(f"{root.sink.name}.rows"), text, reads)
            draft.steps.append(step)
            draft.outputs.append(SinkOutput(step.name, root.sink.name))


def _told_apart(block: Block, draft: _Draft, root: Sink) -> bool:
    """Whether a sink gets all columns of changes that an operator of the stage consolidated."""
    kinds = TopNSpec | DeduplicateSpec | GroupAggregateSpec
    steps = [step for step in draft.steps if isinstance(step, OperatorStep)]
    made = {quote_identifier(step.name): step.operator for step in steps if isinstance(step.operator, kinds)}
    if block.source not in made or WEIGHT_COLUMN not in block.columns:
        return False
    shown = {e.name for e in (block.columns[f.id] for f in root.fields) if isinstance(e, exp.Column)}
    return {c.name for c in made[block.source].output} <= shown


def _event_time(node: Node) -> str | None:
    """The column with a row's own event time, which tells how late it is."""
    return next((f.id for f in node.fields if f.time is not None and f.window is None), None)


def with_key_columns(node: GroupAggregate) -> GroupAggregate:
    """The same aggregate with keys that are computed by a projection below it, once for all that reads them."""
    fields, expressions, chosen = list(node.input.fields), [], []
    for f, e in zip(node.keys, node.key_expressions, strict=True):
        if isinstance(e.unnest(), exp.Column):
            chosen.append(e)
            continue
        made = Field(f"{f.id}.key", f.name, f.type, f.nullable)
        fields.append(made)
        expressions.append(e)
        chosen.append(column(made.id))
    if not expressions:
        return node
    below = Project(node.input, tuple(fields), (*(column(f.id) for f in node.input.fields), *expressions))
    return replace(node, input=below, key_expressions=tuple(chosen))


def columns_read(node: GroupAggregate) -> list[str]:
    """The ids of the columns of its input that an aggregate reads, in the input's order."""
    expressions = [*node.key_expressions]
    for call in node.calls:
        expressions += [*call.arguments, *(e for e, _, _ in call.order_by)]
        expressions += [call.filter] if call.filter is not None else []
    read = set().union(*(columns_of(e) for e in expressions)) if expressions else set()
    return [f.id for f in node.input.fields if f.id in read]


def consolidated(columns: Sequence[str], changes_sql: str) -> str:
    """Each row of some changes once, with the sum of its weights; rows that came and went are left out."""
    listed = ", ".join(quote_identifier(name) for name in columns)
    total = f"sum({quote_identifier(WEIGHT_COLUMN)})"
    inner = changes_sql.replace("\n", "\n  ")
    return (
        f"SELECT {listed}, CAST({total} AS BIGINT) AS {quote_identifier(WEIGHT_COLUMN)}\n"
        f"FROM (\n  {inner}\n) AS t\nGROUP BY {listed}\nHAVING {total} <> 0"
    )


def partial_of(make: Callable[[Block, int], str], position: int) -> Callable[[Block], str]:
    """`make` at one position."""
    return lambda block: make(block, position)


def reads_of(blocks: Sequence[Block]) -> tuple[str, ...]:
    """The relations that some blocks read, each once."""
    return tuple(dict.fromkeys(name for block in blocks for name in block.reads))


def _by_place(blocks: list[Block]) -> dict[str, list[Block]]:
    grouped: dict[str, list[Block]] = {}
    for block in blocks:
        grouped.setdefault(block.place, []).append(block)
    return grouped


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


def _late_sql(
    window: WindowSpec, slice_column_id: str, time_column: str | None, tick_us: int, block: Block
) -> str:
    """Source rows and the closed windows that they miss; also rows without an event time, for no window."""
    if ROW_COLUMN not in block.columns:
        raise InternalError("a late row can't be traced to its source row")
    slice_column = block.columns[slice_column_id]
    time = sql(block.columns[time_column]) if time_column is not None else sql(slice_column)
    us = f"epoch_us({sql(slice_column)})"
    if window.shared_slices:
        gap = window_sql.in_some_window(window, us)
        ends = window_sql.window_ends(window, us)
        ends = f"CASE WHEN {us} IS NULL THEN [NULL] ELSE {ends} END"
        if gap is not None:
            block = replace(block, where=(*block.where, raw(f"coalesce({gap}, TRUE)")))
    else:
        ends = f"[{us}]"
    inner = block.select(
        [
            (f"unnest({ends})", "__end"),
            (f"CAST({time} AS TIMESTAMP)", "event_time"),
            (sql(block.columns[ROW_COLUMN]), "row"),
        ]
    ).replace("\n", "\n  ")
    start = window_sql.start_of(window, '"__end"')
    return (
        f'SELECT make_timestamp({start}) AS window_start, make_timestamp("__end") AS window_end, "event_time", "row"\n'
        f'FROM (\n  {inner}\n) AS t\nWHERE "__end" IS NULL OR "__end" - {tick_us} <= $late_watermark'
    )
