"""The tables of a state as bytes: the keys of their rows, and rows from keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.arrow_types import conform, to_arrow
from sqlstream_operators.codec.binary import U8, from_list, parts, ragged
from sqlstream_operators.codec.byte_order import sorted_distinct
from sqlstream_operators.codec.key_bytes import (
    decode_columns,
    encode_pieces,
    join_pieces,
    to_bytes,
)
from sqlstream_operators.codec.keys import group_range, key_groups
from sqlstream_operators.codec.rows import (
    decode_packed_lists,
)
from sqlstream_operators.codec.runs import decode_stored
from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.state_schema import TIME, StateSchema
from sqlstream_operators.plan.types import BLOB

from .layout import StoredTable, known_schemas, read_times, time_bound, time_bytes
from .packed_rows import PackedRows
from .row_names import names_from


class StoredTables:
    """The tables of a `StateSchema` in one shard; `schemas` are those that older values were written with."""

    def __init__(
        self,
        schema: StateSchema,
        shard: int,
        shards: int,
        max_parallelism: int,
        schemas: Sequence[StateSchema] = (),
    ) -> None:
        self.schema = schema
        self.groups = group_range(shard, shards, max_parallelism)
        self.max_parallelism = max_parallelism
        self.schemas = known_schemas(schemas, schema)
        ids = [known.schema_id for known in self.schemas]
        self._written_as = ids.index(schema.schema_id)
        order: dict[str, int] = {}
        for known in self.schemas:
            for table in known.tables:
                order.setdefault(table.name, len(order))
        self._tables: dict[str, StoredTable] = {}
        for table in schema.tables:
            versions = {
                i: old.value
                for i, known in enumerate(self.schemas)
                for old in known.tables
                if old.name == table.name
            }
            self._tables[table.name] = StoredTable(table, order[table.name], versions)

    def _table(self, name: str) -> StoredTable:
        if name not in self._tables:
            raise KeyError(f"state {self.schema.state_id} has no table {name!r}")
        return self._tables[name]

    def _keys(self, stored: StoredTable, rows: pa.Table, names: Sequence[str] | None = None) -> list[bytes]:
        return to_bytes(self._encoded(stored, rows, names)) if rows.num_rows else []

    def _encoded(
        self, stored: StoredTable, rows: pa.Table, names: Sequence[str] | None = None
    ) -> U8 | pa.Array:
        """The keys of at least one row."""
        spec, n = stored.spec, rows.num_rows
        key = [conform(rows.column(field.name), to_arrow(field.type)) for field in spec.key]
        groups = key_groups(key, self.max_parallelism, rows=n)
        low, high = self.groups
        if int(groups.min()) < low or int(groups.max()) >= high:
            raise StateError(
                f"state {self.schema.state_id}: a row of key group "
                f"{int(groups.min() if groups.min() < low else groups.max())} "
                f"came to the shard of groups {low} to {high - 1}"
            )
        header = np.empty((n, stored.header), np.uint8)
        header[:, 0] = stored.index
        header[:, -2:] = groups.astype(">u2").view(np.uint8).reshape(n, 2)
        if spec.layout == "time":
            times = conform(rows.column(TIME), pa.int64())
            if times.null_count:
                raise StateError(f"state {self.schema.state_id}: a row of {spec.name} has no time")
            header[:, 1:9] = time_bytes(times.to_numpy(zero_copy_only=False))
        fields = [*spec.key, *spec.sub_key]
        if names is not None:
            fields = fields[: len(names)]
        arrays = key + [
            conform(rows.column(field.name), to_arrow(field.type)) for field in fields[len(key) :]
        ]
        pieces = encode_pieces(arrays, [field.type for field in fields])
        return join_pieces([header, *pieces])

    def _key_part(self, stored: StoredTable, rows: pa.Table) -> U8 | pa.Array:
        """The keys, without sub-keys, of at least one row."""
        return self._encoded(stored, rows, [field.name for field in stored.spec.key])

    def _prefixes(self, stored: StoredTable, keys: pa.Table) -> list[tuple[bytes, bytes]]:
        """The ranges, in order, of the rows of each of `keys`, which are without sub-key."""
        if not keys.num_rows:
            return []
        distinct = sorted_distinct(self._key_part(stored, keys))
        # What follows is a sub-key, and every encoding begins with a byte 0 or 1.
        return [(key, key + b"\xff") for key in to_bytes(distinct)]

    def _rows(self, stored: StoredTable, keys: list[bytes], values: list[bytes]) -> pa.Table:
        return self._unpacked(stored, PackedRows(from_list(keys), from_list(values)))

    def _counted(
        self,
        stored: StoredTable,
        keys: list[bytes],
        values: list[bytes],
        sizes: Sequence[int],
        most: Sequence[int],
        *,
        backwards: bool = False,
    ) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """The first (`backwards`: last) rows, at most `most`, of so many values each, and how many there are of each."""
        rows, counts = self._expanded(stored, PackedRows(from_list(keys), from_list(values)))
        found = np.array(sizes, np.int64)
        if counts is None:
            return rows, found
        ends = np.concatenate([[0], np.cumsum(counts)])[np.cumsum(found)]
        found = np.diff(ends, prepend=0)
        kept = np.minimum(found, np.array(most, np.int64))
        starts = ends - kept if backwards else ends - found
        return rows.take(pa.array(ragged(starts, kept))), kept

    def _unpacked(self, stored: StoredTable, rows: PackedRows) -> pa.Table:
        return self._expanded(stored, rows)[0]

    def _expanded(
        self, stored: StoredTable, rows: PackedRows
    ) -> tuple[pa.Table, npt.NDArray[np.int64] | None]:
        """The rows that are in values, and how many are in each; None if one is in each."""
        spec = stored.spec
        offsets, data = parts(rows.keys)
        columns, ends = decode_columns(data, offsets[:-1] + stored.header, offsets[1:], stored.key_types)
        if not np.array_equal(ends, offsets[1:]):
            raise StateError(f"state {self.schema.state_id}: a key of {spec.name} is not well formed")
        if spec.layout == "time":
            columns.insert(0, pa.array(read_times(data, offsets[:-1] + 1)))
        sizes: npt.NDArray[np.int64] | None
        if spec.layout == "list":
            decoded, sizes = decode_packed_lists(rows.values, spec.value, stored.versions)
        else:
            decoded, sizes = decode_stored(rows.values, spec.value, stored.versions)
        if sizes is not None:
            owners = pa.array(np.repeat(np.arange(len(sizes)), sizes))
            of_runs = [names_from(columns.pop(), sizes).cast(to_arrow(BLOB))] if spec.layout == "key" else []
            columns = [*(column.take(owners) for column in columns), *of_runs]
        table = pa.Table.from_arrays(
            [*columns, *(decoded.columns if spec.value else ())],
            names=[*spec.key_columns, *spec.value_columns],
        )
        return table, sizes

    @staticmethod
    def _time_range(stored: StoredTable, from_us: int | None, to_us: int | None) -> tuple[bytes, bytes]:
        if stored.spec.layout != "time":
            raise ValueError(f"state table {stored.spec.name} is not ordered by time")
        return time_bound(stored, from_us, stored.prefix), time_bound(stored, to_us, stored.after)
