"""The spec of the operator that holds rows of windows back until they close."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.operator_spec import (
    WINDOW_END,
    ByWatermark,
    KeepsForGood,
    OperatorFacts,
    View,
    Waiting,
    as_they_are,
    times_of,
)
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema


@dataclass(frozen=True, slots=True)
class SuppressUntilCloseSpec(ByWatermark, KeepsForGood):
    """Holds a window's rows back until the watermark closes it; changes of windows that are closed pass.

    What Kafka Streams calls `suppress(untilWindowCloses)`, but late corrections still pass.

    Input: `columns` and, if `weighted`, WEIGHT_COLUMN; consolidated, and at any time one row for each of
    `keys` (columns, `end` among them: the TIMESTAMP of the window's end). State: table `held`, layout
    'time' (the window's end, µs): key = `keys`, value = the other columns. A window with end E is closed
    at watermark W iff E - tick <= W. Output: `output`, the same columns, with WEIGHT_COLUMN if
    rows can be retracted (`emits_changes`); they can't if the result is `final`: no change of a closed window
    comes. Ends are at `offset_us` (mod `slice_us`).
    """

    kind: ClassVar[str] = "suppress_until_close"

    state: StateSchema
    keys: tuple[str, ...]
    end: str
    columns: Schema
    weighted: bool
    output: Schema
    watermark_sources: tuple[str, ...]
    tick_us: int
    slice_us: int
    offset_us: int = 0
    final: bool = False

    def __post_init__(self) -> None:
        if self.end not in self.keys:
            raise ValueError(f"the window's end {self.end!r} is among the keys")

    @property
    def emits_changes(self) -> bool:
        """Whether a row that was given can be retracted."""
        return self.weighted and not self.final

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=View(self.state.tables[0].name),
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=times_of(self.state, WINDOW_END),
            waiting=self._waiting,
            seed=None,
            late_rows_of=None,
        )

    @property
    def _waiting(self) -> Waiting:
        return Waiting(
            tables=(self.state.tables[0].name,),
            what="window",
            slice_us=self.slice_us,
            offset_us=self.offset_us,
            tick_us=self.tick_us,
            end=self.end,
        )
