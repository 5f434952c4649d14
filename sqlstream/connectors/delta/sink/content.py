"""What a sink's epochs are to its table: files that are added, or rows that are changed by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from sqlstream.connectors.api import SinkPart
from sqlstream_operators.state.checkpoint_store import CheckpointStore

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable


class Content(Protocol):
    """How the parts of an epoch become one commit; `commit` is what that has beside its files.

    `load` comes before `write` and `replace`, which may be called again for another version of the table, and `unload` after
    them. Those raise what `deltalake` does, `CommitFailedError` where somebody else has committed meanwhile.
    """

    @property
    def merges(self) -> bool:
        """Whether rows that are there are changed; what replaces files may not be rebased."""
        ...

    @property
    def owns_all_rows(self) -> bool:
        """Whether rows of others in the table would make the result wrong."""
        ...

    def has_rows(self, parts: Sequence[SinkPart]) -> bool:
        """Whether an epoch has any."""
        ...

    def load(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Put an epoch together, if it isn't. Raises DataError for rows that the table can't have."""
        ...

    def noted(self, epoch: int, parts: Sequence[SinkPart], store: CheckpointStore, folder: str) -> Any:
        """What is written down of an epoch that waits, as plain JSON data; its rows, if they are staged, in `folder`."""
        ...

    def load_noted(self, notes: Sequence[Any]) -> None:
        """Put epochs that waited together, in their order, as one."""
        ...

    def write(self, table: DeltaTable, commit: CommitProperties) -> bool:
        """Give the table the epoch's rows. Whether that was a commit: there is none if no row changes anything."""
        ...

    def replace(self, table: DeltaTable, schema: pa.Schema | None, commit: CommitProperties) -> None:
        """Make the epoch's rows all that the table has; `schema` is what its columns become, None: they stay."""
        ...

    def unload(self) -> None:
        """Forget the epoch."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...
