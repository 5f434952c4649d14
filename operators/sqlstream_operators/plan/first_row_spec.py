"""The spec of the operator that lets the first row of each key pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.operator_spec import NO_TIMES, Forgets, NoWatermark, OperatorFacts, as_they_are
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema


@dataclass(frozen=True, slots=True)
class FirstRowSpec(NoWatermark, Forgets):
    """The first row of each key that comes, of append-only rows; the others are dropped.

    Flink's Deduplicate with keep=FirstRow, by arrival; what ON CONFLICT DO NOTHING writes.

    Input, in arrival order: `columns`. State: table `row`, layout 'key': key = `keys`, no value. Output:
    `columns`, append-only. Metric: `dropped_rows`.
    """

    kind: ClassVar[str] = "first_row"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    keys: tuple[str, ...]
    columns: Schema
    output: Schema
    ttl_us: int | None = None

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=None,
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=NO_TIMES,
            waiting=None,
            seed=None,
            late_rows_of=None,
        )
