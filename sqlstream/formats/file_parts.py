"""What a format reads of files, and what it gives, whoever keeps the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

from sqlstream_operators.errors import InputFileError

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.formats.beside import Beside
    from sqlstream.formats.scratch import Scratch
    from sqlstream_operators.duck.session import DuckSession
    from sqlstream_operators.plan.spec import Schema
    from sqlstream_operators.plan.types import SqlType

#: At most so many bytes of a bad row's text are kept.
RAW_BYTES = 64 << 10


class FilePart(Protocol):
    """A file, or what is from `start` to `end` (None: its end) of it, in the unit of its format."""

    @property
    def path(self) -> str:
        """The file, as messages say it."""
        ...

    @property
    def size(self) -> int:
        """The bytes of the file."""
        ...

    @property
    def start(self) -> int:
        """Where the part begins."""
        ...

    @property
    def end(self) -> int | None:
        """Where it ends."""
        ...

    @property
    def whole(self) -> bool:
        """Whether it is all of the file."""
        ...

    def local(self) -> str:
        """A local path with the file's bytes as they are."""
        ...

    def text(self) -> str:
        """A local path with the part's text, not compressed. Raises InputFileError if it is no text."""
        ...

    def head(self, start: int, most: int) -> bytes:
        """The first bytes of the file's text from a byte on, not compressed."""
        ...

    def lines_before(self) -> int:
        """How many lines of a text that is not compressed are before the part; 0 of one that is."""
        ...

    def open(self) -> AbstractContextManager[BinaryIO]:
        """The file's bytes as they are, seekable. Raises InputFileError if it is not what was listed."""
        ...

    def damaged(self, what: str) -> InputFileError:
        """The error for a file that is not of its format."""
        ...

    def unlike(self, what: str) -> InputFileError:
        """The error for a file that is not as the table declares it."""
        ...


#: SELECT items of the columns that are wanted of a file, of its local path, whose columns DuckDB reads as these types.
ColumnsIn = Callable[["FilePart", str, "Mapping[str, SqlType | None]"], list[str]]


@dataclass(frozen=True, slots=True)
class FileTable:
    """What is read of files: `columns` of those that are `declared` for them, in order, with the table's `options`.

    `beside` are the columns that are not in the files. `columns_in` (of Parquet) finds those that are, if not by name; they
    are of types that each value in a file has.
    """

    columns: Schema
    declared: tuple[str, ...]
    options: Mapping[str, str]
    primary_key: tuple[str, ...]
    beside: Callable[[Sequence[FilePart]], Beside]
    columns_in: ColumnsIn | None = None


@dataclass(frozen=True, slots=True)
class BadText:
    """What can't be read: its line or row (from 1) in the file, its text, and why."""

    line: int | None
    raw: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileShape:
    """How many rows a file has, and where parts that are better not cut begin in it (row numbers)."""

    rows: int
    groups: tuple[int, ...] = ()


class FileReader(Protocol):
    """Reads parts of files; made of a FileTable."""

    @property
    def parses(self) -> bool:
        """Whether to read it twice costs about twice as much."""
        ...

    def strict(self, duck: DuckSession, parts: Sequence[FilePart], work: Scratch) -> str | pa.Table:
        """The rows of the parts in order: a table, or a SELECT that fails when it is run if any can't be read.

        Raises DataError if that is known by now.
        """
        ...

    def lenient(self, duck: DuckSession, part: FilePart, work: Scratch) -> tuple[pa.Table, list[BadText]]:
        """The readable rows of a part, and what can't be read. Raises DataError if nothing of it can."""
        ...


def match_names(declared: Sequence[str], present: Sequence[str], part: FilePart) -> dict[str, str | None]:
    """The name in the file of each declared column, ignoring case; None where the file has no such column.

    Raises InputFileError if the file has several such columns.
    """
    by_lower: dict[str, list[str]] = {}
    for name in present:
        by_lower.setdefault(name.lower(), []).append(name)
    found: dict[str, str | None] = {}
    for name in declared:
        names = by_lower.get(name.lower(), [])
        if len(names) > 1:
            raise part.unlike(f"column {name} could be any of {', '.join(names)}")
        found[name] = names[0] if names else None
    return found
