"""Normalises a changelog with a primary key: whatever its source says, every key has one row or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.codec.binary import from_matrix
from sqlstream_operators.codec.key_bytes import encode_pieces, join_pieces
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult, ShowsAnswer
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.changelog_normalize_spec import ChangelogNormalizeSpec
from sqlstream_operators.plan.equal_values import differing
from sqlstream_operators.plan.schema import KIND_COLUMN, WEIGHT_COLUMN, RowKind, column_of
from sqlstream_operators.plan.state_schema import FOUND
from sqlstream_operators.plan.watermarks import Watermarks

TABLE = "row"

_KINDS = [RowKind.INSERT.value, RowKind.UPDATE_AFTER.value, RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value]
_INSERT, _UPDATE_AFTER, _DELETE = 0, 1, 3

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The distinct keys of the input: each row's key number, and each key's last row."""

    numbers: Int64s
    last: Int64s


class ChangelogNormalize(ShowsAnswer):
    """Runs a `ChangelogNormalizeSpec`: see there for its input, its state and its output.

    The work is in proportion to the changes; the state is read and written once for each key that changed.
    """

    def __init__(self, spec: ChangelogNormalizeSpec) -> None:
        self._spec = spec
        self._what = f"state {spec.state.state_id}"
        if spec.ttl_us is not None:
            raise InternalError(f"{self._what}: a normalised changelog does not forget by time")
        self._keys = tuple(column_of(spec.columns, name) for name in spec.keys)
        self._values = [column.name for column in spec.columns if column.name not in spec.keys]
        table = spec.state.table(TABLE)
        if (
            table.layout != "key"
            or sorted(table.key_columns) != sorted(spec.keys)
            or sorted(table.value_columns) != sorted(self._values)
        ):
            raise InternalError(f"{self._what}: table {TABLE} has not the columns of the operator")

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No changes came."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Apply the changes in order and emit what became of each key; raises InternalError for an unknown
        kind.
        """
        timer = PhaseTimer()
        [rows] = inputs
        with timer.phase("merge_us"):
            kinds = self._kinds(rows)
            rows = conformed(rows, self._spec.columns, self._what)
            if not rows.num_rows:
                return OperatorResult(self._output(rows, rows), {"emitted_rows": 0})
            keys = self._distinct(rows)
            now = rows.take(pa.array(keys.last))
        with timer.phase("state_us"):
            stored = context.state.get(TABLE, now.select(self._spec.keys))
        with timer.phase("merge_us"):
            found = stored.column(FOUND).to_numpy()
            comes = kinds <= _UPDATE_AFTER
            unknown, duplicate = _anomalies(kinds, comes, keys, found)
            stays = comes[keys.last]
            changed = found | stays
            both = np.flatnonzero(found & stays)
            changed[both] = self._differ(context.duck, stored.take(pa.array(both)), now.take(pa.array(both)))
            goes, new = np.flatnonzero(found & changed), np.flatnonzero(stays & changed)
            written = now.take(pa.array(new))
            output = self._output(self._before(now, stored, goes), written)
        with timer.phase("state_us"):
            removed = np.flatnonzero(found & ~stays)
            context.state.delete(TABLE, now.select(self._spec.keys).take(pa.array(removed)))
            context.state.put(TABLE, written)
        metrics = {
            "emitted_rows": output.num_rows,
            "unknown_deletes": unknown,
            "duplicate_inserts": duplicate,
            "state_rows_added": int(np.count_nonzero(stays & ~found)),
            "state_rows_removed": len(removed),
            **timer.figures("merge_us", "state_us"),
        }
        return OperatorResult(output, metrics)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`."""
        rows = context.state.scan_all(TABLE)
        return self._output(rows.slice(0, 0), rows)

    def _kinds(self, rows: pa.Table) -> Int64s:
        """The number of each row's kind in `_KINDS`."""
        if KIND_COLUMN not in rows.column_names:
            raise InternalError(f"{self._what}: no column {KIND_COLUMN} among {rows.column_names}")
        column = rows.column(KIND_COLUMN)
        codes = pc.index_in(column, value_set=pa.array(_KINDS))
        if codes.null_count:
            unknown = column.filter(pc.is_null(codes)).slice(0, 1).to_pylist()
            raise InternalError(f"{self._what}: {unknown[0]!r} is no kind of change")
        kinds: Int64s = codes.to_numpy().astype(np.int64)
        return kinds

    def _distinct(self, rows: pa.Table) -> _Keys:
        """Keys are numbered in the order in which they come; equal are those whose bytes in the state are."""
        arrays = [rows.column(key.name).combine_chunks() for key in self._keys]
        joined = join_pieces(encode_pieces(arrays, [key.type for key in self._keys]))
        encoded = (from_matrix(joined) if isinstance(joined, np.ndarray) else joined).dictionary_encode()
        numbers = encoded.indices.to_numpy().astype(np.int64)
        last = np.empty(len(encoded.dictionary), np.int64)
        last[numbers] = np.arange(len(numbers))  # of several rows of one key numpy keeps the last
        return _Keys(numbers, last)

    def _differ(self, duck: DuckSession, old: pa.Table, new: pa.Table) -> Bools:
        """For each row whether any value is another one."""
        if not old.num_rows or not self._values:
            return np.zeros(old.num_rows, bool)
        numbers = range(len(self._values))
        was = old.select(self._values).rename_columns([f"a{i}" for i in numbers])
        now = new.select(self._values).rename_columns([f"b{i}" for i in numbers])
        types = {column.name: column.type for column in self._spec.columns}
        differ = " OR ".join(differing(f"a{i}", f"b{i}", types[self._values[i]]) for i in numbers)
        found = duck.query(
            f"SELECT {differ} AS differ FROM __was POSITIONAL JOIN __now", {"__was": was, "__now": now}
        )
        result: Bools = found.column(0).to_numpy()
        return result

    def _before(self, now: pa.Table, stored: pa.Table, chosen: Int64s) -> pa.Table:
        """The rows that were stored under some of the keys."""
        keys, values = now.take(pa.array(chosen)), stored.take(pa.array(chosen))
        names = now.column_names
        return pa.Table.from_arrays(
            [(values if name in self._values else keys).column(name) for name in names], names=names
        )

    def _output(self, old: pa.Table, new: pa.Table) -> pa.Table:
        columns = [column for column in self._spec.output if column.name != WEIGHT_COLUMN]
        names = [column.name for column in columns]
        schema = pa.schema([(column.name, to_arrow(column.type)) for column in columns])
        rows = pa.concat_tables([old.select(names).cast(schema), new.select(names).cast(schema)])
        weights = np.ones(rows.num_rows, np.int64)
        weights[: old.num_rows] = -1
        return rows.append_column(WEIGHT_COLUMN, pa.array(weights))


def _anomalies(kinds: Int64s, comes: Bools, keys: _Keys, found: Bools) -> tuple[int, int]:
    """How many changes delete a key that has no row, and insert one that has."""
    order = np.argsort(keys.numbers, kind="stable")
    numbers = keys.numbers[order]
    there = np.empty(len(order), bool)  # before each change
    there[1:] = comes[order][:-1]
    first = np.ones(len(order), bool)
    first[1:] = numbers[1:] != numbers[:-1]
    there[first] = found[numbers[first]]
    sorted_kinds = kinds[order]
    unknown = np.count_nonzero((sorted_kinds == _DELETE) & ~there)
    return int(unknown), int(np.count_nonzero((sorted_kinds == _INSERT) & there))
