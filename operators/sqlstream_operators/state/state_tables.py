"""The tables of an operator's state over any sorted map of bytes.

Physical keys, with T the table's index (1 byte), G the key group (2 bytes, big-endian) and keys in
`key_bytes`::

    layout 'key'    T G key sub-key         the rows of a key are one range, and so is a key group
    layout 'time'   T time G key sub-key    time in 8 bytes, order-preserving: closing windows is one range
    layout 'list'   T G key                 the value holds all rows of the key

A value of layout 'key' may be a run: rows of one key that came together, at the first one's name (`append_runs`).

Writes of the running epoch are an overlay in memory that every read sees; the map below it does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise, repeat
from operator import is_not, lt

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.arrow_types import conform, to_arrow
from sqlstream_operators.codec.binary import U8, from_list, from_matrix
from sqlstream_operators.codec.byte_order import bytes_order, key_words
from sqlstream_operators.codec.key_bytes import (
    encode_pieces,
    join_pieces,
    to_bytes,
)
from sqlstream_operators.codec.rows import (
    decode_lists,
    decode_rows,
    encode_lists,
    encode_rows,
    packed_rows,
)
from sqlstream_operators.codec.runs import encode_runs, row_count
from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.state_schema import FOUND, StateSchema
from sqlstream_operators.plan.types import BLOB

from .layout import StoredTable
from .overlaid_map import OverlaidMap
from .overlay import SortedBytes
from .packed_rows import PackedRows
from .range_reads import are_apart, read_ranges
from .row_names import MOST_NAMES, names_of, numbers_of
from .stored_tables import StoredTables

#: From so many keys a row of a table on, looking for them reads the whole table: a step costs a tenth of a seek.
_KEYS_PER_ROW = 32
#: A run has so many rows at most, so that no value is much larger than others.
_RUN_ROWS = 1024


class StateTables(StoredTables, OverlaidMap):
    """The tables of a `StateSchema` over a sorted map of bytes and this epoch's overlay: a `StateStore`."""

    def __init__(
        self,
        schema: StateSchema,
        shard: int,
        shards: int,
        max_parallelism: int,
        base: SortedBytes,
        schemas: Sequence[StateSchema] = (),
        lineage: str = "",
    ) -> None:
        StoredTables.__init__(self, schema, shard, shards, max_parallelism, schemas)
        OverlaidMap.__init__(self, base)
        self._lineage = lineage
        self._named = 0

    def get(self, table: str, keys: pa.Table) -> pa.Table:
        """See `StateStore.get`."""
        stored = self._table(table)
        wanted = self._keys(stored, keys)
        distinct = _distinct(wanted)
        there, present = _present(self._fetch(distinct))
        position = np.cumsum(there) - 1
        if wanted != distinct:
            numbers = dict(zip(distinct, range(len(distinct)), strict=True))
            index = np.fromiter(map(numbers.__getitem__, wanted), np.int64, len(wanted))
            there, position = there[index], position[index]
        return self._found(stored, present, there, position)

    @staticmethod
    def _found(
        stored: StoredTable,
        present: list[bytes],
        there: npt.NDArray[np.bool_],
        position: npt.NDArray[np.int64],
    ) -> pa.Table:
        """The values at some positions of those that are present, NULLs where there is none, and FOUND."""
        found = pa.array(there)
        if not stored.spec.value:
            return pa.Table.from_arrays([found], names=[FOUND])
        decoded = decode_rows(present, stored.spec.value, stored.versions)
        if not there.all() or not np.array_equal(position, np.arange(len(present))):
            decoded = decoded.take(pa.array(position, mask=~there))
        return pa.Table.from_arrays([*decoded.columns, found], names=[*stored.spec.value_columns, FOUND])

    def sorted_keys(self, table: str, keys: pa.Table) -> tuple[npt.NDArray[np.int64], list[bytes]]:
        """See `StateStore.sorted_keys`."""
        stored = self._table(table)
        if not keys.num_rows:
            return np.zeros(0, np.int64), []
        encoded = self._encoded(stored, keys)
        order = bytes_order(encoded)
        taken = encoded[order] if isinstance(encoded, np.ndarray) else encoded.take(pa.array(order))
        return order, to_bytes(taken)

    def get_sorted(self, table: str, keys: list[bytes]) -> pa.Table:
        """See `StateStore.get_sorted`."""
        stored = self._table(table)
        there, present = _present(self._fetch(keys))
        return self._found(stored, present, there, np.cumsum(there) - 1)

    def put_sorted(self, table: str, keys: list[bytes], rows: pa.Table) -> None:
        """See `StateStore.put_sorted`."""
        if keys:
            self.overlay.write(keys, encode_rows(rows, self._table(table).spec.value, self._written_as))

    def delete_sorted(self, table: str, keys: list[bytes]) -> None:
        """See `StateStore.delete_sorted`."""
        if keys:
            self.overlay.write(keys, [None] * len(keys))

    def put(self, table: str, rows: pa.Table) -> None:
        """See `StateStore.put`."""
        self.put_sorted(table, self._keys(self._table(table), rows), rows)

    def lists(self, table: str, keys: pa.Table) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """See `StateStore.lists`."""
        stored = self._table(table)
        wanted = self._keys(stored, keys)
        distinct = _distinct(wanted)
        found = dict(zip(distinct, self._fetch(distinct), strict=True))
        there, present = _present([found[key] for key in wanted])
        rows, lengths = decode_lists(present, stored.spec.value, stored.versions)
        sizes = np.zeros(len(wanted), np.int64)
        sizes[there] = lengths
        return rows, sizes

    def put_lists(self, table: str, keys: pa.Table, rows: pa.Table, sizes: npt.NDArray[np.int64]) -> None:
        """See `StateStore.put_lists`."""
        if not keys.num_rows:
            return
        stored = self._table(table)
        values = encode_lists(rows, sizes, stored.spec.value, self._written_as)
        self.overlay.write(self._keys(stored, keys), values)

    def delete(self, table: str, keys: pa.Table) -> None:
        """See `StateStore.delete`."""
        self.delete_sorted(table, self._keys(self._table(table), keys))

    def scan_prefix(self, table: str, keys: pa.Table) -> pa.Table:
        """See `StateStore.scan_prefix`."""
        stored = self._table(table)
        few = self._few(stored, keys) if self.overlay.empty else None
        if few is not None:
            return few
        return self._rows(stored, *read_ranges(self.base, self.overlay, self._prefixes(stored, keys))[:2])

    def _few(self, stored: StoredTable, keys: pa.Table) -> pa.Table | None:
        """`scan_prefix` of a table that has few rows for so many keys: all are read. None if it has more."""
        most = keys.num_rows // _KEYS_PER_ROW
        if not most:
            return None
        if self.base.measure(stored.prefix, stored.after, most)[0] == most:
            return None
        rows = self._rows(stored, *self.base.scan(stored.prefix, stored.after))
        if not rows.num_rows:
            return rows
        own, wanted = (_binary(self._key_part(stored, table)) for table in (rows, keys))
        hit = wanted.filter(pc.is_in(wanted, value_set=own))
        return rows.filter(pc.is_in(own, value_set=hit))

    def scan_first(
        self, table: str, keys: pa.Table, most: npt.NDArray[np.int64]
    ) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """See `StateStore.scan_first`."""
        stored = self._table(table)
        prefixes = self._keys(stored, keys, [field.name for field in stored.spec.key])
        order = sorted(range(len(prefixes)), key=prefixes.__getitem__)
        ranges = [(prefixes[i], prefixes[i] + b"\xff") for i in order]
        limits = most[order].tolist()
        if are_apart(ranges):
            found_keys, found_values, counts = read_ranges(self.base, self.overlay, ranges, limits)
        else:  # a key that is looked up twice
            found_keys, found_values, counts = self._one_by_one(ranges, limits)
        rows, found = self._counted(stored, found_keys, found_values, counts, limits)
        sizes = np.zeros(len(prefixes), np.int64)
        sizes[order] = found
        if order != list(range(len(order))):
            ends = np.zeros(len(prefixes), np.int64)
            ends[order] = np.cumsum(found)
            starts = np.repeat(ends - sizes - (np.cumsum(sizes) - sizes), sizes)
            rows = rows.take(pa.array(starts + np.arange(len(starts))))
        return rows, sizes

    def places(self, table: str, keys: pa.Table, sub_keys: int) -> list[bytes]:
        """See `StateStore.places`."""
        stored = self._table(table)
        spec = stored.spec
        names = [field.name for field in (*spec.key, *spec.sub_key[:sub_keys])]
        return self._keys(stored, keys, names)

    def scan_between(
        self,
        table: str,
        ranges: Sequence[tuple[bytes, bytes]],
        most: npt.NDArray[np.int64],
        *,
        backwards: bool = False,
    ) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """See `StateStore.scan_between`."""
        stored = self._table(table)
        limits = most.tolist()
        if backwards or not are_apart(ranges):
            keys, values, sizes = self._one_by_one(ranges, limits, backwards=backwards)
        else:
            keys, values, sizes = read_ranges(self.base, self.overlay, ranges, limits)
        return self._counted(stored, keys, values, sizes, limits, backwards=backwards)

    def ends(self, table: str, keys: pa.Table, *, last: bool) -> pa.Table:
        """See `StateStore.ends`."""
        stored = self._table(table)
        found = [row for row in self._edges(self._prefixes(stored, keys), backwards=last) if row is not None]
        ones = [1] * len(found)
        parts_ = [key for key, _ in found], [value for _, value in found]
        return self._counted(stored, *parts_, ones, ones, backwards=last)[0]

    def ranges_of(self, table: str, keys: pa.Table) -> list[tuple[bytes, bytes]]:
        """Where the rows of each of `keys` (without sub-key; with the time in layout 'time') lie, in order."""
        return self._prefixes(self._table(table), keys)

    def range_of(
        self, table: str, from_us: int | None = None, to_us: int | None = None
    ) -> tuple[bytes, bytes]:
        """Where the rows of a table lie; in layout 'time' those with from_us <= time < to_us (None: unbounded)."""
        stored = self._table(table)
        if stored.spec.layout != "time":
            return stored.prefix, stored.after
        return self._time_range(stored, from_us, to_us)

    def decoded(self, table: str, keys: list[bytes], values: list[bytes]) -> pa.Table:
        """Rows of a table (key and value columns) from the bytes that they lie in."""
        return self._rows(self._table(table), keys, values)

    def unpacked(self, table: str, rows: PackedRows) -> pa.Table:
        """Rows of a table (key and value columns) from their bytes."""
        return self._unpacked(self._table(table), rows)

    def scan_time(self, table: str, from_us: int | None, to_us: int | None) -> pa.Table:
        """See `StateStore.scan_time`."""
        stored = self._table(table)
        return self._rows(stored, *self.scan_bytes(*self._time_range(stored, from_us, to_us)))

    def delete_time(self, table: str, from_us: int | None, to_us: int | None) -> int:
        """See `StateStore.delete_time`."""
        first, last = self._time_range(self._table(table), from_us, to_us)
        if first >= last:
            return 0
        below = 0
        for low, high in self.overlay.visible(first, last):
            rows, size = self._measured(low, high)
            below += rows
            self.rows_changed -= rows
            self.bytes_changed -= size
        if below:
            self.overlay.delete_range(first, last)
        else:
            self.overlay.forget(first, last)
        return below

    def has_time(self, table: str, times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """See `StateStore.has_time`."""
        stored = self._table(table)
        distinct, inverse = np.unique(np.asarray(times, np.int64), return_inverse=True)
        found = np.zeros(len(distinct), bool)
        for i, time in enumerate(distinct.tolist()):
            first, last = self._time_range(stored, time, time + 1)
            found[i] = self._any(first, last)
        return found[inverse]

    def scan_all(self, table: str) -> pa.Table:
        """See `StateStore.scan_all`."""
        stored = self._table(table)
        return self._rows(stored, *self.scan_bytes(stored.prefix, stored.after))

    def load(self, table: str, rows: pa.Table) -> None:
        """See `StateStore.load`."""
        stored = self._table(table)
        if not rows.num_rows:
            return
        if stored.spec.layout == "list":
            order, keys = self.sorted_keys(table, rows)
            starts = [0, *(i + 1 for i, (one, other) in enumerate(pairwise(keys)) if one != other)]
            ordered = rows.take(pa.array(order))
            sizes = np.diff([*starts, len(keys)])
            self.put_lists(table, ordered.take(pa.array(starts)), ordered, sizes)
        elif self.base.seek(stored.prefix, stored.after) is not None:
            self.put(table, rows)
        else:
            self.append(table, rows)

    def new_names(self, count: int) -> pa.Array:
        """See `StateStore.new_names`."""
        first, self._named = self._named, self._named + count
        if self._named > MOST_NAMES:
            raise StateError(f"state {self.schema.state_id}: more than {MOST_NAMES} rows in one epoch")
        return names_of(self._lineage, first, count)

    def append(self, table: str, rows: pa.Table) -> None:
        """See `StateStore.append`."""
        if rows.num_rows:
            stored = self._table(table)
            values = packed_rows(rows, stored.spec.value, self._written_as)
            self.overlay.load(PackedRows.of(self._encoded(stored, rows), values))

    def key_order(self, table: str, rows: pa.Table) -> npt.NDArray[np.int64]:
        """See `StateStore.key_order`."""
        return (
            bytes_order(self._key_part(self._table(table), rows)) if rows.num_rows else np.zeros(0, np.int64)
        )

    def append_runs(self, table: str, rows: pa.Table) -> None:
        """See `StateStore.append_runs`."""
        if not rows.num_rows:
            return
        stored = self._table(table)
        if stored.spec.layout != "key" or [field.type for field in stored.spec.sub_key] != [BLOB]:
            raise ValueError(f"state table {table} can't have runs")
        names = conform(rows.column(stored.spec.sub_key[0].name), to_arrow(BLOB))
        if (np.diff(numbers_of(names)) != 1).any():
            raise ValueError(f"state table {table}: the names of a run must follow each other")
        keys = self._key_part(stored, rows)
        starts = _run_starts(keys)
        sizes = np.diff(np.append(starts, rows.num_rows))
        firsts = encode_pieces([names.take(pa.array(starts))], [BLOB])
        heads = keys[starts] if isinstance(keys, np.ndarray) else keys.take(pa.array(starts))
        runs = encode_runs(rows, sizes, stored.spec.value, self._written_as)
        self.overlay.load(PackedRows(_binary(join_pieces([heads, *firsts])), runs))

    def delete_prefix(self, table: str, keys: pa.Table) -> int:
        """See `StateStore.delete_prefix`."""
        found, values, _ = read_ranges(self.base, self.overlay, self._prefixes(self._table(table), keys))
        self.delete_sorted(table, found)
        return row_count(from_list(values))


def _binary(encoded: U8 | pa.Array) -> pa.Array:
    return from_matrix(encoded) if isinstance(encoded, np.ndarray) else encoded


def _run_starts(keys: U8 | pa.Array) -> npt.NDArray[np.int64]:
    """Where runs of equal keys, which stand in order, begin; none is longer than `_RUN_ROWS`."""
    new = np.zeros(len(keys), bool)
    new[0] = True
    for word in key_words(keys):
        new[1:] |= word[1:] != word[:-1]
    places = np.arange(len(keys))
    first = np.maximum.accumulate(np.where(new, places, 0))
    return np.flatnonzero((places - first) % _RUN_ROWS == 0)


def _present(values: list[bytes | None]) -> tuple[npt.NDArray[np.bool_], list[bytes]]:
    """Where there is a value, and those that are there."""
    there = np.fromiter(map(is_not, values, repeat(None)), bool, len(values))
    return there, [value for value in values if value is not None]


def _distinct(keys: list[bytes]) -> list[bytes]:
    """The distinct keys, sorted; keys that are so already cost one look at each."""
    return keys if all(map(lt, keys, islice(keys, 1, None))) else sorted(set(keys))
