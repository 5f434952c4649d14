"""What stays open at the end of a run: the windows, sessions and rows that wait for the watermark."""

from __future__ import annotations

from collections.abc import Iterator

from sqlstream.runtime.loop.progress import LeftOpen, RunResult
from sqlstream.runtime.loop.watermarks import WindowEnds
from sqlstream.state.committed import Committed, find_committed
from sqlstream.state.query import StateDatabase
from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.operator_spec import Waiting
from sqlstream_operators.plan.spec import OperatorStep
from sqlstream_operators.plan.state_schema import TIME
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.plan.watermarks import WATERMARK_MAX
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError

#: State of more rows is not read for this: its rows are shown as the manifest counts them.
MOST_ROWS = 100_000


def left_open(committed: Committed) -> tuple[LeftOpen, ...]:
    """What waits for the watermark after an epoch, by operator; nothing once all sources are drained."""
    marks = {source.name: source.applied for source in committed.manifest.sources}
    rows = {state.state_id: state.rows for state in committed.manifest.states}
    waiting = []
    for step in committed.plan.operators:
        ends, what = WindowEnds.of(step), step.operator.facts.waiting
        if ends is None or what is None or not set(ends.sources) <= marks.keys():
            continue  # a window over process time closes by the clock
        if rows.get(ends.state_id) and ends.least(marks) < WATERMARK_MAX:
            waiting.append((step, what, ends))
    if not waiting:
        return ()
    if sum(rows[ends.state_id] for _, _, ends in waiting) > MOST_ROWS:
        return tuple(
            LeftOpen(step.name, what.what, None, rows[ends.state_id], None, ends.least(marks))
            for step, what, ends in waiting
        )
    with StateDatabase(committed) as database:
        found = (_counted(database, step, what, ends, ends.least(marks)) for step, what, ends in waiting)
        return tuple(one for one in found if one.number)


def left_open_after(state: str, result: RunResult) -> tuple[LeftOpen, ...]:
    """What waits for the watermark where a run has read all that there is."""
    if result.last_epoch is None or result.outcome not in ("exhausted", "nothing new"):
        return ()
    try:
        return left_open(find_committed(CheckpointStore(state)))
    except (DiagnosticError, StateError, OSError):
        return ()  # another run has begun meanwhile, and has collected this epoch


def _counted(
    database: StateDatabase, step: OperatorStep, what: Waiting, ends: WindowEnds, watermark: int
) -> LeftOpen:
    """What waits in the state of a step, counted."""
    total, waits, times = 0, 0, set()
    for time, rows in _times(database, step, what):
        total += rows
        times.add(time)
        # Rows of joins stay with their neighbours for a while when they are done.
        waits += 0 if what.done and time is not None and time <= watermark else rows
    known = {time for time in times if time is not None}
    number = waits
    if what.what == "window":
        if what.slices_of is not None:
            known = set(what.slices_of.ends_of_slices(known))
        known = {end for end in known if end - ends.tick_us > watermark}
        number = len(known)
    return LeftOpen(step.name, what.what, number, total, max(known, default=None), watermark)


def _times(database: StateDatabase, step: OperatorStep, what: Waiting) -> Iterator[tuple[int | None, int]]:
    """The times (µs) at which rows of the state wait, or up to which they do, and how many rows do."""
    # A table whose rows are all that an operator gives is there under two names.
    tables = {r.table: r for r in database.relations if r.step == step.name and r.table in what.tables}
    done = dict(zip(what.tables, what.done, strict=False))
    for relation in tables.values():
        name = ".".join(map(quote_identifier, relation.name))
        field, wait_us = done.get(relation.table or "", (None, 0))
        column = next((c.name for c in relation.columns if c.source == (field or TIME)), None)
        column = relation.time if column is None and field is None else column
        time = "NULL" if column is None else f"epoch_us({quote_identifier(column)})"
        for at, rows in database.query(f"SELECT {time} AS at, count(*) FROM {name} GROUP BY 1").rows:
            yield None if at is None else int(at) + wait_us, int(rows or 0)
