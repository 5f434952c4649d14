"""What a sink's epochs are to its table: files that are added, or rows that are changed by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.lakehouse.waiting import WaitingEpoch
from sqlstream_operators.state.checkpoint_store import CheckpointStore

_Table = TypeVar("_Table", contravariant=True)


class Content(Protocol[_Table]):
    """How the parts of an epoch become one commit of a table.

    `load` or `load_noted` comes before `write` and `replace`, which may be called again for another version of the table,
    and `unload` after them. Those raise what the table's library does, also where somebody else has committed meanwhile.
    """

    @property
    def merges(self) -> bool:
        """Whether rows that are there are changed."""
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

    def commits(self, waiting: Sequence[WaitingEpoch]) -> Iterator[Sequence[WaitingEpoch]]:
        """Epochs that waited, in their order, as the commits that they can be."""
        ...

    def write(self, table: _Table, epoch: int) -> bool:
        """Give the table what is loaded, with the number of its epoch.

        Whether that was a commit: there is none if no row changes anything.
        """
        ...

    def replace(self, table: _Table, epoch: int) -> None:
        """Make what is loaded all that the table has, with the columns of the sink."""
        ...

    def unload(self) -> None:
        """Forget what is loaded."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...
