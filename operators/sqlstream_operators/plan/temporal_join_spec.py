"""The spec of a join with the versions of a table: each row beside the version that is valid at its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.join_spec import JoinSideSpec, check_sides
from sqlstream_operators.plan.operator_spec import (
    WINDOW_END,
    ByWatermark,
    KeepsForGood,
    OperatorFacts,
    Waiting,
    as_they_are,
    times_of,
)
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema

TEMPORAL_JOINS = ("inner", "left")


@dataclass(frozen=True, slots=True)
class TemporalJoinSpec(ByWatermark, KeepsForGood):
    """Each row of the left with the row of the right with equal keys that is the newest at its time.

    Flink's event-time temporal join, and ASOF JOIN. Two append-only inputs: SLICE_COLUMN BIGINT (the row's time, µs), `keys`
    and the `stored` columns of the side. A row of the right is a version: it is valid from its time on (`strict`: from just
    after it), until the next of its key. Of versions with one key and time the first by `ties` (columns of the right,
    ascending, NULLs first) counts, or the last that came (None). `gone` is a BOOLEAN column of the right: where it is true,
    the key has no row from then on. `condition` is a DuckDB predicate over the columns of both sides that a pair must pass;
    'left' gives a row without a version, or whose pair does not pass, beside NULLs.

    A row is emitted once, when the watermark less `delay_us` (by which rows come later than their time) reaches its time.

    State: table `waiting`, layout 'time' (the row's): key = `keys`, sub-key = a BLOB (a digest of the row), value = a
    BIGINT (how often it came) and `stored` of the left; rows of the left that the watermark has not reached. Table
    `versions`, layout 'key': key = `keys`, sub-key = a BIGINT (the version's time, µs), value = `stored` of the right; of
    each key the newest that the watermark has reached, unless it is gone, and all later ones. Table `unreached`, layout
    'time' (the version's): key = `keys`, no value: the versions that the watermark has not reached.

    `forward`: a row goes with the oldest version of its time or later (`strict`: later), and is emitted when the watermark
    reaches that; of 'left' without any at the end of the input. Then `waiting` has layout 'key' and as sub-key a BIGINT (the
    row's time, µs) before the digest, `versions` layout 'time' and no sub-key, and there is no `unreached`.

    Output: the columns of the left, then those of the right; append-only.
    """

    kind: ClassVar[str] = "temporal_join"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    type: str
    keys: Schema
    left: JoinSideSpec
    right: JoinSideSpec
    strict: bool
    ties: tuple[str, ...] | None
    gone: str | None
    condition: str | None
    output: Schema
    watermark_sources: tuple[str, ...]
    delay_us: int = 0
    forward: bool = False

    def __post_init__(self) -> None:
        if self.type not in TEMPORAL_JOINS:
            raise ValueError(f"a temporal join is one of {TEMPORAL_JOINS}, not {self.type!r}")
        if self.left.retracting or self.right.retracting:
            raise ValueError("the rows of a temporal join stay")
        check_sides(self.type, self.keys, self.left, self.right)
        if self.forward and self.gone is not None:
            raise ValueError("a version that ends another is of none to come")
        theirs = {column.name for column in self.right.columns}
        if not theirs.issuperset(self.ties or ()) or not theirs.issuperset([self.gone] if self.gone else []):
            raise ValueError("the right has not the columns that decide between versions")

    @property
    def columns(self) -> Schema:
        """The columns of both sides."""
        return (*self.left.columns, *self.right.columns)

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=None,
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=times_of(self.state, WINDOW_END),
            waiting=Waiting(
                tables=("waiting",),
                what="row",
                slice_us=1,
                offset_us=0,
                tick_us=1,
                done=() if self.forward else ((None, self.delay_us),),
            ),
            seed=None,
            late_rows_of=None,
        )
