"""Messages between tasks as rows of Arrow batches, which Spark can shuffle.

A row is (shard, edge, producer, part, blob): a message is cut into parts of a few MB, because Spark moves those
faster than big ones (1 GB through one exchange: 2.9 s in parts of 1 MB, 4.7 s of 16 MB, 9.5 s of 64 MB) and no
Arrow batch comes near its limit of 2 GiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from sqlstream_operators.codec.exchange import Message

PART_BYTES = 4 << 20
ROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("edge", pa.string()),
        ("producer", pa.int32()),
        ("part", pa.int32()),
        ("blob", pa.binary()),
    ]
)


def to_batches(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as rows, one part a batch; small ones share a batch."""
    waiting: list[tuple[int, str, int, int, bytes]] = []
    size = 0
    for message in messages:
        for part, start in enumerate(range(0, max(len(message.blob), 1), PART_BYTES)):
            blob = message.blob[start : start + PART_BYTES]
            waiting.append((message.shard, message.edge, message.producer, part, blob))
            size += len(blob)
            if size >= PART_BYTES:
                yield _batch(waiting)
                waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: Sequence[tuple[int, str, int, int, bytes]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW)


def from_batches(batches: Iterable[pa.RecordBatch]) -> list[Message]:
    """The messages whose parts are among the rows, in whatever order they came."""
    parts: dict[tuple[str, int, int], list[tuple[int, pa.Buffer]]] = {}
    for batch in batches:
        columns = [batch.column(i) for i in range(len(ROW))]
        shards, edges, producers, numbers = (column.to_pylist() for column in columns[:4])
        for row, (shard, edge, producer, number) in enumerate(
            zip(shards, edges, producers, numbers, strict=True)
        ):
            blob = columns[4][row].as_buffer()
            parts.setdefault((edge, shard, producer), []).append((number, blob))
    messages = []
    for (edge, shard, producer), found in parts.items():
        found.sort(key=lambda part: part[0])
        if [number for number, _ in found] != list(range(len(found))):
            raise RuntimeError(f"parts of a blob on edge {edge} are missing: {[n for n, _ in found]}")
        messages.append(Message(edge, shard, producer, b"".join(memoryview(part) for _, part in found)))
    return messages
