"""How far topics have been read, as plans and manifests have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlstream.connectors.api import Position
from sqlstream_planner.diagnostics import counted

#: A partition of a topic.
Part = tuple[str, int]
Offsets = Mapping[Part, int]


@dataclass(frozen=True, slots=True)
class KafkaPosition:
    """Where reading began, where it goes on and, of a bounded source, where it ends (None: it has no end).

    Offsets are of the first record that is meant. `ids` are what brokers call the topics by, "" if they don't: a topic that
    is made anew has another one. `lost` are offsets that were gone before they were read, which somebody has agreed to.
    """

    start: Offsets
    next: Offsets
    end: Offsets | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    lost: Offsets = field(default_factory=dict)

    def to_json(self) -> Position:
        """Plain JSON data; offsets by topic and partition."""
        found: dict[str, Any] = {
            "cluster": self.cluster,
            "topics": dict(sorted(self.ids.items())),
            "start": _nested(self.start),
            "next": _nested(self.next),
        }
        if self.end is not None:
            found["end"] = _nested(self.end)
        if self.lost:
            found["lost"] = _nested(self.lost)
        return found

    @staticmethod
    def from_json(data: Position) -> KafkaPosition:
        """The inverse of `to_json`.

        >>> at = KafkaPosition({("t", 1): 5}, {("t", 1): 7}, ids={"t": "x"})
        >>> KafkaPosition.from_json(at.to_json()) == at
        True
        """
        return KafkaPosition(
            dict(_flat(data["start"])),
            dict(_flat(data["next"])),
            dict(_flat(data["end"])) if "end" in data else None,
            dict(data["topics"]),
            data["cluster"],
            dict(_flat(data.get("lost", {}))),
        )


def lane(part: Part) -> str:
    """What a partition is called where it goes through event time by itself."""
    return f"{part[0]}/{part[1]}"


#: Of more partitions than these, only the number is shown.
_SHOWN = 3


def in_words(offsets: Offsets) -> str:
    """Offsets for people.

    >>> in_words({("orders", 0): 6, ("orders", 1): 1200})
    'orders/0 offset 6, orders/1 offset 1,200'
    >>> in_words({("t", number): 0 for number in range(9)})
    't/0 offset 0, t/1 offset 0, t/2 offset 0 and 6 more partitions'
    """
    parts = [f"{lane(part)} offset {offset:,}" for part, offset in offsets.items()]
    more = len(parts) - _SHOWN
    return ", ".join(parts[:_SHOWN]) + (f" and {counted(more, 'more partition')}" if more > 0 else "")


def _nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[Part, int]]:
    for topic, partitions in nested.items():
        for partition, offset in partitions.items():
            yield (topic, int(partition)), offset
