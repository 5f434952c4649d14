"""The window aggregate: partial aggregates are kept by slice, and a window is put together when it closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import empty
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.spec import SLICE_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import FOUND, TIME
from sqlstream_operators.plan.types import BIGINT, BOOLEAN, quote_identifier
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from sqlstream_operators.state.store import StateStore

from .windows import (
    Int64s,
    closed_upto,
    count_windows,
    dead_slices_upto,
    expand,
    next_window_end,
    window_ends_of_slice,
    window_start_sql,
)

#: At most about so many (slice row, window) pairs are in memory while windows close.
MAX_EXPANDED_ROWS = 1 << 20

_END = "__window_end"
_INPUT = "__slices"


@dataclass(frozen=True, slots=True)
class _Part:
    """One state table of the operator: rows of `values` by (slice, group), merged by `merge`."""

    table: str
    group: Schema
    values: Schema
    merge: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in (*self.group, *self.values)]

    @property
    def columns(self) -> list[str]:
        return [SLICE_COLUMN, *self.names]

    @property
    def schema(self) -> Schema:
        return (Column(SLICE_COLUMN, BIGINT), *self.group, *self.values)

    def merge_sql(self, time_column: str, relation: str) -> str:
        """One row for each (time, group) of a relation; columns in the order of `columns`."""
        group = [time_column, *(column.name for column in self.group)]
        keys = ", ".join(quote_identifier(name) for name in group)
        merged = "".join(
            f", CAST({merge} AS {column.type}) AS {quote_identifier(column.name)}"
            for column, merge in zip(self.values, self.merge, strict=True)
        )
        return f"SELECT {keys}{merged} FROM {relation} GROUP BY {keys}"

    def empty(self) -> pa.Table:
        return empty(self.schema)


@dataclass(slots=True)
class _Figures:
    ends: list[Int64s] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    timer: PhaseTimer = field(default_factory=PhaseTimer)


class WindowAggregate:
    """Runs a `WindowAggregateSpec`: see there for its inputs, its state and its output.

    Windows that the late watermark closes are emitted from the state alone, before this epoch's rows are
    merged: these rows are late for them. Windows that only the close watermark closes (the end of bounded
    input) have them; slices that die there are merged in memory and never written.
    """

    def __init__(self, spec: WindowAggregateSpec, *, max_expanded_rows: int = MAX_EXPANDED_ROWS) -> None:
        self._spec = spec
        self._max_expanded_rows = max_expanded_rows
        parts = [_Part("acc", spec.keys, spec.accumulators, spec.merge)]
        for distinct in spec.distincts:
            flags = tuple(Column(name, BOOLEAN) for name in distinct.flags)
            merge = tuple(f"coalesce(bool_or({quote_identifier(name)}), false)" for name in distinct.flags)
            parts.append(_Part(distinct.name, (*spec.keys, *distinct.values), flags, merge))
        self._parts = tuple(parts)
        for part in self._parts:
            table = spec.state.table(part.table)
            stored = sorted((*table.key_columns, *table.value_columns))
            if table.layout != "time" or stored != sorted([TIME, *part.names]):
                raise InternalError(
                    f"state {spec.state.state_id}: table {part.table} has not the columns of the operator"
                )

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came, and no window can end where the watermark moved, or there is no state for one."""
        if any(rows.num_rows for rows in inputs):
            return False
        before = closed_upto(watermarks.previous, self._spec.tick_us)
        close = closed_upto(watermarks.close, self._spec.tick_us)
        return stateless or close <= before or next_window_end(self._spec.window, before) > close

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Close, merge, close; raises InternalError for rows that should have been dropped as late."""
        marks, tick = context.watermarks, self._spec.tick_us
        before = closed_upto(marks.previous, tick)
        late = closed_upto(marks.late, tick)
        close = closed_upto(marks.close, tick)
        figures = _Figures()
        outputs = self._close(context, [part.empty() for part in self._parts], before, late, figures)
        dying = [
            self._merge_in(part, rows, context, late, close, figures)
            for part, rows in zip(self._parts, inputs, strict=True)
        ]
        outputs += self._close(context, dying, late, close, figures)
        output = pa.concat_tables(outputs) if outputs else empty(self._spec.output)
        metrics = {
            "emitted_rows": output.num_rows,
            "closed_windows": sum(len(ends) for ends in figures.ends),
            "state_rows_added": figures.added,
            "state_rows_removed": figures.removed,
            **figures.timer.figures("merge_us", "state_us", "close_us"),
        }
        if figures.ends:
            metrics["max_closed_end_us"] = max(int(ends.max()) for ends in figures.ends)
        return OperatorResult(output, metrics)

    def shown(self, context: OperatorContext) -> pa.Table:
        """What it would emit if the watermark closed all windows that are open; to be followed by no commit."""
        after = closed_upto(context.watermarks.close, self._spec.tick_us)
        none = [part.empty() for part in self._parts]
        outputs = self._close(context, none, after, WATERMARK_MAX, _Figures())
        return pa.concat_tables(outputs) if outputs else empty(self._spec.output)

    # ------------------------------------------------------------------------------------------------ merging

    def _merge_in(
        self, part: _Part, rows: pa.Table, context: OperatorContext, late: int, close: int, figures: _Figures
    ) -> pa.Table:
        """Merge an epoch's rows into the state; rows of slices that die at `close` are returned instead."""
        if not rows.num_rows:
            return part.empty()
        with figures.timer.phase("merge_us"):
            rows = rows.select(part.columns)
            ends = rows.column(SLICE_COLUMN).to_numpy()
            first, last = window_ends_of_slice(self._spec.window, ends)
            in_gap = first > last
            if in_gap.any():
                rows, last = rows.filter(pa.array(~in_gap)), last[~in_gap]
            if len(last) and late != WATERMARK_MIN and int(last.min()) <= late:
                raise InternalError(
                    f"state {self._spec.state.state_id}: rows of closed windows reached the operator"
                )
            merged = self._merged(context.duck, part, rows)
            if close == WATERMARK_MAX:
                dying, living = merged, merged.slice(0, 0)
            elif close > late:
                _, last = window_ends_of_slice(self._spec.window, merged.column(SLICE_COLUMN).to_numpy())
                dies = pa.array(last <= close)
                dying, living = merged.filter(dies), merged.filter(pc.invert(dies))
            else:
                dying, living = merged.slice(0, 0), merged
        if living.num_rows:
            self._put(part, living, context, figures)
        return dying

    def _put(self, part: _Part, rows: pa.Table, context: OperatorContext, figures: _Figures) -> None:
        with figures.timer.phase("state_us"):
            state = context.state
            ends = rows.column(SLICE_COLUMN).to_numpy()
            slices = np.unique(ends)
            present = slices[state.has_time(part.table, slices)]
            if len(present):
                known = np.isin(ends, present)
                candidates = rows if known.all() else rows.filter(pa.array(known))
                keys = [SLICE_COLUMN, *(column.name for column in part.group)]
                stored = state.get(part.table, _renamed(candidates.select(keys), SLICE_COLUMN, TIME))
                found = stored.column(FOUND)
                new = candidates.filter(found)
                if new.num_rows:
                    values = [column.name for column in part.values]
                    old = _joined(new.select(keys), stored.filter(found).select(values))
                    fresh = candidates.filter(pc.invert(found))
                    figures.added += fresh.num_rows
                    merged = self._merged(context.duck, part, pa.concat_tables([_as(old, new.schema), new]))
                    pieces = [_as(merged, new.schema), fresh]
                else:
                    figures.added += candidates.num_rows
                    pieces = [candidates]
                if candidates is not rows:
                    rest = rows.filter(pa.array(~known))
                    figures.added += rest.num_rows
                    pieces.append(rest)
                rows = pa.concat_tables(pieces)
            else:
                figures.added += rows.num_rows
            state.put(part.table, _renamed(rows, SLICE_COLUMN, TIME))

    def _merged(self, duck: DuckSession, part: _Part, rows: pa.Table) -> pa.Table:
        """One row for each (slice, group); DuckDB's one thread aggregates rows in their order."""
        duck.register(_INPUT, rows, part.schema)
        try:
            return duck.query(part.merge_sql(SLICE_COLUMN, _INPUT))
        finally:
            duck.drop(_INPUT)

    # ------------------------------------------------------------------------------------------------ closing

    def _close(
        self, context: OperatorContext, dying: list[pa.Table], after: int, upto: int, figures: _Figures
    ) -> list[pa.Table]:
        """Emit the windows that end in (after, upto] from state and `dying`; delete slices that are done."""
        window = self._spec.window
        if upto <= after or next_window_end(window, after) > upto:
            return []
        with figures.timer.phase("state_us"):
            shared = after if after == WATERMARK_MIN else max(after - window.size_us, WATERMARK_MIN)
            low = None if after == WATERMARK_MIN else (shared if window.shared_slices else after) + 1
            high = None if upto == WATERMARK_MAX else upto + 1
            dead = dead_slices_upto(window, upto)
            rows = []
            for part, extra in zip(self._parts, dying, strict=True):
                stored = _renamed(context.state.scan_time(part.table, low, high), TIME, SLICE_COLUMN)
                stored = stored.select(part.columns)
                self._delete(part, stored, context.state, dead, figures)
                rows.append((stored, extra))
        with figures.timer.phase("close_us"):
            return self._emit_chunks(context.duck, rows, after, upto, figures)

    @staticmethod
    def _delete(part: _Part, stored: pa.Table, state: StateStore, dead: int, figures: _Figures) -> None:
        ends = stored.column(SLICE_COLUMN).to_numpy()
        done = ends[ends <= dead]
        if len(done):
            figures.removed += len(done)
            state.delete_time(part.table, int(done.min()), min(dead, int(done.max())) + 1)

    def _emit_chunks(
        self,
        duck: DuckSession,
        rows: list[tuple[pa.Table, pa.Table]],
        after: int,
        upto: int,
        figures: _Figures,
    ) -> list[pa.Table]:
        """Emit the windows in (after, upto], so many at a time that memory stays bounded."""
        window = self._spec.window
        tables = []
        for stored, extra in rows:
            both = _as(stored, extra.schema) if not extra.num_rows else extra
            if stored.num_rows and extra.num_rows:
                both = pa.concat_tables([_as(stored, extra.schema), extra])
            unique = not (stored.num_rows and extra.num_rows)
            tables.append((both, both.column(SLICE_COLUMN).to_numpy(), unique))
        outputs = []
        for low, high in self._chunks([ends for _, ends, _ in tables], after, upto):
            expanded = []
            for table, ends, unique in tables:
                single = not window.shared_slices or window.slice_us == window.size_us == window.slide_us
                if single:
                    chosen = (ends > low) & (ends <= high)
                    piece = table if chosen.all() else table.filter(pa.array(chosen))
                    expanded.append((_renamed(piece, SLICE_COLUMN, _END), unique))
                else:
                    pairs = expand(window, ends, low, high)
                    piece = table.drop_columns([SLICE_COLUMN]).take(pa.array(pairs.row))
                    expanded.append((piece.add_column(0, _END, pa.array(pairs.end)), False))
            if expanded[0][0].num_rows:
                figures.ends.append(np.unique(expanded[0][0].column(_END).to_numpy()))
                outputs.append(self._emit(duck, expanded))
        return outputs

    def _chunks(self, slices: list[Int64s], after: int, upto: int) -> list[tuple[int, int]]:
        """Cuts (after, upto] into ranges of window ends that have few rows each."""
        ends = np.concatenate(slices)
        counts = count_windows(self._spec.window, ends, after, upto)
        if int(counts.sum()) <= self._max_expanded_rows:
            return [(after, upto)]
        distinct, rows = np.unique(ends, return_counts=True)
        pairs = expand(self._spec.window, distinct, after, upto)
        windows, index = np.unique(pairs.end, return_inverse=True)
        weights = np.bincount(index, weights=rows[pairs.row], minlength=len(windows))
        chunk = np.cumsum(weights) // self._max_expanded_rows
        cuts = windows[:-1][chunk[1:] != chunk[:-1]].tolist()
        return list(zip([after, *cuts], [*cuts, upto], strict=True))

    def _emit(self, duck: DuckSession, expanded: list[tuple[pa.Table, bool]]) -> pa.Table:
        """Merge the rows of each window and run the operator's `emit` over them."""
        names = [f"__part{number}" for number in range(len(self._parts))]
        try:
            for name, part, (table, _) in zip(names, self._parts, expanded, strict=True):
                duck.register(name, table, (Column(_END, BIGINT), *part.schema[1:]))
            duck.view("merged", self._merged_sql(names, [unique for _, unique in expanded]))
            return duck.query(self._spec.emit)
        finally:
            for name in ("merged", *names):
                duck.drop(name)

    def _merged_sql(self, relations: list[str], unique: list[bool]) -> str:
        """The relation `merged` that `emit` reads, over the rows by window end in `relations`."""
        spec = self._spec
        keys = [quote_identifier(column.name) for column in spec.keys]
        ctes = [
            f"m{number} AS ({f'SELECT * FROM {relation}' if one else part.merge_sql(_END, relation)})"
            for number, (part, relation, one) in enumerate(zip(self._parts, relations, unique, strict=True))
        ]
        columns = [f"make_timestamp({window_start_sql(spec.window, f'a.{_END}')}) AS window_start"]
        columns.append(f"make_timestamp(a.{_END}) AS window_end")
        columns += [f"a.{key}" for key in keys]
        columns += [f"a.{quote_identifier(column.name)}" for column in spec.accumulators]
        joins = []
        for number, aggregates in enumerate(spec.distinct_aggregates, start=1):
            if not aggregates:
                continue
            listed = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in aggregates)
            by = ", ".join([_END, *keys])
            ctes.append(
                f"d{number} AS (SELECT {by}, true AS __present, {listed} FROM m{number} GROUP BY {by})"
            )
            # What the aggregates give where a group has no row at all: 0 for a count, NULL for a sum.
            ctes.append(f"e{number} AS (SELECT {listed} FROM {relations[number]} WHERE false)")
            same = " AND ".join(f"a.{c} IS NOT DISTINCT FROM d{number}.{c}" for c in [_END, *keys])
            joins.append(f"LEFT JOIN d{number} ON {same} CROSS JOIN e{number}")
            columns += [
                f"CASE WHEN d{number}.__present THEN d{number}.{c} ELSE e{number}.{c} END AS {c}"
                for c in (quote_identifier(name) for name, _ in aggregates)
            ]
        return f"WITH {', '.join(ctes)} SELECT {', '.join(columns)} FROM m0 AS a {' '.join(joins)}"


def _renamed(table: pa.Table, old: str, new: str) -> pa.Table:
    return table.rename_columns([new if name == old else name for name in table.column_names])


def _joined(left: pa.Table, right: pa.Table) -> pa.Table:
    """The columns of two tables with the same number of rows."""
    return pa.Table.from_arrays(
        [*left.columns, *right.columns], names=[*left.column_names, *right.column_names]
    )


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table if table.schema.equals(schema) else table.cast(schema)
