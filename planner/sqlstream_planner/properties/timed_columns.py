"""Which columns follow the watermark, in rows that only come."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.spec import WindowKind
from sqlstream_planner.logical import (
    Aggregate,
    Arrangement,
    EmitOnClose,
    EpochValues,
    Field,
    Filter,
    IntervalJoin,
    Join,
    JoinKind,
    LookupJoin,
    Node,
    Over,
    OverWindow,
    Project,
    RegularJoin,
    Scan,
    SetOperation,
    SuppressUntilClose,
    TopN,
    Unnest,
    WindowAggregate,
    WindowFunction,
    columns_of,
)
from sqlstream_planner.properties.analysis import Analysis

#: The joins of rows that stay whose pairs stay.
_STAYING = (JoinKind.INNER, JoinKind.CROSS, JoinKind.SEMI)


class TimedColumns(Analysis[frozenset[str] | None]):
    """The ids of the columns of a node that follow the watermark: a row to come has no value that it has passed, but for the
    delay that the column's field tells. None where rows may go again, or where that is not known.

    Of relational algebra, and of a streaming plan.
    """

    def of(self, node: Node) -> frozenset[str] | None:
        """Computed of a node from its inputs."""
        match node:
            case Scan():
                return None if node.changelog else _marked(node.fields)
            case Filter() | EmitOnClose() | Arrangement():
                return self(node.input)
            case Unnest() | EpochValues():
                return self(node.input)
            case LookupJoin():
                return self(node.left)
            case Project():
                return self._of_projection(node)
            case WindowFunction():
                below = self(node.input)
                of_clock = node.end.window is not None and EPOCH_RELATION in node.end.window.time.sources
                if below is None or (node.time_column not in below and not of_clock):
                    return below
                return below | {node.start.id, node.end.id, node.time.id}
            case SetOperation() if node.is_union_all:
                return self._of_union(node)
            case Aggregate():
                early = node.emission.changes or node.emission.lateness_us > 0
                windows = _in_windows(node.keys)
                return None if early or not windows else windows
            case WindowAggregate():
                return _in_windows(node.fields)
            case SuppressUntilClose():
                expiry = node.input.expiry
                late = expiry is None or expiry.lateness_us > 0
                return None if late else _in_windows(node.fields)
            case TopN() if node.window_end is not None:
                return self._held(node.input)
            case OverWindow() | Over():
                return self._of_over(node)
            case Join() | RegularJoin():
                return self._of_join(node)
            case IntervalJoin():
                return _marked(node.fields)
        return None

    def _held(self, below: Node) -> frozenset[str] | None:
        """Of rows that are held back until their window closes: they come late for all but the window."""
        known = self(below)
        return None if known is None else known & _in_windows(below.fields)

    def _of_over(self, node: OverWindow | Over) -> frozenset[str] | None:
        """Of rows that wait for their time, that; of rows that are kept up to date, nothing."""
        below, meaning = self(node.input), node.meaning if isinstance(node, Over) else node
        closing = meaning.closed_by if isinstance(meaning, OverWindow) else None
        if below is None or closing is None:
            return None
        if closing.id in node.partition:
            return below & _in_windows(node.input.fields)
        return below & {closing.id}

    def _of_projection(self, node: Project) -> frozenset[str] | None:
        below = self(node.input)
        if below is None:
            return None
        marked = _marked(node.fields)
        return frozenset(
            f.id
            for f, e in zip(node.fields, node.items, strict=True)
            # What is marked and computed is a bound of a window that another bound gives.
            if f.id in marked and columns_of(e) and columns_of(e) <= below
        )

    def _of_union(self, node: SetOperation) -> frozenset[str] | None:
        known: set[str] = set(_marked(node.fields))
        for branch in node.branches:
            below = self(branch)
            if below is None:
                return None
            pairs = zip(node.fields, branch.fields, strict=True)
            known -= {f.id for f, b in pairs if b.id not in below}
        return frozenset(known)

    def _of_join(self, node: Join | RegularJoin) -> frozenset[str] | None:
        if isinstance(node, Join) and node.bound is not None:
            return _marked(node.fields)
        stays = node.kind in _STAYING and all(self(i) is not None for i in node.inputs)
        return frozenset() if stays else None


def _marked(fields: Iterable[Field]) -> frozenset[str]:
    return frozenset(f.id for f in fields if f.window is None and f.time is not None) | _in_windows(fields)


def _in_windows(fields: Iterable[Field]) -> frozenset[str]:
    """The bounds of windows, but of sessions, whose length nobody knows before they close."""
    return frozenset(
        f.id for f in fields if f.window is not None and f.window.window.kind is not WindowKind.SESSION
    )
