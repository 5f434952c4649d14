"""Its spec: `operators/sqlstream_operators/plan/every_nth_spec.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.operator_spec import NO_TIMES, Forgets, NoWatermark, OperatorFacts, as_they_are
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema

TABLE = "counts"
ROWS = "rows"


@dataclass(frozen=True, slots=True)
class EveryNthSpec(NoWatermark, Forgets):
    """Of the rows of each key every `every`-th, with its number as the column `number`.

    Input: `columns`. State: table `counts`, layout 'key': key = `keys`, value `rows`, how many came. Output: append-only.
    """

    kind: ClassVar[str] = "every_nth"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    keys: tuple[str, ...]
    every: int
    number: str
    columns: Schema
    output: Schema
    ttl_us: int | None = None

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=None,
            columns=None,
            unchanged=as_they_are(self.columns),
            times=NO_TIMES,
            waiting=None,
            seed=None,
            late_rows_of=None,
        )
