"""A snapshot of the operation `replace`: other files, the same rows. PyIceberg makes none by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction


class _Replacing(_OverwriteFiles):
    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006  # as the library has it
        found = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **found.additional_properties)


def replacing(transaction: Transaction, table: Table) -> _OverwriteFiles:
    """What deletes and appends files in a snapshot of it, as a part of the transaction when it is left."""
    return _Replacing(Operation.OVERWRITE, transaction, table.io)
