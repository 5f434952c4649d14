"""Over: functions of each row over the rows of its partition, kept up to date."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_operators.plan.over_spec import (
    COPY,
    ROW,
    ROWS,
    SORT,
    OverOnCloseSpec,
    OverSpec,
)
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column
from sqlstream_operators.plan.top_n_spec import Ordering
from sqlstream_operators.plan.types import BIGINT, BLOB
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data, Form, form
from sqlstream_planner.identity.parts import Columns, order_forms
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import Fields, Node, column
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.operators.explained import order_text
from sqlstream_planner.physical.operators.over_on_close import EXPLAINED as ON_CLOSE
from sqlstream_planner.physical.operators.over_on_close import plan_over_on_close
from sqlstream_planner.physical.operators.over_rows import (
    RowsInput,
    columns_of_rows,
    run_over_rows,
    stored_fields,
)
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator, grows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.state_node import StateNode, clause_of
from sqlstream_planner.streaming import Over
from sqlstream_planner.windows.over_calls import planned_call


def plan_over(planner: Planner, node: Node) -> Block:
    """The stage that keeps the rows of each partition, and what the functions give for them."""
    if not isinstance(node, Over):
        raise InternalError(f"a {type(node).__name__} is no OVER")
    if node.time is not None:
        return plan_over_on_close(planner, node, node.time)
    by_id = {f.id: f for f in node.input.fields}
    rows = _Rows(
        node,
        tuple(by_id[id_] for id_ in node.ties),
        planner.meanings.relation(node.meaning.inputs[0]),
        planner.meanings.columns(node.meaning),
        planner.changes(node.input),
    )
    spec = planner.states.keep(rows.spec(), node.ttl_us, planner.ttls(node))
    planner.state_nodes[spec.state.state_id] = StateNode(
        node,
        planner.meanings,
        {id_: column(id_) for id_ in node.partition},
        {ROWS: {f.id: column(f.id) for f in rows.fields}},
        at=clause_of(node.meaning),
    )
    weight = (Column(WEIGHT_COLUMN, BIGINT, False),) if rows.retracting else ()
    shipped = RowsInput((*spec.columns, *weight), tuple(f.id for f in rows.fields))
    name = planner.stages.name(spec.kind)
    return run_over_rows(planner, node, spec, shipped, planner.blocks(node.input), weighted=True, name=name)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that an OVER keeps: `fields` of each. `rows` is what the relation means, `meanings` what its columns do."""

    node: Over
    fields: Fields
    rows: Form
    meanings: Columns
    retracting: bool

    def spec(self) -> OverSpec:
        """The operator."""
        node = self.node
        columns = columns_of_rows(self.fields)
        calls = tuple(planned_call(call, ordered=bool(node.order)) for call in node.calls)
        shown = ", ".join(f.name for f in self._partition)
        functions = ", ".join(call.name for call in node.calls)
        described = f"rows of {functions} OVER{f' by {shown}' if shown else ''}"
        return OverSpec(
            self._identity().schema(OverSpec.kind, described),
            columns,
            tuple(f.id for f in self._partition),
            tuple(Ordering(t.column, t.descending, t.nulls_first) for t in node.order),
            calls,
            (*columns, *(call.column for call in calls)),
            self.retracting,
        )

    def _identity(self) -> StateIdentity:
        node = self.node
        attributes: dict[str, Data] = {
            "order": order_forms(node.order, self.meanings),
            "payload": tuple(self.meanings[f.id] for f in self.fields),
            "rows can go": self.retracting,
            "time to live": node.ttl_us,
        }
        key = stored_fields(self._partition, self.meanings)
        return StateIdentity(
            "rows of over", self.rows, tuple(s.meaning for s in key), attributes, (self._table(key),)
        )

    def _table(self, key: tuple[Stored, ...]) -> StoredTable:
        node = self.node
        sub_key = (
            Stored(SORT, BLOB, form("order", *order_forms(node.order, self.meanings)), rank="0 "),
            Stored(ROW, BLOB, form("row"), rank="1 "),
            Stored(COPY, BIGINT, form("copy"), rank="2 "),
        )
        kept = stored_fields(tuple(f for f in self.fields if f.id not in node.partition), self.meanings)
        given = stored_fields(tuple(call.field for call in node.calls), self.meanings)
        return StoredTable(ROWS, "key", key, sub_key, (*kept, *given))

    @property
    def _partition(self) -> Fields:
        by_id = {f.id: f for f in self.fields}
        return tuple(by_id[id_] for id_ in self.node.partition)


def explain_over(name: str, spec: OverSpec) -> list[str]:
    """The lines of the operator's step."""
    read = "the whole partition of a row that changes is read"
    if spec.reach is not None:
        read = f"of a row that changes {spec.reach.before} before and {spec.reach.after} behind it are computed anew"
    return [
        f"  {name} = over, kept up to date, state {spec.state.state_id}, every row is kept, {read}",
        f"    partition {', '.join(spec.partition) or 'none'}",
        f"    order {order_text(spec.order) or 'none'}",
        *(f"    {call.column.name} = {call.sql}" for call in spec.calls),
    ]


OPERATOR = PlannedOperator(
    Over, plan_over, {OverSpec: Explained(explain_over, grows), OverOnCloseSpec: ON_CLOSE}
)
