"""The program of a Spark task, without Spark: read a split or what exchanges brought, run the stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sqlstream_operators.codec.exchange import Message, decode
from sqlstream_operators.duck.relations import Relations, conformed
from sqlstream_operators.duck.session import DUCKDB_ERRORS, DuckSession, worker_session
from sqlstream_operators.duck.weighted import empty
from sqlstream_operators.errors import DataError, InputFileError, InternalError, RefusedRowError
from sqlstream_operators.plan.spec import (
    DimensionInput,
    EpochInput,
    ExchangeInput,
    PhysicalPlan,
    SourceInput,
    SourceSpec,
    Stage,
    StageInput,
)
from sqlstream_operators.plan.watermarks import OUTSIDE
from sqlstream_operators.state.private_folder import make_private
from sqlstream_operators.task.stage_reading import readings

from .dead_letters import DeadLetters
from .dimensions import add_dimensions
from .epoch import EpochContext, rocks_stores, watermarks_for
from .failing_rows import ChosenRows, FailingRow, failing, message_and_sql
from .io import LANE_COLUMN, Dividing, OfLanes, SplitReader, Stores, Writers
from .poisoned import place_of
from .report import REPORT_EDGE, Report
from .split_figures import Read, is_far, read_of
from .stage_run import StageRun, task_name
from .watermark_messages import WATERMARK_EDGE, gathered, to_next_level, to_shards

__all__ = ["EpochContext", "rocks_stores", "run_shard_task", "run_source_task", "watermarks_for"]

SPILL = "spill"
"""The folder among a machine's caches for what DuckDB has no memory for."""

_SPLIT = "$split"
_WHOLE = "$split with all columns"


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
    lenient: SplitReader | None = None,
) -> Iterator[Message | Report]:
    """Read one split through all stages of its source at stage level 0; the report comes last.

    `whole` reads all the columns that the source declares: dead letters are whole rows, also where the query
    needs less (None: `reader` does). `lenient` does so for a split with unreadable rows, and takes the columns
    that the query does not read as text, so that they can't make a late row unreadable.

    `ordinal` is unique among the source tasks of the epoch and ascends in the order of the source. The split
    is read strictly; if DuckDB refuses, once more without its unreadable rows, which become dead letters.
    Raises DataError, naming the source, if it refuses again.
    """
    duck = duck or _session(plan, epoch)
    source = next((spec for spec in plan.sources if spec.name == source_name), None)
    if source is None:
        raise InternalError(f"the plan has no source {source_name}")
    lanes = _lanes_of(split)
    stages = [s for s in plan.stages if s.level == 0 and any(_reads(i, source_name) for i in s.inputs)]
    for stage in stages:
        if not all(
            _reads(i, source_name) or isinstance(i, DimensionInput | EpochInput) for i in stage.inputs
        ):
            raise InternalError(
                f"stage {stage.id} reads other sources than {source_name}: a task has one split"
            )
    with closing(DeadLetters(epoch, task_name(epoch, 0, ordinal))) as letters:

        def looked_up(relations: Relations) -> None:
            for stage in stages:
                add_dimensions(relations, plan, stage, epoch)

        rows_of = _WholeRows.of(duck, whole, split, source_name, looked_up, lenient=False)
        task = StageRun(plan, 0, ordinal, epoch, duck, letters, whole_rows=rows_of)
        malformed = 0
        try:
            try:
                with task.timer.phase("read"):
                    queries = 1 + sum(readings(stage) for stage in stages)
                    reader.open_strict(duck, _SPLIT, split, queries=queries)
                read = _run_source(task, source, lanes, stages, rows_of)
            except duckdb.OutOfMemoryException:
                raise
            except (*DUCKDB_ERRORS, DataError):
                duck.reset()
                letters.clear()
                rows_of = _WholeRows.of(duck, lenient or whole, split, source_name, looked_up, lenient=True)
                task = StageRun(plan, 0, ordinal, epoch, duck, letters, whole_rows=rows_of)
                with task.timer.phase("read"):
                    bad = reader.open_lenient(duck, _SPLIT, split)
                    malformed = letters.malformed(source_name, bad)
                    del bad
                read = _run_source(task, source, lanes, stages, rows_of)
            task.check_sinks(writers)
        except (*DUCKDB_ERRORS, DataError) as error:
            failure = error if isinstance(error, DataError) else duck.error(error)
            if isinstance(failure, InputFileError):
                raise InputFileError(f"source {source_name}: {failure.message}", failure.help) from error
            if not isinstance(failure, DataError):
                raise failure from error

            def computed(
                some: SplitReader, every: SplitReader | None, part: Any, kept: DeadLetters
            ) -> tuple[StageRun, Read]:
                again = _WholeRows.of(duck, every, part, source_name, looked_up, lenient=True)
                task = StageRun(plan, 0, ordinal, epoch, duck, kept, whole_rows=again)
                some.open_lenient(duck, _SPLIT, part)
                read = _run_source(task, source, _lanes_of(part), stages, again)
                task.check_sinks(writers)
                return task, read

            def fails(part: Any) -> bool:
                duck.reset()
                try:
                    with closing(DeadLetters(epoch, task_name(epoch, 0, ordinal))) as unused:
                        computed(reader, lenient or whole, part, unused)
                except duckdb.OutOfMemoryException:
                    return False
                except InputFileError:
                    raise
                except (*DUCKDB_ERRORS, DataError):
                    return True
                return False

            rest = None
            if plan.options.failing_rows in ("dead-letter", "dead-letter-as-read") and not duck.broken:
                rest = _without_failing(
                    source, reader, lenient or whole, split, duck, letters, failure, computed
                )
            if rest is None:
                place = place_of(reader, split, fails)
                if isinstance(failure, RefusedRowError):
                    raise RefusedRowError(failure.message, failure.help, place) from error
                raise DataError(f"source {source_name}: {failure.message}", failure.sql, place) from error
            task, read, malformed = rest
        finally:
            duck.reset()
        messages = task.messages()
        yield from messages
        yield from to_shards(plan, epoch, source_name, read.lanes, ordinal)
        yield task.report(
            messages,
            task.staged(writers),
            source=source_name,
            rows=read.rows + malformed,
            ahead=read.ahead,
            read_bytes=getattr(split, "bytes", None) or 0,
            lanes=read.lanes,
            malformed=malformed,
        )


