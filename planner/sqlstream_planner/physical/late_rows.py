"""Rows that arrive after their window is closed: the step that takes them out, and the SQL of their dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlstream_operators.plan.spec import WEIGHT_COLUMN, LateStep
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import EventTime, raw, sql
from sqlstream_planner.physical.block import NUMBER_COLUMN, ROW_COLUMN, TIME_COLUMN, Block, weight
from sqlstream_planner.physical.by_stage import each, reads_of
from sqlstream_planner.windows import window_time as window_sql

#: Of a row that is late by its own time; no window is cut by it.
INSTANT = WindowSpec(WindowKind.TUMBLE, 1, 1, shared_slices=False)


@dataclass(frozen=True, slots=True)
class LateRows:
    """What decides which rows are too late for an operator.

    `rows` are the blocks of its input by their stages, with the source rows; `slice_column` (that slices are cut
    from, else with the end of the window) and `time_column` are columns of it. `lateness_us`: by how much a row
    may come later than the watermark of `time`. `kept` names what is left of the first relation of a stage; without
    it that is called after the relation. `instant`: a row is late by its own time, `slice_column`, as soon as the watermark
    has reached it.
    """

    operator: str
    window: WindowSpec
    slice_column: str
    time_column: str | None
    time: EventTime
    rows: Mapping[str, Sequence[Block]]
    lateness_us: int = 0
    kept: str | None = None
    instant: bool = False

    @property
    def _closes_us(self) -> int:
        return -self.time.delay_us if self.instant else self.time.closes_us

    def step(self, stage: str, relations: Sequence[str]) -> LateStep:
        """The step that takes the late rows out of the relations of a stage."""
        rows = self.rows[stage]
        return LateStep(
            name=self.kept or f"{relations[0]}.kept",
            input=relations[0],
            also=tuple(relations[1:]),
            window=self.window,
            tick_us=self._closes_us,
            watermark_sources=self.time.sources,
            operator=self.operator,
            table=next((r for r in rows[0].reads if r in self.time.sources), ", ".join(self.time.sources)),
            late_sql=each(self._letters)(rows),
            inputs=reads_of(rows),
            lateness_us=self.lateness_us,
            instant=self.instant,
        )

    def _letters(self, block: Block) -> str:
        """Each source row with the closed windows that it misses; also rows without an event time, for no window.

        Windows are counted and not listed: a row may be in many. `windows` is how many there are from the first to
        the last that it misses.
        """
        if ROW_COLUMN not in block.columns:
            raise InternalError("a late row can't be traced to its source row")
        slice_column = block.columns[self.slice_column]
        # A projection may have left it out; nothing but the end of the window is a column then.
        own = block.columns.get(self.time_column or TIME_COLUMN, slice_column)
        time = sql(own)
        us = f"epoch_us({sql(slice_column)})"
        first = last = us
        if self.window.shared_slices:
            first, last = window_sql.first_end(self.window, us), window_sql.last_end(self.window, us)
            gap = window_sql.in_some_window(self.window, us)
            if gap is not None:
                block = replace(block, where=(*block.where, raw(f"coalesce({gap}, TRUE)")))
        inner = block.select(
            [
                (first, "__first"),
                (last, "__last"),
                (f"CAST({time} AS TIMESTAMP)", "event_time"),
                (_change(block), "row"),
                (sql(block.columns[NUMBER_COLUMN]), "__number"),
            ]
        ).replace("\n", "\n    ")
        tick_us, slide_us = self._closes_us - self.lateness_us, self.window.slide_us
        closed = (
            f'CASE WHEN "__last" - {tick_us} <= $late_watermark THEN "__last" '
            f'ELSE "__first" + ($late_watermark - "__first" + {tick_us}) // {slide_us} * {slide_us} END'
        )
        missed = (
            f'SELECT "__first", {closed} AS "__closed", "event_time", "row", "__number"\n'
            f"  FROM (\n    {inner}\n  ) AS t\n"
            f'  WHERE "__first" IS NULL OR "__first" - {tick_us} <= $late_watermark'
        )
        if block.multiplied:
            missed = (
                'SELECT min("__first") AS "__first", max("__closed") AS "__closed", '
                'min("event_time") AS "event_time", any_value("row") AS "row"\n'
                f'  FROM (\n  {missed}\n  ) AS u\n  GROUP BY "__number"\n  ORDER BY "__number"'
            )
        start = window_sql.start_of(self.window, '"__first"')
        return (
            f'SELECT make_timestamp({start}) AS window_start, make_timestamp("__closed") AS window_end, '
            f'("__closed" - "__first") // {slide_us} + 1 AS windows, "event_time", "row"\n'
            f"FROM (\n  {missed}\n) AS v"
        )


def _change(block: Block) -> str:
    """A row as JSON; one that goes as `{"-D": the row}`, or it would look like one that was lost."""
    row = sql(block.columns[ROW_COLUMN])
    if WEIGHT_COLUMN not in block.columns:
        return row
    return f"CASE WHEN {sql(weight(block))} < 0 THEN '{{\"-D\":' || {row} || '}}' ELSE {row} END"
