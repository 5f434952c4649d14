"""How far an epoch has read each source, sent from task to task: what closes windows in the epoch that read it.

A source's tasks send it to every shard of the next stage level; each shard knows all then, and sends it to the shard of
its number at the stage level after it. So the driver need not wait for what was read to decide what closes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from sqlstream_operators.codec.exchange import Message, producer
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.plan.watermarks import WATERMARK_MAX

from .epoch import EpochContext

#: The edge on which they travel.
WATERMARK_EDGE = "$watermark"
#: By source and lane, up to which watermark (µs) it was read; a source of one lane calls it "".
LanesRead = Mapping[str, Mapping[str, int]]


def to_shards(
    plan: PhysicalPlan,
    epoch: EpochContext,
    source: str,
    read: Mapping[str, int],
    ordinal: int,
) -> Iterator[Message]:
    """Tell all shards up to which watermarks (µs) the lanes of a split were read, if that can close any window of theirs."""
    marks = epoch.watermarks[source]
    raising = {
        lane: watermark
        for lane, watermark in read.items()
        if marks.raised(WATERMARK_MAX if lane else watermark) != marks
    }
    if not raising or all(source not in step.operator.watermark_sources for step in plan.operators):
        return
    for shard in range(epoch.shards):
        yield _message({source: raising}, shard, producer(0, ordinal))


def gathered(messages: Iterable[Message]) -> LanesRead:
    """The greatest watermark of each lane of each source (µs) in the messages."""
    found: dict[str, dict[str, int]] = {}
    for message in messages:
        for source, lanes in json.loads(message.blob).items():
            known = found.setdefault(source, {})
            for lane, watermark in lanes.items():
                known[lane] = max(watermark, known.get(lane, watermark))
    return found


def to_next_level(plan: PhysicalPlan, level: int, shard: int, read: LanesRead) -> Iterator[Message]:
    """Messages to the shard's task at the next stage level, if there is one, with what this one knows."""
    if read and level + 1 < plan.levels:
        yield _message(read, shard, producer(level, shard))


def _message(read: LanesRead, shard: int, sender: int) -> Message:
    content = {source: dict(lanes) for source, lanes in read.items()}
    return Message(WATERMARK_EDGE, shard, sender, json.dumps(content, sort_keys=True).encode())
