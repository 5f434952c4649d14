"""How every operator describes itself, as plain data; its spec stands in a file of its own beside this one.

Changes are rows with a weight: WEIGHT_COLUMN (BIGINT, never NULL or 0) says how many times a row comes
(positive) or goes (negative), as in DBSP's Z-sets (Budiu et al., VLDB 2023). A relation without the column is
append-only: each row is inserted once. What an operator emits is consolidated: a row stands in it once, and not at
all if it was inserted and retracted within the epoch; of joins see `JoinSpec`.

The `kind` of a spec stands for its class in stored plans: a fixed string, whatever the class is called.
`emits_changes` says whether what the operator emits has WEIGHT_COLUMN.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.state_ttl import EXPIRY
from sqlstream_operators.plan.window_spec import WindowSpec


@dataclass(frozen=True, slots=True)
class View:
    """An operator can show people what it would give now, out of its state alone (`operators.views`).

    `paged_by`: the table of whose rows a few keys can be shown at a time, each key's by themselves; None: all rows of a
    shard are shown at once.
    """

    paged_by: str | None


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A column as which the time of a stored row is seen, TIMESTAMP: `before_us` µs before it. `meaning` is for people."""

    name: str
    meaning: str
    before_us: int = 0


#: The time of what is kept by the end of its window.
WINDOW_END = TimeColumn("window_end", "the end of the window")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What of an operator's state waits for the watermark: rows of `tables` are, or belong to, windows, sessions or rows.

    All ends are at `offset_us` (mod `slice_us`), µs; one of an operator that does not see how windows are cut may be at any
    tick (1); 0: what closes emits nothing. An end E is closed at watermark W iff E - `tick_us` <= W. `end` is the field of
    the state's key with the end, where one has it; `slices_of` are the windows that are kept in slices, by these. A row is
    done at watermark W iff its time + wait <= W: `done` has for each of `tables` the field with that time (None: the one
    that the table is kept by) and the wait (µs); it is empty where that is not known, and of windows.
    """

    tables: tuple[str, ...]
    what: Literal["window", "session", "row"]
    slice_us: int
    offset_us: int
    tick_us: int
    end: str | None = None
    slices_of: WindowSpec | None = None
    done: tuple[tuple[str | None, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFacts:
    """What whoever runs an operator, reads its state or shows it must know of it. Nothing has a default.

    - `keeps_answer`: the state has all that was emitted and not retracted, but of keys that it forgot; then what runs the
      operator is a `KeepsAnswer`.
    - `view`: how the rows are shown that it would give now; None: there is nothing but the stored rows. With one, what runs
      the operator is a `Shows`.
    - `columns`: those of the rows that it keeps; None: it keeps what is computed of rows, in columns with names of its own.
    - `unchanged`: for fields of the state the column of the output that each is as it stands, the first of several.
    - `times`: for each table that is kept by time, the columns that this is seen as.
    - `waiting`: what waits for the watermark; None: no watermark moves the operator.
    - `seed`: DuckDB SQL of keys that exist without any row, and are never forgotten; None: there are none.
    - `late_rows_of`: the table whose rows the operator itself may find to be late; None: it finds none.
    """

    keeps_answer: bool
    view: View | None
    columns: Schema | None
    unchanged: Mapping[str, str]
    times: Mapping[str, tuple[TimeColumn, ...]]
    waiting: Waiting | None
    seed: str | None
    late_rows_of: str | None


class StatefulSpec(ABC):
    """The base of all specs of operators: frozen dataclasses whose first field is `state`.

    A subclass says of itself whether a watermark moves it (`NoWatermark`, `ByWatermark`), whether it may forget keys
    (`Forgets`, `KeepsForGood`), and the rest in `facts`.
    """

    __slots__ = ()

    kind: ClassVar[str]

    if TYPE_CHECKING:  # fields of the subclasses, or properties

        @property
        def state(self) -> StateSchema:
            """What it keeps."""

        @property
        def output(self) -> Schema:
            """The columns of what it emits."""

        @property
        def emits_changes(self) -> bool:
            """Whether a row that was emitted can be retracted."""

        @property
        def watermark_sources(self) -> tuple[str, ...]:
            """The sources whose watermarks move it."""

        @property
        def ttl_us(self) -> int | None:
            """Keys that were not touched for so long are forgotten, µs; None: none is."""

    @property
    @abstractmethod
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""

    @abstractmethod
    def moved_by(self, sources: tuple[str, ...]) -> Self:
        """The same operator where the watermarks that move it are those of these sources.

        Raises InternalError for sources of an operator that no watermark moves.
        """

    @property
    @abstractmethod
    def may_forget(self) -> bool:
        """Whether specs of the class may have a time to live."""


def check_facts(spec: StatefulSpec) -> None:
    """What an operator that is planned says of itself must be about its state and its output.

    Raises InternalError: what is not said would be missed by nobody but whoever waits for the rows, or looks at them.
    """
    facts, tables = spec.facts, {table.name: table for table in spec.state.tables}
    emitted = {column.name for column in spec.output}
    timed = {t.name for t in tables.values() if t.layout == "time" and t.name != EXPIRY}
    wrong = {
        f"is a {spec.kind}, and its state one of a {spec.state.operator}": spec.state.operator != spec.kind,
        "is moved by watermarks, and nothing in its facts waits": (
            facts.waiting is None and bool(spec.watermark_sources)
        ),
        "has rows that wait, and no watermark that moves it": (
            facts.waiting is not None and not spec.watermark_sources
        ),
        "waits with tables that it has not": facts.waiting is not None
        and not set(facts.waiting.tables) <= tables.keys(),
        "emits columns unchanged that it does not emit": not set(facts.unchanged.values()) <= emitted,
        "does not say of each table with layout 'time', and of no other, as what its times are seen": (
            facts.times.keys() != timed
        ),
        "is shown by a table that it has not": facts.view is not None
        and facts.view.paged_by is not None
        and facts.view.paged_by not in tables,
    }
    for what, holds in wrong.items():
        if holds:
            raise InternalError(f"{type(spec).__name__} {what} (plan/operator_spec.py: OperatorFacts)")


class ReadingSpec(ABC):
    """The base of specs of operators that keep nothing: they read what operators of the same stage keep, and are driven by
    these what changes.
    """

    __slots__ = ()

    kind: ClassVar[str]

    if TYPE_CHECKING:  # fields of the subclasses, or properties

        @property
        def output(self) -> Schema:
            """The columns of what it emits."""

        @property
        def emits_changes(self) -> bool:
            """Whether a row that was emitted can be retracted."""

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """The ids of the states that it reads, one for each of its inputs, as they were before the epoch."""


class NoWatermark(StatefulSpec):
    """Of an operator that no watermark moves."""

    __slots__ = ()

    @property
    def watermark_sources(self) -> tuple[str, ...]:
        """Nothing here depends on a watermark."""
        return ()

    def moved_by(self, sources: tuple[str, ...]) -> Self:
        """See `StatefulSpec.moved_by`."""
        if sources:
            raise InternalError(f"no watermark moves a {self.kind}, but those of {sources} shall")
        return self


class ByWatermark(StatefulSpec):
    """Of an operator that the watermarks of its field `watermark_sources` move."""

    __slots__ = ()

    def moved_by(self, sources: tuple[str, ...]) -> Self:
        """See `StatefulSpec.moved_by`."""
        moved: Self = replace(cast(Any, self), watermark_sources=sources)
        return moved


class Forgets(StatefulSpec):
    """Of an operator that has a field `ttl_us`; all its inputs have the key columns of its state."""

    __slots__ = ()

    @property
    def may_forget(self) -> bool:
        """It may."""
        return True

    def living(self, ttl_us: int | None) -> Self:
        """The same operator with a time to live, µs; None: it forgets nothing."""
        living: Self = replace(cast(Any, self), ttl_us=ttl_us)
        return living

    def keeping(self, state: StateSchema) -> Self:
        """The same operator over another state."""
        keeping: Self = replace(cast(Any, self), state=state)
        return keeping


class KeepsForGood(StatefulSpec):
    """Of an operator that forgets nothing but what the watermark lets go."""

    __slots__ = ()

    @property
    def may_forget(self) -> bool:
        """It never does."""
        return False

    @property
    def ttl_us(self) -> None:
        """There is no time to live."""
        return


def as_they_are(schema: Schema) -> Mapping[str, str]:
    """`OperatorFacts.unchanged` of an operator that emits the columns that it keeps."""
    return {column.name: column.name for column in schema}


def times_of(state: StateSchema, *columns: TimeColumn) -> Mapping[str, tuple[TimeColumn, ...]]:
    """`OperatorFacts.times` of a state of whose tables all that are kept by time are seen alike."""
    return {t.name: columns for t in state.tables if t.layout == "time" and t.name != EXPIRY}


NO_TIMES: Mapping[str, tuple[TimeColumn, ...]] = MappingProxyType({})

_NAME = r'("(?:[^"]|"")+"|\w+)'
_ITEM = re.compile(rf"{_NAME}(?: AS {_NAME})?(?:, | FROM merged$)")
_WINDOW_TIME = re.compile(rf"\(window_end - INTERVAL 1 MILLISECOND\)(?: AT TIME ZONE 'UTC')? AS {_NAME}, ")


@cache
def emitted_unchanged(emit: str) -> Mapping[str, str]:
    """What the SQL `emit` of an aggregate gives unchanged: its name in the state -> its first name in the output.

    Keys stand before all that is computed, so whatever comes behind the first computed item but a window's time is not
    looked at, and no SQL needs to be understood.

    >>> dict(emitted_unchanged('SELECT "a" AS "x", "a" AS "y", CAST("b" AS BIGINT) AS "z" FROM merged'))
    {'a': 'x'}
    >>> dict(emitted_unchanged('''SELECT "k" AS "k_1", "window_end" AS "e" FROM merged'''))
    {'k': 'k_1', 'window_end': 'e'}
    """
    found: dict[str, str] = {}
    at = len("SELECT ")
    while True:
        if skipped := _WINDOW_TIME.match(emit, at):
            at = skipped.end()
        item = _ITEM.match(emit, at)
        if item is None:
            return MappingProxyType(found)
        name, alias = (text and _unquoted(text) for text in item.groups())
        found.setdefault(name, alias or name)
        at = item.end()


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
