"""A join of rows that are near each other in time: pairs when the later row arrives, state that goes with the watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import concatenated, empty, names_of
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.arranged_spec import IS
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.state.store import StateStore

from .matching import WATCHED, Matching, Met
from .side_rows import Changed
from .timed_side import TimedSide, counts_of


@dataclass(slots=True)
class _Epoch:
    """What an epoch gives: rows of the output, how many rows of state were added and removed, and the watermark that
    the last of those that go at the end of the input waited for (µs).
    """

    pieces: list[pa.Table] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    waited_for: int = WATERMARK_MIN


class IntervalJoin:
    """Runs an `IntervalJoinSpec`: see there for its inputs, its state and its output.

    The rows that come on one side are joined with those of the other that state has of their keys, in the two buckets of
    time that their partners can be in. What the watermark has passed by more than a row must wait is dropped with its
    bucket. A row that arrives and is done in the same epoch never gets into the state.
    """

    def __init__(self, spec: IntervalJoinSpec) -> None:
        self._spec = spec
        self._sides = TimedSide(spec, "left"), TimedSide(spec, "right")
        self._matching = Matching(spec, self._sides)
        self._pairs = spec.type not in ("semi", "anti")
        self._watched: tuple[int, ...] = WATCHED[spec.type]
        self._beside_nulls = tuple(n for n in self._watched if spec.type != "semi")

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came, and the watermark moved past no row that is given alone and past no bucket."""
        if any(rows.num_rows for rows in inputs):
            return False
        before, close = watermarks.previous, watermarks.close
        if stateless or close <= before:
            return True
        return not self._beside_nulls and all(
            s.gone_before(before) == s.gone_before(close) for s in self._sides
        )

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Join what came, note it, and let go of what is done; raises InternalError if changes come."""
        timer, state, duck = PhaseTimer(), context.state, context.duck
        close = context.watermarks.close
        epoch = _Epoch()
        with timer.phase("state_us"):
            changed = [self._arrived(duck, state, n, rows, epoch) for n, rows in enumerate(inputs)]
            met = self._met(state, changed)
        with timer.phase("merge_us"):
            if self._pairs:
                epoch.pieces += [self._repeated(rows) for rows in self._matching.pairs(duck, *met)]
            partnered = {n: self._partnered(duck, n, met) for n in self._watched}
        with timer.phase("state_us"):
            for number, side in enumerate(self._sides):
                self._note(state, number, changed[number], met[number], partnered.get(number), close, epoch)
                self._release(state, side, number, context.watermarks, epoch)
        output = concatenated([*epoch.pieces, empty(self._spec.output)])
        metrics = {
            "emitted_rows": output.num_rows,
            "read_rows": sum(side.rest.num_rows for side in met),
            "state_rows_added": epoch.added,
            "state_rows_removed": epoch.removed,
            **timer.figures("merge_us", "state_us"),
        }
        if epoch.waited_for != WATERMARK_MIN:
            # Rows that arrive after the end of the input is taken back must not have missed partners: those are late.
            metrics["max_closed_end_us"] = epoch.waited_for + 1
        return OperatorResult(output, metrics)

    def _arrived(
        self, duck: DuckSession, state: StateStore, number: int, rows: pa.Table, epoch: _Epoch
    ) -> Changed:
        """The distinct rows that arrived and may have partners; the others are given at once where a side is preserved."""
        side = self._sides[number]
        rows, never = side.parted(rows)
        if number in self._beside_nulls and never.num_rows:
            epoch.pieces.append(self._without_partner(number, side.as_given(never)))
        return side.changed(duck, state, rows)

    def _met(self, state: StateStore, changed: Sequence[Changed]) -> tuple[Met, Met]:
        """The rows of both sides that pairs are made of."""
        found = []
        for number, side in enumerate(self._sides):
            mine, theirs = changed[number], changed[1 - number]
            times = self._sides[1 - number].times(theirs.rows)
            found.append(Met(mine.rows, side.unchanged(side.partners(state, theirs.rows, times), mine)))
        return found[0], found[1]

    def _partnered(self, duck: DuckSession, number: int, met: Sequence[Met]) -> npt.NDArray[np.bool_]:
        """Which rows of a side, those that changed before the others, have a partner."""
        mine = met[number].all
        found = self._matching.partners_by_row(duck, number, mine, met[1 - number].all)
        there = found.filter(found.column(IS))
        partnered = np.zeros(mine.num_rows, bool)
        partnered[there.column(0).to_numpy()] = True
        return partnered

    def _note(
        self,
        state: StateStore,
        number: int,
        changed: Changed,
        met: Met,
        partnered: npt.NDArray[np.bool_] | None,
        close: int,
        epoch: _Epoch,
    ) -> None:
        """Write what came on a side and what became of its rows; give rows that are done already."""
        side, semi = self._sides[number], self._spec.type == "semi"
        times = side.times(changed.rows)
        if close == WATERMARK_MAX:
            epoch.waited_for = max(epoch.waited_for, _latest(times, side.wait_us))
        done = times <= side.done_upto(close)
        # A row that state has, once more: what becomes of it is decided with the rest of it.
        stays = ~done | changed.there
        if partnered is None:
            self._count(epoch, side.keep(state, changed, stays))
            return
        new, old = partnered[: len(times)], met.rest.filter(pa.array(partnered[len(times) :]))
        new_rows = changed.rows.filter(pa.array(new))
        if not self._pairs:
            # Of the left only rows without a partner are kept: the others have been given, or never will be.
            stays &= ~new
            if semi:
                epoch.pieces += [self._own(number, new_rows), self._own(number, old)]
            side.forget(state, old)
            epoch.removed += old.num_rows
        self._count(epoch, side.keep(state, changed, stays))
        known = new & changed.there
        side.note_partner(state, concatenated([changed.rows.filter(pa.array(known)), old]))
        side.note_alone(state, changed.rows.filter(pa.array(stays & ~new)))
        if number in self._beside_nulls:
            epoch.pieces.append(self._without_partner(number, changed.rows.filter(pa.array(~stays & ~new))))

    def _release(
        self, state: StateStore, side: TimedSide, number: int, marks: Watermarks, epoch: _Epoch
    ) -> None:
        """Give the rows of a side that can have no partner any more, and drop the buckets that are done."""
        if marks.close <= marks.previous:
            return
        if number in self._beside_nulls:
            alone = side.released(state, side.done_upto(marks.close))
            epoch.pieces.append(self._without_partner(number, alone))
        low, high = side.gone_before(marks.previous), side.gone_before(marks.close)
        if high == WATERMARK_MIN or (low is not None and low == high):
            return
        first = low if low != WATERMARK_MIN else None
        if marks.close == WATERMARK_MAX:
            stored = state.scan_time(side.table, first, high)
            epoch.waited_for = max(epoch.waited_for, _latest(side.times(stored), side.wait_us))
        epoch.removed += state.delete_time(side.table, first, high)

    @staticmethod
    def _count(epoch: _Epoch, written: tuple[int, int]) -> None:
        epoch.added += written[0]
        epoch.removed += written[1]

    # ----------------------------------------------------------------------------------------------- output

    def _repeated(self, rows: pa.Table) -> pa.Table:
        """Rows with WEIGHT_COLUMN, each so many times."""
        counts = rows.column(WEIGHT_COLUMN).to_numpy().astype(np.int64)
        return _times(rows.select(names_of(self._spec.output)), counts)

    def _own(self, number: int, rows: pa.Table) -> pa.Table:
        """Rows of a side as the output has them, NULL in the columns of the other."""
        own = {column.name for column in self._sides[number].spec.columns}
        arrays = [
            rows.column(column.name)
            if column.name in own
            else pa.chunked_array([pa.nulls(rows.num_rows, to_arrow(column.type))])
            for column in self._spec.output
        ]
        return _times(pa.Table.from_arrays(arrays, names=names_of(self._spec.output)), counts_of(rows))

    _without_partner = _own


def _times(rows: pa.Table, counts: Int64s) -> pa.Table:
    if (counts == 1).all():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(counts)), counts)))


def _latest(times: Int64s, wait_us: int) -> int:
    """The watermark (µs) at which the last of some rows is done."""
    return int(times.max()) + wait_us if len(times) else WATERMARK_MIN
