"""The task's half of a source that was copied into the state directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sqlstream.connectors.api import BadRow, Split
from sqlstream.connectors.database import copies
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore


class CopyReader:
    """Reads splits of a copy; one that says which `store` it is in was made for who only looks."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        declared = {column.name: column for column in spec.physical}
        self._columns = tuple(declared[name] for name in spec.columns)
        self._store: CheckpointStore | None = None

    def in_store(self, store: CheckpointStore) -> None:
        """The state directory, which has the copy."""
        self._store = store

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make the rows of the split queryable. Raises DataError for a value that its column can't have."""
        duck.register(relation, self.rows_of(split.payload), self._columns)

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """The same: each row was checked when it was copied."""
        self.open_strict(duck, relation, split, queries=1)
        return []

    def place(self, split: Split) -> str:
        """Where the rows of a split are."""
        return f"the table of `{self._spec.name}` as it was"

    def rows_of(self, payload: Mapping[str, Any]) -> pa.Table:
        """The rows of a split, as its files have them."""
        store = CheckpointStore(payload["store"], sync=False) if "store" in payload else self._store
        if store is None:
            raise InternalError("a reader was not told where the state directory is")
        return copies.read_copy(store, payload, [column.name for column in self._columns])
