"""Specs of arrangements, and of the joins that read them. Importable without Arrow.

An arrangement keeps the rows of one relation by one key, once for all joins that need them so (shared arrangements:
McSherry, Lattuada, Schwarzkopf and Roscoe, VLDB 2020). The joins keep nothing themselves. Where an operator keeps what it
gives by the join's keys, one row per key at most, that is an arrangement of its result already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .join_spec import JoinSideSpec
from .operator_spec import NO_TIMES, KeepsForGood, NoWatermark, OperatorFacts, ReadingSpec, as_they_are
from .schema import Column, Schema
from .state_schema import StateSchema
from .types import BIGINT, BLOB

WAS, IS, ROW = "__was", "__is", "__row"
"""The columns of rows with how often each was there before the epoch and is behind it (at least 0), and with its digest."""

#: The table of an arrangement's state.
ROWS = "rows"


@dataclass(frozen=True, slots=True)
class ArrangeSpec(NoWatermark, KeepsForGood):
    """Keeps the rows of a relation by `keys`, and says what an epoch changes of them.

    Input: as that of a side of a `JoinSpec`. `whole`: rows with a NULL among their keys are kept too. State: table `rows`,
    as `left` and `right` there; append-only rows have names there that no other row has.

    Output: each distinct row that changes, once (of append-only rows each one): the keys, the columns, ROW, WAS and IS.
    These are no changes for anything but the joins that read the arrangement.
    """

    kind: ClassVar[str] = "arrange"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    keys: Schema
    rows: JoinSideSpec
    whole: bool

    def __post_init__(self) -> None:
        if not self.keys or len(self.rows.keys) != len(self.keys):
            raise ValueError("an arrangement says of each of its keys which column it is")

    @property
    def columns(self) -> Schema:
        """The columns of the rows."""
        return self.rows.columns

    @property
    def output(self) -> Schema:
        """What is given of a row that changes."""
        return (*self.keys, *self.rows.columns, Column(ROW, BLOB), Column(WAS, BIGINT), Column(IS, BIGINT))

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=True,
            view=None,
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=NO_TIMES,
            waiting=None,
            seed=None,
            late_rows_of=None,
        )


#: What an operator gives, for the SQL of `AnswerRows`.
ANSWER = "__answer"


@dataclass(frozen=True, slots=True)
class AnswerRows:
    """The rows of a side that are made of what an operator gives, row by row.

    `sql`: DuckDB SQL over the relation ANSWER (the operator's output and WEIGHT_COLUMN) that gives the join's keys, the
    `stored` columns of the side, and WEIGHT_COLUMN if rows are updating. `by`: for each of the join's keys the
    operator's own.
    """

    sql: str
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArrangedSide:
    """One side of a join as it reads the arrangement `state_id`: its `columns`, and what each is called there (`stored`).

    `retracting`: its rows are updating. `answer`: it is no arrangement but another operator's state, whose result the
    rows are made of.
    """

    state_id: str
    columns: Schema
    stored: tuple[str, ...]
    retracting: bool
    answer: AnswerRows | None = None

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.stored):
            raise ValueError("each column of a side is one of its arrangement")


@dataclass(frozen=True, slots=True)
class ArrangedJoinSpec(ReadingSpec):
    """Combinations of a row of each side whose `keys` are equal and for which `condition` holds, kept up to date.

    Two sides of any type of `JoinSpec`, or more, of type 'inner': then what changes on one side meets the rows of all
    others, and no combination of some of them is kept. No two columns of the sides have one name. `given` are, for each
    column of `output`, the column that it is. `merges`: equal rows of `output` may come of different ones.
    """

    kind: ClassVar[str] = "arranged_join"

    type: str
    keys: Schema
    sides: tuple[ArrangedSide, ...]
    condition: str | None
    output: Schema
    given: tuple[str, ...]
    merges: bool

    def __post_init__(self) -> None:
        if len(self.sides) < 2 or (len(self.sides) > 2 and self.type != "inner"):
            raise ValueError(f"no {self.type} join of {len(self.sides)} arrangements")
        names = [column.name for side in self.sides for column in side.columns]
        if len(set(names)) != len(names) or not set(self.given) <= set(names):
            raise ValueError(f"columns {self.given} of sides with {names}")

    @property
    def emits_changes(self) -> bool:
        """Whether a row that was given can be retracted."""
        return self.type not in ("inner", "semi") or any(side.retracting for side in self.sides)

    @property
    def reads(self) -> tuple[str, ...]:
        """The states of its sides."""
        return tuple(side.state_id for side in self.sides)
