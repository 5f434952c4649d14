"""The spec of a join of two relations, and what joins of all kinds say of their sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.operator_spec import NO_TIMES, Forgets, NoWatermark, OperatorFacts, as_they_are
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema

JOINS = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True, slots=True)
class JoinSideSpec:
    """One side of a join: the columns that it has, and whether its rows are updating.

    `keys` are, in the order of the join's keys, the columns that a key is as it stands; '' where the key is computed.
    `distinct`: no row is there twice (a key of the rows is known, and nothing is forgotten), so that a row that arrives was
    not there. `counted`: a row is its keys and nothing else, so that those of a key come as one, with how many they are.
    Input: the keys, those of `columns` that no key is, and WEIGHT_COLUMN if `retracting` or `counted`.
    """

    columns: Schema
    keys: tuple[str, ...]
    retracting: bool
    distinct: bool = False
    counted: bool = False

    def __post_init__(self) -> None:
        if self.counted and self.stored:
            raise ValueError("rows that have columns beside their keys are not counted by them")

    @property
    def stored(self) -> Schema:
        """The columns that stand beside the keys in the input and in the state."""
        return tuple(column for column in self.columns if column.name not in self.keys)


def gives_alone(type_: str, side: str) -> bool:
    """Whether a join of a type gives rows of a side ('left' or 'right') that have no partner.

    >>> [gives_alone("anti", side) for side in ("left", "right")]
    [True, False]
    """
    return type_ in (side, "full") or (side == "left" and type_ == "anti")


def check_sides(type_: str, keys: Schema, left: JoinSideSpec, right: JoinSideSpec) -> None:
    """Raises ValueError where the sides of a join don't fit together."""
    if type_ not in JOINS:
        raise ValueError(f"a join is one of {JOINS}, not {type_!r}")
    for side in (left, right):
        if len(side.keys) != len(keys):
            raise ValueError("each side says of every key which column it is")
    names = [column.name for side in (left, right) for column in side.columns]
    if len(set(names)) != len(names):
        raise ValueError(f"two columns of a join have one name in {names}")


@dataclass(frozen=True, slots=True)
class JoinSpec(NoWatermark, Forgets):
    """Pairs of rows of two relations whose keys are equal and for which a condition holds, kept up to date.

    Two inputs, `left` and `right`; the columns `keys` are called the same in both, all others have names of their own. A
    key that is NULL equals no other. `condition` is a DuckDB predicate over the columns of both sides (None: none more).
    `type`: an outer join ('left', 'right', 'full') gives a row of a preserved side, and has no partner, beside
    NULLs; 'semi' and 'anti' give the rows of the left that have a partner, or none.

    State: tables `left` and `right`, layout 'key': key = `keys`, sub-key = a BLOB (a digest of the row, or,
    where `only_come` says so, a name that no other row has), value = a BIGINT (how often it is there) and `stored` of
    the side. A count that would fall below 0 (a row retracted before its insertion) is kept, and counts as 0. Rows with
    a NULL among their keys are kept of a preserved side ('anti': of the left), so that the result is in the state.

    Output: the columns of the left, and of the right but for 'semi' and 'anti'; with WEIGHT_COLUMN where rows are
    updating. No two changes of it cancel out, but equal rows of an append-only side are not one there either.
    """

    kind: ClassVar[str] = "join"

    state: StateSchema
    type: str
    keys: Schema
    left: JoinSideSpec
    right: JoinSideSpec
    condition: str | None
    output: Schema
    ttl_us: int | None = None

    def __post_init__(self) -> None:
        check_sides(self.type, self.keys, self.left, self.right)

    @property
    def columns(self) -> Schema:
        """The columns of both sides."""
        return (*self.left.columns, *self.right.columns)

    @property
    def emits_changes(self) -> bool:
        """Whether a row that was given can be retracted."""
        return self.type not in ("inner", "semi") or self.left.retracting or self.right.retracting

    def only_come(self, side: str) -> bool:
        """Whether rows of a side ('left' or 'right') are never retracted, so that none is looked for again.

        Of a key that only decides which rows of the left have a partner, once is enough: it is looked up.
        """
        rows = self.left if side == "left" else self.right
        tells = side == "right" and self.type in ("semi", "anti") and rows.counted
        return not rows.retracting and not tells

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
