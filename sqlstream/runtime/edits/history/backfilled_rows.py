"""The rows that a backfill has for sinks: kept in its folder, epoch by epoch, until one epoch of the main journal has them.

The tasks of a backfill stage rows in the checkpoint store, whatever the sink: nothing of them is seen by readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import quote

import pyarrow as pa

from sqlstream.connectors.api import SinkPart, SinkWriter
from sqlstream.connectors.exactly_once.staged import StagedEpoch, StagingWriter
from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream.storage.journal import damaged
from sqlstream.storage.manifest import CommittedPart
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import consolidated
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.staged_rows import StagedRows

_KIND = "backfilled rows"
_FOLDER = "rows"
#: A part that is written on the driver has about so many bytes.
PART_BYTES = 64 << 20


class KeptRows:
    """A sink of a backfill: keeps the parts of every epoch in the backfill's own store."""

    def __init__(self, store: CheckpointStore, sink: str) -> None:
        self._store = store
        self._folder = f"{_FOLDER}/{quote(sink, safe='').replace('.', '%2E')}"

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Nothing can fail: the rows are staged."""

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Note the parts of an epoch; repeated after a crash."""
        made = [CommittedPart(part.rows, part.payload, part.staged).to_json() for part in parts if part.rows]
        if made:
            self._store.put(f"{self._folder}/{epoch:06d}.json", encode(_KIND, {"parts": made}))

    def abort_uncommitted(self, last_epoch: int) -> None:
        """What no manifest names is swept."""

    def parts(self, folder: str = "") -> tuple[SinkPart, ...]:
        """The parts of all epochs in order; `folder` is where the backfill is in the store that is to read them.

        Raises DiagnosticError (STA001) for a damaged file.
        """
        return tuple(_below(part, folder) for part in self._all())

    def files(self) -> frozenset[str]:
        """The names of all files with rows."""
        return frozenset(name for part in self._all() if part.staged for name in part.staged.names)

    def _all(self) -> Iterator[SinkPart]:
        for name in self._store.list(self._folder):
            try:
                content = decode(_KIND, name, self._store.get(name))
            except DamagedFileError as error:
                raise damaged(error, self._store) from None
            for made in content["parts"]:
                part = CommittedPart.from_json(made)
                yield SinkPart(part.rows, part.payload, staged=part.staged)


def written(
    spec: SinkSpec, parts: Sequence[SinkPart], store: CheckpointStore, writer: SinkWriter, epoch: int
) -> tuple[SinkPart, ...]:
    """What `epoch` of the main journal has for a sink: the parts of a backfill, as the sink's connector takes them.

    A connector that stages rows takes them as they are, and names them in the manifest. Any other's are written here, on the
    driver, a file's worth at a time; the same in a retry. Changes are consolidated within such a part, and come in the order
    of the history. `store` is the main one. Raises StateError if rows are gone.
    """
    if isinstance(writer, StagingWriter):
        return tuple(parts)
    made: list[SinkPart] = []
    duck = DuckSession()
    try:
        for number, table in enumerate(_tables(StagedEpoch(store, spec, parts))):
            rows = table if spec.changelog == "append" else consolidated(duck, table, spec.schema)
            if rows.num_rows:
                made.append(writer.write(rows, epoch=epoch, task=f"backfill-{number:05d}"))
    finally:
        duck.close()
    return tuple(made)


def _tables(rows: StagedEpoch) -> Iterator[pa.Table]:
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in rows.reader():
        batches.append(batch)
        size += batch.nbytes
        if size >= PART_BYTES:
            yield pa.Table.from_batches(batches)
            batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def _below(part: SinkPart, folder: str) -> SinkPart:
    if not folder or part.staged is None:
        return part
    files = tuple(replace(file, name=f"{folder}/{file.name}") for file in part.staged.files)
    return replace(part, staged=StagedRows(part.staged.rows, files, part.staged.inline))
