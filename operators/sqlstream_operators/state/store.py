"""The state of an operator in one shard, as a protocol: what operators read and write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.plan.state_schema import StateSchema


class StateStore(Protocol):
    """The state of one operator in one shard, for one epoch.

    Tables of `keys` have the key columns of the table (`StateTable.key_columns`: `TIME` first for layout
    'time', then key, then sub-key); `rows` have the value columns too. More columns are ignored. Times are
    int64 µs.
    """

    schema: StateSchema

    def get(self, table: str, keys: pa.Table) -> pa.Table:
        """The value columns of each of `keys`, in order, and `FOUND`: NULLs and false where there is none."""
        ...

    def put(self, table: str, rows: pa.Table) -> None:
        """Write rows over those with the same key; of several with one key the last is kept."""
        ...

    def sorted_keys(self, table: str, keys: pa.Table) -> tuple[npt.NDArray[np.int64], list[bytes]]:
        """The order of `keys` in the state, and what they are called there in that order; equal ones stand together.

        For an operator that reads and writes the same keys: they are encoded and sorted once.
        """
        ...

    def get_sorted(self, table: str, keys: list[bytes]) -> pa.Table:
        """As `get`, of keys that `sorted_keys` gave, or some of them in their order."""
        ...

    def put_sorted(self, table: str, keys: list[bytes], rows: pa.Table) -> None:
        """As `put`, at keys that `sorted_keys` gave, or some of them in their order."""
        ...

    def new_names(self, count: int) -> pa.Array:
        """So many BLOBs that no row of this state was ever called before, in ascending order.

        As sub-keys they distinguish append-only rows, without a look at what is there. They are made of how the version
        that the epoch began with came about, and of numbers: a retry gives the same.
        """
        ...

    def append(self, table: str, rows: pa.Table) -> None:
        """Write rows with keys of which none is there; of several with one key the last is kept.

        They stay packed, without an object a row.
        """
        ...

    def key_order(self, table: str, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The order of `rows` in the state by their keys, without sub-keys; those with equal keys stay in theirs."""
        ...

    def append_runs(self, table: str, rows: pa.Table) -> None:
        """As `append`, of rows in the order of the state whose only sub-keys are `new_names`, one number after the other.

        Rows of one key become one value: nobody can look for one of them by its name, or delete it alone.
        """
        ...

    def delete_prefix(self, table: str, keys: pa.Table) -> int:
        """Delete all rows whose key, without sub-key, is among `keys`; how many there were."""
        ...

    def delete_sorted(self, table: str, keys: list[bytes]) -> None:
        """As `delete`, of keys that `sorted_keys` gave, or some of them in their order."""
        ...

    def lists(self, table: str, keys: pa.Table) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """The value columns of all rows of each of `keys`, key by key in their order, and how many each has.

        For layout 'list', as is `put_lists`.
        """
        ...

    def put_lists(self, table: str, keys: pa.Table, rows: pa.Table, sizes: npt.NDArray[np.int64]) -> None:
        """Make `rows` (value columns), the first sizes[0] of them, the next sizes[1] …, the rows of `keys`."""
        ...

    def delete(self, table: str, keys: pa.Table) -> None:
        """Delete the rows with these keys, where there are any."""
        ...

    def scan_prefix(self, table: str, keys: pa.Table) -> pa.Table:
        """All rows (key and value columns) whose key, without sub-key, is among `keys`."""
        ...

    def scan_first(
        self, table: str, keys: pa.Table, most: npt.NDArray[np.int64]
    ) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """The first rows, in the order of state, of distinct `keys` (without sub-key), at most `most` of each.

        Rows come key by key in the order of `keys`, with how many each has.
        """
        ...

    def places(self, table: str, keys: pa.Table, sub_keys: int) -> list[bytes]:
        """Where the rows begin that have each of `keys` and its first `sub_keys` fields of the sub-key.

        They all begin with these bytes, and end before the same with a byte 255 behind.
        """
        ...

    def scan_between(
        self,
        table: str,
        ranges: Sequence[tuple[bytes, bytes]],
        most: npt.NDArray[np.int64],
        *,
        backwards: bool = False,
    ) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """The first (`backwards`: last) rows, at most `most` of each, in ranges between `places`.

        Rows come range by range, each in the order of state, with how many each has.
        """
        ...

    def ends(self, table: str, keys: pa.Table, *, last: bool) -> pa.Table:
        """The first (or last) row, in the order of state, of each of `keys` (without sub-key): one seek each.

        Keys without rows are absent; a key that is given twice is there once. Rows are in the order of state.
        """
        ...

    def scan_time(self, table: str, from_us: int | None, to_us: int | None) -> pa.Table:
        """All rows with from_us <= time < to_us (None: unbounded), ordered by time."""
        ...

    def delete_time(self, table: str, from_us: int | None, to_us: int | None) -> int:
        """Delete all rows with from_us <= time < to_us (None: unbounded) as one range; how many the epoch found."""
        ...

    def has_time(self, table: str, times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """For each time whether any row has it (one seek each)."""
        ...

    def scan_all(self, table: str) -> pa.Table:
        """All rows of a table, in the order of state."""
        ...

    def load(self, table: str, rows: pa.Table) -> None:
        """Write all rows of a table that has none; of several with one key the last is kept. For large tables at once.

        For layout 'list' the rows of a key stand in its order.
        """
        ...
