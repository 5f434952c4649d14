"""The task's half of a source: splits are ranges of files, read as a file source reads them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sqlstream.connectors.api import BadRow, Split
from sqlstream.connectors.filesystem.reader import FileReader
from sqlstream_operators.duck.session import DuckSession


class TableReader(ABC):
    """Reads splits of one table; what the table's log says of their files is in them."""

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make all rows of the split queryable. Raises DataError if a file is gone, changed or not Parquet."""
        self._files(split).open_strict(duck, relation, split, queries=queries)

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """Make the readable rows queryable and return the others. Raises DataError if nothing of a file can be read."""
        return self._files(split).open_lenient(duck, relation, split)

    def halves(self, split: Split) -> Sequence[Split]:
        """Two splits that have the rows of this one together; none if it can't be divided."""
        return self._files(split).halves(split)

    def place(self, split: Split) -> str:
        """Where the rows of a split are: the file, and the row in it."""
        return self._files(split).place(split)

    @abstractmethod
    def _files(self, split: Split) -> FileReader:
        """What reads the files of a split."""
