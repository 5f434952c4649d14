"""What the tests of records share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.formats.api import RECORD_COLUMN, BadRecord, RecordFormat
from sqlstream.formats.registry import record_reader, record_writer
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import KIND_COLUMN, Column
from sqlstream_operators.plan.types import parse_type

#: Records are read from the middle of an array, too, as they come out of a client's buffers.
_AROUND = [b'{"a": 0}', None, b"0,0"]


def record_format(
    name: str,
    schema: Mapping[str, str],
    options: Mapping[str, str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    primary_key: tuple[str, ...] = (),
) -> RecordFormat:
    declared = tuple(Column(column, parse_type(type_)) for column, type_ in schema.items())
    wanted = declared if columns is None else tuple(c for c in declared if c.name in columns)
    return RecordFormat(name, wanted, declared, options or {}, primary_key)


def array(records: Sequence[bytes | None]) -> pa.Array:
    return pa.array([*_AROUND, *records, *_AROUND], pa.large_binary()).slice(len(_AROUND), len(records))


@dataclass(frozen=True, slots=True)
class Read:
    """Rows with the numbers of their records, and the numbers of bad records with the reasons."""

    rows: list[tuple[Any, ...]]
    bad: list[tuple[int, str]]


def read(duck: DuckSession, format_: RecordFormat, records: Sequence[bytes | None]) -> Read:
    """What is read leniently; strictly is the same if all records are good, and refused if not."""
    reader = record_reader(format_)
    given = array(records)
    table, bad = reader.read_leniently(duck, given)
    names = [column.name for column in format_.columns]
    assert table.column_names in ([*names, RECORD_COLUMN], [*names, KIND_COLUMN, RECORD_COLUMN])
    assert table.schema.field(RECORD_COLUMN).type == pa.int64()
    assert all(isinstance(one, BadRecord) for one in bad)
    if bad:
        with pytest.raises(DataError):
            reader.read(duck, given)
    else:
        assert reader.read(duck, given).equals(table)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return Read(rows, [(one.index, one.reason) for one in bad])


def written(
    duck: DuckSession, format_: RecordFormat, rows: Sequence[Sequence[Any]], kinds: Sequence[str] = ()
) -> list[bytes | None]:
    columns = {
        column.name: pa.array([row[i] for row in rows], to_arrow(column.type))
        for i, column in enumerate(format_.columns)
    }
    if kinds:
        columns[KIND_COLUMN] = pa.array(kinds)
    made = record_writer(format_).write(duck, pa.table(columns))
    assert made.type == pa.large_binary()
    found: list[bytes | None] = made.to_pylist()
    return found