def _without_failing(
    source: SourceSpec,
    reader: SplitReader,
    whole: SplitReader | None,
    split: Any,
    duck: DuckSession,
    letters: DeadLetters,
    failure: DataError,
    computed: Callable[[SplitReader, SplitReader | None, Any, DeadLetters], tuple[StageRun, Read]],
) -> tuple[StageRun, Read, int] | None:
    """The stages over the rows of a split that don't fail by themselves; the others are dead letters, as unreadable ones.

    Also gives how many these are. None if that is not all that is wrong with the split.
    """
    duck.reset()
    letters.clear()
    narrow, wide = ChosenRows(reader), None if whole is None else ChosenRows(whole)
    chosen = [narrow] if wide is None else [narrow, wide]

    def run(first: int, last: int) -> DataError | None:
        for rows in chosen:
            rows.choose(first, last)
        try:
            with closing(DeadLetters(letters.epoch, letters.task)) as unused:
                computed(narrow, wide, split, unused)
        except duckdb.OutOfMemoryException:
            return None
        except (*DUCKDB_ERRORS, DataError) as error:
            failed = error if isinstance(error, DataError) else duck.error(error)
            if not isinstance(failed, DataError) or isinstance(failed, InputFileError) or duck.broken:
                raise failed from error
            return failed
        return None

    try:
        bad = list(narrow.open_lenient(duck, _SPLIT, split))
        count = duck.query(f'SELECT count(*) AS n FROM "{_SPLIT}"').column("n")[0].as_py()
        found = failing(1, count, failure, run) if count else None
        if found is None:
            return None
        names = source.columns if wide is None else [column.name for column in source.physical]
        if wide is not None:
            wide.open_lenient(duck, _WHOLE, split)
        texts = chosen[-1].as_json(duck, _SPLIT if wide is None else _WHOLE, names, found)
        origin = reader.place(split) if isinstance(reader, Dividing) else source.name
        for rows in chosen:
            rows.choose(1, None, less=found)
        task, read = computed(narrow, wide, split, letters)
    except (*DUCKDB_ERRORS, DataError):
        letters.clear()
        return None
    failed = [
        FailingRow(text, *message_and_sql(found[number]), origin)
        for number, text in zip(found, texts, strict=True)
    ]
    return task, read, letters.malformed(source.name, [*bad, *failed])


def _session(plan: PhysicalPlan, epoch: EpochContext) -> DuckSession:
    """The session of this process. What does not fit into its memory goes to where the machine caches state."""
    spill = str(make_private(Path(epoch.local_dir)) / SPILL) if epoch.local_dir else None
    return worker_session(plan.options.task_memory_bytes, spill)


