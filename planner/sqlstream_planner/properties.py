"""Properties of logical nodes: changelog mode, keys, event-time columns, and whether state is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlglot import exp

from sqlstream_planner.logical import Node, Project, WindowAggregate


class ChangelogMode(StrEnum):
    """What kinds of changes a node emits."""

    APPEND = "append-only"
    UPSERT = "upsert"
    RETRACT = "retracting"


@dataclass(frozen=True, slots=True)
class Properties:
    """What is known about a node's output.

    `key`: names of columns that together are unique, None if no such set is known. `event_time`: names of
    the event-time columns. `bounded_state`: None for a stateless node, else whether the watermark bounds its state.
    """

    changelog: ChangelogMode
    key: tuple[str, ...] | None
    event_time: tuple[str, ...]
    bounded_state: bool | None

    def text(self) -> str:
        """One line for people."""
        parts = [self.changelog.value]
        if self.key is not None:
            parts.append(f"key ({', '.join(self.key)})")
        if self.event_time:
            parts.append(f"event time {', '.join(self.event_time)}")
        if self.bounded_state is not None:
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
        }


def properties(node: Node) -> Properties:
    """The properties of a node, from those of its inputs.

    Everything that can be planned so far is append-only: a window is emitted once, when it closes.
    """
    names = {f.id: f.name for f in node.fields}
    key = _key(node)
    return Properties(
        ChangelogMode.APPEND,
        tuple(names[id_] for id_ in key) if key is not None and all(id_ in names for id_ in key) else None,
        tuple(f.name for f in node.fields if f.time is not None),
        True if isinstance(node, WindowAggregate) else None,
    )


def _key(node: Node) -> tuple[str, ...] | None:
    """Column ids that are unique together in the node's output."""
    if isinstance(node, WindowAggregate):
        grouping = (node.grouping.id,) if node.grouping is not None else ()
        return (*(f.id for f in node.keys), node.end.id, *grouping)
    if isinstance(node, Project):
        below = _key(node.input)
        if below is None:
            return None
        kept = {
            e.name: f.id
            for f, e in zip(node.fields, node.expressions, strict=True)
            if isinstance(e, exp.Column)
        }
        return tuple(kept[id_] for id_ in below) if all(id_ in kept for id_ in below) else None
    if len(node.inputs) == 1 and type(node).__name__ in ("Filter", "Sink"):
        return _key(node.inputs[0])
    return None
