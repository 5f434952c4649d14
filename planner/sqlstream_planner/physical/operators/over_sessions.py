"""What the operators of SESSION have in common: what they are shipped, and which of it may be late."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_operators.plan.schema import SLICE_COLUMN, Column, Schema
from sqlstream_operators.plan.session_spec import SessionAggregateSpec, SessionWindowsSpec
from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.by_stage import by_stage, each, result_of
from sqlstream_planner.physical.late_sessions import LateSessionRows, rows_of_session, table_of
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.streaming import SessionAggregate, SessionWindows


@dataclass(frozen=True, slots=True)
class SessionInput:
    """The rows of an operator of sessions: `blocks` with `columns`, and what decides which `late` ones it looks at.

    `tick_us`: a session with end E is closed at watermark W if E - tick <= W.
    """

    name: str
    node: SessionWindows | SessionAggregate
    columns: Schema
    blocks: list[Block]
    late: LateSessionRows | None
    tick_us: int

    @classmethod
    def of(
        cls, planner: Planner, name: str, node: SessionWindows | SessionAggregate, columns: Schema
    ) -> SessionInput:
        """The input of the operator that is called `name`."""
        tick_us = node.time.closes_us - node.lateness_us
        # Rows without a time are taken out with those that may be late.
        blocks = planner.blocks(node.input, timeless=node.direct)
        late = None
        if node.direct:
            whole = by_stage(planner.blocks(node.input, rows=True, timeless=True))
            late = LateSessionRows(name, node, columns, tick_us, whole)
        return cls(name, node, columns, blocks, late, tick_us)

    @property
    def table(self) -> str:
        """The table that late rows are reported for, '' where none is late."""
        return table_of(next(iter(self.late.rows.values())), self.node) if self.late is not None else ""

    def run(self, planner: Planner, spec: SessionWindowsSpec | SessionAggregateSpec) -> Block:
        """The stage of the operator."""
        draft = planner.stages.behind(self.name, self.blocks)
        shipment = Shipment(
            f"{self.name}.in",
            each(lambda block: block.select(rows_of_session(block, self.node, self.columns))),
            (*self.columns, Column(SLICE_COLUMN, BIGINT)),
        )
        draft.run(self.name, spec, planner.stages.ship(self.blocks, [shipment], spec.partition, self.late))
        return result_of(self.name, self.node, weighted=spec.emits_changes)