@dataclass(slots=True)
class _WholeRows:
    """The split with all its columns, opened when that is first needed; `where` says which of its rows are read."""

    duck: DuckSession
    reader: SplitReader
    split: Any
    source: str
    looked_up: Callable[[Relations], None]
    lenient: bool
    where: str = ""
    _opened: Relations | None = None

    @classmethod
    def of(
        cls,
        duck: DuckSession,
        reader: SplitReader | None,
        split: Any,
        source: str,
        looked_up: Callable[[Relations], None],
        *,
        lenient: bool,
    ) -> _WholeRows | None:
        """None without a reader: that of the split has all there is."""
        return None if reader is None else cls(duck, reader, split, source, looked_up, lenient)

    def __call__(self) -> Relations:
        """The rows that are read, under the source's name, and what is looked up."""
        if self._opened is None:
            self.open()
            self._opened = Relations(self.duck)
            self._opened.add_sql(self.source, f'SELECT * FROM "{_WHOLE}"{self.where}', ())
            self.looked_up(self._opened)
        return self._opened

    def open(self) -> str:
        """Open the split; the relation with all of its rows."""
        if self._opened is None:
            self.duck.drop(_WHOLE)
            if self.lenient:
                self.reader.open_lenient(self.duck, _WHOLE, self.split)
            else:
                self.reader.open_strict(self.duck, _WHOLE, self.split, queries=1)
        return _WHOLE


def _lanes_of(split: Any) -> Sequence[str]:
    return split.lanes if isinstance(split, OfLanes) else ("",)


def _run_source(
    task: StageRun, source: SourceSpec, lanes: Sequence[str], stages: list[Stage], whole: _WholeRows | None
) -> Read:
    """Run the stages over the opened split.

    Rows whose event time is too far away to be computed with are dead letters, and no stage sees them.
    """
    with task.timer.phase("read"):
        read = read_of(task.duck, _SPLIT, source, task.epoch, lanes)
    where = ""
    if read.far and source.watermark is not None:
        outside = is_far(source.watermark.time_sql)
        with task.timer.phase("read"):
            name = _SPLIT if whole is None else whole.open()
            columns = source.columns if whole is None else [column.name for column in source.physical]
            far_rows = f'SELECT * FROM "{name}" WHERE {outside}'
            task.count_dead_letters(
                source.name, OUTSIDE, task.letters.outside(source, columns, far_rows, task.duck)
            )
        where = f" WHERE NOT coalesce({outside}, FALSE)"
        if whole is not None:
            whole.where = where
    columns_read = "*" if len(lanes) == 1 else f'* EXCLUDE ("{LANE_COLUMN}")'
    for stage in stages:
        relations = Relations(task.duck)
        for stage_input in stage.inputs:
            if isinstance(stage_input, SourceInput):
                relations.add_sql(stage_input.name, f'SELECT {columns_read} FROM "{_SPLIT}"{where}', ())
        add_dimensions(relations, task.plan, stage, task.epoch)
        task.run(stage, relations)
    return read


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
    """Run all stages of a stage level in one shard; messages for later ones pass through, the report comes last.

    All messages are read first: how far sources were read, by them, decides which windows close. Stages run also
    without any, so that windows close when only the watermark moved.
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
        if message.edge == WATERMARK_EDGE:
            arrived[WATERMARK_EDGE].append(message)
            continue
        if message.edge not in here and message.edge not in later:
            raise InternalError(f"nothing at stage level {level} or later reads edge {message.edge}")
        if message.edge in here:
            arrived[message.edge].append(message)
        if message.edge in later:
            yield message
    read = gathered(arrived.pop(WATERMARK_EDGE, ()))
    yield from to_next_level(plan, level, shard, read)
    epoch = epoch.having_read(read)
    duck = duck or _session(plan, epoch)
    with closing(DeadLetters(epoch, task_name(epoch, level, shard))) as letters:
        task = StageRun(plan, level, shard, epoch, duck, letters, stores)
        rows = 0
        try:
            for stage in stages:
                relations = Relations(duck)
                for stage_input in stage.inputs:
                    if isinstance(stage_input, ExchangeInput):
                        table = _arrived(stage_input, arrived[stage_input.edge])
                        rows += table.num_rows
                        relations.add_table(stage_input.name, table, stage_input.schema)
                add_dimensions(relations, plan, stage, epoch)
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
        return empty(stage_input.schema)
    return conformed(decode(m.blob for m in ordered), stage_input.schema, f"edge {stage_input.edge}")


def _reads(stage_input: StageInput, source: str) -> bool:
    return isinstance(stage_input, SourceInput) and stage_input.source == source
