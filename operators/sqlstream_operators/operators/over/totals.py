"""Values over all rows so far: those of an epoch's rows go on from what was carried over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.plan.over_spec import (
    BY_ROW,
    PART,
    POSITION,
    TOTALS,
    CarriedCall,
    CarriedPart,
    OverCall,
    OverOnCloseSpec,
)
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import FOUND
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_operators.state.store import StateStore

from .functions import WindowFunctions

_NOW, _BEFORE, _AT = "__over_now", "__over_before", "__at"


@dataclass(frozen=True, slots=True)
class Totals:
    """The `carried` functions of a spec over the rows of an epoch, with their state table `TOTALS`."""

    functions: WindowFunctions
    parts: tuple[CarriedPart, ...]
    calls: tuple[CarriedCall, ...]

    @classmethod
    def of(cls, spec: OverOnCloseSpec) -> Totals:
        """Those of a spec."""
        position = OverCall(Column(POSITION, BIGINT), f"row_number() OVER {BY_ROW}")
        calls = (*(OverCall(part.column, part.sql) for part in spec.parts), position)
        functions = WindowFunctions(spec.columns, spec.partition, spec.order, calls)
        return cls(functions, spec.parts, spec.carried)

    def values(
        self, duck: DuckSession, state: StateStore, rows: pa.Table, part: Int64s, keys: pa.Table
    ) -> pa.Table:
        """What the functions give for the rows, whose partitions `keys` has by number; the state is brought up to date."""
        now = self.functions.values(duck, rows, part)
        stored = state.get(TOTALS, keys)
        known = np.flatnonzero(stored.column(FOUND).to_numpy(zero_copy_only=False))
        merged = self._merged(
            duck, now.append_column(PART, pa.array(part)), stored.take(pa.array(known)), known
        )
        place = now.column(POSITION).to_numpy()
        order = np.lexsort((place, part))
        last = order[np.flatnonzero(np.append(np.diff(part[order]) != 0, True))]
        kept = keys.take(pa.array(part[last])) if keys.num_columns else keys
        for column in self._carried:
            kept = kept.append_column(column.name, merged.column(column.name).take(pa.array(last)))
        state.put(TOTALS, kept)
        return merged.select([call.column.name for call in self.calls])

    @property
    def _carried(self) -> Schema:
        return tuple(part.column for part in self.parts if part.merge is not None)

    def _merged(self, duck: DuckSession, now: pa.Table, before: pa.Table, number: Int64s) -> pa.Table:
        """The parts of each row with what was carried over, and what the functions make of them."""
        columns = tuple(part.column for part in self.parts)
        now = now.append_column(_AT, pa.array(np.arange(now.num_rows)))
        carried = self._carried
        before = before.select([c.name for c in carried]).append_column(PART, pa.array(number))
        bigints = [Column(PART, BIGINT), Column(_AT, BIGINT)]
        names = [quote_identifier(c.name) for c in columns]
        those = {c.name for c in carried}
        older = [
            f"b.{n}" if c.name in those else f"NULL::{c.type}" for n, c in zip(names, columns, strict=True)
        ]
        merges = [
            f"CAST({part.merge or f'max({n})'} AS {part.column.type}) AS {n}"
            for n, part in zip(names, self.parts, strict=True)
        ]
        finals = [
            f"CAST({call.final} AS {call.column.type}) AS {quote_identifier(call.column.name)}"
            for call in self.calls
        ]
        sql = (
            f"SELECT *, {', '.join(finals)} FROM (SELECT {_AT}, {', '.join(merges)} FROM (\n"
            f"  SELECT {_AT}, {', '.join(names)} FROM {_NOW}\n"
            f"  UNION ALL SELECT n.{_AT}, {', '.join(older)} FROM {_NOW} AS n JOIN {_BEFORE} AS b ON n.{PART} = b.{PART})\n"
            f"GROUP BY {_AT}) ORDER BY {_AT}"
        )
        duck.register(_NOW, now.select([*(c.name for c in columns), PART, _AT]), [*columns, *bigints])
        duck.register(_BEFORE, before, [*carried, bigints[0]])
        try:
            found = duck.query(sql)
        finally:
            duck.drop(_NOW)
            duck.drop(_BEFORE)
        return conformed(found, (*columns, *(call.column for call in self.calls)), "values of OVER")
