"""The program of a Spark task, without Spark: read a split or what exchanges brought, run the stages."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrow_types import to_arrow
from .errors import DataError, InternalError
from .exchange import Message, decode, encode, partition
from .fragment import DuckSession, worker_session
from .io import BadRow, SplitReader, Stores, Writers
from .operator import WATERMARK_MIN, Operator, OperatorContext, Watermarks
from .plan_json import decode as decode_json
from .plan_json import encode as encode_json
from .relations import Relations, conformed
from .report import REPORT_EDGE, Report, StagedPart, dead_letters
from .spec import (
    KIND_COLUMN,
    SLICE_COLUMN,
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    LateStep,
    OperatorSpec,
    OperatorStep,
    PhysicalPlan,
    SinkOutput,
    SourceInput,
    SourceSpec,
    Stage,
)
from .state.checkpoint_store import CheckpointStore
from .state.shard_store import ShardStore
from .state.version import ShardVersion
from .window_aggregate import WindowAggregate
from .windows import closed_upto, window_ends_of_slice

_SPLIT = "$split"
_WHOLE = "$split with all columns"
_LEVEL = 1 << 24  # producers of one edge are ordered by (level, ordinal)


@dataclass(frozen=True, slots=True)
class EpochContext:
    """What a task must know of its epoch; plain data.

    watermarks: of each source, µs. state: by state id, the versions of all shards before this epoch, in
    order; their number is the parallelism that they were written with. checkpoint: URI of the checkpoint
    store. local_dir: a directory of the task's machine that may be lost.
    """

    epoch: int
    shards: int
    max_parallelism: int
    watermarks: Mapping[str, Watermarks]
    state: Mapping[str, tuple[ShardVersion, ...]] = field(default_factory=dict)
    checkpoint: str = ""
    local_dir: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data; `from_json` reads it back."""
        return {
            "epoch": self.epoch,
            "shards": self.shards,
            "max_parallelism": self.max_parallelism,
            "watermarks": {s: encode_json(Watermarks, marks) for s, marks in sorted(self.watermarks.items())},
            "state": {s: [v.to_json() for v in versions] for s, versions in sorted(self.state.items())},
            "checkpoint": self.checkpoint,
            "local_dir": self.local_dir,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EpochContext:
        """Read what `to_json` wrote."""
        marks = {s: decode_json(Watermarks, m, f"watermarks.{s}") for s, m in data["watermarks"].items()}
        state = {s: tuple(ShardVersion.from_json(v) for v in vs) for s, vs in data["state"].items()}
        return cls(**{**data, "watermarks": marks, "state": state})


def rocks_stores(epoch: EpochContext, shard: int) -> Stores:
    """Opens states of a shard in the epoch's checkpoint store, RocksDB being the local cache."""
    checkpoint = CheckpointStore(epoch.checkpoint)

    def open_store(schema: Any) -> ShardStore:
        versions = epoch.state.get(schema.state_id, ())
        same = len(versions) == epoch.shards
        return ShardStore.open(
            schema,
            shard,
            epoch.shards,
            epoch.max_parallelism,
            versions[shard] if same else versions or ShardVersion.empty(),
            checkpoint=checkpoint,
            local_dir=Path(epoch.local_dir),
            epoch=epoch.epoch,
        )

    return open_store


def operator_of(spec: OperatorSpec) -> Operator:
    """The operator that runs a spec."""
    return WindowAggregate(spec)


def watermarks_for(
    plan: PhysicalPlan, epoch: EpochContext, operator: str, sources: Iterable[str]
) -> Watermarks:
    """The watermarks of an operator: the least of its sources'.

    Where its rows come from an operator (its late step is not at level 0), they left that one in this very
    epoch, for windows that this epoch's watermark closed. So only what the epoch before closed is late for
    them.
    """
    try:
        marks = [epoch.watermarks[source] for source in sources]
    except KeyError as error:
        raise InternalError(f"epoch {epoch.epoch} has no watermark of source {error}") from None
    if not marks:
        raise InternalError(f"operator {operator} has no source with a watermark")
    previous = min(mark.previous for mark in marks)
    close = min(mark.close for mark in marks)
    cascaded = any(
        isinstance(step, LateStep) and step.operator == operator and stage.level > 0
        for stage in plan.stages
        for step in stage.steps
    )
    return Watermarks(previous, previous if cascaded else min(mark.late for mark in marks), close)


class _Clock:
    """µs by phase."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = defaultdict(int)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        started = time.perf_counter_ns()
        try:
            yield
        finally:
            self.spent[name] += (time.perf_counter_ns() - started) // 1000


@dataclass(slots=True)
class _Task:
    """One run of the stages of a level; what they send and write is collected and leaves at the end."""

    plan: PhysicalPlan
    level: int
    ordinal: int
    epoch: EpochContext
    duck: DuckSession
    stores: Stores | None = None
    whole_rows: Callable[[], Relations] | None = None
    clock: _Clock = field(default_factory=_Clock)
    edges: dict[ExchangeOutput, list[pa.Table]] = field(default_factory=dict)
    sinks: dict[str, list[pa.Table]] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    letters: list[pa.Table] = field(default_factory=list)
    state: dict[str, ShardVersion] = field(default_factory=dict)
    metrics: dict[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.level}-{self.ordinal:05d}"

    def run(self, stage: Stage, relations: Relations) -> None:
        """Run a stage whose inputs are in `relations`."""
        once = _read_once(stage)
        for step in stage.steps:
            if isinstance(step, FragmentStep):
                relations.add_sql(step.name, step.sql, step.inputs)
                if step.name not in once:
                    with self.clock.phase("fragment"):
                        relations.table(step.name)
            elif isinstance(step, LateStep):
                self._late(step, relations)
            else:
                self._operate(step, relations)
        for output in stage.outputs:
            with self.clock.phase("fragment"):
                rows = relations.table(output.input)
            if isinstance(output, SinkOutput):
                sink = next(spec for spec in self.plan.sinks if spec.name == output.sink)
                rows = conformed(rows, sink.schema, f"sink {sink.name}", [KIND_COLUMN])
                self.sinks.setdefault(sink.name, []).append(rows)
            else:
                self.edges.setdefault(output, []).append(rows)

    def _late(self, step: LateStep, relations: Relations) -> None:
        marks = watermarks_for(self.plan, self.epoch, step.operator, step.watermark_sources)
        upto = closed_upto(marks.late, step.tick_us)
        any_late = any_timeless = False
        names = {step.input: step.name} | {name: f"{name}.kept" for name in step.also}
        for name, kept in names.items():
            with self.clock.phase("fragment"):
                rows = relations.table(name)
            if rows.num_rows:
                ends = rows.column(SLICE_COLUMN)
                if ends.null_count:
                    # Rows without an event time belong to no window.
                    any_timeless = True
                    rows = rows.filter(pc.is_valid(ends))
                first, last = window_ends_of_slice(step.window, rows.column(SLICE_COLUMN).to_numpy())
                keep = last >= first
                if marks.late != WATERMARK_MIN:
                    any_late = any_late or bool(np.any((first <= upto) & keep))
                    keep &= last > upto
                if not keep.all():
                    rows = rows.filter(pa.array(keep))
            relations.add_table(kept, rows, relations.schema(name))
        if not (any_late or any_timeless):
            return
        with self.clock.phase("fragment"):
            source = relations if self.whole_rows is None else self.whole_rows()
            rows = source.query(step.late_sql, step.inputs, {"late_watermark": marks.late})
        timeless = pc.is_null(rows.column("window_end"))
        self._lost(step, rows.filter(timeless), "no-time", "the event time is NULL")
        late = rows.filter(pc.invert(timeless))
        self._lost(step, late, "late", f"the window was closed: the watermark is {marks.late} µs")
        if (any_late and not late.num_rows) or (any_timeless and late.num_rows == rows.num_rows):
            raise InternalError(f"rows for {step.operator} were dropped, but its late_sql does not find them")
        if late.num_rows:
            self.late[step.operator] = self.late.get(step.operator, 0) + late.num_rows

    def _lost(self, step: LateStep, rows: pa.Table, kind: str, reason: str) -> None:
        """Keep rows that an operator could not take as dead letters."""
        if rows.num_rows:
            self.letters.append(
                dead_letters(
                    rows.num_rows,
                    epoch=self.epoch.epoch,
                    kind=kind,
                    source=step.table,
                    operator=step.operator,
                    reason=reason,
                    columns={c: rows.column(c) for c in ("window_start", "window_end", "event_time", "row")},
                )
            )

    def _operate(self, step: OperatorStep, relations: Relations) -> None:
        spec = step.operator
        if self.stores is None:
            raise InternalError(f"operator {step.name} is at level 0, where no shard has state")
        with self.clock.phase("fragment"):
            inputs = [relations.table(name) for name in step.inputs]
        marks = watermarks_for(self.plan, self.epoch, step.name, spec.watermark_sources)
        started = time.perf_counter_ns()
        with self.stores(spec.state) as store:
            context = OperatorContext(
                self.ordinal, self.epoch.shards, self.epoch.max_parallelism, marks, store, self.duck
            )
            try:
                result = operator_of(spec).process(inputs, context)
            except DataError as error:
                raise DataError(f"operator {step.name}: {error.message}", error.sql) from error
            self.state[spec.state.state_id] = store.commit()
        closing = result.metrics.get("close_us", 0)
        self.clock.spent["close"] += closing
        self.clock.spent["state"] += (time.perf_counter_ns() - started) // 1000 - closing
        self.metrics[step.name] = result.metrics
        output = conformed(result.output, spec.output, f"operator {step.name}", [KIND_COLUMN])
        relations.add_table(step.name, output, spec.output)

    def messages(self) -> list[Message]:
        """What the stages ship, one blob for each edge and shard that gets rows."""
        inputs = {i.edge: i for s in self.plan.stages for i in s.inputs if isinstance(i, ExchangeInput)}
        made = []
        producer = self.level * _LEVEL + self.ordinal
        with self.clock.phase("encode"):
            by_edge: dict[str, tuple[ExchangeOutput, list[pa.Table]]] = {}
            for output, tables in self.edges.items():
                declared = {column.name: column for column in inputs[output.edge].schema}
                if set(declared) != set(output.columns):
                    raise InternalError(
                        f"edge {output.edge}: ships {output.columns}, declared are {list(declared)}"
                    )
                schema = inputs[output.edge].schema
                rows = [conformed(table, schema, f"edge {output.edge}") for table in tables]
                by_edge.setdefault(output.edge, (output, []))[1].extend(rows)
            for edge, (output, tables) in by_edge.items():
                rows = pa.concat_tables(tables)
                parts = partition(rows, output.keys, self.epoch.max_parallelism, self.epoch.shards)
                made += [Message(edge, shard, producer, encode(part)) for shard, part in parts]
        return made

    def staged(self, writers: Writers) -> tuple[StagedPart, ...]:
        """Write what the stages have for sinks, once a sink."""
        parts = []
        with self.clock.phase("write"):
            for sink in self.plan.sinks:
                rows = pa.concat_tables(self.sinks[sink.name]) if sink.name in self.sinks else None
                if rows is not None and rows.num_rows:
                    part = writers(sink).write(rows, epoch=self.epoch.epoch, task=self.name)
                    parts.append(StagedPart(sink.name, self.name, part.rows, part.payload, part.table))
        return tuple(parts)

    def report(self, messages: list[Message], parts: tuple[StagedPart, ...], **figures: Any) -> Report:
        return Report(
            task=self.name,
            level=self.level,
            ordinal=self.ordinal,
            epoch=self.epoch.epoch,
            shipped_bytes=sum(len(message.blob) for message in messages),
            late=self.late,
            parts=parts,
            state=self.state,
            metrics=self.metrics,
            timings=dict(self.clock.spent),
            dead_letters=pa.concat_tables(self.letters) if self.letters else None,
            **figures,
        )


def run_source_task(
    plan: PhysicalPlan,
    source_name: str,
    reader: SplitReader,
    split: Any,
    epoch: EpochContext,
    ordinal: int,
    *,
    writers: Writers,
    duck: DuckSession | None = None,
    whole: SplitReader | None = None,
) -> Iterator[Message | Report]:
    """Read one split through all level-0 stages of its source; the report comes last.

    `whole` reads all the columns that the source declares: dead letters are whole rows, also where the query
    needs less (None: `reader` does). `ordinal` is unique among the source tasks of the epoch and ascends in the order of the source. The split
    is read strictly; if DuckDB refuses, once more without its unreadable rows, which become dead letters.
    Raises DataError, naming the source, if it refuses again.
    """
    duck = duck or worker_session()
    source = next((spec for spec in plan.sources if spec.name == source_name), None)
    if source is None:
        raise InternalError(f"the plan has no source {source_name}")
    stages = [s for s in plan.stages if s.level == 0 and any(_reads(i, source_name) for i in s.inputs)]
    for stage in stages:
        if not all(_reads(i, source_name) for i in stage.inputs):
            raise InternalError(
                f"stage {stage.id} reads other sources than {source_name}: a task has one split"
            )
    bad: list[BadRow] = []
    task = _Task(
        plan, 0, ordinal, epoch, duck, whole_rows=_whole(duck, whole, split, source_name, careful=False)
    )
    try:
        try:
            with task.clock.phase("read"):
                reader.open_strict(duck, _SPLIT, split, queries=1 + sum(_readings(stage) for stage in stages))
            watermark, rows = _run_source(task, source, stages)
        except (duckdb.Error, DataError):
            duck.reset()
            rows_of = _whole(duck, whole, split, source_name, careful=True)
            task = _Task(plan, 0, ordinal, epoch, duck, whole_rows=rows_of)
            with task.clock.phase("read"):
                bad = list(reader.open_careful(duck, _SPLIT, split))
            watermark, rows = _run_source(task, source, stages)
    except duckdb.Error as error:
        raise duck.error(error) from error
    except DataError as error:
        raise DataError(f"source {source_name}: {error.message}", error.sql) from error
    finally:
        duck.reset()
    if bad:
        columns = {
            "origin": pa.array([row.origin for row in bad], pa.string()),
            "line": pa.array([row.line for row in bad], pa.int64()),
            "reason": pa.array([row.reason for row in bad], pa.string()),
            "row": pa.array([row.raw for row in bad], pa.string()),
        }
        task.letters.append(
            dead_letters(len(bad), epoch=epoch.epoch, kind="malformed", source=source_name, columns=columns)
        )
    messages = task.messages()
    yield from messages
    yield task.report(
        messages,
        task.staged(writers),
        source=source_name,
        rows=rows + len(bad),
        read_bytes=getattr(split, "bytes", None) or 0,
        watermark=watermark,
        malformed=len(bad),
    )


def _whole(
    duck: DuckSession, reader: SplitReader | None, split: Any, source: str, *, careful: bool
) -> Callable[[], Relations] | None:
    """Opens the split once more with all its columns, when that is first needed."""
    if reader is None:
        return None
    opened: list[Relations] = []

    def relations() -> Relations:
        if not opened:
            if careful:
                reader.open_careful(duck, _WHOLE, split)
            else:
                reader.open_strict(duck, _WHOLE, split, queries=1)
            opened.append(Relations(duck))
            opened[0].add_sql(source, f'SELECT * FROM "{_WHOLE}"', ())
        return opened[0]

    return relations


def _run_source(task: _Task, source: SourceSpec, stages: list[Stage]) -> tuple[int | None, int]:
    """Run the stages over the opened split; its greatest watermark expression (µs) and its rows."""
    wanted = "NULL" if source.watermark is None else f"max({source.watermark.expression})"
    with task.clock.phase("read"):
        figures = task.duck.query(f'SELECT epoch_us({wanted}) AS w, count(*) AS n FROM "{_SPLIT}"')
    for stage in stages:
        relations = Relations(task.duck)
        for stage_input in stage.inputs:
            relations.add_sql(stage_input.name, f'SELECT * FROM "{_SPLIT}"', ())
        task.run(stage, relations)
    return figures.column("w")[0].as_py(), figures.column("n")[0].as_py()


def run_shard_task(
    plan: PhysicalPlan,
    level: int,
    shard: int,
    messages: Iterable[Message],
    epoch: EpochContext,
    stores: Stores,
    *,
    writers: Writers,
    duck: DuckSession | None = None,
) -> Iterator[Message | Report]:
    """Run all stages of a level in one shard; messages for later levels pass through, the report comes last.

    All messages are read first. Stages run also without any, so that windows close when only the watermark
    moved.
    """
    stages = [stage for stage in plan.stages if stage.level == level]
    here = {i.edge for stage in stages for i in stage.inputs if isinstance(i, ExchangeInput)}
    later = {i.edge for s in plan.stages if s.level > level for i in s.inputs if isinstance(i, ExchangeInput)}
    arrived: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        if message.edge == REPORT_EDGE:
            yield message
            continue
        if message.shard != shard:
            raise InternalError(
                f"a blob for shard {message.shard} of edge {message.edge} came to shard {shard}"
            )
        if message.edge not in here and message.edge not in later:
            raise InternalError(f"nothing at level {level} or later reads edge {message.edge}")
        if message.edge in here:
            arrived[message.edge].append(message)
        if message.edge in later:
            yield message
    duck = duck or worker_session()
    task = _Task(plan, level, shard, epoch, duck, stores)
    rows = 0
    try:
        for stage in stages:
            relations = Relations(duck)
            for stage_input in stage.inputs:
                if isinstance(stage_input, ExchangeInput):
                    table = _arrived(stage_input, arrived[stage_input.edge])
                    rows += table.num_rows
                    relations.add_table(stage_input.name, table, stage_input.schema)
            task.run(stage, relations)
    finally:
        duck.reset()
    made = task.messages()
    yield from made
    size = sum(len(message.blob) for blobs in arrived.values() for message in blobs)
    yield task.report(made, task.staged(writers), rows=rows, read_bytes=size)


def _arrived(stage_input: ExchangeInput, messages: list[Message]) -> pa.Table:
    ordered = sorted(messages, key=lambda message: message.producer)
    if len({message.producer for message in ordered}) != len(ordered):
        raise InternalError(f"edge {stage_input.edge}: two blobs of one producer for one shard")
    if not ordered:
        return pa.schema([(c.name, to_arrow(c.type)) for c in stage_input.schema]).empty_table()
    return conformed(decode(m.blob for m in ordered), stage_input.schema, f"edge {stage_input.edge}")


def _reads(stage_input: SourceInput | ExchangeInput, source: str) -> bool:
    return isinstance(stage_input, SourceInput) and stage_input.source == source


def _readers(stage: Stage) -> dict[str, list[str]]:
    """For each relation, the kinds of what reads it whenever the stage runs."""
    readers: dict[str, list[str]] = defaultdict(list)
    for step in stage.steps:
        if isinstance(step, LateStep):
            for name in (step.input, *step.also):
                readers[name].append("table")
        else:
            for name in step.inputs:
                readers[name].append("fragment" if isinstance(step, FragmentStep) else "table")
    for output in stage.outputs:
        readers[output.input].append("table")
    return readers


def _read_once(stage: Stage) -> frozenset[str]:
    """The fragments that at most one other fragment reads: they are part of its query."""
    readers = _readers(stage)
    return frozenset(step.name for step in stage.steps if readers[step.name] in ([], ["fragment"]))


def _readings(stage: Stage) -> int:
    """How many queries of the stage read its source."""
    readers = _readers(stage)
    return sum(len(readers[i.name]) for i in stage.inputs if isinstance(i, SourceInput))
