"""Joins of rows that arrangements keep: they have no state of their own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import cast

import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import concatenated, consolidated, empty, with_weight
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import AnswersByKey, Operator, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.arranged_spec import (
    IS,
    ROW,
    ROWS,
    WAS,
    ArrangedJoinSpec,
    ArrangedSide,
    ArrangeSpec,
)
from sqlstream_operators.plan.join_spec import JoinSideSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.spec import OperatorSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.state.store import StateStore

from .arrange import arranged_rows
from .join_side import JoinSide, same_keys
from .joining import Joining, may_cancel, repeated
from .matching import Met
from .shared_side import SharedSide
from .side_rows import Changed, SideRows


class ArrangedJoin:
    """Runs an `ArrangedJoinSpec` over what the operators that keep its sides, `kept`, say that changes.

    Their states are read as they were before the epoch. It would be the same behind it: the rows that change are taken out
    of what is read, since they come with how often they were and are there.
    """

    def __init__(self, spec: ArrangedJoinSpec, kept: Sequence[tuple[OperatorSpec, Operator]]) -> None:
        self._sides = [_side(spec, *one, side) for one, side in zip(kept, spec.sides, strict=True)]
        self._two: Joining | None = None
        if len(self._sides) == 2:
            self._two = Joining(spec, (self._sides[0], self._sides[1]))
        self._many = Combinations(spec, self._sides)

    def process(
        self, inputs: Sequence[pa.Table], states: Sequence[StateStore], duck: DuckSession
    ) -> OperatorResult:
        """The changes of the result; `states` are those of the sides, before the epoch."""
        timer = PhaseTimer()
        changed = [side.changes(duck, rows) for side, rows in zip(self._sides, inputs, strict=True)]
        if self._two is not None:
            output, read = self._two.changes(duck, states, (changed[0], changed[1]), timer)
        else:
            with timer.phase("state_us"):
                met = self._met(duck, states, changed)
            with timer.phase("merge_us"):
                output = self._many.changes(duck, met)
            read = sum(side.rest.num_rows for side in met)
        metrics = {"emitted_rows": output.num_rows, "read_rows": read}
        return OperatorResult(output, {**metrics, **timer.figures("merge_us", "state_us")})

    def answer(self, inputs: Sequence[pa.Table], duck: DuckSession) -> pa.Table:
        """The whole result, given all rows of the sides as if they came just now."""
        rows = [side.changes(duck, rows).rows for side, rows in zip(self._sides, inputs, strict=True)]
        if self._two is not None:
            return self._two.answer(duck, rows[0], rows[1])
        met = [Met(mine, side.empty()) for mine, side in zip(rows, self._sides, strict=True)]
        return self._many.changes(duck, met)

    def _met(self, duck: DuckSession, states: Sequence[StateStore], changed: Sequence[Changed]) -> list[Met]:
        """The rows of all sides that combinations are made of: of each, those with keys that changed on another."""
        found = []
        for number, side in enumerate(self._sides):
            others = [c.rows.select(side.key_columns) for n, c in enumerate(changed) if n != number]
            keys, rest = concatenated(others), side.empty()
            if keys.num_rows:
                rest = side.unchanged(side.read(duck, states[number], keys), changed[number])
            found.append(Met(changed[number].rows, rest))
        return found


class ReadSide(JoinSide):
    """The rows of an arrangement as one side of a join reads them: some columns, under names of the join's."""

    def __init__(self, arrangement: ArrangeSpec, side: ArrangedSide) -> None:
        super().__init__(arrangement.state, ROWS, arrangement.keys, arrangement.rows, whole=arrangement.whole)
        self._kept = arranged_rows(arrangement)
        self._read = [*self.key_names, *side.stored, ROW, WAS, IS]
        self.spec = JoinSideSpec(side.columns, ("",) * len(self.keys), side.retracting)
        self.schema = (*self.keys, *side.columns, *self.schema[-3:])

    def changes(self, duck: DuckSession, rows: pa.Table) -> Changed:
        """What the arrangement says that an epoch changes."""
        return Changed.of_other_step(self._named(rows))

    def _loaded(self, found: pa.Table) -> pa.Table:
        return self._named(self._kept._loaded(found))

    def _named(self, rows: pa.Table) -> pa.Table:
        columns = [rows.column(name) for name in self._read]
        return pa.table(columns, names=[column.name for column in self.schema])


def _side(
    spec: ArrangedJoinSpec, kept: OperatorSpec, operator: Operator, side: ArrangedSide
) -> ReadSide | SharedSide:
    if side.answer is not None:
        return SharedSide(kept, cast(AnswersByKey, operator), side, side.answer, spec.keys)
    if not isinstance(kept, ArrangeSpec):
        raise InternalError(f"{kept.kind} {side.state_id} is no arrangement")
    return ReadSide(kept, side)


class Combinations:
    """Makes the output of an inner join of several sides in one query, whatever the number of sides.

    A combination changes if a row of it does; the first side of which a row of it changes says in which query it is. So each
    comes once, with how often it is there now less how often it was.
    """

    def __init__(self, spec: ArrangedJoinSpec, sides: Sequence[SideRows]) -> None:
        self._spec = spec
        self._sides = sides
        names = [f"s{number}" for number in range(len(sides))]
        given = zip(spec.given, spec.output, strict=True)
        items = ", ".join(
            f"{quote_identifier(name)} AS {quote_identifier(column.name)}" for name, column in given
        )
        is_, was = (" * ".join(f"{name}.{when}" for name in names) for when in (IS, WAS))
        condition = f" AND ({spec.condition})" if spec.condition is not None else ""
        self._select = f"SELECT {items}, {is_} - {was} AS {WEIGHT_COLUMN}"
        self._where = f"WHERE {is_} <> {was}{condition}"

    def changes(self, duck: DuckSession, met: Sequence[Met]) -> pa.Table:
        """What becomes of the combinations of rows that change and others."""
        spec = self._spec
        pieces = [empty(with_weight(spec.output))]
        for first in range(len(met)):
            tables = [
                side.rest if number < first else side.changed if number == first else side.all
                for number, side in enumerate(met)
            ]
            if all(table.num_rows for table in tables):
                pieces.append(self._run(duck, tables, first))
        rows = concatenated(pieces)
        if not spec.emits_changes:
            return repeated(rows, spec.output)
        merges = spec.merges or may_cancel(self._sides, [side.changed for side in met])
        return consolidated(duck, rows, spec.output) if merges else rows

    def _run(self, duck: DuckSession, tables: Sequence[pa.Table], first: int) -> pa.Table:
        """The combinations of a row of each table, beginning with those of side `first`."""
        with ExitStack() as stack:
            sources = []
            for number, (table, side) in enumerate(zip(tables, self._sides, strict=True)):
                sources.append(duck.source(f"__s{number}", table, side.schema))
                stack.callback(duck.drop, f"__s{number}")
            joined = f"FROM {sources[first]} AS s{first}"
            for number, source in enumerate(sources):
                if number != first:
                    equal = same_keys(f"s{first}", f"s{number}", self._spec.keys)
                    joined += f" JOIN {source} AS s{number} ON {equal}"
            rows = duck.query(f"{self._select} {joined} {self._where}")
        return conformed(rows, with_weight(self._spec.output), "rows of an inner join")
