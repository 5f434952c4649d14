"""The protocols of formats of records: the bytes of messages become rows, and rows become the bytes of messages.

A connector says where the bytes are and which positions there are; a format says what is in them. Nothing here knows
of topics or files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream_operators.duck.session import DuckSession
    from sqlstream_operators.plan.spec import Column, Schema

#: The column of read rows that says which record a row comes from: its number in the array that was handed over, BIGINT.
#: A record of a changelog may give several rows, or none.
RECORD_COLUMN = "__record"


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that can't be read: its number (from 0) in the array that was handed over, and why."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """What a reader or writer of records is made of, all plain data.

    `columns` are those that the records have (of a reader: those that are wanted), `declared` all that the table
    declares for them, in order (CSV goes by it). `options` are the format's own, without any prefix of key or value:
    `json.ignore-parse-errors`. `primary_key`: an update of a changelog without its image before will do. `subject` is the
    name of the schema in a registry where no option says another: `orders-value`. `secrets` are values that no message
    may show. `metadata` are what records say beside their rows, if it is wanted: keys of the format's, and the columns that
    the read rows have for them (behind `columns`, in any order).
    """

    name: str
    columns: Schema
    declared: Schema
    options: Mapping[str, str]
    primary_key: tuple[str, ...] = ()
    subject: str = ""
    secrets: tuple[str, ...] = ()
    metadata: tuple[tuple[str, Column], ...] = ()


class RecordReader(Protocol):
    """Reads the bytes of records as rows; lives as long as its task's process may keep it, so it may cache schemas."""

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """The rows of all records (large_binary; NULL is a message without content), in order.

        The table has the format's columns and those of its metadata, KIND_COLUMN behind them if the format is a changelog,
        and RECORD_COLUMN. A NULL gives no row. Raises DataError if any record can't be read; not which one.
        """
        ...

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """The rows of the readable records, as `read` gives them, and the other records in order."""
        ...


class RecordWriter(Protocol):
    """Writes rows as the bytes of records."""

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """One record per row, in order, as large_binary.

        The rows have the format's columns, and KIND_COLUMN behind them if the format is a changelog. Raises DataError for
        a row that can't be written.
        """
        ...
