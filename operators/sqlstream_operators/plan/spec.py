"""The physical plan as plain data: what runs in which Spark task. Importable without Arrow, DuckDB or RocksDB.

A pipeline is a chain of *stage levels*. Level 0 reads splits of the sources; every later level reads what an
exchange sent to its shard. All stages of a stage level run in one Spark task, so a relation that two
consumers need is computed once, and the whole pipeline is one Spark job per epoch. An edge that skips a level
is passed through by the stage level between.

Inside a stage, named relations are made in order by *steps* (DuckDB fragments and operators) and leave it by
*outputs* (an exchange, or a sink).

Where a field may be of several classes, each has a `kind`: the fixed string that stands for it in stored plans. A
class may be renamed; its kind may not, and no kind is given to another class again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, get_args

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.arranged_spec import ArrangedJoinSpec, ArrangeSpec
from sqlstream_operators.plan.changelog_normalize_spec import ChangelogNormalizeSpec
from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.epoch_values import ARRIVAL_RELATION
from sqlstream_operators.plan.first_row_spec import FirstRowSpec
from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.operator_spec import StatefulSpec
from sqlstream_operators.plan.over_spec import OverOnCloseSpec, OverSpec
from sqlstream_operators.plan.schema import KIND_COLUMN, SLICE_COLUMN, WEIGHT_COLUMN, Column, RowKind, Schema
from sqlstream_operators.plan.session_spec import SessionAggregateSpec, SessionWindowsSpec
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.suppress_until_close_spec import SuppressUntilCloseSpec
from sqlstream_operators.plan.table_spec import (
    DimensionSpec,
    MetadataColumn,
    SinkSpec,
    SourceSpec,
    WatermarkSpec,
)
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_operators.plan.top_n_spec import DeduplicateSpec, TopNSpec, WindowTopNSpec
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from sqlstream_operators.plan.window_spec import WindowSpec

__all__ = [
    "KIND_COLUMN",
    "SLICE_COLUMN",
    "WEIGHT_COLUMN",
    "Column",
    "DimensionSpec",
    "MetadataColumn",
    "RowKind",
    "Schema",
    "SinkSpec",
    "SourceSpec",
    "WatermarkSpec",
]


# ---------------------------------------------------------------------------------------------- operators

OperatorSpec = (
    WindowAggregateSpec
    | GroupAggregateSpec
    | DistinctValuesSpec
    | TopNSpec
    | DeduplicateSpec
    | WindowTopNSpec
    | ChangelogNormalizeSpec
    | FirstRowSpec
    | SuppressUntilCloseSpec
    | JoinSpec
    | ArrangeSpec
    | TemporalJoinSpec
    | IntervalJoinSpec
    | OverSpec
    | OverOnCloseSpec
    | SessionWindowsSpec
    | SessionAggregateSpec
)
"""Where a spec is registered, by a line. Plans as JSON follow from it; `operators/registry.py` and the planner's are checked
against it.
"""

ReadingOperatorSpec = ArrangedJoinSpec
"""Where a spec of an operator without state is registered; of several it is a union, too."""

SPECS: tuple[type[StatefulSpec], ...] = get_args(OperatorSpec)


def check_registered(what: str, classes: Iterable[type]) -> None:
    """Raises InternalError unless `what` has a line for each class of specs, and for no other."""
    odd = sorted(c.__name__ for c in set(SPECS).symmetric_difference(classes))
    if odd:
        raise InternalError(f"OperatorSpec (plan/spec.py) and {what} do not agree about {', '.join(odd)}")


# -------------------------------------------------------------------------------------------------- stages


@dataclass(frozen=True, slots=True)
class FragmentStep:
    """DuckDB SQL over relations of this stage; its result is the relation `name`.

    `materialized`: it is computed once even if a single fragment reads it, which may name it several times.
    """

    kind: ClassVar[str] = "fragment"

    name: str
    sql: str
    inputs: tuple[str, ...]
    materialized: bool = False


@dataclass(frozen=True, slots=True)
class LateStep:
    """Splits closed slices off a partial aggregate; its result `name` is what is not late.

    A partial row is dropped when the last window that its slice belongs to is closed at the late watermark.
    If any row's first window is closed, `late_sql` runs (rare): DuckDB SQL with the parameter
    `$late_watermark` (BIGINT µs) over `inputs`, one row for each source row that misses closed windows: columns
    `window_start` TIMESTAMP of the first one, `window_end` of the last (NULL: it has no event time), `windows` BIGINT,
    how many there are from the first to the last, `event_time` TIMESTAMP, `row` VARCHAR (JSON).

    With `undecided` the windows are sessions, and a row that is late by itself may yet belong to one that is open. So the
    rows that `late_sql` finds, which have these columns too, become the relation `undecided_name`, and the operator says
    which of them are late.
    """

    kind: ClassVar[str] = "late"

    name: str
    input: str
    also: tuple[str, ...]  # partials of distincts, filtered alike; their results are named `<also>.kept`
    window: WindowSpec
    tick_us: int
    watermark_sources: tuple[str, ...]
    operator: str
    table: str
    late_sql: str
    inputs: tuple[str, ...]
    lateness_us: int = 0  # how long after its end a window still takes rows
    instant: bool = False  # a row is late by its own time: it is its window's end
    undecided: Schema = ()

    @property
    def undecided_name(self) -> str:
        """The relation with the rows that only the operator can decide about, if there are to be any."""
        return f"{self.name}.undecided"

    @property
    def kept(self) -> dict[str, str]:
        """The relations that are split, and what those of their rows are called that are not late."""
        return {self.input: self.name} | {name: f"{name}.kept" for name in self.also}


@dataclass(frozen=True, slots=True)
class OperatorStep:
    """A stateful operator; its result is the relation `name`."""

    kind: ClassVar[str] = "operator"

    name: str
    operator: OperatorSpec
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JoinStep:
    """An operator without state: it reads that of operators of this stage, whose steps make the relations `inputs`.

    Its result is the relation `name`.
    """

    kind: ClassVar[str] = "join_arranged"

    name: str
    join: ReadingOperatorSpec
    inputs: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.join.reads):
            raise ValueError(f"step {self.name}: {len(self.inputs)} inputs for {len(self.join.reads)} sides")


@dataclass(frozen=True, slots=True)
class ReadStateStep:
    """All rows of a table of a state, in this shard, as the relation `name`; the state stays as it is.

    `state` may be another schema than they were written with: a field that is missing there is NULL.
    """

    kind: ClassVar[str] = "read_state"

    name: str
    state: StateSchema
    table: str
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadStateStep:
    """Fills a state that is empty: `tables` of it with the rows of `inputs`, one each.

    They have the table's key and value columns; of a table with layout 'list' those of a key stand together, in its order.
    """

    kind: ClassVar[str] = "load_state"

    name: str
    state: StateSchema
    tables: tuple[str, ...]
    inputs: tuple[str, ...]


Step = FragmentStep | LateStep | OperatorStep | JoinStep | ReadStateStep | LoadStateStep


def made_by(step: Step) -> tuple[str, ...]:
    """The relations that a step makes."""
    if not isinstance(step, LateStep):
        return (step.name,)
    return (*step.kept.values(), *((step.undecided_name,) if step.undecided else ()))


def read_by(step: Step) -> tuple[str, ...]:
    """The relations that a step reads."""
    return (*step.kept, *step.inputs) if isinstance(step, LateStep) else step.inputs


def rows_from(step: Step) -> tuple[str, ...]:
    """The relations whose rows a step's results are made of."""
    return tuple(step.kept) if isinstance(step, LateStep) else step.inputs


