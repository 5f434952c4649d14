"""A side of a join whose rows another operator keeps: they are made of its result, of which a key has one row at most."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import with_weight
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.operators.operator import AnswersByKey
from sqlstream_operators.plan.arranged_spec import ANSWER, ROW, AnswerRows, ArrangedSide
from sqlstream_operators.plan.join_spec import JoinSideSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.spec import OperatorSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.state.store import StateStore

from .side_rows import Changed, SideRows, distinct_rows, staying_rows

_KEYS = "__wanted"


class SharedSide(SideRows):
    """Reads what the `operator` of `kept` gives by the join's `keys`, and takes its changes as those of the side.

    As a key has one row at most, each row was there once or not at all: its change says which.
    """

    def __init__(
        self,
        kept: OperatorSpec,
        operator: AnswersByKey,
        side: ArrangedSide,
        answer: AnswerRows,
        keys: Schema,
    ) -> None:
        super().__init__(keys, JoinSideSpec(side.columns, ("",) * len(keys), side.retracting))
        self._kept = kept
        self._operator = operator
        self._answer = answer
        self._what = f"rows of state {kept.state.state_id}"
        # Two columns of the side may be one of what the operator gives.
        stored = {n: Column(n, c.type, c.nullable) for n, c in zip(side.stored, side.columns, strict=True)}
        self._made: Schema = (*keys, *stored.values())
        self._read = [*self.key_names, *side.stored, ROW]

    def changes(self, duck: DuckSession, rows: pa.Table) -> Changed:
        """What the operator says that an epoch changes."""
        rows, weight = self._rows(duck, rows)
        if rows.num_rows and np.abs(weight).max() > 1:
            raise InternalError(f"{self._what}: two of one key")
        return Changed.of_other_step(self._shown(rows, np.maximum(-weight, 0), np.maximum(weight, 0)))

    def read(self, duck: DuckSession, state: StateStore, keys: pa.Table) -> pa.Table:
        """See `SideRows.read`."""
        keys = self.without_null(keys)
        if not keys.num_rows:
            return self.empty()
        rows, there = self._rows(duck, self._operator.answer_of(duck, state, self._named(duck, keys)))
        return self._shown(rows, there, there)

    def read_some(self, duck: DuckSession, state: StateStore, keys: pa.Table, changed: Changed) -> pa.Table:
        """See `SideRows.read_some`."""
        rows = self.read(duck, state, keys)
        return rows.filter(pa.array(staying_rows(rows, changed)))

    def _named(self, duck: DuckSession, keys: pa.Table) -> pa.Table:
        """Keys of the join as the operator has them; a number that is beyond its type no row of it has."""
        wanted = keys.select(self.key_names).rename_columns(list(self._answer.by))
        stored = {field.name: field.type for field in self._kept.state.tables[0].key}
        types = [stored[name] for name in self._answer.by]
        if types == [key.type for key in self.keys]:
            return wanted
        names = [quote_identifier(name) for name in self._answer.by]
        items = ", ".join(f"TRY_CAST({n} AS {t}) AS {n}" for n, t in zip(names, types, strict=True))
        there = " AND ".join(f"{name} IS NOT NULL" for name in names)
        given = {_KEYS: wanted}
        return conformed(
            duck.query(f"SELECT * FROM (SELECT {items} FROM {_KEYS}) AS k WHERE {there}", given),
            tuple(Column(n, t) for n, t in zip(self._answer.by, types, strict=True)),
            self._what,
        )

    def _rows(self, duck: DuckSession, given: pa.Table) -> tuple[pa.Table, Int64s]:
        """The rows of the side that are made of some that the operator gives, with ROW, and the weight of each."""
        schema = with_weight(self._kept.output)
        duck.register(ANSWER, conformed(given, schema, self._what), schema)
        try:
            rows = duck.query(self._answer.sql)
        finally:
            duck.drop(ANSWER)
        rows = conformed(rows, self._made, self._what, [WEIGHT_COLUMN])
        weights = rows.column(WEIGHT_COLUMN) if WEIGHT_COLUMN in rows.column_names else None
        return distinct_rows(duck, rows, weights, self._made)

    def _shown(self, rows: pa.Table, was: Int64s, now: Int64s) -> pa.Table:
        columns = [*(rows.column(name) for name in self._read), pa.array(was), pa.array(now)]
        return conformed(pa.table(columns, names=[c.name for c in self.schema]), self.schema, self._what)
