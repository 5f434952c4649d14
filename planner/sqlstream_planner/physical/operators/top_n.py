"""TopN: the first rows of each partition; of one row over append-only rows, a deduplication."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlstream_operators.plan.schema import SLICE_COLUMN, WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.spec import OperatorSpec
from sqlstream_operators.plan.top_n_spec import DeduplicateSpec, Ordering, TopNSpec, WindowTopNSpec
from sqlstream_operators.plan.types import BIGINT, BLOB
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data, Form, form
from sqlstream_planner.identity.parts import Columns, order_forms
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import Fields, Node, column
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.operators.explained import order_text
from sqlstream_planner.physical.operators.over_rows import (
    RowsInput,
    columns_of_rows,
    run_over_rows,
    stored_fields,
)
from sqlstream_planner.physical.operators.planned_operator import (
    BY_LIMIT,
    Explained,
    PlannedOperator,
    closes,
    grows,
)
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.state_node import StateNode, clause_of
from sqlstream_planner.physical.top_filter import Keep
from sqlstream_planner.streaming import TopN

#: Up to so many rows of a key are one value of the state.
SHORT_LIST = 100


def plan_top_n(planner: Planner, node: Node) -> Block:
    """The stage that keeps the first rows of each partition, or all rows where they are updating."""
    if not isinstance(node, TopN):
        raise InternalError(f"a {type(node).__name__} is no Top-N")
    by_id = {f.id: f for f in node.input.fields}
    top = _Top(
        node,
        tuple(by_id[id_] for id_ in node.ties),
        planner.meanings.relation(node.meaning.inputs[0]),
        planner.meanings.columns(node.input),
        planner.changes(node.input),
    )
    spec, rows = top.planned()
    if isinstance(spec, WindowTopNSpec):
        kept: OperatorSpec = replace(spec, state=planner.states.add(spec.state, planner.ttls(node)))
    else:
        kept = planner.states.keep(spec, node.ttl_us, planner.ttls(node))
    planner.state_nodes[kept.state.state_id] = StateNode(
        node,
        planner.meanings,
        {id_: column(id_) for id_ in node.partition},
        {table.name: {f.id: column(f.id) for f in top.fields} for table in kept.state.tables[:1]},
        at=clause_of(node.meaning),
    )
    name = planner.stages.name(kept.kind)
    late, timeless = None, False
    if node.window_end is not None and node.time is not None:
        timeless = node.time.direct
        late = planner.late_rows(name, node.input, by_id[node.window_end], node.time)
    blocks = planner.blocks(node.input, timeless=timeless)
    return run_over_rows(
        planner, node, kept, rows, blocks, weighted=planner.changes(node), name=name, late=late
    )


@dataclass(frozen=True, slots=True)
class _Top:
    """A Top-N with what its plans need: `fields` are kept of each row and rank rows that are equal in its order.

    `rows` is what the ranked relation means, `meanings` what its columns do; `retracting`: its rows are updating.
    """

    node: TopN
    fields: Fields
    rows: Form
    meanings: Columns
    retracting: bool

    def planned(self) -> tuple[TopNSpec | DeduplicateSpec | WindowTopNSpec, RowsInput]:
        """The operator, and what it is shipped."""
        node = self.node
        if node.window_end is not None:
            return self._of_windows()
        if node.gives_first and not self.retracting:
            return self._deduplicated()
        if node.function == "row_number" and self._last <= SHORT_LIST and not self.retracting:
            # What can be wanted of a key is little, and is read and written together.
            table = StoredTable("rows", "list", self._key, value=self._value)
            return self._top(table), RowsInput(self._columns, self._ids, self._keep(self._last))
        spec = self._top(self._sorted_table("key"))
        if self.retracting:
            return spec, RowsInput((*self._columns, Column(WEIGHT_COLUMN, BIGINT, False)), self._ids)
        keep = self._keep(self._last) if node.function == "row_number" else None
        return spec, RowsInput(self._columns, self._ids, keep)

    def _deduplicated(self) -> tuple[DeduplicateSpec, RowsInput]:
        table = StoredTable("row", "key", self._key, value=self._value)
        identity = self._identity("deduplicate", table)
        shown = ", ".join(f.name for f in self._partition)
        spec = DeduplicateSpec(
            identity.schema(DeduplicateSpec.kind, f"first row by {shown}"),
            self._columns,
            tuple(s.name for s in self._key),
            self._order,
            self._output,
        )
        return spec, RowsInput(self._columns, self._ids, self._keep(1))

    def _of_windows(self) -> tuple[WindowTopNSpec, RowsInput]:
        node = self.node
        if node.time is None or self.retracting:
            raise InternalError("a window's Top-N needs a watermark and rows that stay")
        identity = self._identity("window top n", self._sorted_table("time"))
        spec = WindowTopNSpec(
            identity.schema(WindowTopNSpec.kind, self._described),
            *self._ranked,
            self._output,
            node.time.sources,
            node.time.closes_us,
        )
        columns = (Column(SLICE_COLUMN, BIGINT), *self._columns)
        return spec, RowsInput(columns, self._ids, window_end=node.window_end)

    def _top(self, table: StoredTable) -> TopNSpec:
        state = self._identity("top n", table).schema(TopNSpec.kind, self._described)
        return TopNSpec(state, *self._ranked, self._output, self.retracting)

    def _identity(self, layout: str, table: StoredTable) -> StateIdentity:
        node = self.node
        attributes: dict[str, Data] = {
            "layout": layout,
            "function": node.function,
            "limit": node.limit,
            "offset": node.offset,
            "order": order_forms(node.order, self.meanings),
            "payload": tuple(self.meanings[f.id] for f in self.fields),
            "rows can go": self.retracting,
            "window": self.meanings[node.window_end] if node.window_end is not None else None,
            "time to live": node.ttl_us,
        }
        keys = tuple(s.meaning for s in self._key)
        return StateIdentity("ranked rows", self.rows, keys, attributes, (table,))

    def _sorted_table(self, layout: str) -> StoredTable:
        """Rows of a partition in the order of their ranks."""
        sub_key = (
            Stored("sort", BLOB, form("order", *order_forms(self.node.order, self.meanings)), rank="0 "),
            Stored("row", BLOB, form("row"), rank="1 "),
        )
        count = Stored("count", BIGINT, form("how often"), rank="0 ")
        return StoredTable(
            "rows", "time" if layout == "time" else "key", self._key, sub_key, (count, *self._value)
        )

    @property
    def _last(self) -> int:
        return self.node.offset + self.node.limit

    @property
    def _partition(self) -> Fields:
        by_id = {f.id: f for f in self.fields}
        return tuple(by_id[id_] for id_ in self.node.partition)

    @property
    def _key(self) -> tuple[Stored, ...]:
        return stored_fields(self._partition, self.meanings)

    @property
    def _value(self) -> tuple[Stored, ...]:
        chosen = set(self.node.partition)
        return stored_fields(tuple(f for f in self.fields if f.id not in chosen), self.meanings)

    @property
    def _ids(self) -> tuple[str, ...]:
        return tuple(f.id for f in self.fields)

    @property
    def _columns(self) -> Schema:
        return columns_of_rows(self.fields)

    @property
    def _order(self) -> tuple[Ordering, ...]:
        return tuple(Ordering(t.column, t.descending, t.nulls_first) for t in self.node.order)

    @property
    def _output(self) -> Schema:
        rank = self.node.rank
        return (*self._columns, *((Column(rank.id, BIGINT, False),) if rank is not None else ()))

    @property
    def _ranked(self) -> tuple[Schema, tuple[str, ...], tuple[Ordering, ...], str, int, int, str | None]:
        node = self.node
        rank = node.rank.id if node.rank is not None else None
        partition = tuple(s.name for s in self._key)
        return self._columns, partition, self._order, node.function, node.limit, node.offset, rank

    @property
    def _described(self) -> str:
        shown = ", ".join(f.name for f in self._partition)
        return f"first {self._last}{f' by {shown}' if shown else ''}"

    def _keep(self, limit: int) -> Keep:
        return Keep(self.node.partition, tuple(self.node.order), self.fields, limit)


def explain_top_n(name: str, spec: TopNSpec | WindowTopNSpec) -> list[str]:
    """The lines of the operator's step."""
    kept = "every row is kept" if isinstance(spec, TopNSpec) and spec.retracting else "the best are kept"
    when = "when a window closes" if isinstance(spec, WindowTopNSpec) else "kept up to date"
    return [
        f"  {name} = {spec.function} {spec.offset + 1} to {spec.offset + spec.limit}, {when}, "
        f"state {spec.state.state_id}, {kept}",
        f"    partition {', '.join(spec.partition) or 'none'}",
        f"    order {order_text(spec.order) or 'by all columns'}",
    ]


def explain_deduplicate(name: str, spec: DeduplicateSpec) -> list[str]:
    """The lines of the operator's step."""
    return [
        f"  {name} = first row of each key, state {spec.state.state_id}",
        f"    partition {', '.join(spec.partition)}",
        f"    order {order_text(spec.order)}",
    ]


def _bounds(spec: TopNSpec) -> str:
    [rows, *_] = spec.state.tables
    if rows.key:
        return grows(spec)
    return BY_LIMIT if rows.layout == "list" else f"{BY_LIMIT} where rows are only appended"


OPERATOR = PlannedOperator(
    TopN,
    plan_top_n,
    {
        TopNSpec: Explained(explain_top_n, _bounds),
        WindowTopNSpec: Explained(explain_top_n, closes),
        DeduplicateSpec: Explained(explain_deduplicate, grows),
    },
)
