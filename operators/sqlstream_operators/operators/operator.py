"""The protocol of a stateful operator: Arrow tables in, Arrow tables out, state through a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlstream_operators.plan.watermarks import Watermarks

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream_operators.duck.session import DuckSession
    from sqlstream_operators.state.store import StateStore


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What an operator may use: its shard, the watermarks, its state, DuckDB, and the epoch's clock.

    `now_us`: the wall clock when the epoch was planned, µs; a replay of the epoch has the same.
    """

    shard: int
    shards: int
    max_parallelism: int
    watermarks: Watermarks
    state: StateStore
    duck: DuckSession
    now_us: int = 0


class Operator(Protocol):
    """A stateful operator bound to its spec.

    `process` must be deterministic: the same inputs (order included: it is the source's) and state give the
    same output and the same new state. It is called once per epoch and shard, also without input, so that
    windows close when only the watermark moves; it may be left out where `idle` says so, to save opening the
    state.
    """

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Whether `process` would emit and change nothing; `stateless`: the shard's state has no rows.

        Only called for a shard that has run the operator in an epoch before.
        """
        ...

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Merge this epoch's input into the state and return what leaves the operator."""
        ...


class KeepsAnswer(Protocol):
    """An operator whose state has all that it has emitted and not retracted (which do: `OperatorFacts.keeps_answer`)."""

    def answer(self, context: OperatorContext) -> pa.Table:
        """That, from the state before this epoch: each row with a positive WEIGHT_COLUMN. Changes no state."""
        ...


class Shows(Protocol):
    """An operator that can show people what it would give now, out of its state alone (which can: `OperatorFacts.view`)."""

    def shown(self, context: OperatorContext) -> pa.Table:
        """That: the columns of its output, and a positive WEIGHT_COLUMN where rows may be there several times. It changes
        no state, and of the watermarks looks at `close` alone: what was closed is not shown again.
        """
        ...


class ShowsAnswer(ABC):
    """Of an operator that shows the result that it keeps."""

    __slots__ = ()

    @abstractmethod
    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`."""

    def shown(self, context: OperatorContext) -> pa.Table:
        """See `Shows.shown`."""
        return self.answer(context)


class AnswersByKey(KeepsAnswer, Protocol):
    """One that can read its result by its keys, of each of which it gives one row at most."""

    def answer_of(self, duck: DuckSession, state: StateStore, keys: pa.Table) -> pa.Table:
        """As `answer`, of some keys: in any order, repeated or not, there or not."""
        ...


class ReadingOperator(Protocol):
    """An operator without state, bound to its spec and to the operators whose states it reads (`ReadingSpec.reads`)."""

    def process(
        self, inputs: Sequence[pa.Table], states: Sequence[StateStore], duck: DuckSession
    ) -> OperatorResult:
        """What changes, given what each of those operators says that changes, and their states before the epoch."""
        ...

    def answer(self, inputs: Sequence[pa.Table], duck: DuckSession) -> pa.Table:
        """The whole result, given all rows that those operators keep as if they came just now."""
        ...


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """What an operator emits, and figures for the report (`closed_windows`, `max_closed_end_us` …).

    `late`: rows that it found to be late, for the dead letters: `window_start`, `window_end`, `event_time` (TIMESTAMP),
    `row` (VARCHAR, JSON).
    """

    output: pa.Table
    metrics: Mapping[str, int]
    late: pa.Table | None = None
