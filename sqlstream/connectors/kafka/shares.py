"""A large epoch in several transactions at once: each is of a producer of its own, and has the rows of some tasks.

The first transaction says that the epoch is there, as it does where there is no other: so it is committed last. Each of
the others commits a mark, which is the epoch's number as the group's offset at a partition of its own (share 1 at
partition 1 …). A driver that dies between two commits leaves an epoch of which a part is there: the marks say which, and
with them stands how the epoch was cut, so that it is cut the same way and what is missing is written.

A mark is first written in a transaction of the first producer, before the share has a producer: so whoever takes over
knows from the marks which other producers there may be, and fences them all before it looks how far they came.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Self

from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream.connectors.exactly_once.target import LostConnectionError
from sqlstream.connectors.kafka.producing import Producing
from sqlstream.connectors.kafka.records import RecordMaker
from sqlstream_operators.errors import InternalError

#: The most shares of an epoch, and the fewest rows for which one is worth a transaction of its own.
MOST, ROWS = 8, 100_000


@dataclass(frozen=True, slots=True)
class EpochCut:
    """How an epoch is cut: into `count` shares of its `parts`, which have so many rows together."""

    count: int
    parts: int
    rows: int

    @classmethod
    def of(cls, rows: StagedEpoch, most: int) -> Self:
        """As many shares as are allowed, if each has a task's rows and enough of them."""
        return cls(max(1, min(most, MOST, rows.parts, rows.rows // ROWS)), rows.parts, rows.rows)

    def cut(self, rows: StagedEpoch) -> list[StagedEpoch]:
        """The shares. Raises InternalError for another epoch than the one that was cut."""
        if (rows.parts, rows.rows) != (self.parts, self.rows):
            raise InternalError(
                f"an epoch of {self.rows} rows in {self.parts} parts is to be completed, not {rows.rows} in {rows.parts}"
            )
        return rows.shares(self.count)


@dataclass(frozen=True, slots=True)
class Marks:
    """What the marks of a sink say: `epochs` by share, and how the last epoch was `cut`."""

    epochs: Mapping[int, int]
    cut: EpochCut | None

    def beyond(self, epoch: int) -> frozenset[int]:
        """The shares that have a later epoch than this."""
        return frozenset(share for share, marked in self.epochs.items() if marked > epoch)

    def at(self, epoch: int) -> frozenset[int]:
        """The shares that have this very epoch."""
        return frozenset(share for share, marked in self.epochs.items() if marked == epoch)


class Shares:
    """The producers of the shares but the first, by their numbers (1 …), each with a maker of records."""

    def __init__(self, producing: Callable[[int], Producing], maker: Callable[[], RecordMaker]) -> None:
        self._make, self._maker = producing, maker
        self._all: dict[int, tuple[Producing, RecordMaker]] = {}
        self._used: tuple[int, ...] = ()

    def fence(self, numbers: Iterable[int]) -> None:
        """Open the producers of these shares, and those that were given up: what former ones had open is aborted."""
        _at_once([self._one(number)[0].open for number in sorted({*numbers, *self._all})])

    def write(
        self,
        shares: Mapping[int, StagedEpoch],
        write: Callable[[Producing, RecordMaker, StagedEpoch], None],
        first: Callable[[], None],
    ) -> None:
        """Write these shares, and `first`, at the same time."""
        self._used = tuple(shares)
        jobs = [partial(write, *self._one(number), rows) for number, rows in shares.items()]
        _at_once([*jobs, first])

    def mark(self, write: Callable[[int, Producing], None]) -> None:
        """Have `write` put the mark of each share that was written into its transaction."""
        _at_once([partial(write, number, self._one(number)[0]) for number in self._used])

    def commit(self) -> None:
        """Commit what was written, each share by itself."""
        used, self._used = self._used, ()
        _at_once([self._one(number)[0].commit for number in used])

    def abort(self) -> None:
        """Take back what was not committed; never raises."""
        self._used = ()
        for producing, _ in self._all.values():
            producing.abort()

    def close(self) -> None:
        """Abort, and let the producers go."""
        for producing, maker in self._all.values():
            producing.close()
            maker.close()
        self._all, self._used = {}, ()

    def _one(self, number: int) -> tuple[Producing, RecordMaker]:
        if number not in self._all:
            self._all[number] = self._make(number), self._maker()
        return self._all[number]


def _at_once(jobs: Collection[Callable[[], None]]) -> None:
    """Do all at the same time; once all have ended, raise what one raised: first of all what can't be tried again."""
    if len(jobs) < 2:
        for job in jobs:
            job()
        return
    failures: list[BaseException | None] = [None] * len(jobs)

    def do(number: int, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures[number] = error

    # Not those of a pool: a second signal ends the process, and Python waits for a pool's.
    threads = [
        threading.Thread(target=do, args=one, name="sqlstream-kafka", daemon=True) for one in enumerate(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raised = [failure for failure in failures if failure is not None]
    raised.sort(key=lambda failure: isinstance(failure, LostConnectionError))
    if raised:
        raise raised[0]
