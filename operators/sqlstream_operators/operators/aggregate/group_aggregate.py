"""The group aggregate: a row for each group, kept up to date; what changes of it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.keys import key_groups, shard_of
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import (
    concatenated,
    consolidated_sql,
    empty,
    names_of,
    quoted,
    with_weight,
)
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import GROUP, Groups, as_stored
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.operators.window.closing import taken_upto
from sqlstream_operators.operators.window.windows import Int64s, closed_upto
from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import FOUND, TIME, StateTable
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.state.store import StateStore

from .multisets import Multiset, ValuesRead

_ACC = "acc"
_INPUT = "__partials"
_GROUP = Column(GROUP, BIGINT)

Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Figures:
    added: int = 0
    removed: int = 0
    last_closed: int | None = None
    timer: PhaseTimer = field(default_factory=PhaseTimer)


@dataclass(frozen=True, slots=True)
class _Version:
    """The groups before or after the epoch: accumulators in the order of the groups, and who exists."""

    accumulators: pa.Table  # GROUP and the accumulators
    exists: Mask
    values: tuple[ValuesRead, ...] = ()

    @property
    def occupied(self) -> Mask:
        """Which groups have any value in a multiset, a negative count included."""
        occupied = np.zeros(len(self.exists), bool)
        for read in self.values:
            occupied |= read.occupied
        return occupied


class GroupAggregate:
    """Runs a `GroupAggregateSpec`: see there for its inputs, its state and its output.

    A group is known by its keys as state gives them back (`groups.as_stored`), so that what was emitted for it
    can be retracted whichever of several equal keys an epoch brings.
    """

    def __init__(self, spec: GroupAggregateSpec) -> None:
        self._spec = spec
        if spec.ttl_us is not None:
            raise InternalError(
                f"state {spec.state.state_id}: not this operator but TimeToLive forgets groups"
            )
        if spec.expiry is not None and spec.seed is not None:
            raise InternalError(f"state {spec.state.state_id}: seeded groups can't expire")
        acc = spec.state.table(_ACC)
        self._check(acc, (), names_of(spec.accumulators))
        types = {column.name: column.type for column in spec.keys}
        self._identity: Schema = tuple(Column(f.name, types[f.name]) for f in acc.key)
        if spec.expiry is not None:
            self._identity = (Column(TIME, BIGINT), *self._identity)
        self._multisets = tuple(Multiset(multiset, self._timed_keys) for multiset in spec.multisets)
        for multiset in spec.multisets:
            table = spec.state.table(multiset.name)
            self._check(table, names_of(multiset.values), ["count"])
            if [f.name for f in table.key] != [f.name for f in acc.key]:
                raise InternalError(
                    f"state {spec.state.state_id}: {multiset.name} is not keyed as the groups"
                )

    def _check(self, table: StateTable, sub_key: Sequence[str], values: Sequence[str]) -> None:
        expiry = self._spec.expiry
        key = {f.name for f in table.key} | ({expiry.column} if expiry is not None else set())
        if (
            table.layout != ("key" if expiry is None else "time")
            or key != set(names_of(self._spec.keys))
            or {f.name for f in table.sub_key} != set(sub_key)
            or set(table.value_columns) != set(values)
        ):
            raise InternalError(
                f"state {self._spec.state.state_id}: table {table.name} has not the columns of the operator"
            )

    @property
    def _timed_keys(self) -> Schema:
        """The keys, and the time of groups that expire."""
        return self._spec.keys if self._spec.expiry is None else (Column(TIME, BIGINT), *self._spec.keys)

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came, and no group can expire; groups that exist from the start came with the first epoch."""
        if any(rows.num_rows for rows in inputs):
            return False
        return stateless or not self._expires(watermarks)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Merge, emit, expire; raises InternalError for rows of groups that have expired."""
        figures = _Figures()
        if len(inputs) != 1 + len(self._multisets):
            raise InternalError(f"state {self._spec.state.state_id}: {len(inputs)} inputs")
        with figures.timer.phase("merge_us"):
            seeds = self._seeds(context)
            groups, partials, changes = self._touched(inputs, seeds, context)
        if len(groups):
            seeded = _seeded(groups, seeds)
            output = self._update(groups, partials, changes, seeded, context, figures)
        else:
            output = empty(with_weight(self._spec.output))
        with figures.timer.phase("state_us"):
            self._expire(context, figures)
        metrics = {
            "emitted_rows": output.num_rows,
            "state_rows_added": figures.added,
            "state_rows_removed": figures.removed,
            **figures.timer.figures("merge_us", "state_us", "emit_us"),
        }
        if figures.last_closed is not None:
            metrics["max_closed_end_us"] = figures.last_closed
        return OperatorResult(output, metrics)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`; raises InternalError for groups that expire, which are not in the state any more."""
        if self._spec.expiry is not None:
            raise InternalError(f"state {self._spec.state.state_id}: expired groups are not kept")
        return self.shown(context)

    def shown(self, context: OperatorContext) -> pa.Table:
        """What was emitted of the groups that are in the state; of those that expire that is not all there ever was."""
        state = context.state
        rows = state.scan_all(_ACC)
        groups = Groups(self._identity, names_of(self._timed_keys), rows)
        return self._given(context.duck, state, groups, rows, _seeded(groups, self._seeds(context)))

    def answer_of(self, duck: DuckSession, state: StateStore, keys: pa.Table) -> pa.Table:
        """See `AnswersByKey.answer_of`; groups that exist even without rows are known once they have a row of state."""
        order, names = state.sorted_keys(_ACC, keys)
        first = np.array([a != b for a, b in pairwise([b"", *names])], bool)
        stored = state.get_sorted(_ACC, list(compress(names, first.tolist())))
        found = stored.column(FOUND)
        rows = as_stored(keys.take(pa.array(order[first])).filter(found), self._spec.keys)
        groups = Groups(self._identity, names_of(self._timed_keys), rows)
        return self._given(duck, state, groups, stored.filter(found), np.zeros(len(groups), bool))

    def _given(
        self, duck: DuckSession, state: StateStore, groups: Groups, rows: pa.Table, seeded: Mask
    ) -> pa.Table:
        """What was emitted of groups, whose accumulators are `rows`."""
        accumulators = _numbered(rows, np.arange(len(groups)), self._spec.accumulators)
        values = tuple(multiset.read(state, groups) for multiset in self._multisets)
        none = _Version(accumulators, np.zeros(len(groups), bool), values)
        there = _Version(accumulators, self._present(accumulators) | seeded, values)
        return self._emit(duck, groups, none, there)

    # ---------------------------------------------------------------------------------------- this epoch's groups

    def _touched(
        self, inputs: Sequence[pa.Table], seeds: pa.Table, context: OperatorContext
    ) -> tuple[Groups, pa.Table, list[pa.Table]]:
        """The groups that this epoch touches, their partials (one per group), and the changes of the multisets."""
        spec, duck = self._spec, context.duck
        schema: Schema = (*spec.keys, *spec.accumulators)
        if seeds.num_rows:
            seeds = seeds.filter(pc.invert(context.state.get(_ACC, seeds).column(FOUND)))
        rows = concatenated([seeds, conformed(inputs[0], schema, f"input of {spec.state.state_id}")])
        merged = self._by_keys(duck, rows, schema)
        keys = self._timed(merged, context.watermarks)
        groups = Groups(self._identity, names_of(self._timed_keys), keys)
        changes = []
        for multiset, given in zip(self._multisets, inputs[1:], strict=True):
            changed = multiset.changes(duck, self._timed(given, context.watermarks))
            groups.add(changed)
            changes.append(changed)
        partials = _numbered(merged, np.arange(merged.num_rows), spec.accumulators)
        if len(groups) > merged.num_rows:
            rest = np.arange(merged.num_rows, len(groups))
            unknown = {
                c.name: pa.nulls(len(rest), partials.schema.field(c.name).type) for c in spec.accumulators
            }
            partials = pa.concat_tables([partials, pa.table({GROUP: pa.array(rest), **unknown})])
        return groups, partials, changes

    def _by_keys(self, duck: DuckSession, rows: pa.Table, schema: Schema) -> pa.Table:
        """One row for each group; DuckDB's one thread aggregates rows in their order."""
        if not rows.num_rows:
            return empty(schema)
        keys = quoted(self._spec.keys)
        listed = ", ".join([*keys, *self._merges(), f"count(*) AS {GROUP}"])
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        source = duck.source(_INPUT, rows, schema)
        try:
            merged = duck.query(f"SELECT {listed} FROM {source}{by}")
        finally:
            duck.drop(_INPUT)
        # The count keeps the number of rows where there is no other column.
        merged = conformed(merged, (*schema, _GROUP), f"merged rows of {self._spec.state.state_id}")
        return as_stored(merged, self._spec.keys)

    def _merges(self) -> list[str]:
        return [
            f"CAST({merge} AS {column.type}) AS {quote_identifier(column.name)}"
            for column, merge in zip(self._spec.accumulators, self._spec.merge, strict=True)
        ]

    def _seeds(self, context: OperatorContext) -> pa.Table:
        """The groups of this shard that exist even without rows."""
        schema: Schema = (*self._spec.keys, *self._spec.accumulators)
        if self._spec.seed is None:
            return empty(schema)
        rows = conformed(context.duck.query(self._spec.seed), schema, f"seed of {self._spec.state.state_id}")
        columns = [rows.column(f.name) for f in self._spec.state.table(_ACC).key]
        numbers = key_groups(columns, context.max_parallelism, rows=rows.num_rows)
        own = shard_of(numbers, context.shards, context.max_parallelism) == context.shard
        return rows.filter(pa.array(own))

    # ------------------------------------------------------------------------------------------- before and after

    def _update(
        self,
        groups: Groups,
        partials: pa.Table,
        changes: list[pa.Table],
        seeded: Mask,
        context: OperatorContext,
        figures: _Figures,
    ) -> pa.Table:
        spec, state = self._spec, context.state
        with figures.timer.phase("state_us"):
            # The groups' keys are encoded once, for what is read here and what is written below.
            order, state_keys = state.sorted_keys(_ACC, groups.keys)
            stored = state.get_sorted(_ACC, state_keys).take(pa.array(np.argsort(order)))
            found = stored.column(FOUND).to_numpy()
            before_values = tuple(multiset.read(state, groups) for multiset in self._multisets)
            for multiset, rows in zip(self._multisets, changes, strict=True):
                added, removed = multiset.write(state, rows)
                figures.added += added
                figures.removed += removed
            after_values = tuple(
                self._read_again(context, multiset, groups, before, rows)
                for multiset, before, rows in zip(self._multisets, before_values, changes, strict=True)
            )
        with figures.timer.phase("merge_us"):
            old = _numbered(stored, np.arange(len(groups)), spec.accumulators)
            new = self._merged(context.duck, old.filter(pa.array(found)), partials)
            before = _Version(old, found & (self._present(old) | seeded), before_values)
            after = _Version(new, self._present(new) | seeded, after_values)
        with figures.timer.phase("state_us"):
            kept = self._kept(after) | seeded
            rows = _beside(groups.keys, new.drop_columns([GROUP]))
            put, gone = kept[order], (found & ~kept)[order]
            state.put_sorted(_ACC, list(compress(state_keys, put.tolist())), rows.take(pa.array(order[put])))
            state.delete_sorted(_ACC, list(compress(state_keys, gone.tolist())))
            figures.added += int((kept & ~found).sum())
            figures.removed += int((found & ~kept).sum())
        with figures.timer.phase("emit_us"):
            return self._emit(context.duck, groups, before, after)

    @staticmethod
    def _read_again(
        context: OperatorContext,
        multiset: Multiset,
        groups: Groups,
        before: ValuesRead,
        changes: pa.Table,
    ) -> ValuesRead:
        """The values after the changes: those of groups without any are as they were."""
        if not changes.num_rows:
            return before
        chosen = np.unique(groups.numbers(changes))
        return multiset.updated(before, multiset.read(context.state, groups, chosen), chosen)

    def _merged(self, duck: DuckSession, old: pa.Table, partials: pa.Table) -> pa.Table:
        """The accumulators of each group after the epoch, in the order of the groups."""
        if not old.num_rows or not self._spec.accumulators:
            return partials
        schema: Schema = (_GROUP, *self._spec.accumulators)
        source = duck.source(_INPUT, pa.concat_tables([old, partials]), schema)
        try:
            listed = ", ".join([GROUP, *self._merges()])
            merged = duck.query(f"SELECT {listed} FROM {source} GROUP BY {GROUP} ORDER BY {GROUP}")
        finally:
            duck.drop(_INPUT)
        return conformed(merged, schema, f"merged rows of {self._spec.state.state_id}")

    def _present(self, accumulators: pa.Table) -> Mask:
        """Which groups have rows, by their accumulators."""
        if self._spec.presence is None:
            return np.ones(accumulators.num_rows, bool)
        present: Mask = self._rows_of(accumulators) > 0
        return present

    def _rows_of(self, accumulators: pa.Table) -> Int64s:
        rows: Int64s = pc.fill_null(accumulators.column(self._spec.presence), 0).to_numpy()
        return rows

    def _kept(self, after: _Version) -> Mask:
        """Which groups have state: those with rows, rows that are owed, or values in a multiset.

        Rows that came and others that are owed can be as many: the sums over them say that there are some.
        """
        if self._spec.presence is None:
            return np.ones(after.accumulators.num_rows, bool)
        kept: Mask = (self._rows_of(after.accumulators) != 0) | after.occupied
        rest = np.flatnonzero(~kept)
        if len(rest):
            rows = after.accumulators.take(pa.array(rest))
            for column in self._spec.accumulators:
                sums = rows.column(column.name)
                some = pc.fill_null(pc.not_equal(sums, pa.scalar(0, sums.type)), False)
                kept[rest] |= some.to_numpy()
        return kept

    # ----------------------------------------------------------------------------------------------------- output

    def _emit(self, duck: DuckSession, groups: Groups, before: _Version, after: _Version) -> pa.Table:
        """What `emit` gives for the groups that exist after, less what it gives for those that existed before."""
        made: list[str] = []
        sides = []
        try:
            for side, weight, version in (("__before", -1, before), ("__after", 1, after)):
                if version.exists.any():
                    merged = self._register(duck, side, groups, version, made)
                    # A name of a WITH is seen by all that is inside, so `emit` finds its relation here.
                    emitted = f"WITH merged AS ({merged}) SELECT * FROM ({self._spec.emit}\n)"
                    columns = ", ".join(quoted(self._spec.output))
                    sides.append(f"SELECT {columns}, {weight} AS {WEIGHT_COLUMN} FROM ({emitted})")
            if not sides:
                return empty(with_weight(self._spec.output))
            output = duck.query(consolidated_sql(" UNION ALL ".join(sides), self._spec.output))
        finally:
            for name in made:
                duck.drop(name)
        return conformed(output, with_weight(self._spec.output), f"output of {self._spec.state.state_id}")

    def _register(
        self, duck: DuckSession, side: str, groups: Groups, version: _Version, made: list[str]
    ) -> str:
        """The relation `merged` that `emit` reads, over relations that are added to `made`."""
        spec = self._spec
        schema: Schema = (_GROUP, *spec.keys, *spec.accumulators)
        rows = _beside(groups.keys.select(names_of(spec.keys)), version.accumulators)
        made.append(side)
        source = duck.source(side, rows.select(names_of(schema)).filter(pa.array(version.exists)), schema)
        columns = [f"m.{name}" for name in quoted((*spec.keys, *spec.accumulators))]
        joins = []
        for number, (multiset, read) in enumerate(zip(self._multisets, version.values, strict=True)):
            relation = f"{side}_values{number}"
            made.append(relation)
            duck.register(relation, read.rows, multiset.columns)
            joins.append(f" LEFT JOIN ({multiset.aggregates_sql(relation)}) AS c{number} USING ({GROUP})")
            columns += [f"c{number}.{name}" for name in quoted(multiset.spec.columns)]
        return f"SELECT {', '.join(columns) or f'm.{GROUP}'} FROM {source} AS m{''.join(joins)}"

    # ----------------------------------------------------------------------------------------------------- expiry

    def _timed(self, rows: pa.Table, watermarks: Watermarks) -> pa.Table:
        """`rows` with TIME, if groups expire; raises InternalError where a row's group has expired."""
        expiry = self._spec.expiry
        if expiry is None:
            return rows
        [time_key] = [column for column in self._spec.keys if column.name == expiry.column]
        times = (
            conformed(rows, (time_key,), f"keys of {self._spec.state.state_id}").column(0).cast(pa.int64())
        )
        if times.null_count:
            raise InternalError(f"state {self._spec.state.state_id}: {expiry.column} is NULL")
        expired = self._expired_upto(watermarks.late)
        if rows.num_rows and expired is not None and pc.min(times).as_py() <= expired:
            raise InternalError(f"state {self._spec.state.state_id}: rows of expired groups arrived")
        return rows.append_column(TIME, times)

    def _expired_upto(self, watermark: int) -> int | None:
        """The greatest time (µs) of groups that have expired at `watermark`; None: none has."""
        assert self._spec.expiry is not None
        upto = closed_upto(watermark, self._spec.expiry.tick_us)
        if upto in (WATERMARK_MIN, WATERMARK_MAX):
            return None if upto == WATERMARK_MIN else WATERMARK_MAX
        return upto - self._spec.expiry.lateness_us

    def _expires(self, watermarks: Watermarks) -> bool:
        return self._spec.expiry is not None and watermarks.close > watermarks.previous

    def _expire(self, context: OperatorContext, figures: _Figures) -> None:
        if not self._expires(context.watermarks):
            return
        upto = self._expired_upto(context.watermarks.close)
        if upto is None:
            return
        assert self._spec.expiry is not None
        for table in self._spec.state.tables:
            expired = taken_upto(context.state, table.name, upto)
            if expired.num_rows:
                figures.removed += expired.num_rows
                last = pc.max(expired.column(TIME)).as_py() + self._spec.expiry.lateness_us
                figures.last_closed = max(last, figures.last_closed or last)


def _seeded(groups: Groups, seeds: pa.Table) -> Mask:
    """Which groups exist even without rows."""
    seeded = np.zeros(len(groups), bool)
    if seeds.num_rows:
        numbers = groups.numbers(seeds)
        seeded[numbers[numbers >= 0]] = True
    return seeded


def _numbered(rows: pa.Table, numbers: Int64s, schema: Schema) -> pa.Table:
    """GROUP and the columns of `schema`."""
    numbered = _beside(pa.table({GROUP: pa.array(numbers)}), rows.select(names_of(schema)))
    return conformed(numbered, (_GROUP, *schema), "groups")


def _beside(left: pa.Table, right: pa.Table) -> pa.Table:
    """The columns of two tables with the same number of rows."""
    columns = [*left.columns, *right.columns]
    return pa.Table.from_arrays(columns, names=[*left.column_names, *right.column_names])
