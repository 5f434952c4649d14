"""Where a state table lies in the key space: see `store` for the physical keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sqlstream_operators.codec.binary import U8
from sqlstream_operators.errors import StateSchemaError
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable

_TOP = np.uint64(1 << 63)


class StoredTable:
    """A state table with its range of keys and the value fields of every schema version."""

    def __init__(self, table: StateTable, index: int, versions: dict[int, tuple[StateField, ...]]) -> None:
        self.spec = table
        self.index = index
        self.versions = versions
        self.prefix = bytes([index])
        self.after = bytes([index + 1])
        self.header = 11 if table.layout == "time" else 3
        self.key_types = [field.type for field in (*table.key, *table.sub_key)]


def known_schemas(stored: Sequence[StateSchema], schema: StateSchema) -> tuple[StateSchema, ...]:
    """The stored schemas, and `schema` behind them if it is new.

    Raises StateSchemaError if a table that both have has another key or layout: such state must be adapted.
    """
    for old in stored:
        for table in old.tables:
            for new in schema.tables:
                if new.name == table.name and _identity(new) != _identity(table):
                    raise StateSchemaError(
                        f"state {schema.state_id}: table {table.name} was written with another key or layout",
                        "the state must be adapted to the changed query before it is used",
                    )
    if any(old.schema_id == schema.schema_id for old in stored):
        return tuple(stored)
    return (*stored, schema)


def _identity(table: StateTable) -> tuple[object, ...]:
    return (
        table.layout,
        [(field.fingerprint, field.type) for field in table.key],
        [(field.fingerprint, field.type) for field in table.sub_key],
    )


def time_bound(stored: StoredTable, time: int | None, unbounded: bytes) -> bytes:
    """The least key of a table with a time (µs) of at least `time`; None: `unbounded`."""
    if time is None:
        return unbounded
    shifted = time + (1 << 63)
    if shifted < 0:
        return stored.prefix
    return stored.after if shifted >> 64 else stored.prefix + shifted.to_bytes(8, "big")


def time_bytes(times: npt.NDArray[np.int64]) -> U8:
    """Times (µs) as rows of 8 bytes, in their order."""
    shifted = (times.view(np.uint64) ^ _TOP).astype(">u8")
    return shifted.view(np.uint8).reshape(len(times), 8)


def read_times(data: U8, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The times (µs) that lie at `starts`."""
    matrix = data[starts[:, None] + np.arange(8)]
    return (np.ascontiguousarray(matrix).view(">u8").ravel().astype(np.uint64) ^ _TOP).view(np.int64)
