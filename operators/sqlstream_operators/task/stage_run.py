"""Running the stages of a stage level over their relations, in one task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.exchange import Message, encode, partition, producer
from sqlstream_operators.duck.relations import Relations, conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import consolidated, empty, negated, with_weight
from sqlstream_operators.errors import DataError, InternalError, MemoryExhaustedError
from sqlstream_operators.operators.operator import KeepsAnswer, OperatorContext
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.operators.registry import operator_of, reader_of
from sqlstream_operators.operators.window.windows import closed_upto, window_ends_of_slice
from sqlstream_operators.plan.operator_spec import ReadingSpec, StatefulSpec
from sqlstream_operators.plan.spec import (
    SLICE_COLUMN,
    WEIGHT_COLUMN,
    EpochInput,
    ExchangeInput,
    ExchangeOutput,
    JoinStep,
    LateStep,
    LoadStateStep,
    OperatorStep,
    PhysicalPlan,
    ReadStateStep,
    Schema,
    SinkOutput,
    Stage,
)
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.state.loading import columns_of
from sqlstream_operators.state.object_files import requests_sent
from sqlstream_operators.state.store import StateStore
from sqlstream_operators.state.version import ShardVersion
from sqlstream_operators.task.stage_reading import read_once

from .dead_letters import DeadLetters
from .epoch import EpochContext, watermarks_for
from .failing_changes import one_failing, without_failing
from .failing_rows import message_and_sql
from .io import Refusing, Stores, Writers
from .opened_states import OpenedStates
from .report import Report, StagedPart

#: The relation with a row that failed.
_ROW = "__failing_row"


def task_name(epoch: EpochContext, level: int, ordinal: int) -> str:
    """A task's name: unique in the epoch, and the same in a retry. What takes rows back comes before what gives others."""
    return f"{'0-before-' if epoch.retracts else ''}{level}-{ordinal:05d}"


