"""Over by event time, or in windows: each row is emitted once, when the watermark has passed it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlstream_operators.plan.over_spec import (
    COPY,
    COUNT,
    END,
    LEAVING,
    ROW,
    ROWS,
    SORT,
    TOTALS,
    WAITING,
    Kept,
    OverOnCloseSpec,
)
from sqlstream_operators.plan.schema import SLICE_COLUMN, Column
from sqlstream_operators.plan.top_n_spec import Ordering
from sqlstream_operators.plan.types import BIGINT, BLOB
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_planner.identity.form import Data, Form, form
from sqlstream_planner.identity.parts import Columns, order_forms
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import EventTime, Field, Fields, column, sql
from sqlstream_planner.logical.text import duration
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.by_stage import by_stage, each, result_of
from sqlstream_planner.physical.late_rows import LateRows
from sqlstream_planner.physical.operators.explained import order_text
from sqlstream_planner.physical.operators.over_rows import columns_of_rows, stored_fields
from sqlstream_planner.physical.operators.planned_operator import CLOSES, Explained
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.physical.state_node import StateNode, clause_of
from sqlstream_planner.streaming import Over
from sqlstream_planner.windows import window_time as window_sql
from sqlstream_planner.windows.over_calls import planned_call
from sqlstream_planner.windows.over_totals import carried_call, kept_of


def plan_over_on_close(planner: Planner, node: Over, time: EventTime) -> Block:
    """The stage where rows wait until the watermark has passed them."""
    by_id = {f.id: f for f in node.input.fields}
    closing = by_id[node.closing or ""]
    rows = _Rows(
        node,
        tuple(by_id[id_] for id_ in node.ties),
        closing,
        time,
        planner.meanings.relation(node.meaning.inputs[0]),
        planner.meanings.columns(node.meaning),
    )
    spec = rows.spec()
    spec = replace(spec, state=planner.states.add(spec.state, planner.ttls(node)))
    planner.state_nodes[spec.state.state_id] = StateNode(
        node, planner.meanings, {id_: column(id_) for id_ in node.partition}, at=clause_of(node.meaning)
    )
    name = planner.stages.name(spec.kind)
    blocks = planner.blocks(node.input, timeless=time.direct)
    draft = planner.stages.behind(name, blocks)
    schema = (Column(SLICE_COLUMN, BIGINT), *spec.columns)
    shipment = Shipment(f"{name}.in", each(rows.sql), schema)
    keys = tuple(f.name for f in spec.state.tables[0].key)
    late = rows.late(planner, name) if time.direct else None
    draft.run(name, spec, planner.stages.ship(blocks, [shipment], keys, late))
    return result_of(name, node, weighted=False)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that an OVER gives once: `fields` of each. `closing` is the end of their window, or their own time."""

    node: Over
    fields: Fields
    closing: Field
    time: EventTime
    rows: Form
    meanings: Columns

    def spec(self) -> OverOnCloseSpec:
        """The operator."""
        node = self.node
        columns = columns_of_rows(self.fields)
        found = {call.field.id: None if self._in_windows else carried_call(call) for call in node.calls}
        single = tuple(call for call in node.calls if found[call.field.id] is None)
        carried = tuple(c for c in found.values() if c is not None)
        kept = Kept() if self._in_windows else kept_of(single)
        spec_calls = tuple(planned_call(call, ordered=bool(node.order)) for call in single)
        given = {made.name: made for made in (*(c.column for c in spec_calls), *(c.column for c in carried))}
        functions = ", ".join(call.name for call in node.calls)
        shown = ", ".join(f.name for f in self._partition)
        described = f"rows of {functions} OVER{f' by {shown}' if shown else ''}"
        spec = OverOnCloseSpec(
            self._identity(Kept(), ()).schema(OverOnCloseSpec.kind, described),
            columns,
            tuple(f.id for f in self._partition),
            tuple(Ordering(t.column, t.descending, t.nulls_first) for t in node.order),
            spec_calls,
            carried,
            kept,
            (*columns, *(given[call.field.id] for call in node.calls)),
            self.time.sources,
            self.time.closes_us,
            self.time.tick_us,
        )
        parts = tuple(
            Stored(part.column.name, part.column.type, form("so far", self.meanings[c.column.name], n))
            for c in carried
            for n, part in enumerate(c.parts)
            if part.merge is not None
        )
        return replace(spec, state=self._identity(kept, parts).schema(OverOnCloseSpec.kind, described))

    def sql(self, block: Block) -> str:
        """The rows of a block, with when the time of each is over."""
        us = f"epoch_us({sql(block.columns[self.closing.id])})"
        end = us if self._in_windows else window_sql.slice_end(self._tick, us)
        items = [(end, SLICE_COLUMN), *((sql(block.columns[f.id]), f.id) for f in self.fields)]
        return block.select(items)

    def late(self, planner: Planner, name: str) -> LateRows | None:
        """The rows that the watermark has passed when they come."""
        node = self.node
        if self._in_windows:
            return planner.late_rows(name, node.input, self.closing, self.time)
        rows = by_stage(planner.blocks(node.input, rows=True, timeless=True))
        return LateRows(name, self._tick, self.closing.id, self.closing.id, self.time, rows)

    @property
    def _in_windows(self) -> bool:
        return self.closing.id in self.node.partition

    @property
    def _tick(self) -> WindowSpec:
        """The least window that a time may be in: within it the watermark distinguishes no rows."""
        return WindowSpec(WindowKind.TUMBLE, self.time.tick_us, self.time.tick_us)

    @property
    def _partition(self) -> Fields:
        by_id = {f.id: f for f in self.fields}
        return tuple(by_id[id_] for id_ in self.node.partition)

    def _identity(self, kept: Kept, parts: tuple[Stored, ...]) -> StateIdentity:
        node = self.node
        key = stored_fields(self._partition, self.meanings)
        value = stored_fields(tuple(f for f in self.fields if f.id not in node.partition), self.meanings)
        row = Stored(ROW, BLOB, form("row"), rank="1 ")
        count = Stored(COUNT, BIGINT, form("how often"), rank="0 ")
        tables = [StoredTable(WAITING, "time", key, (row,), (count, *value))]
        if kept.any:
            sort = Stored(SORT, BLOB, form("order", *order_forms(node.order, self.meanings)), rank="0 ")
            copy = Stored(COPY, BIGINT, form("copy"), rank="2 ")
            end = Stored(END, BIGINT, form("end"), rank="0 ")
            tables.append(StoredTable(ROWS, "key", key, (sort, row, copy), (end, *value)))
        if kept.time_us is not None:
            tables.append(StoredTable(LEAVING, "time", key))
        if parts:
            tables.append(StoredTable(TOTALS, "key", key, (), parts))
        attributes: dict[str, Data] = {
            "closed by": self.meanings[self.closing.id],
            "order": order_forms(node.order, self.meanings),
            "payload": tuple(self.meanings[f.id] for f in self.fields),
            "kept": form("kept", kept.places, kept.time_us, "all" if kept.everything else None),
        }
        keys = tuple(s.meaning for s in key)
        return StateIdentity("rows of over, once", self.rows, keys, attributes, tuple(tables))


def explain_over_on_close(name: str, spec: OverOnCloseSpec) -> list[str]:
    """The lines of the operator's step."""
    kept = spec.kept
    stays = [
        *(["every row"] if kept.everything else []),
        *([f"the last {kept.places} rows of each partition"] if kept.places else []),
        *([f"the rows of the last {duration(kept.time_us)}"] if kept.time_us is not None else []),
        *(["totals of each partition"] if spec.carried else []),
    ]
    return [
        f"  {name} = over, given once when the watermark has passed a row, state {spec.state.state_id}, "
        f"{' and '.join(stays) or 'nothing'} is kept behind it",
        f"    partition {', '.join(spec.partition) or 'none'}",
        f"    order {order_text(spec.order) or 'none'}",
        *(f"    {call.column.name} = {call.sql}" for call in spec.calls),
        *(
            f"    {call.column.name} = {call.final}, from {', '.join(part.sql for part in call.parts)}"
            for call in spec.carried
        ),
    ]


def _bounds(spec: OverOnCloseSpec) -> str:
    if all(table.layout == "time" for table in spec.state.tables):
        return CLOSES
    return "rows that wait go when the watermark has passed them; the operator says what it keeps behind that"


EXPLAINED = Explained(explain_over_on_close, _bounds)
