"""What is known of a node, for people and tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlstream_planner.logical import Node, StreamingOperator
from sqlstream_planner.properties.changelog import ChangelogMode
from sqlstream_planner.properties.facts import Facts


@dataclass(frozen=True, slots=True)
class Properties:
    """What is known about a node's output.

    `key`: names of columns that together are unique, None if no such set is known. `event_time`: names of
    the event-time columns. `bounded_state`: None for a stateless node, else whether the watermark bounds its state.
    `ttl_us`: how long state is kept when nothing touches it.
    """

    changelog: ChangelogMode
    key: tuple[str, ...] | None
    event_time: tuple[str, ...]
    bounded_state: bool | None
    ttl_us: int | None = None

    def text(self) -> str:
        """One line for people."""
        parts = [self.changelog.value]
        if self.key is not None:
            parts.append(f"key ({', '.join(self.key)})")
        if self.event_time:
            parts.append(f"event time {', '.join(self.event_time)}")
        if self.ttl_us is not None:
            parts.append(f"state kept for {self.ttl_us / 1e6:g} seconds after a key was touched")
        elif self.bounded_state is not None:
            parts.append(
                "state bounded by the watermark" if self.bounded_state else "state grows without bound"
            )
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "changelog": self.changelog.value,
            "key": list(self.key) if self.key is not None else None,
            "event_time": list(self.event_time),
            "bounded_state": self.bounded_state,
            "ttl_us": self.ttl_us,
        }


class Summary:
    """The properties of nodes of one streaming plan."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def of(self, node: Node) -> Properties:
        """What is known of `node`."""
        names = {f.id: f.name for f in node.fields}
        known = [key for key in self._facts.keys(node) if all(id_ in names for id_ in key)]
        mode = ChangelogMode.APPEND
        if self._facts.changes(node):
            mode = ChangelogMode.UPSERT if known else ChangelogMode.RETRACT
        return Properties(
            mode,
            tuple(names[id_] for id_ in known[0]) if known else None,
            tuple(f.name for f in node.fields if f.time is not None),
            node.is_bounded(self._facts.changes) if isinstance(node, StreamingOperator) else None,
            node.time_to_live if isinstance(node, StreamingOperator) else None,
        )
