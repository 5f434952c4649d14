"""What changes of a join of two sides: what an epoch changes of either meets what the other has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import concatenated, consolidated, empty, names_of, with_weight
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.arranged_spec import IS, WAS, ArrangedJoinSpec
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Schema
from sqlstream_operators.state.store import StateStore

from .matching import WATCHED, Matching, Met, has_empty_row
from .side_rows import Changed, SideRows


class Joining:
    """Computes the output of a join of two `sides` whose rows are in states; it writes nothing.

    A pair changes if a row of it does. So the rows that change on one side are joined with all rows of the other that
    have their keys, and the rest of the one with those that change on the other: each pair once, with how often it is
    there now less how often it was. Only rows of the keys that came are read, and where it only matters whether a key has
    any, few of each.
    """

    def __init__(self, spec: JoinSpec | ArrangedJoinSpec, sides: tuple[SideRows, SideRows]) -> None:
        self._spec = spec
        self._sides = sides
        self._merges = isinstance(spec, ArrangedJoinSpec) and spec.merges
        self._matching = Matching(spec, sides)
        self._pairs = spec.type not in ("semi", "anti")
        self._watched: tuple[int, ...] = WATCHED[spec.type]

    def changes(
        self,
        duck: DuckSession,
        states: Sequence[StateStore],
        changed: tuple[Changed, Changed],
        timer: PhaseTimer,
    ) -> tuple[pa.Table, int]:
        """What an epoch's changes of the sides, whose rows are in `states`, make of the result; how many rows were read."""
        with timer.phase("state_us"):
            met = self._met(duck, states, changed)
        pieces = []
        if self._pairs:
            with timer.phase("merge_us"):
                pieces += self._matching.pairs(duck, *met)
        for number in self._watched:
            with timer.phase("merge_us"):
                pieces.append(self._alone(duck, states, number, changed, met))
        with timer.phase("merge_us"):
            output = self._output(duck, pieces, met)
        return output, sum(side.rest.num_rows for side in met)

    def answer(self, duck: DuckSession, left: pa.Table, right: pa.Table) -> pa.Table:
        """All that the join has of all rows of both sides, as if they came just now."""
        met = Met(left, self._sides[0].empty()), Met(right, self._sides[1].empty())
        pieces = self._matching.pairs(duck, *met) if self._pairs else []
        for number in self._watched:
            mine, theirs = (left, right) if number == 0 else (right, left)
            pieces.append(self._alone_beside(duck, number, mine, theirs))
        return self._output(duck, pieces, met)

    def _met(
        self, duck: DuckSession, states: Sequence[StateStore], changed: Sequence[Changed]
    ) -> tuple[Met, Met]:
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
                wanted = concatenated(keys)
                if wanted.num_rows:
                    rest = side.unchanged(side.read(duck, states[number], wanted), mine)
            found.append(Met(mine.rows, rest))
        return found[0], found[1]

    def _alone(
        self,
        duck: DuckSession,
        states: Sequence[StateStore],
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
        some = other.empty()
        if more.num_rows:
            some = other.read_some(duck, states[1 - number], more, changed[1 - number])
        partners = matching.partners_by_key(
            duck, 1 - number, concatenated([theirs.changed, theirs.rest, some])
        )
        rows = mine.all
        if not self._pairs:
            changing, rest = matching.changing(partners), side.empty()
            if changing.num_rows:
                rest = side.unchanged(side.read(duck, states[number], changing), changed[number])
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
        """The changes of the result, each row once; of a join whose rows are append-only, rows as often as they come."""
        spec = self._spec
        rows = concatenated([*pieces, empty(with_weight(spec.output))])
        if not spec.emits_changes:
            return repeated(rows, spec.output)
        columns = [side.spec.columns for side in self._sides]
        looks_alone = (
            self._pairs
            and bool(self._watched)
            and any(
                has_empty_row(table, columns[number])
                for number in (0, 1)
                for table in (met[number].changed, met[number].rest)
                if table.num_rows
            )
        )
        if looks_alone or self._merges or may_cancel(self._sides, [side.changed for side in met]):
            # A row that is NULL in all columns looks like none at all: two rows of the result may be equal.
            return consolidated(duck, rows, spec.output)
        return rows


def may_cancel(sides: Sequence[SideRows], changed: Sequence[pa.Table]) -> bool:
    """Whether equal rows of a result may be inserted and retracted in one epoch, by what changes on the sides.

    Equal append-only rows are not one. What is there less often than before takes of the pairs of an old one, and
    still makes pairs of a new one.
    """
    if all(side.spec.retracting for side in sides):
        return False
    return any(side.spec.retracting and _is_fewer(rows) for side, rows in zip(sides, changed, strict=True))


def _is_fewer(rows: pa.Table) -> bool:
    """Whether a row is there less often than it was, but still is."""
    was, now = (rows.column(name).to_numpy() for name in (WAS, IS))
    return bool(((now > 0) & (now < was)).any())


def repeated(rows: pa.Table, schema: Schema) -> pa.Table:
    """Rows without their WEIGHT_COLUMN, each as often as that says."""
    times = rows.column(WEIGHT_COLUMN).to_numpy()
    rows = rows.select(names_of(schema))
    return rows if (times == 1).all() else rows.take(pa.array(np.repeat(np.arange(len(times)), times)))
