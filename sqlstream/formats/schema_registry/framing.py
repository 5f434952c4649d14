"""What stands before a record whose schema is in a registry: a zero, and the schema's id in four bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.avro.lanes import Bools, Longs
from sqlstream.formats.avro.records import present, whole

#: Bytes before each record.
HEADER = 5


@dataclass(frozen=True, slots=True)
class Framed:
    """Records by schema: `values` with their headers, `ids` the records' numbers."""

    schema: int
    values: pa.Array
    ids: Longs


def framed(values: pa.Array, bad: dict[int, str]) -> Bools:
    """Which records begin with a header; those that do not, and are no NULL, go to `bad`."""
    good = np.zeros(len(values), np.bool_)
    for part in by_schema(values, bad):
        good[part.ids] = True
    return good


def by_schema(values: pa.Array, bad: dict[int, str]) -> Iterator[Framed]:
    """Records of one schema each; records without a header go to `bad`, NULLs nowhere."""
    there, ids = present(values)
    if not len(there):
        return
    offsets, data = whole(there)
    begins, sizes = offsets[:-1], np.diff(offsets)
    has_header = sizes >= HEADER
    padded = np.concatenate([data[offsets[0] : offsets[-1]], np.zeros(HEADER, np.uint8)])
    at = begins - offsets[0]
    has_header &= padded[at] == 0
    for id_ in ids[~has_header].tolist():
        bad[id_] = "it does not begin with 0 and the id of a schema, as records of a schema registry do"
    numbers = np.zeros(len(at), np.int64)
    for place in range(1, HEADER):
        numbers = numbers << 8 | padded[np.minimum(at + place, len(padded) - 1)]
    found = np.unique(numbers[has_header])
    for schema in found.tolist():
        mine = has_header & (numbers == schema)
        if mine.all():
            yield Framed(schema, there, ids)
        else:
            yield Framed(schema, there.filter(pa.array(mine)), ids[mine])


def header(schema: int) -> bytes:
    """What stands before a record of a schema.

    >>> header(258)
    b'\\x00\\x00\\x00\\x01\\x02'
    """
    return b"\0" + schema.to_bytes(4, "big")


def with_header(schema: int, values: pa.Array) -> pa.Array:
    """The records, each behind its header."""
    head = pa.scalar(header(schema), pa.large_binary())
    return pc.binary_join_element_wise(head, values, pa.scalar(b"", pa.large_binary()))
