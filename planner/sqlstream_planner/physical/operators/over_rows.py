"""What operators over whole rows have in common: Top-N, normalised changelogs, first rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlstream_operators.plan.schema import KIND_COLUMN, SLICE_COLUMN, WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.spec import OperatorSpec
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.parts import Columns
from sqlstream_planner.identity.state import Stored
from sqlstream_planner.logical import Fields, Node, sql
from sqlstream_planner.physical.block import Block, weight
from sqlstream_planner.physical.by_stage import each, result_of
from sqlstream_planner.physical.late_rows import LateRows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.physical.top_filter import Keep


@dataclass(frozen=True, slots=True)
class RowsInput:
    """What an operator is shipped: `schema`, made of `columns` (ids) of its input.

    `keep` leaves out rows that can't matter; `window_end` is the column with the end of the window of a row.
    """

    schema: Schema
    columns: tuple[str, ...]
    keep: Keep | None = None
    window_end: str | None = None

    def sql(self, block: Block) -> str:
        """The rows of a block as the operator takes them."""
        items = [(sql(block.columns[id_]), id_) for id_ in self.columns]
        for c in self.schema:
            if c.name == WEIGHT_COLUMN:
                items.append((f"CAST({sql(weight(block))} AS BIGINT)", WEIGHT_COLUMN))
            elif c.name == KIND_COLUMN:
                # Append-only rows: each takes the place of the one before.
                kind = sql(block.columns[KIND_COLUMN]) if KIND_COLUMN in block.columns else "'+U'"
                items.append((kind, KIND_COLUMN))
        if self.window_end is not None:
            items.append((f"epoch_us({sql(block.columns[self.window_end])})", SLICE_COLUMN))
        text = block.select(items)
        return text if self.keep is None else self.keep.sql(text)


def columns_of_rows(fields: Fields) -> Schema:
    """The columns of an operator that keeps these fields under their ids."""
    return tuple(Column(f.id, f.type, f.nullable) for f in fields)


def stored_fields(fields: Fields, meanings: Columns) -> tuple[Stored, ...]:
    """The fields in a state, under their ids."""
    return tuple(Stored(f.id, f.type, meanings[f.id]) for f in fields)


def run_over_rows(
    planner: Planner,
    node: Node,
    spec: OperatorSpec,
    rows: RowsInput,
    blocks: list[Block],
    *,
    weighted: bool,
    name: str,
    late: LateRows | None = None,
) -> Block:
    """The stage of an operator that is shipped rows by the key of its state.

    Raises InternalError if rows of closed windows could reach it, or if what it retracts would be read as rows.
    """
    for end in (f for f in node.inputs[0].fields if f.id == rows.window_end):
        if end.window is None:
            raise InternalError(f"{name}: {end.id} is no end of a window")
        if end.window.time.direct and late is None:
            raise InternalError(
                f"{name} is shipped windows, and no `late` (planner.late_rows) keeps closed ones out"
            )
    if planner.changes(node) and not (weighted and spec.emits_changes):
        raise InternalError(
            f"{name} is planned with rows that stay, and its node says that they are updating: `weighted` of the plan, "
            "`emits_changes` of the spec"
        )
    draft = planner.stage_of(node, name, blocks)
    keys = tuple(f.name for f in spec.state.tables[0].key)
    shipment = Shipment(f"{name}.in", each(rows.sql), rows.schema)
    draft.run(name, spec, planner.stages.ship(blocks, [shipment], keys, late))
    return replace(result_of(name, node, weighted=weighted), stage=draft.id)
