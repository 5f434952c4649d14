"""The spec of the operator that makes a changelog with a primary key consistent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.operator_spec import (
    NO_TIMES,
    Forgets,
    NoWatermark,
    OperatorFacts,
    View,
    as_they_are,
)
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema


@dataclass(frozen=True, slots=True)
class ChangelogNormalizeSpec(NoWatermark, Forgets):
    """Makes a changelog with a primary key consistent: every key has one row or none, whatever the source
    says.

    Input, in arrival order: `columns` and KIND_COLUMN ('+I', '-U', '+U', '-D'). The last change of a key
    decides: after '+I' or '+U' its row is this one, after '-D' or '-U' it has none. Of a 'before' image
    only the key is trusted: a '-U' whose '+U' has another key takes the old key's row away; before a '+U'
    of its key it says nothing. State: table `row`, layout 'key': key = `keys`, value = the other columns.
    Output: `columns` and WEIGHT_COLUMN. Metrics: `unknown_deletes` (a '-D' of a key without a row) and
    `duplicate_inserts` (a '+I' of a key that has one).
    """

    kind: ClassVar[str] = "changelog_normalize"
    emits_changes: ClassVar[bool] = True

    state: StateSchema
    keys: tuple[str, ...]
    columns: Schema
    output: Schema
    ttl_us: int | None = None

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=True,
            view=View(self.state.tables[0].name),
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=NO_TIMES,
            waiting=None,
            seed=None,
            late_rows_of=None,
        )
