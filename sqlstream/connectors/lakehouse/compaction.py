"""Small files of a table become larger ones, in a commit that changes no row: when that is done, and what is told of it.

How rows are copied is the table's kind. The commit is one that is refused if anybody has committed since the table was
looked at, so no row is there twice, or comes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from sqlstream.connectors.filesystem.written_files import FILE_BYTES
from sqlstream.connectors.lakehouse.options import AUTO_COMPACTION, COMPACTED_SIZE
from sqlstream.connectors.options import flag, size_bytes
from sqlstream_planner.diagnostics import Diagnostic

#: How many small files of a partition are worth it, as for Delta's own `autoCompact`.
FEWEST = 50
#: How many files are written in a commit at most: the run waits for it.
MOST = 8
#: What a group of rows has in memory, bytes.
_GROUP_BYTES = 64 << 20

_Table = TypeVar("_Table")


class Sized(Protocol):
    """A file of a table."""

    @property
    def size(self) -> int:
        """Its bytes."""
        ...


_File = TypeVar("_File", bound=Sized)


class Compaction(ABC, Generic[_Table]):
    """Compacts a table when as many files as that is worth may have come; `tell` takes warnings.

    `file_bytes` is what a file should have; one that is larger than half of it stays. `refused` is raised where others have
    committed meanwhile, `failures` are what else may go wrong.
    """

    def __init__(
        self,
        name: str,
        file_bytes: int,
        tell: Callable[[Diagnostic], None],
        *,
        refused: type[Exception],
        failures: tuple[type[Exception], ...],
    ) -> None:
        self._name, self._file_bytes = name, file_bytes
        self._refused, self._failures = refused, failures
        self._tell, self._told = tell, False
        self._new = FEWEST  # a run begins with a look

    @abstractmethod
    def _compact(self, table: _Table) -> bool:
        """Write larger files, at most `MOST`, and commit them; whether there are more."""

    def added(self, files: int, open_: Callable[[], _Table | None]) -> None:
        """So many files were added. Never raises: the rows are there, and another time may do."""
        self._new += files
        if self._new < FEWEST:
            return
        self._new = 0
        try:
            table = open_()
            if table is not None and self._compact(table):
                self._new = FEWEST
        except self._refused:
            self._new = FEWEST // 2  # not at once again
        except self._failures as error:
            if not self._told:
                self._told = True
                self._tell(_failed(self._name, error))

    def _is_small(self, size: int) -> bool:
        return 2 * size <= self._file_bytes

    def _groups(self, partitions: Sequence[Sequence[_File]]) -> Iterator[list[_File]]:
        """Of the small files of each partition, in their order, those that are worth becoming one of about that size."""
        for files in partitions:
            if len(files) >= FEWEST:
                yield from (group for group in _of_size(files, self._file_bytes) if len(group) > 1)


def compacted_bytes(options: Mapping[str, str]) -> int | None:
    """What files should have that a sink makes of small ones, bytes; None: it makes none."""
    return (
        size_bytes(options, COMPACTED_SIZE.name, FILE_BYTES) if flag(options, AUTO_COMPACTION.name) else None
    )


def packed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The batches of many small files in few tables, so that a large file has few groups of rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.nbytes for one in waiting) >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting, schema)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def _of_size(files: Sequence[_File], file_bytes: int) -> Iterator[list[_File]]:
    group: list[_File] = []
    size = 0
    for file in files:
        if group and size + file.size > file_bytes:
            yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    yield group


def _failed(name: str, error: Exception) -> Diagnostic:
    return Diagnostic(
        "ENV006",
        f"small files of the table of `{name}` can't be compacted",
        notes=(str(error).splitlines()[0] if str(error) else type(error).__name__, "no row is affected"),
        help="it is tried again after more files",
        severity="warning",
    )
