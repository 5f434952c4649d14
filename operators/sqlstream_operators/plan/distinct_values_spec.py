"""The spec of the operator that counts the distinct values of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.operator_spec import NO_TIMES, Forgets, NoWatermark, OperatorFacts
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema


@dataclass(frozen=True, slots=True)
class DistinctValuesSpec(NoWatermark, Forgets):
    """Counts how often each value is in each group, and emits partial aggregates over the values that came or
    went.

    Serves all DISTINCT aggregates of a group aggregate over the same values; sharded by keys *and*
    values, so that one large group is shared out. Input: `keys`, `values`, and for each of `flags` a
    BIGINT: how many rows with this value came (less those that went) that pass this aggregate's FILTER.
    State: table `seen`, layout 'key': key = keys and values, value = the flags. With `retracting` False the
    input is append-only: a flag is kept as 0 or 1, and a value that was seen with all its flags is not
    written again.

    `emit` is DuckDB SQL over relation `changed` (keys, values, and for each flag BOOLEAN columns
    `<flag>.before` and `<flag>.after`; at least one pair differs) that gives `output`: the keys and
    accumulators of the group aggregate, NULL for those that are not about these values. Rows for one
    group may be several; the operator emits them as they are, without a weight.
    """

    kind: ClassVar[str] = "distinct_values"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    keys: Schema
    values: Schema
    flags: tuple[str, ...]
    retracting: bool
    emit: str
    output: Schema
    ttl_us: int | None = None

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=None,
            columns=None,
            unchanged={},
            times=NO_TIMES,
            waiting=None,
            seed=None,
            late_rows_of=None,
        )
