"""Rows that arrive after the session that each alone would be is closed: only the operator can say if they are late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.session_spec import LATE_COLUMNS
from sqlstream_operators.plan.spec import SLICE_COLUMN, LateStep
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import sql
from sqlstream_planner.physical.block import ROW_COLUMN, Block
from sqlstream_planner.physical.by_stage import each, reads_of
from sqlstream_planner.streaming import SessionAggregate, SessionWindows


@dataclass(frozen=True, slots=True)
class LateSessionRows:
    """What decides which rows of a SESSION may be late; see `LateRows`.

    `columns` are those of the rows, `tick_us` says when a session is closed, lateness included.
    """

    operator: str
    node: SessionWindows | SessionAggregate
    columns: Schema
    tick_us: int
    rows: Mapping[str, Sequence[Block]]

    @property
    def undecided(self) -> tuple[str, Schema]:
        """The edge for what may be late, and its columns."""
        return f"{self.operator}.undecided", (*self.columns, Column(SLICE_COLUMN, BIGINT), *LATE_COLUMNS)

    def step(self, stage: str, relations: Sequence[str]) -> LateStep:
        """The step that takes the rows that may be late out of a relation of a stage."""
        rows = self.rows[stage]
        return LateStep(
            name=f"{relations[0]}.kept",
            input=relations[0],
            also=(),
            window=self.node.window,
            tick_us=self.tick_us,
            watermark_sources=self.node.time.sources,
            operator=self.operator,
            table=table_of(rows, self.node),
            late_sql=each(self._found)(rows),
            inputs=reads_of(rows),
            undecided=self.undecided[1],
        )

    def _found(self, block: Block) -> str:
        """Each source row whose own session is closed, or that has no event time, with the columns of its dead letter."""
        if ROW_COLUMN not in block.columns:
            raise InternalError("a late row can't be traced to its source row")
        time = sql(block.columns[self.node.time_column])
        end = quote_identifier(SLICE_COLUMN)
        inner = block.select(
            [
                *rows_of_session(block, self.node, self.columns),
                (f"CAST({time} AS TIMESTAMP)", "event_time"),
                (sql(block.columns[ROW_COLUMN]), "row"),
            ]
        ).replace("\n", "\n  ")
        return (
            f"SELECT *, make_timestamp({end} - {self.node.window.size_us}) AS window_start, "
            f"make_timestamp({end}) AS window_end, 1 AS windows\n"
            f"FROM (\n  {inner}\n) AS t\n"
            f"WHERE {end} IS NULL OR {end} - {self.tick_us} <= $late_watermark"
        )


def rows_of_session(
    block: Block, node: SessionWindows | SessionAggregate, columns: Schema
) -> list[tuple[str, str]]:
    """The items of a block as the operator takes them: its columns, and the end of the session of each row alone."""
    time = sql(block.columns[node.time_column])
    items = [(sql(block.columns[c.name]), c.name) for c in columns]
    return [*items, (f"epoch_us({time}) + {node.window.size_us}", SLICE_COLUMN)]


def table_of(rows: Sequence[Block], node: SessionWindows | SessionAggregate) -> str:
    """The table that late rows are reported for."""
    sources = node.time.sources
    return next((r for r in rows[0].reads if r in sources), ", ".join(sources))
