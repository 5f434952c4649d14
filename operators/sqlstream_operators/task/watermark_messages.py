"""How far an epoch has read each source, told from task to task: what closes windows in the epoch that read it.

A source's tasks tell every shard of the next level; each shard knows all then, and tells the shard of its number at the
level after it. So the driver need not wait for what was read before it says what closes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from sqlstream_operators.codec.exchange import Message, producer
from sqlstream_operators.plan.spec import PhysicalPlan

from .epoch import EpochContext

#: The edge on which they travel.
WATERMARK_EDGE = "$watermark"


def to_shards(
    plan: PhysicalPlan, epoch: EpochContext, source: str, watermark: int | None, ordinal: int
) -> Iterator[Message]:
    """Tell all shards up to which watermark (µs; None: no row) a split was read, if it can close any window of theirs."""
    marks = epoch.watermarks[source]
    if marks.raised(watermark) == marks or all(
        source not in step.operator.watermark_sources for step in plan.operators
    ):
        return
    for shard in range(epoch.shards):
        yield _message({source: watermark}, shard, producer(0, ordinal))


def gathered(messages: Iterable[Message]) -> dict[str, int]:
    """The greatest watermark of each source (µs) that messages tell."""
    found: dict[str, int] = {}
    for message in messages:
        for source, watermark in json.loads(message.blob).items():
            found[source] = max(watermark, found.get(source, watermark))
    return found


def to_next_level(plan: PhysicalPlan, level: int, shard: int, read: Mapping[str, int]) -> Iterator[Message]:
    """Tell the shard's task at the next level, if there is one, what this one knows."""
    if read and level + 1 < plan.levels:
        yield _message(read, shard, producer(level, shard))


def _message(read: Mapping[str, int | None], shard: int, sender: int) -> Message:
    return Message(WATERMARK_EDGE, shard, sender, json.dumps(dict(read), sort_keys=True).encode())
