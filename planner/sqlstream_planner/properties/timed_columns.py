"""Which columns follow the watermark, in append-only rows."""

from __future__ import annotations

from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_planner.logical import (
    Aggregate,
    Apply,
    AsOfJoin,
    EmitOnClose,
    EpochValues,
    Filter,
    Join,
    LateralJoin,
    LookupJoin,
    Node,
    OrderLimit,
    OverWindow,
    Project,
    Scan,
    SessionFunction,
    SetOperation,
    StreamingOperator,
    Unnest,
    Values,
    Versions,
    WindowFunction,
    columns_of,
)
from sqlstream_planner.logical.time_marks import marked, timed_over, window_bounds
from sqlstream_planner.properties.analysis import Analysis, unknown

#: The joins of append-only rows whose pairs stay.


class TimedColumns(Analysis[frozenset[str] | None]):
    """The ids of the columns of a node that follow the watermark: a row to come has no value that it has passed, but for the
    delay that the column's field has. None where rows are updating, or where that is not known.

    Of relational algebra, and of a streaming plan.
    """

    def of(self, node: Node) -> frozenset[str] | None:
        """Computed of a node from its inputs."""
        match node:
            case StreamingOperator():
                return node.timed_columns(self)
            case Scan():
                return None if node.changelog else marked(node.fields)
            case Filter() | EmitOnClose() | Unnest() | EpochValues():
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
                windows = window_bounds(node.keys)
                return None if early or not windows else windows
            case OverWindow():
                return timed_over(node, self(node.input))
            case Join():
                return self._of_join(node)
            case (
                Apply()
                | AsOfJoin()
                | LateralJoin()
                | OrderLimit()
                | SessionFunction()
                | SetOperation()
                | Values()
                | Versions()
            ):
                return None
        raise unknown(node, "which of its columns follow the watermark")

    def _of_projection(self, node: Project) -> frozenset[str] | None:
        below = self(node.input)
        if below is None:
            return None
        known = marked(node.fields)
        return frozenset(
            f.id
            for f, e in zip(node.fields, node.items, strict=True)
            # What is marked and computed is a bound of a window that another bound gives.
            if f.id in known and columns_of(e) and columns_of(e) <= below
        )

    def _of_union(self, node: SetOperation) -> frozenset[str] | None:
        known: set[str] = set(marked(node.fields))
        for branch in node.branches:
            below = self(branch)
            if below is None:
                return None
            pairs = zip(node.fields, branch.fields, strict=True)
            known -= {f.id for f, b in pairs if b.id not in below}
        return frozenset(known)

    def _of_join(self, node: Join) -> frozenset[str] | None:
        if node.bound is not None:
            return marked(node.fields)
        stays = not node.kind.takes_back and all(self(i) is not None for i in node.inputs)
        return frozenset() if stays else None
