"""What a task reports to the driver about an epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sqlstream_operators.codec.exchange import Message, decode, encode, producer
from sqlstream_operators.state.staged_rows import StagedRows
from sqlstream_operators.state.version import ShardVersion

from .dead_letters import StagedDeadLetters

#: The edge on which reports travel to the driver, if they go through later stage levels.
REPORT_EDGE = "$report"


@dataclass(frozen=True, slots=True)
class StagedPart:
    """What a task staged for one sink: the sink writer's `SinkPart`, and whose it is."""

    sink: str
    task: str
    rows: int
    payload: Mapping[str, Any] = field(default_factory=dict)
    table: pa.Table | None = None
    staged: StagedRows | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """One task's figures for one epoch.

    task: its name, unique in the epoch. rows, bytes: read from the source, or arrived on the stage level's edges
    (bytes: of blobs; of a source: as the split says, else 0). shipped_bytes: in blobs that left. lanes: the greatest
    watermark expression in the split, µs, by lane. ahead: rows that are too far ahead of the clock to count for it.
    late: late rows of each late step's operator. uncounted: by table and operator, its rows that were late or had no time.
    malformed: rows that could not be read. letters: the file of the dead-letter rows. state: the new version of this
    shard, by state id. metrics: by operator step. made: by operator step, how many rows it gave. timings: µs by phase (read,
    fragment, encode, state, close, write). requests: what it asked object stores, and the process that did.
    """

    task: str
    level: int
    ordinal: int
    epoch: int
    source: str | None = None
    rows: int = 0
    read_bytes: int = 0
    shipped_bytes: int = 0
    lanes: Mapping[str, int] = field(default_factory=dict)
    ahead: int = 0
    late: Mapping[str, int] = field(default_factory=dict)
    uncounted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    malformed: int = 0
    parts: tuple[StagedPart, ...] = ()
    state: Mapping[str, ShardVersion] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, int] = field(default_factory=dict)
    letters: StagedDeadLetters | None = None
    requests: tuple[str, int] = ("", 0)

    @property
    def watermark(self) -> int | None:
        """The greatest watermark expression in the split, µs; None: no row has one."""
        return max(self.lanes.values(), default=None)

    def to_bytes(self) -> bytes:
        """The report as JSON, followed by its tables as Arrow IPC streams."""
        tables = [part.table for part in self.parts]
        blobs = [b"" if table is None else encode(table) for table in tables]
        header = {
            "task": self.task,
            "level": self.level,
            "ordinal": self.ordinal,
            "epoch": self.epoch,
            "source": self.source,
            "rows": self.rows,
            "read_bytes": self.read_bytes,
            "shipped_bytes": self.shipped_bytes,
            "lanes": dict(self.lanes),
            "ahead": self.ahead,
            "late": dict(self.late),
            "uncounted": {table: dict(of) for table, of in self.uncounted.items()},
            "malformed": self.malformed,
            "parts": [
                [p.sink, p.task, p.rows, dict(p.payload), p.staged and p.staged.to_json()] for p in self.parts
            ],
            "state": {state: version.to_json() for state, version in self.state.items()},
            "metrics": {step: dict(metrics) for step, metrics in self.metrics.items()},
            "made": dict(self.made),
            "timings": dict(self.timings),
            "letters": None if self.letters is None else [self.letters.file, dict(self.letters.rows)],
            "requests": self.requests,
            "tables": [len(blob) for blob in blobs],
        }
        text = json.dumps(header, sort_keys=True, ensure_ascii=False).encode()
        return b"".join([len(text).to_bytes(8, "little"), text, *blobs])

    @classmethod
    def from_bytes(cls, data: bytes) -> Report:
        """Read what `to_bytes` wrote."""
        at = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:at])
        tables: list[pa.Table | None] = []
        for size in header.pop("tables"):
            tables.append(decode([data[at : at + size]]) if size else None)
            at += size
        header["parts"] = tuple(
            StagedPart(sink, task, rows, payload, table, staged and StagedRows.from_json(staged))
            for (sink, task, rows, payload, staged), table in zip(header["parts"], tables, strict=True)
        )
        header["state"] = {state: ShardVersion.from_json(v) for state, v in header["state"].items()}
        if header["letters"] is not None:
            header["letters"] = StagedDeadLetters(*header["letters"])
        header["requests"] = tuple(header["requests"])
        return cls(**header)

    def to_message(self) -> Message:
        """The report as a message that later stage levels pass on."""
        return Message(REPORT_EDGE, 0, producer(self.level, self.ordinal), self.to_bytes())


def reports_among(messages: list[Message]) -> Iterator[Report]:
    """The reports among the messages that left the last stage level, in the order of their producers."""
    for message in sorted((m for m in messages if m.edge == REPORT_EDGE), key=lambda m: m.producer):
        yield Report.from_bytes(message.blob)
