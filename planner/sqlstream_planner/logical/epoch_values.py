"""Values that a row is given by the epoch that reads it: the clock, random numbers, and when it arrived."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from sqlstream_planner.diagnostics import Span
from sqlstream_planner.logical.arity import UnaryNode
from sqlstream_planner.logical.columns import Field, Fields
from sqlstream_planner.logical.node import NON_SEMANTIC, Part


class EpochKind(StrEnum):
    """What an epoch gives: its clock (TIMESTAMP WITH TIME ZONE), 128 random bits of each row (32 hexadecimal digits), or,
    as BIGINT, its own place in the order of arrival, and that of the row among those that it reads.
    """

    CLOCK = "clock"
    RANDOM = "random"
    ARRIVAL = "arrival"
    PLACE = "place"

    @property
    def is_repeatable(self) -> bool:
        """Whether rows that are read again have the values that they had, or others in the same order."""
        return self in (EpochKind.ARRIVAL, EpochKind.PLACE)


@dataclass(frozen=True, slots=True)
class EpochValue(Part):
    """A column that the epoch gives; `call` distinguishes random numbers that a row is given by several calls."""

    field: Field
    kind: EpochKind
    call: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EpochValues(UnaryNode):
    """Each row of the append-only input beside `values` of the epoch in which it passes here.

    What is above it takes them for columns as any others, so that they are computed once per row and never again. `at` is
    where the first of them is written, `what` what is written there.
    """

    makes_own: ClassVar = False

    values: tuple[EpochValue, ...]
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)
    what: str = field(default="", metadata=NON_SEMANTIC)

    @property
    def fields(self) -> Fields:
        """The input's fields and the values."""
        return (*self.input.fields, *(v.field for v in self.values))

    @property
    def is_random(self) -> bool:
        """Whether one of its values is random."""
        return any(v.kind is EpochKind.RANDOM for v in self.values)

    @property
    def is_repeatable(self) -> bool:
        """Whether all of its values are: they are of the order of arrival."""
        return all(v.kind.is_repeatable for v in self.values)

    @property
    def numbers_rows(self) -> bool:
        """Whether one of its values goes by the number of a row in its source."""
        return any(v.kind in (EpochKind.RANDOM, EpochKind.PLACE) for v in self.values)