@dataclass(frozen=True, slots=True)
class SourceInput:
    """The stage reads splits of a source as the relation `name`."""

    kind: ClassVar[str] = "source"

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class ExchangeInput:
    """The stage reads what arrived on an edge as the relation `name`."""

    kind: ClassVar[str] = "exchange"

    name: str
    edge: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class DimensionInput:
    """The stage reads the epoch's copy of a dimension table as the relation `name`."""

    kind: ClassVar[str] = "dimension"

    name: str
    dimension: str


@dataclass(frozen=True, slots=True)
class EpochInput:
    """SQL of the stage reads what `epoch_values` has of the epoch, as the relation `name` says."""

    kind: ClassVar[str] = "epoch"

    name: str

    @property
    def gives_once(self) -> bool:
        """Whether what it gave once can't be computed again: it is more than the order of arrival."""
        return self.name != ARRIVAL_RELATION


StageInput = SourceInput | ExchangeInput | DimensionInput | EpochInput


@dataclass(frozen=True, slots=True)
class ExchangeOutput:
    """Rows of `input` go to the shard of their key group; without keys all go to one shard.

    `columns` are shipped, in this order; `keys` name the columns that are hashed.
    """

    kind: ClassVar[str] = "exchange"

    input: str
    edge: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SinkOutput:
    """Rows of `input` are written to a sink."""

    kind: ClassVar[str] = "sink"

    input: str
    sink: str


