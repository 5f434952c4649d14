"""Records of Avro and Protocol Buffers as columns: ours beside fastavro and a loop over messages, in rows per second.

Each is given the same records of Nexmark's bids and makes an Arrow table of them; times are of this process's CPU, the
best of three, so that other work on the machine counts less. `python -m benchmarks.avro_records [rows]`
"""

from __future__ import annotations

import io
import json
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import pyarrow as pa

from sqlstream.formats.api import RecordFormat
from sqlstream.formats.avro.plain import AvroRecordReader, AvroRecordWriter
from sqlstream.formats.protobuf.derived import MESSAGE_NAME, derive
from sqlstream.formats.protobuf.messages import message_class
from sqlstream.formats.protobuf.plain import MessageRows, RowMessages
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import BIGINT, TIMESTAMP, VARCHAR

COLUMNS = (
    Column("auction", BIGINT, nullable=False),
    Column("bidder", BIGINT, nullable=False),
    Column("price", BIGINT),
    Column("channel", VARCHAR),
    Column("url", VARCHAR, nullable=False),
    Column("dateTime", TIMESTAMP, nullable=False),
    Column("extra", VARCHAR, nullable=False),
)
SCHEMA = {
    "type": "record",
    "name": "bid",
    "fields": [
        {"name": "auction", "type": "long"},
        {"name": "bidder", "type": "long"},
        {"name": "price", "type": ["null", "long"]},
        {"name": "channel", "type": ["null", "string"]},
        {"name": "url", "type": "string"},
        {"name": "dateTime", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "extra", "type": "string"},
    ],
}


def bids(count: int) -> list[dict[str, Any]]:
    rnd = random.Random(1)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        {
            "auction": rnd.randrange(10**6),
            "bidder": rnd.randrange(10**4),
            "price": rnd.randrange(10**7) if n % 7 else None,
            "channel": rnd.choice(["Google", "Apple", None]),
            "url": f"https://www.nexmark.com/{rnd.randrange(10**9):x}",
            "dateTime": start + timedelta(milliseconds=n),
            "extra": "x" * rnd.randrange(60),
        }
        for n in range(count)
    ]


def best(rows: int, call: Callable[[], Any]) -> float:
    """Rows per second of CPU."""
    spans = []
    for _ in range(3):
        begin = time.process_time()
        call()
        spans.append(time.process_time() - begin)
    return rows / min(spans)


def main(count: int) -> None:
    rows = bids(count)
    schema = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
    duck = DuckSession()
    format_ = RecordFormat("avro", COLUMNS, COLUMNS, {"avro.schema": json.dumps(SCHEMA)})

    def by_fastavro() -> list[bytes]:
        records = []
        for row in rows:
            into = io.BytesIO()
            fastavro.schemaless_writer(into, schema, row)
            records.append(into.getvalue())
        return records

    records = by_fastavro()
    values = pa.array(records, pa.large_binary())
    reader, writer = AvroRecordReader(format_), AvroRecordWriter(format_)
    table = reader.read(duck, values)
    assert writer.write(duck, table).equals(values)
    message = message_class([derive(COLUMNS)], MESSAGE_NAME)
    out, into = RowMessages(message, COLUMNS, ""), MessageRows(message, COLUMNS, False)
    messages = out.write(table)
    numbers = list(range(count))
    referee = best(
        count,
        lambda: pa.Table.from_pylist(
            [fastavro.schemaless_reader(io.BytesIO(r), schema, None) for r in records]
        ),
    )
    print(f"{count} bids, {len(b''.join(records)) / count:.0f} bytes each in Avro; rows per second of CPU")
    for name, speed in (
        ("read:  fastavro, a record at a time, to Arrow", referee),
        ("read:  avro", best(count, lambda: reader.read(duck, values))),
        ("read:  protobuf (objects of its C core)", best(count, lambda: into.read(messages, numbers, {}))),
        ("write: fastavro, of dicts that are there", best(count, by_fastavro)),
        ("write: avro", best(count, lambda: writer.write(duck, table))),
        ("write: protobuf", best(count, lambda: out.write(table))),
    ):
        print(f"{name:48} {speed:12,.0f}  {speed / referee:6.1f} x fastavro's reading")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