@dataclass(slots=True)
class StageRun:
    """One run of the stages of a stage level; what they send and write is collected and leaves at the end."""

    plan: PhysicalPlan
    level: int
    ordinal: int
    epoch: EpochContext
    duck: DuckSession
    letters: DeadLetters
    stores: Stores | None = None
    whole_rows: Callable[[], Relations] | None = None
    timer: PhaseTimer = field(default_factory=PhaseTimer)
    edges: dict[ExchangeOutput, list[pa.Table]] = field(default_factory=dict)
    sinks: dict[str, list[pa.Table]] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    uncounted: dict[str, dict[str, int]] = field(default_factory=dict)
    state: dict[str, ShardVersion] = field(default_factory=dict)
    metrics: dict[str, Mapping[str, int]] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    requests_before: int = field(default_factory=lambda: requests_sent()[1])

    @property
    def name(self) -> str:
        """The task's name."""
        return self.letters.task

    def run(self, stage: Stage, relations: Relations) -> None:
        """Run a stage whose inputs are in `relations`."""
        once = read_once(stage)
        if any(isinstance(read, EpochInput) for read in stage.inputs):
            seed = f"{self.epoch.now_us}/{self.epoch.epoch}/{self.level}/{self.ordinal}"
            self.duck.in_epoch(self.epoch.now_us, seed)
            self.duck.arriving(self.epoch.arrival, self.ordinal)
        for step in stage.steps:
            with _naming(step.name):
                if isinstance(step, LateStep):
                    self._late(step, relations)
                elif isinstance(step, OperatorStep):
                    self._operate(step, relations)
                elif isinstance(step, JoinStep):
                    self._read_by(step, relations)
                elif isinstance(step, ReadStateStep):
                    relations.add_table(step.name, *self._read_state(step))
                elif isinstance(step, LoadStateStep):
                    self._load_state(step, relations)
                else:
                    relations.add_sql(step.name, step.sql, step.inputs)
                    if step.name not in once:
                        with self.timer.phase("fragment"):
                            self._table(relations, step.name)
        for output in stage.outputs:
            with _naming(output.input), self.timer.phase("fragment"):
                rows = self._table(relations, output.input)
            if isinstance(output, SinkOutput):
                if self.epoch.reemitted and output.sink not in self.epoch.reemitted:
                    continue
                sink = next(spec for spec in self.plan.sinks if spec.name == output.sink)
                rows = conformed(rows, sink.schema, f"sink {sink.name}", [WEIGHT_COLUMN])
                if self.epoch.retracts:
                    rows = negated(rows)
                self.sinks.setdefault(sink.name, []).append(rows)
            else:
                self.edges.setdefault(output, []).append(rows)

    def _table(self, relations: Relations, name: str) -> pa.Table:
        """The rows of a relation; behind an operator without those over which an expression fails, if the plan says so.

        Raises DataError, with the row if there is one to blame.
        """
        try:
            return relations.table(name)
        except DataError as error:
            if self.level == 0:
                raise  # whoever reads the split looks for its rows
            if self.plan.options.failing_rows == "dead-letter":
                rest = without_failing(relations, name)
                if rest is not None:
                    rows, schema, failing = rest
                    relations.add_table(name, rows, schema)
                    self.letters.failed(
                        (change.of, *message_and_sql(change.error), dict(self._values(change.row)))
                        for change in failing
                        if not (change.taken_back or self.epoch.retracts)
                    )
                    return rows
            change = one_failing(relations, name)
            if change is None:
                raise
            found = change.error
            raise DataError(found.message, found.sql or error.sql, row=self._values(change.row)) from error

    def _values(self, row: pa.Table) -> tuple[tuple[str, str], ...]:
        """The columns of a row by the names of the query, and their values as text."""
        names = [name for name in row.column_names if name not in (WEIGHT_COLUMN, SLICE_COLUMN)]
        shown = [self.plan.names.get(name, name) for name in names]
        if len(set(shown)) < len(shown):
            shown = names
        listed = ", ".join(f"CAST({quote_identifier(name)} AS VARCHAR)" for name in names)
        values = self.duck.query(f"SELECT [{listed}] AS v FROM {quote_identifier(_ROW)}", {_ROW: row})
        return tuple(
            (name, "NULL" if value is None else value)
            for name, value in zip(shown, values.column(0)[0].as_py(), strict=True)
        )

    def _late(self, step: LateStep, relations: Relations) -> None:
        if self.epoch.reemitted:  # nothing is read, so nothing is late
            for name, kept in step.kept.items():
                relations.add_table(kept, relations.table(name), relations.schema(name))
            self._undecided(step, relations, None, WATERMARK_MIN)
            return
        marks = watermarks_for(self.plan, self.epoch, step.operator, step.watermark_sources)
        upto = closed_upto(marks.late, step.tick_us)
        if upto not in (WATERMARK_MIN, WATERMARK_MAX):
            upto = max(upto - step.lateness_us, WATERMARK_MIN)
        any_late = any_timeless = False
        for name, kept in step.kept.items():
            with self.timer.phase("fragment"):
                rows = self._table(relations, name)
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
            self._undecided(step, relations, None, marks.late)
            return
        with self.timer.phase("fragment"):
            source = relations if self.whole_rows is None else self.whole_rows()
            late = 0
            if step.undecided:
                found = self._undecided(step, relations, source if any_late else None, marks.late)
                any_late = any_late and not found
            elif any_late:
                late = self.letters.late(step, source, marks.late)
            timeless = self.letters.timeless(step, source, marks.late) if any_timeless else 0
        if (any_late and not late) or (any_timeless and not timeless):
            raise InternalError(f"rows for {step.operator} were dropped, but its late_sql does not find them")
        if late:
            self.late[step.operator] = self.late.get(step.operator, 0) + late
        self.count_dead_letters(step.table, step.operator, late + timeless)

    def count_dead_letters(self, table: str, operator: str, number: int) -> None:
        """Count rows of a table that an operator can't count, or nobody (OUTSIDE)."""
        if number:
            of = self.uncounted.setdefault(table, {})
            of[operator] = of.get(operator, 0) + number

    def _undecided(self, step: LateStep, relations: Relations, source: Relations | None, late: int) -> int:
        """Make the relation of rows that the operator decides about, without `source` an empty one; how many there are."""
        if not step.undecided:
            return 0
        rows = empty(step.undecided)
        if source is not None:
            names = ", ".join(quote_identifier(column.name) for column in step.undecided)
            sql = f"SELECT {names}\nFROM (\n{step.late_sql}\n) AS letters\nWHERE window_end IS NOT NULL"
            found, _ = source.query(sql, step.inputs, {"late_watermark": late})
            rows = conformed(found, step.undecided, step.undecided_name)
        relations.add_table(step.undecided_name, rows, step.undecided)
        return len(rows)

    def _operate(self, step: OperatorStep, relations: Relations) -> None:
        spec = step.operator
        stores = self._stores(step.name)
        if self.epoch.reemitted:
            self._re_emit(step, stores, relations)
            return
        with self.timer.phase("fragment"):
            inputs = [self._table(relations, name) for name in step.inputs]
        marks = Watermarks()
        if spec.watermark_sources:
            marks = watermarks_for(self.plan, self.epoch, step.name, spec.watermark_sources)
        operator = operator_of(spec)
        version = self._known_version(spec.state)
        if version is not None and operator.idle(inputs, marks, stateless=version.is_empty):
            self._nothing(step, version, relations)
            return
        started = time.perf_counter_ns()
        with stores(spec.state) as store:
            try:
                result = operator.process(inputs, self._context(store, marks))
            except DataError as error:
                raise DataError(f"operator {step.name}: {error.message}", error.sql) from error
            self.state[spec.state.state_id] = store.commit()
        closing = result.metrics.get("close_us", 0)
        self.timer.spent["close"] += closing
        self.timer.spent["state"] += (time.perf_counter_ns() - started) // 1000 - closing
        self.metrics[step.name] = result.metrics
        if result.late is not None:
            table = spec.facts.late_rows_of
            if table is None:
                raise InternalError(f"a {spec.kind} says that rows are late, but not of which table")
            late = self.letters.decided(step.name, table, result.late, self.duck, marks.late)
            self.late[step.name] = self.late.get(step.name, 0) + late
            self.count_dead_letters(table, step.name, late)
        output = conformed(result.output, spec.output, f"operator {step.name}", [WEIGHT_COLUMN])
        self.made[step.name] = output.num_rows
        relations.add_table(step.name, output, spec.output)

    def _read_by(self, step: JoinStep, relations: Relations) -> None:
        """Run an operator that reads what others of this stage keep. What they would give anew is all that they have."""
        spec = step.join
        specs = {s.operator.state.state_id: s.operator for s in self.plan.operators}
        kept = [specs[state_id] for state_id in spec.reads]
        reader = reader_of(spec, kept)
        inputs = [self._table(relations, name) for name in step.inputs]
        rows = empty(_shape(spec))
        self.metrics[step.name] = {}
        if self.epoch.reemitted:
            with self.timer.phase("state"):
                rows = reader.answer(inputs, self.duck)
        elif any(table.num_rows for table in inputs):
            with self.timer.phase("state"), ExitStack() as stack:
                states = OpenedStates(self._stores(step.name), [operator.state for operator in kept], stack)
                try:
                    result = reader.process(inputs, states, self.duck)
                except DataError as error:
                    raise DataError(f"join {step.name}: {error.message}", error.sql) from error
            rows, self.metrics[step.name] = result.output, result.metrics
        output = conformed(rows, spec.output, f"join {step.name}", [WEIGHT_COLUMN])
        self.made[step.name] = output.num_rows
        relations.add_table(step.name, output, spec.output)

    def _re_emit(self, step: OperatorStep, stores: Stores, relations: Relations) -> None:
        """Emit the answer that the operator's state has, if it keeps one; its input is not looked at."""
        spec = step.operator
        version = self._known_version(spec.state)
        if version is not None and not spec.facts.keeps_answer:
            self._nothing(step, version, relations)
            return
        with self.timer.phase("state"), stores(spec.state) as store:
            rows = empty(_shape(spec))
            if spec.facts.keeps_answer:
                rows = cast(KeepsAnswer, operator_of(spec)).answer(self._context(store, Watermarks()))
            self.state[spec.state.state_id] = store.commit()
        self.metrics[step.name] = {}
        output = conformed(rows, spec.output, f"operator {step.name}", [WEIGHT_COLUMN])
        self.made[step.name] = output.num_rows
        relations.add_table(step.name, output, spec.output)

    def _nothing(self, step: OperatorStep, version: ShardVersion, relations: Relations) -> None:
        """The operator emits nothing, and its state stays as it is."""
        self.state[step.operator.state.state_id] = version
        self.metrics[step.name] = {}
        relations.add_table(step.name, empty(_shape(step.operator)), step.operator.output)

    def _context(self, store: StateStore, marks: Watermarks) -> OperatorContext:
        return OperatorContext(
            self.ordinal,
            self.epoch.shards,
            self.epoch.max_parallelism,
            marks,
            store,
            self.duck,
            self.epoch.now_us,
        )

    def _read_state(self, step: ReadStateStep) -> tuple[pa.Table, Schema]:
        """The rows of a table of a state, and their columns."""
        with self.timer.phase("state"), self._stores(step.name)(step.state) as store:
            return store.scan_all(step.table), columns_of(step.state.table(step.table))

    def _load_state(self, step: LoadStateStep, relations: Relations) -> None:
        """Write the rows of all tables of a state."""
        with self._stores(step.name)(step.state) as store:
            for name, relation in zip(step.tables, step.inputs, strict=True):
                table = step.state.table(name)
                with self.timer.phase("fragment"):
                    rows = conformed(relations.table(relation), columns_of(table), f"state table {name}")
                with self.timer.phase("state"):
                    store.load(name, rows)
            with self.timer.phase("state"):
                self.state[step.state.state_id] = store.commit()

    def _stores(self, step: str) -> Stores:
        if self.stores is None:
            raise InternalError(f"{step} is at stage level 0, where no shard has state")
        return self.stores

    def _known_version(self, schema: StateSchema) -> ShardVersion | None:
        """This shard's version before the epoch, if it is of this parallelism and this schema."""
        version = self.epoch.version_of(schema.state_id, self.ordinal)
        if version is None:
            return None
        known = any(stored.schema_id == schema.schema_id for stored in version.schemas)
        return version if known else None

    def messages(self) -> list[Message]:
        """What the stages ship, one blob for each edge and shard that gets rows."""
        inputs = {i.edge: i for s in self.plan.stages for i in s.inputs if isinstance(i, ExchangeInput)}
        made = []
        sender = producer(self.level, self.ordinal)
        with self.timer.phase("encode"):
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
                made += [Message(edge, shard, sender, encode(part)) for shard, part in parts]
        return made

    def check_sinks(self, writers: Writers) -> None:
        """Raise RefusedRowError for rows that a sink will not take, where its writer knows that."""
        for sink in self.plan.sinks:
            if sink.name in self.sinks and isinstance(writer := writers(sink), Refusing):
                for rows in self.sinks[sink.name]:
                    writer.check(rows)

    def staged(self, writers: Writers) -> tuple[StagedPart, ...]:
        """Write what the stages have for sinks, once per sink."""
        parts = []
        with self.timer.phase("write"):
            for sink in self.plan.sinks:
                rows = None
                if sink.name in self.sinks:
                    tables = self.sinks[sink.name]
                    rows = pa.concat_tables(tables)
                    if len(tables) > 1 and sink.changelog != "append":
                        rows = consolidated(self.duck, rows, sink.schema)
                if rows is not None and rows.num_rows:
                    part = writers(sink).write(rows, epoch=self.epoch.epoch, task=self.name)
                    parts.append(
                        StagedPart(sink.name, self.name, part.rows, part.payload, part.table, part.staged)
                    )
        return tuple(parts)

    def report(self, messages: list[Message], parts: tuple[StagedPart, ...], **figures: Any) -> Report:
        """What the driver must know; `figures` are those of the input."""
        letters = self.letters.stage()
        process, requests = requests_sent()
        return Report(
            task=self.name,
            level=self.level,
            ordinal=self.ordinal,
            epoch=self.epoch.epoch,
            shipped_bytes=sum(len(message.blob) for message in messages),
            late=self.late,
            uncounted=self.uncounted,
            parts=parts,
            state=self.state,
            metrics=self.metrics,
            made=self.made,
            timings=dict(self.timer.spent),
            letters=letters,
            requests=(process, requests - self.requests_before),
            **figures,
        )


def _shape(spec: StatefulSpec | ReadingSpec) -> Schema:
    """The columns of what an operator emits."""
    return with_weight(spec.output) if spec.emits_changes else spec.output


@contextmanager
def _naming(step: str) -> Iterator[None]:
    """Says of memory that ran out inside that it was in this step."""
    try:
        yield
    except MemoryExhaustedError as error:
        raise MemoryExhaustedError(error.message, error.where or step) from error
    except MemoryError as error:
        raise MemoryExhaustedError(f"Python has no memory left ({error or 'MemoryError'})", step) from error
