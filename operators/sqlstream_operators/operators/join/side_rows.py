"""What a join reads of a side, whoever keeps its rows: those of some keys, and what an epoch changes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.sort_keys import digest_array, row_digests
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import empty
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.plan.arranged_spec import IS, ROW, WAS
from sqlstream_operators.plan.join_spec import JoinSideSpec
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.types import BIGINT, BLOB
from sqlstream_operators.state.store import StateStore

_DIGESTS = "__digests"


@dataclass(frozen=True, slots=True)
class Changed:
    """The distinct rows of an epoch's changes: `rows` (keys, columns, ROW, WAS, IS) in the order of state.

    `names` are what they are called in state (none where rows are append-only), `counts` what state is to have (it may
    be below 0), and `there` says which of them it has.
    """

    rows: pa.Table
    names: list[bytes]
    counts: Int64s
    there: npt.NDArray[np.bool_]

    @classmethod
    def of_other_step(cls, rows: pa.Table) -> Changed:
        """Changes of what another step keeps: which of them are in state it does not say, so all are looked for."""
        return cls(rows, [], np.zeros(0, np.int64), np.ones(rows.num_rows, bool))


class SideRows(ABC):
    """The rows of one side of a join by its `keys`."""

    def __init__(self, keys: Schema, spec: JoinSideSpec) -> None:
        self.spec = spec
        self.keys = keys
        self.key_names = [key.name for key in keys]
        #: With a column more, so that tables without keys have rows.
        self.key_columns = [*self.key_names, ROW]
        #: The columns of rows that are changed or read.
        self.schema: Schema = (
            *keys,
            *spec.columns,
            Column(ROW, BLOB),
            Column(WAS, BIGINT),
            Column(IS, BIGINT),
        )

    @abstractmethod
    def read(self, duck: DuckSession, state: StateStore, keys: pa.Table) -> pa.Table:
        """All rows that state has of some keys, as if nothing changed; keys with a NULL are left out."""

    @abstractmethod
    def read_some(self, duck: DuckSession, state: StateStore, keys: pa.Table, changed: Changed) -> pa.Table:
        """A row that is there and does not change of each of some distinct keys that has one, or a few more.

        `keys` have a BIGINT column ROW: how many rows of the key change.
        """

    def unchanged(self, rows: pa.Table, changed: Changed) -> pa.Table:
        """The rows that were read without those that change."""
        if not rows.num_rows or not changed.there.any():
            return rows
        return rows.filter(pa.array(staying_rows(rows, changed)))

    def without_null(self, keys: pa.Table) -> pa.Table:
        """The keys that rows can have alike."""
        missing = any_null(keys, self.key_names)
        return keys if missing is None else keys.filter(pc.invert(missing))

    def empty(self) -> pa.Table:
        """No rows."""
        return empty(self.schema)


def staying_rows(rows: pa.Table, changed: Changed) -> npt.NDArray[np.bool_]:
    """Which rows are not among those that change."""
    digests = changed.rows.column(ROW).combine_chunks()
    staying: npt.NDArray[np.bool_] = pc.invert(pc.is_in(rows.column(ROW), value_set=digests)).to_numpy()
    return staying


def distinct_rows(
    duck: DuckSession, rows: pa.Table, weights: pa.ChunkedArray | None, digested: Schema
) -> tuple[pa.Table, Int64s]:
    """Each distinct row once, with its digest as ROW, and the sum of its weights, which is not 0."""
    digests = row_digests(rows, digested)
    delta: Int64s = np.ones(len(digests), np.int64)
    if weights is not None:
        delta = weights.to_numpy().astype(np.int64)
    index: npt.NDArray[np.int64] | None = None
    if len(set(digests)) < len(digests):
        table = pa.table({"d": digest_array(digests), "i": np.arange(len(digests)), "w": delta})
        sql = f"SELECT min(i), CAST(sum(w) AS BIGINT) AS w FROM {_DIGESTS} GROUP BY d HAVING sum(w) <> 0 ORDER BY 1"
        found = duck.query(sql, {_DIGESTS: table})
        index, delta = (column.to_numpy() for column in found.columns)
    elif weights is not None and not delta.all():
        index = np.flatnonzero(delta)
        delta = delta[index]
    rows = rows.append_column(ROW, digest_array(digests))
    return (rows if index is None else rows.take(pa.array(index))), delta


def any_null(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray | None:
    """Which rows have a NULL among some columns; None if no row has."""
    found = None
    for name in names:
        column = rows.column(name)
        if column.null_count:
            missing = pc.is_null(column)
            found = missing if found is None else pc.or_(found, missing)
    return found