@dataclass(frozen=True, slots=True)
class Stage:
    """What one Spark task does for one part of the pipeline; see the module's docstring."""

    id: str
    level: int
    inputs: tuple[SourceInput | ExchangeInput | DimensionInput | EpochInput, ...]
    steps: tuple[Step, ...]
    outputs: tuple[ExchangeOutput | SinkOutput, ...]

    def __post_init__(self) -> None:
        known = {i.name for i in self.inputs}
        kept: dict[str, str] = {}
        for step in self.steps:
            for name in read_by(step):
                if name not in known:
                    raise ValueError(f"stage {self.id}: step {step.name} reads unknown relation {name}")
            if step.name in known:
                raise ValueError(f"stage {self.id}: relation {step.name} is made twice")
            known.update(made_by(step))
            if isinstance(step, OperatorStep):
                kept[step.name] = step.operator.state.state_id
            elif isinstance(step, JoinStep) and tuple(map(kept.get, step.inputs)) != step.join.reads:
                raise ValueError(f"stage {self.id}: step {step.name} reads states that its inputs don't keep")
        for output in self.outputs:
            if output.input not in known:
                raise ValueError(f"stage {self.id}: output reads unknown relation {output.input}")
        for stage_input in self.inputs:
            if isinstance(stage_input, DimensionInput | EpochInput):
                continue
            if isinstance(stage_input, SourceInput) != (self.level == 0):
                raise ValueError(f"stage {self.id}: sources are read at stage level 0, exchanges after it")


@dataclass(frozen=True, slots=True)
class RestartOptions:
    """How a run is begun again when its database, disk or Spark fails: `none`, `fixed-delay` or `exponential-delay`.

    `attempts` in a row (None: for ever), `delay_us` before the first, times `multiplier` each time, up to `longest_us`.
    """

    strategy: str
    attempts: int | None = None
    delay_us: int = 1_000_000
    longest_us: int = 60_000_000
    multiplier: float = 1.5


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What `SET` statements decide. None: the command line or the runtime's default decides.

    `drain`: the end of what bounded sources have is the end of time, and all that is open closes. `failing_rows`: what
    becomes of a row over which an expression fails: "fail" (None), or "dead-letter"; "dead-letter-as-read": only of rows
    of sources.
    """

    name: str | None = None
    parallelism: int | None = None
    max_parallelism: int = 128
    max_rows_per_epoch: int | None = None
    max_files_per_epoch: int | None = None
    target_epoch_us: int | None = None
    single_task_rows: int | None = None
    task_memory_bytes: int | None = None
    state_dir: str | None = None
    max_dead_letters: int | None = None
    max_dead_letter_share: float | None = None
    restart: RestartOptions | None = None
    drain: bool = False
    failing_rows: str | None = None
    epoch_interval_us: int | None = None


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Everything the runtime needs; plain data with a JSON round trip (`sqlstream_operators.plan.plan_json`).

    `names` says for columns whose id is not what the query calls them what that is; it decides nothing.
    """

    sources: tuple[SourceSpec, ...]
    sinks: tuple[SinkSpec, ...]
    stages: tuple[Stage, ...]
    states: tuple[StateSchema, ...]
    options: JobOptions = field(default_factory=JobOptions)
    names: Mapping[str, str] = field(default_factory=dict)
    dimensions: tuple[DimensionSpec, ...] = ()

    def __post_init__(self) -> None:
        read = {i.dimension for s in self.stages for i in s.inputs if isinstance(i, DimensionInput)}
        if missing := read - {dimension.name for dimension in self.dimensions}:
            raise ValueError(f"stages read unknown dimensions {sorted(missing)}")
        produced = {o.edge for s in self.stages for o in s.outputs if isinstance(o, ExchangeOutput)}
        consumed = {i.edge for s in self.stages for i in s.inputs if isinstance(i, ExchangeInput)}
        if produced != consumed:
            raise ValueError(f"edges without both ends: {sorted(produced ^ consumed)}")
        ids = [s.id for s in self.stages]
        if len(set(ids)) != len(ids):
            raise ValueError("stage ids are unique")

    @property
    def levels(self) -> int:
        """How many stage levels, and so Spark stages, an epoch has (level 0 included)."""
        return 1 + max((stage.level for stage in self.stages), default=0)

    @property
    def operators(self) -> tuple[OperatorStep, ...]:
        """The steps that are stateful operators, in the order of the stages."""
        return tuple(step for stage in self.stages for step in stage.steps if isinstance(step, OperatorStep))
