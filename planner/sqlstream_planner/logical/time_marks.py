"""Which columns follow the watermark: what fields record, and what is left of it behind operators of all kinds."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream_operators.plan.window_spec import WindowKind
from sqlstream_planner.logical.algebra import OverWindow
from sqlstream_planner.logical.columns import Field


def marked(fields: Iterable[Field]) -> frozenset[str]:
    """Event times, and the bounds of windows."""
    fields = tuple(fields)
    return frozenset(f.id for f in fields if f.window is None and f.time is not None) | window_bounds(fields)


def window_bounds(fields: Iterable[Field]) -> frozenset[str]:
    """The bounds of windows, but of sessions, whose length nobody knows before they close."""
    return frozenset(
        f.id for f in fields if f.window is not None and f.window.window.kind is not WindowKind.SESSION
    )


def timed_over(node: OverWindow, below: frozenset[str] | None) -> frozenset[str] | None:
    """Of rows that wait for their time, that; of rows that are kept up to date, nothing."""
    closing = node.closed_by
    if below is None or closing is None:
        return None
    if closing.id in node.partition:
        return below & window_bounds(node.input.fields)
    return below & {closing.id}
