"""The stages of a plan while it is made, and what they ship to each other over exchanges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlstream_operators.plan.epoch_values import OF_EPOCH
from sqlstream_operators.plan.operator_spec import check_facts
from sqlstream_operators.plan.spec import (
    DimensionInput,
    EpochInput,
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    OperatorSpec,
    OperatorStep,
    Schema,
    SinkOutput,
    SourceInput,
    Stage,
    StageInput,
    Step,
    made_by,
    read_by,
)
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.by_stage import by_stage, reads_of
from sqlstream_planner.physical.late_rows import LateRows
from sqlstream_planner.physical.late_sessions import LateSessionRows


@dataclass(slots=True)
class Draft:
    """A stage to which steps and outputs are still added."""

    id: str
    level: int
    inputs: list[StageInput] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[ExchangeOutput | SinkOutput] = field(default_factory=list)

    def stage(self, dimensions: Mapping[str, str]) -> Stage:
        """The stage as it is now; `dimensions` are relations that any stage may read, with their tables."""
        read = {name for step in self.steps for name in read_by(step)}
        looked_up = (DimensionInput(name, table) for name, table in dimensions.items() if name in read)
        epoch = (EpochInput(name) for name in sorted(OF_EPOCH & read))
        inputs = (*self.inputs, *looked_up, *epoch)
        return Stage(self.id, self.level, inputs, tuple(self.steps), tuple(self.outputs))

    def run(self, name: str, operator: OperatorSpec, inputs: Sequence[ExchangeInput]) -> None:
        """Run an operator here over what comes over exchanges."""
        self.inputs += inputs
        self.steps.append(OperatorStep(name, operator, tuple(i.name for i in inputs)))


@dataclass(frozen=True, slots=True)
class Shipment:
    """What goes over one exchange: `text` is its SQL over the blocks of one stage, `schema` what that gives.

    `step` is the name of the step that runs it; without one it is numbered. `also_reads` are the relations of a stage that
    it reads beside those of the blocks.
    """

    edge: str
    text: Callable[[Sequence[Block]], str]
    schema: Schema
    step: str | None = None
    also_reads: Callable[[str], tuple[str, ...]] = lambda stage: ()


class Stages:
    """The stages of a plan by their ids; a block's `stage` is one of them."""

    def __init__(self) -> None:
        self._drafts: dict[str, Draft] = {}
        self._names: dict[str, int] = {}
        self._dimensions: dict[str, str] = {}

    def __getitem__(self, stage: str) -> Draft:
        return self._drafts[stage]

    def built(self) -> tuple[Stage, ...]:
        """All stages, each behind those that it reads.

        Raises InternalError if what the spec of an operator says of it is not about its state and its output.
        """
        for draft in self._drafts.values():
            for step in draft.steps:
                if isinstance(step, OperatorStep):
                    check_facts(step.operator)
        return tuple(
            sorted((d.stage(self._dimensions) for d in self._drafts.values()), key=lambda s: s.level)
        )

    def name(self, prefix: str) -> str:
        """A name for a step or a stage that no other has."""
        self._names[prefix] = self._names.get(prefix, 0) + 1
        return f"{prefix}_{self._names[prefix]}"

    def reading(self, source: str) -> str:
        """The id of the stage that reads a source; it is made when it is first needed."""
        stage = f"scan:{source}"
        if stage not in self._drafts:
            self._drafts[stage] = Draft(stage, 0, inputs=[SourceInput(source, source)])
        return stage

    def looking_up(self, table: str) -> str:
        """The relation that is the copy of a dimension table, in whatever stage."""
        relation = f"{table} (looked up)"
        self._dimensions[relation] = table
        return relation

    def behind(self, name: str, blocks: Sequence[Block]) -> Draft:
        """A new stage, which reads what the stages of some blocks ship to it."""
        draft = Draft(name, 1 + max(self._drafts[b.stage].level for b in blocks))
        self._drafts[name] = draft
        return draft

    def put_behind(self, stage: str, blocks: Sequence[Block]) -> Draft:
        """A stage that is there, to which the stages of some more blocks ship; those that read it go up with it."""
        draft = self._drafts[stage]
        self._raise(draft, 1 + max((self._drafts[b.stage].level for b in blocks), default=0))
        return draft

    def _raise(self, draft: Draft, level: int) -> None:
        if level <= draft.level:
            return
        draft.level = level
        edges = {output.edge for output in draft.outputs if isinstance(output, ExchangeOutput)}
        for reader in self._drafts.values():
            if any(isinstance(i, ExchangeInput) and i.edge in edges for i in reader.inputs):
                self._raise(reader, level + 1)

    def ship(
        self,
        blocks: Sequence[Block],
        shipments: Sequence[Shipment],
        keys: tuple[str, ...],
        late: LateRows | LateSessionRows | None = None,
    ) -> list[ExchangeInput]:
        """Send what `shipments` make of the blocks by `keys`, each over its edge, without the rows that are `late`.

        Those that only the operator can decide about go over an edge of their own, behind the others.
        """
        edges = [(shipment.edge, shipment.schema) for shipment in shipments]
        if isinstance(late, LateSessionRows):
            edges.append(late.undecided)
        for stage, here in by_stage(blocks).items():
            draft = self._drafts[stage]
            reads = reads_of(here)
            made = []
            for shipment in shipments:
                name = shipment.step or self.name(f"{shipment.edge}.part")
                step = FragmentStep(name, shipment.text(here), (*reads, *shipment.also_reads(stage)))
                draft.steps.append(step)
                made.append(step.name)
            if late is not None:
                taken = late.step(stage, made)
                draft.steps.append(taken)
                made = [*made_by(taken)]
            for relation, (edge, schema) in zip(made, edges, strict=True):
                draft.outputs.append(ExchangeOutput(relation, edge, keys, tuple(c.name for c in schema)))
        return [ExchangeInput(edge, edge, schema) for edge, schema in edges]
