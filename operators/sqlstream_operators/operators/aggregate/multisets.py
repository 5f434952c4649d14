"""The multisets of groups, their values counted one by one: what MIN, MAX and ARRAY_AGG need over updating rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import concatenated, consolidated, empty, quoted, with_weight
from sqlstream_operators.operators.groups import GROUP, Groups, Int64s, as_stored
from sqlstream_operators.plan.group_aggregate_spec import MultisetSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_operators.state.store import StateStore

_COUNT = Column("count", BIGINT)


@dataclass(frozen=True, slots=True)
class ValuesRead:
    """Values that are there: `rows` has GROUP, the values and `count`, a group's in the order of state.

    `occupied` says for each group that was looked up whether it has any row in the state, also one with a
    negative count.
    """

    rows: pa.Table
    occupied: npt.NDArray[np.bool_]


class Multiset:
    """Reads and writes the state of a `MultisetSpec`; see there. `keys` are those of the groups."""

    def __init__(self, spec: MultisetSpec, keys: Schema) -> None:
        self.spec = spec
        self._keys = keys
        self.columns: Schema = (Column(GROUP, BIGINT), *spec.values, _COUNT)

    def changes(self, duck: DuckSession, rows: pa.Table) -> pa.Table:
        """This epoch's changes, one row (keys, values, WEIGHT_COLUMN) for each value whose count changes."""
        schema: Schema = (*self._keys, *self.spec.values)
        rows = conformed(rows, with_weight(schema), f"multiset {self.spec.name}")
        # By value: a key has no -0.0, and equal values are counted together.
        return consolidated(duck, as_stored(rows, schema), schema)

    def read(self, state: StateStore, groups: Groups, chosen: Int64s | None = None) -> ValuesRead:
        """The values that the aggregates see of the chosen groups (None: of all); one seek or scan a group."""
        keys = groups.keys if chosen is None else groups.keys.take(pa.array(chosen))
        if self.spec.pick == "all":
            found = state.scan_prefix(self.spec.name, keys)
        else:
            found = state.ends(self.spec.name, keys, last=self.spec.pick == "last")
        occupied = np.zeros(len(groups), bool)
        numbers = groups.numbers(found)
        occupied[numbers] = True
        there = pc.greater(found.column("count"), 0)
        rows, negative = self._numbered(found, numbers).filter(there), found.filter(pc.invert(there))
        if self.spec.pick != "all" and negative.num_rows:
            rows = pa.concat_tables([rows, self._behind_negative(state, groups, negative)])
        return ValuesRead(rows, occupied)

    def write(self, state: StateStore, changes: pa.Table) -> tuple[int, int]:
        """Add the weights to the counts; how many rows of the state are new, and how many are gone.

        `changes` have the key columns of the table too.
        """
        if not changes.num_rows:
            return 0, 0
        old = pc.fill_null(state.get(self.spec.name, changes).column("count"), 0)
        new = pc.add_checked(old, changes.column(WEIGHT_COLUMN))
        left = pc.not_equal(new, 0)
        rows = changes.append_column("count", new)
        gone = rows.filter(pc.invert(left))
        state.put(self.spec.name, rows.filter(left))
        state.delete(self.spec.name, gone)
        return int(pc.sum(pc.equal(old, 0)).as_py() or 0), int(gone.num_rows)

    def updated(self, before: ValuesRead, after: ValuesRead, chosen: Int64s) -> ValuesRead:
        """`before` with what was read again of the chosen groups."""
        changed = np.zeros(len(before.occupied), bool)
        changed[chosen] = True
        kept = before.rows.filter(pa.array(~changed[before.rows.column(GROUP).to_numpy()]))
        return ValuesRead(
            concatenated([kept, after.rows]), np.where(changed, after.occupied, before.occupied)
        )

    def aggregates_sql(self, relation: str) -> str:
        """GROUP and the aggregates of each group that has rows in `relation`, whose columns are `columns`."""
        listed = "".join(
            f", CAST({sql} AS {column.type}) AS {name}"
            for sql, column, name in zip(
                self.spec.aggregates, self.spec.columns, quoted(self.spec.columns), strict=True
            )
        )
        return f"SELECT {GROUP}{listed} FROM {quote_identifier(relation)} GROUP BY {GROUP}"

    def _behind_negative(self, state: StateStore, groups: Groups, negative: pa.Table) -> pa.Table:
        """The first (or last) values of groups whose first (or last) row has a negative count; these are read whole."""
        found = state.scan_prefix(self.spec.name, negative)
        rows = found.filter(pc.greater(found.column("count"), 0))
        if not rows.num_rows:
            return empty(self.columns)
        numbers = groups.numbers(rows)
        if self.spec.pick == "first":
            _, picked = np.unique(numbers, return_index=True)
        else:
            _, picked = np.unique(numbers[::-1], return_index=True)
            picked = len(numbers) - 1 - picked
        return self._numbered(rows.take(pa.array(picked)), numbers[picked])

    def _numbered(self, rows: pa.Table, numbers: Int64s) -> pa.Table:
        return conformed(rows.append_column(GROUP, pa.array(numbers)), self.columns, self.spec.name)
