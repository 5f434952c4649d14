"""A copy of a table in the state directory, of one snapshot: a snapshot ends with its connection, a copy is read again.

What an epoch reads must be the same whenever it is read, also by another run after a crash; and nothing of PostgreSQL keeps
a snapshot for that long. So the driver copies the table (the declared columns), over several connections that share the
snapshot, each a range of its blocks, and epochs read files. They are Arrow's, with at most `postgres_blocks` rows each.
"""

from __future__ import annotations

import json
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from sqlstream.connectors.api import Limits, Split
from sqlstream.connectors.database.postgres_blocks import blocks, fields_of, table_of
from sqlstream.connectors.database.postgres_catalog import ThereTable, types_of
from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.exactly_once.target import LostConnectionError
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import quote_identifier, quote_literal
from sqlstream_operators.state.checkpoint_store import CheckpointStore

#: The folder of the state directory that copies are in, each in its own.
FOLDER = "copies"
#: Blocks of a table that one connection copies at once (128 MiB), and how many do so.
_PAGES, _CONNECTIONS = 16_384, 4
#: A split of fewer rows costs more than it gains.
_FEWEST_ROWS = 10_000
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that is complete: its id, and the rows and bytes of each file, which are numbered."""

    id: str
    files: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(rows for rows, _ in self.files)


def _file(id_: str, number: int) -> str:
    return f"{FOLDER}/{id_}/{number:06d}.arrow"


def _index(id_: str) -> str:
    return f"{FOLDER}/{id_}/index.json"


def make_copy(
    store: CheckpointStore,
    owner: str,
    table: str,
    there: ThereTable,
    columns: Sequence[Column],
    snapshot: str,
    connect: Callable[[], PostgresConnection],
) -> Copy:
    """Copy the columns of a table (its name as SQL) as they are in an exported snapshot.

    `owner` is the folder of the source, whose other copies are removed: they are of runs that broke off, and no position
    has them. `connect` opens connections, which are closed here. Raises what `PostgresConnection` does, and DataError.
    """
    remove_all(store, owner)
    id_ = f"{quote(owner, safe='')}/{uuid.uuid4().hex}"
    types = types_of(columns, there.columns)
    names = ", ".join(quote_identifier(column.name) for column in columns)
    numbers = iter(range(1 << 40))
    made: dict[tuple[int, int], tuple[str, int, int]] = {}
    ranges = list(_ranges(there))
    left = deque(enumerate(ranges))

    def copy() -> bool:
        """Copy what ranges are left; False: the server takes no such connection."""
        connection = connect()
        try:
            try:
                connection.connect()
            except LostConnectionError as error:
                refused.append(error)
                return False
            connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.run(f"SET TRANSACTION SNAPSHOT {quote_literal(snapshot)}")
            while True:
                try:
                    part, where = left.popleft()
                except IndexError:
                    break
                query = f"SELECT {names} FROM {table}{where}"
                for number, block in enumerate(blocks(connection.copied(query))):
                    rows = table_of(fields_of(block, len(columns)), columns, types)
                    name = f"{FOLDER}/{id_}/{next(numbers):06d}.part"
                    content = _written(rows)
                    store.put(name, content)
                    made[part, number] = name, rows.num_rows, len(content)
            connection.run("COMMIT")
            return True
        except BaseException:
            left.clear()  # the others need not go on
            raise
        finally:
            connection.close()

    refused: list[LostConnectionError] = []
    workers = min(_CONNECTIONS, len(ranges))
    with ThreadPoolExecutor(workers) as pool:
        copied = [done.result() for done in [pool.submit(copy) for _ in range(workers)]]
    if not any(copied):  # fewer connections than were wanted take longer, and are no error
        raise refused[0]
    files = []
    for number, (_, (name, rows, size)) in enumerate(sorted(made.items())):
        store.move(name, _file(id_, number))
        files.append((rows, size))
    store.put(_index(id_), json.dumps(files).encode())
    return Copy(id_, tuple(files))


def _ranges(there: ThereTable) -> Iterator[str]:
    """WHERE clauses that cut a table by its blocks; the last one has no end, since it may have grown."""
    if there.kind not in ("r", "m") or there.pages <= _PAGES:
        yield ""
        return
    for first in range(0, there.pages, _PAGES):
        last = first + _PAGES >= there.pages
        begin = f"ctid >= '({first},0)'::tid"
        yield f" WHERE {begin}" if last else f" WHERE {begin} AND ctid < '({first + _PAGES},0)'::tid"


def _written(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def copy_of(store: CheckpointStore, id_: str) -> Copy | None:
    """The copy of an id; None if it is not there, or was never complete."""
    try:
        files = json.loads(store.get(_index(id_)))
    except FileNotFoundError:
        return None
    return Copy(id_, tuple((int(rows), int(size)) for rows, size in files))


def is_there(store: CheckpointStore, split: Mapping[str, Any]) -> bool:
    """Whether the files of a split are there."""
    return all(store.exists(_file(split["copy"], number)) for number, _, _ in split["files"])


def remove_all(store: CheckpointStore, owner: str) -> None:
    """Delete the copies of a source; the indexes first, so that what is left is no copy."""
    names = store.list(f"{FOLDER}/{quote(owner, safe='')}")
    indexes = [name for name in names if name.endswith(".json")]
    store.delete_all(indexes)
    store.delete_all([name for name in names if name not in indexes])


def next_splits(
    source: str, copy: Copy, file: int, row: int, limits: Limits
) -> tuple[tuple[Split, ...], int, int]:
    """What an epoch reads of a copy from a row of a file on, and where it goes on; behind the last file it is read."""
    taken: list[tuple[int, int, int]] = []
    rows = size = 0
    while file < len(copy.files):
        there, stored = copy.files[file]
        left = there - row if limits.rows is None else min(there - row, limits.rows - rows)
        if left <= 0 or (limits.bytes is not None and taken and size >= limits.bytes):
            break
        taken.append((file, row, row + left))
        rows += left
        size += stored * left // max(1, there)
        row += left
        if row == there:
            file, row = file + 1, 0
    return tuple(_splits(source, copy, taken, rows, limits.tasks)), file, row


def _splits(
    source: str, copy: Copy, taken: Sequence[tuple[int, int, int]], rows: int, tasks: int
) -> Iterator[Split]:
    each = max(_FEWEST_ROWS, -(-rows // max(1, tasks)))
    parts: list[list[int]] = []
    count = 0

    def made() -> Split:
        size = sum(copy.files[n][1] * (end - begin) // max(1, copy.files[n][0]) for n, begin, end in parts)
        return Split(source, {"copy": copy.id, "files": parts}, count, size)

    for number, begin, end in taken:
        while begin < end:
            some = min(end - begin, each - count)
            parts.append([number, begin, begin + some])
            begin += some
            count += some
            if count == each:
                yield made()
                parts, count = [], 0
    if parts:
        yield made()


def read_copy(store: CheckpointStore, split: Mapping[str, Any], columns: Sequence[str]) -> pa.Table:
    """The rows of a split, with these columns. Raises FileNotFoundError."""
    found = []
    for number, begin, end in split["files"]:
        with store.open(_file(split["copy"], number)) as file, pa.ipc.open_file(file) as reader:
            indices = [reader.schema.get_field_index(name) for name in columns]
            if -1 in indices:
                raise DataError(
                    f"the copy of the table has no column `{columns[indices.index(-1)]}`: it was declared after the table "
                    "was copied. Read the copy to its end without it, or begin anew with a new state directory"
                )
            if indices:
                file.seek(0)
                options = pa.ipc.IpcReadOptions(included_fields=indices)
                rows = pa.ipc.open_file(file, options=options).read_all().select(list(columns))
            else:
                rows = reader.read_all().select([])
        found.append(rows.slice(begin, end - begin))
    return pa.concat_tables(found)
