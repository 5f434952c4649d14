"""A join that is kept up to date: what an epoch changes of either side meets what the other side has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import concatenated, consolidated, empty, names_of, with_weight
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.changelog_spec import JoinSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.store import StateStore

from .join_side import Changed, JoinSide
from .matching import WATCHED, Matching, Met, has_empty_row


class Join:
    """Runs a `JoinSpec`: see there for its inputs, its state and its output.

    A pair changes if a row of it does. So the rows that change on one side are joined with all rows of the other that
    have their keys, and the rest of the one with those that change on the other: each pair once, with how often it is
    there now less how often it was. Only rows of the keys that came are read, and where it only matters whether a key has
    any, few of each.
    """

    def __init__(self, spec: JoinSpec) -> None:
        if spec.ttl_us is not None:
            raise InternalError(f"state {spec.state.state_id}: not this operator but TimeToLive forgets rows")
        self._spec = spec
        self._sides = JoinSide(spec, "left"), JoinSide(spec, "right")
        self._matching = Matching(spec, self._sides)
        self._pairs = spec.type not in ("semi", "anti")
        self._watched: tuple[int, ...] = WATCHED[spec.type]

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No rows came."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Join what changed, emit, and note it; raises InternalError if changes come where rows are promised to stay."""
        timer, state, duck = PhaseTimer(), context.state, context.duck
        with timer.phase("state_us"):
            changed = [
                side.changed(duck, state, rows) for side, rows in zip(self._sides, inputs, strict=True)
            ]
            met = self._met(state, changed)
        pieces = []
        if self._pairs:
            with timer.phase("merge_us"):
                pieces += self._matching.pairs(duck, *met)
        for number in self._watched:
            with timer.phase("merge_us"):
                pieces.append(self._alone(duck, state, number, changed, met))
        with timer.phase("merge_us"):
            output = self._output(duck, pieces, met)
        with timer.phase("state_us"):
            written = [side.write(state, rows) for side, rows in zip(self._sides, changed, strict=True)]
        metrics = {
            "emitted_rows": output.num_rows,
            "read_rows": sum(side.rest.num_rows for side in met),
            "state_rows_added": sum(added for added, _ in written),
            "state_rows_removed": sum(removed for _, removed in written),
            **timer.figures("merge_us", "state_us"),
        }
        return OperatorResult(output, metrics)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`; of a join whose rows stay, each row as often as it is there."""
        duck = context.duck
        left, right = (Met(side.as_new(side.read_all(context.state)), side.empty()) for side in self._sides)
        pieces = self._matching.pairs(duck, left, right) if self._pairs else []
        for number in self._watched:
            mine, theirs = (left, right) if number == 0 else (right, left)
            pieces.append(self._alone_beside(duck, number, mine.all, theirs.all))
        return self._output(duck, pieces, (left, right))

    def _met(self, state: StateStore, changed: Sequence[Changed]) -> tuple[Met, Met]:
        """The rows of both sides that pairs are made of: of each, those with keys that changed on the other."""
        found = []
        for number, side in enumerate(self._sides):
            mine, theirs = changed[number], changed[1 - number]
            rest = side.empty()
            if self._pairs or self._spec.condition is not None:
                keys = [theirs.rows.select(side.key_columns)]
                if self._spec.condition is not None and 1 - number in self._watched:
                    # How many partners the other side's rows with these keys had and have is counted anew.
                    keys.append(mine.rows.select(side.key_columns))
                rest = side.unchanged(side.read(state, concatenated(keys)), mine)
            found.append(Met(mine.rows, rest))
        return found[0], found[1]

    def _alone(
        self,
        duck: DuckSession,
        state: StateStore,
        number: int,
        changed: Sequence[Changed],
        met: Sequence[Met],
    ) -> pa.Table:
        """What becomes of the rows of one side by their having partners or not."""
        matching, side, other = self._matching, self._sides[number], self._sides[1 - number]
        mine, theirs = met[number], met[1 - number]
        if self._spec.condition is not None:
            return self._alone_beside(duck, number, mine.all, theirs.all)
        if self._pairs:
            # Of the keys that only the other side changed, whether they have any row is enough.
            more = matching.keys_of(duck, theirs.changed, only=mine.rest, but=mine.changed)
        else:
            more = matching.keys_of(duck, theirs.changed, also=mine.changed)
        some = other.read_some(state, more, changed[1 - number])
        partners = matching.partners_by_key(
            duck, 1 - number, concatenated([theirs.changed, theirs.rest, some])
        )
        rows = mine.all
        if not self._pairs:
            rest = side.unchanged(side.read(state, matching.changing(partners)), changed[number])
            rows = concatenated([mine.changed, rest])
        return matching.alone(duck, number, rows, partners)

    def _alone_beside(self, duck: DuckSession, number: int, mine: pa.Table, theirs: pa.Table) -> pa.Table:
        """The same of rows, given all rows of the other side that may be their partners."""
        if self._spec.condition is None:
            partners = self._matching.partners_by_key(duck, 1 - number, theirs)
        else:
            partners = self._matching.partners_by_row(duck, number, mine, theirs)
        return self._matching.alone(duck, number, mine, partners)

    def _output(self, duck: DuckSession, pieces: Sequence[pa.Table], met: Sequence[Met]) -> pa.Table:
        """The changes of the answer, each row once; of a join whose rows stay, rows as often as they come."""
        spec = self._spec
        rows = concatenated([*pieces, empty(with_weight(spec.output))])
        if not spec.emits_changes:
            times = rows.column(WEIGHT_COLUMN).to_numpy()
            rows = rows.select(names_of(spec.output))
            return (
                rows if (times == 1).all() else rows.take(pa.array(np.repeat(np.arange(len(times)), times)))
            )
        columns = [side.spec.columns for side in self._sides]
        if (
            self._pairs
            and self._watched
            and any(
                has_empty_row(table, columns[number])
                for number in (0, 1)
                for table in (met[number].changed, met[number].rest)
                if table.num_rows
            )
        ):
            # A row that is NULL in all columns looks like none at all: two rows of the answer may be equal.
            return consolidated(duck, rows, spec.output)
        return rows
