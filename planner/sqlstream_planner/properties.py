"""Properties of logical nodes: changelog mode, keys, event-time columns, and whether state is bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlglot import exp

from sqlstream_operators.plan.spec import WindowKind
from sqlstream_operators.plan.types import UNKNOWN, SqlType
from sqlstream_planner.datatypes import sql_type_of
from sqlstream_planner.injective import keeps_apart
from sqlstream_planner.logical import (
    Fields,
    Filter,
    GroupAggregate,
    KeepFirst,
    Node,
    Normalize,
    Project,
    Scan,
    Sink,
    TopN,
    WindowAggregate,
    WindowGate,
    columns_of,
)


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


def properties(node: Node) -> Properties:
    """The properties of a node, from those of its inputs."""
    names = {f.id: f.name for f in node.fields}
    known = [key for key in keys(node) if all(id_ in names for id_ in key)]
    mode = ChangelogMode.APPEND
    if changes(node):
        mode = ChangelogMode.UPSERT if known else ChangelogMode.RETRACT
    return Properties(
        mode,
        tuple(names[id_] for id_ in known[0]) if known else None,
        tuple(f.name for f in node.fields if f.time is not None),
        _bounded(node),
        getattr(node, "ttl_us", None),
    )


def changes(node: Node) -> bool:
    """Whether rows that a node gave may go again or be replaced, so that they come with a weight."""
    match node:
        case Scan():
            return node.changelog
        case Normalize():
            return True
        case GroupAggregate():
            # DISTINCT over rows that stay: a row that was given once is never taken back.
            return bool(node.calls) or node.grouping is not None or not node.keys or changes(node.input)
        case TopN():
            return node.window_end is None
        case WindowGate():
            # What a window was given once is corrected by rows that are allowed to be late, and by nothing else.
            expiry = node.input.expiry
            return expiry is not None and expiry.lateness_us > 0 and changes(node.input)
    return any(changes(i) for i in node.inputs)


def consolidated(node: Node) -> bool:
    """Whether a changing node gives each row once with its weight, so that no two of an epoch's changes cancel out.

    Operators do; a projection keeps it so if it shows all that they give.
    """
    match node:
        case GroupAggregate() | TopN():
            return changes(node)
        case Filter():
            return consolidated(node.input)
        case Project():
            shown = _passed_on(node.fields, node.expressions, node.input)
            return shown.keys() >= {f.id for f in node.input.fields} and consolidated(node.input)
        case Sink():
            return {f.id for f in node.fields} >= {f.id for f in node.input.fields} and consolidated(
                node.input
            )
    return False


def _bounded(node: Node) -> bool | None:
    match node:
        case WindowAggregate() | WindowGate():
            return True
        case GroupAggregate():
            return node.expiry is not None or not node.keys
        case TopN():
            return node.window_end is not None or (not node.partition and not changes(node.input))
        case Normalize() | KeepFirst():
            return False
    return None


def keys(node: Node) -> list[tuple[str, ...]]:
    """The sets of column ids that are known to be unique in the node's output, the best first."""
    match node:
        case WindowAggregate():
            grouping = (node.grouping.id,) if node.grouping is not None else ()
            return [(*(f.id for f in node.keys), node.end.id, *grouping)]
        case GroupAggregate():
            return _group_keys(node)
        case Normalize():
            return [node.keys]
        case KeepFirst():
            return [node.keys, *keys(node.input)]
        case TopN():
            found = [node.partition] if node.limit <= 1 and node.function == "row_number" else []
            if node.rank is not None and node.function == "row_number":
                found.append((*node.partition, node.rank.id))
            return found + keys(node.input)
        case Project():
            kept = _passed_on(node.fields, node.expressions, node.input)
            below = keys(node.input)
            found = [tuple(kept[id_] for id_ in key) for key in below if all(id_ in kept for id_ in key)]
            for end, instead in _stand_ins(node):
                known = {**kept, end: instead}
                found += [
                    tuple(known[id_] for id_ in key)
                    for key in below
                    if end in key and all(id_ in known for id_ in key)
                ]
            return found
        case Filter() | Sink() | WindowGate():
            return keys(node.input)
    return []


def _group_keys(node: GroupAggregate) -> list[tuple[str, ...]]:
    """The group's keys; then fewer of them that are enough: those that vary, and keys of the input among them."""
    every = tuple(f.id for f in node.keys)
    if node.grouping is not None:
        return [(*every, node.grouping.id)]
    same = _same(node.keys, node.key_expressions, node.input)
    varying = tuple(id_ for id_ in every if id_ not in same)
    plain = _passed_on(node.keys, node.key_expressions, node.input)
    inside = [
        tuple(plain[id_] for id_ in key) for key in keys(node.input) if all(id_ in plain for id_ in key)
    ]
    return list(dict.fromkeys([every, varying, *inside]))


def _passed_on(fields: Fields, expressions: Sequence[exp.Expr], below: Node) -> dict[str, str]:
    """The columns of `below` that are given as they are, or cast so that values that differ still do: their ids, and
    the first field that each is.
    """
    types = {f.id: f.type for f in below.fields}
    found: dict[str, str] = {}
    for f, e in zip(fields, expressions, strict=True):
        id_, _ = _told_apart(e, types)
        if id_ is not None:
            found.setdefault(id_, f.id)
    return found


def _told_apart(expression: exp.Expr, types: Mapping[str, SqlType]) -> tuple[str | None, SqlType]:
    """The column whose values an expression tells apart, if there is one, and the expression's type."""
    bare = expression.unnest()
    if isinstance(bare, exp.Column) and bare.name in types:
        return bare.name, types[bare.name]
    if type(bare) is exp.Cast:
        id_, type_ = _told_apart(bare.this, types)
        to = sql_type_of(bare.to)
        if keeps_apart(type_, to):
            return id_, to
    return None, UNKNOWN


def _same(fields: Fields, expressions: Sequence[exp.Expr], below: Node) -> set[str]:
    """Which fields have one value in all rows: those that read constants of `below` only."""
    known = constants(below)
    return {f.id for f, e in zip(fields, expressions, strict=True) if columns_of(e) <= known}


def constants(node: Node) -> set[str]:
    """The ids of columns that have one value in all rows of a node's output."""
    match node:
        case Project():
            return _same(node.fields, node.expressions, node.input)
        case GroupAggregate() if node.grouping is None:
            return _same(node.keys, node.key_expressions, node.input)
        case Filter() | TopN() | WindowGate() | KeepFirst():
            return constants(node.inputs[0])
    return set()


def _stand_ins(node: Project) -> list[tuple[str, str]]:
    """Columns of the input with a window's end, and of the output what tells windows apart as well: start or time."""
    ends = {f.id for f in node.input.fields if f.window is not None and f.window.role == "end"}
    found = []
    for f, e in zip(node.fields, node.expressions, strict=True):
        from_ = columns_of(e)
        if f.window is None or isinstance(e, exp.Column) or len(from_) != 1 or not from_ <= ends:
            continue
        # The windows of one CUMULATE cycle have one start.
        if f.window.role == "time" or (
            f.window.role == "start" and f.window.window.kind is not WindowKind.CUMULATE
        ):
            [end] = from_
            found.append((end, f.id))
    return found
