"""What a stateful operator of the streaming plan says about itself; the operators are in `streaming/`, one per file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from sqlstream_planner.logical.columns import Fields
from sqlstream_planner.logical.expressions import columns_of
from sqlstream_planner.logical.node import Node
from sqlstream_planner.logical.parts import AggregateCall

#: Ids of columns that together are unique.
Key: TypeAlias = tuple[str, ...]
#: The facts of an analysis about other nodes: whether their rows are updating, their unique keys, constants, timed columns.
Updating: TypeAlias = Callable[[Node], bool]
Keys: TypeAlias = Callable[[Node], Sequence[Key]]
Constant: TypeAlias = Callable[[Node], frozenset[str]]
Timed: TypeAlias = Callable[[Node], frozenset[str] | None]

#: Why the rows of a window change, for people.
EARLY = "a window's result is given early, or corrected by late rows"


class Given(Enum):
    """When an operator gives a row."""

    AT_ONCE = "at once"
    """When what it is made of comes; it may need to be corrected."""
    WHEN_FINAL = "when final"
    """When the watermark says that nothing corrects it any more."""
    ON_CLOSE = "on close"
    """With all others of its window, when that closes: a later window is computed whole, whatever came before."""


class Corrected(Enum):
    """How long an operator's rows are corrected."""

    WITH_INPUT = "with input"
    """For as long as those of its inputs."""
    BY_SOURCE = "by source"
    """As the changes that its source gives say; it makes none of its own."""
    IN_WINDOW = "in window"
    """Until their window closes; its input must not change after that."""
    ANYTIME = "anytime"
    """For as long as rows come."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """What stands in for an operator in identities, which are derived from relational algebra.

    Things that make rows are counted as at `node`, and `nesting` more. `columns` mean what they do in the operator's
    `meaning`, all others what they do in its first input; `calls` are aggregates that may not be in the meaning.
    """

    node: Node
    columns: Fields = ()
    calls: tuple[AggregateCall, ...] = ()
    nesting: int = 0


class StreamingOperator(Node, ABC):
    """A node that keeps state, or reads what others keep; all that the planner needs of an operator is here.

    An operator that leaves something out can't be made. No analysis, printer or check asks which operator it is: only what
    is about that operator itself does (rules that make it or make another of it, the files of `physical/` that plan it, and
    rules of `edits/derivations/`). What is known of its inputs comes as functions of them.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def meaning(self) -> Node:
            """The relational node whose rows it gives."""

    # ------------------------------------------------------------------------------------------ its rows

    @abstractmethod
    def is_updating(self, updating: Updating) -> bool:
        """Whether what it emitted may be retracted, so that rows have a weight."""

    @property
    @abstractmethod
    def why_updating(self) -> str | None:
        """Why its rows are updating, if they are, for people; None: because those of its inputs are."""

    @property
    @abstractmethod
    def corrected(self) -> Corrected:
        """How long its rows are corrected, if they are updating."""

    @property
    @abstractmethod
    def is_consolidated(self) -> bool:
        """Whether it is known that no two of an epoch's changes cancel out, if its rows are updating."""

    @property
    @abstractmethod
    def given(self) -> Given:
        """When it gives its rows."""

    @abstractmethod
    def unique_keys(self, keys: Keys, constant: Constant) -> Sequence[Key]:
        """The sets of columns that are known to be unique in its rows, the best first."""

    @abstractmethod
    def constant_columns(self, constant: Constant) -> frozenset[str]:
        """The columns that have one value in all its rows."""

    @abstractmethod
    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        """The columns that follow the watermark; None where rows are updating, or where that is not known."""

    # ----------------------------------------------------------------------------------------- its state

    @abstractmethod
    def is_bounded(self, updating: Updating) -> bool | None:
        """Whether its state stays bounded as time goes on; None if it keeps none of its own."""

    @property
    @abstractmethod
    def time_to_live(self) -> int | None:
        """For how many µs what nothing touches is kept, if it is forgotten at all."""

    @property
    @abstractmethod
    def remembers_given(self) -> bool:
        """Whether it gives a row once and remembers that it has, so that it never gives it again."""

    @abstractmethod
    def answer_keys(self, updating: Updating) -> Mapping[str, exp.Expr] | None:
        """The columns by which it keeps what it gives, one row of each, with what they are of its input's columns.

        None if it does not keep that, or if it takes long to read.
        """

    # --------------------------------------------------------------------------------------- its columns

    @abstractmethod
    def wanted(self, needed: Set[str]) -> tuple[set[str], ...]:
        """For each input, its columns that are read if `needed` of the operator's are; `reads_through` helps."""

    @abstractmethod
    def pruned(self, needed: Set[str]) -> Node:
        """The operator without what only serves columns that are not `needed`."""

    @property
    @abstractmethod
    def named_above(self) -> Fields:
        """The columns that it makes and that are called what the SELECT list above calls them."""

    # ----------------------------------------------------------------------------------------- its texts

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is called wherever it is shown."""

    @property
    @abstractmethod
    def details(self) -> str:
        """By what and of what it is, as text behind its title; '' if there is nothing to say."""

    # -------------------------------------------------------------------------------------- its identity

    @property
    @abstractmethod
    def stored_as(self) -> str:
        """What it is called in ids of states that it makes forgetful: they are stored, so it never changes."""

    @property
    @abstractmethod
    def stand_in(self) -> StandIn:
        """What stands in for it in identities."""

    # ---------------------------------------------------------------------------------------- helpers

    def reads(self) -> set[str]:
        """The columns that its expressions and references read."""
        return set().union(*(columns_of(e) for e in self.expressions()), self.references())

    def reads_through(self, needed: Set[str]) -> tuple[set[str], ...]:
        """What is wanted of its inputs if it gives their columns on."""
        read = {*needed, *self.reads()}
        return tuple(read & {f.id for f in i.fields} for i in self.inputs)
