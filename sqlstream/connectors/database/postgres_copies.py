"""A copy of a table of PostgreSQL's, of one snapshot: a snapshot ends with its connection, a copy is read again.

Nothing of PostgreSQL keeps a snapshot for as long as a run needs it. So the driver copies the table (the declared columns),
over several connections that share the snapshot, each a range of its blocks, and epochs read files (`copies`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter

from sqlstream.connectors.api import CopiedPart
from sqlstream.connectors.database.copies import Copy, content_of, finished, folder_of, new_id, remove_all
from sqlstream.connectors.database.postgres_blocks import blocks, fields_of, table_of
from sqlstream.connectors.database.postgres_catalog import ThereTable, types_of
from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.exactly_once.target import LostConnectionError
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import quote_identifier, quote_literal
from sqlstream_operators.state.checkpoint_store import CheckpointStore

#: Blocks of a table that one connection copies at once (128 MiB), and how many do so.
_PAGES, _CONNECTIONS = 16_384, 4


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
    id_ = new_id(owner)
    types = types_of(columns, there.columns)
    names = ", ".join(quote_identifier(column.name) for column in columns)
    numbers = iter(range(1 << 40))
    made: dict[tuple[int, int], CopiedPart] = {}
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
                    name = f"{folder_of(id_)}/{next(numbers):06d}.part"
                    content = content_of(rows)
                    store.put(name, content)
                    made[part, number] = CopiedPart(name, rows.num_rows, len(content))
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
    return finished(store, id_, [part for _, part in sorted(made.items(), key=itemgetter(0))])


def _ranges(there: ThereTable) -> Iterator[str]:
    """WHERE clauses that cut a table by its blocks; the last one has no end, since it may have grown."""
    if there.kind not in ("r", "m") or there.pages <= _PAGES:
        yield ""
        return
    for first in range(0, there.pages, _PAGES):
        last = first + _PAGES >= there.pages
        begin = f"ctid >= '({first},0)'::tid"
        yield f" WHERE {begin}" if last else f" WHERE {begin} AND ctid < '({first + _PAGES},0)'::tid"
