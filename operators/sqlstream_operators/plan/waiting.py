"""Which table of an operator's state has what waits for the watermark, and what that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlstream_operators.errors import InternalError

from .changelog_spec import GroupAggregateSpec, SuppressUntilCloseSpec, WindowTopNSpec
from .interval_join_spec import IntervalJoinSpec
from .over_spec import OverOnCloseSpec
from .session_spec import SessionAggregateSpec, SessionWindowsSpec
from .spec import OperatorSpec, WindowAggregateSpec
from .temporal_join_spec import TemporalJoinSpec


@dataclass(frozen=True, slots=True)
class Waiting:
    """The rows of `tables` are, or belong to, windows, sessions or rows that wait for the watermark."""

    tables: tuple[str, ...]
    what: Literal["window", "session", "row"]


def waiting_of(spec: OperatorSpec) -> Waiting | None:
    """What of an operator's state waits for the watermark; None if no watermark moves it.

    Raises InternalError for an operator that a watermark moves and that is not known here.
    """
    match spec:
        case WindowAggregateSpec() | SuppressUntilCloseSpec() | WindowTopNSpec():
            return Waiting((spec.state.tables[0].name,), "window")
        case GroupAggregateSpec() if spec.expiry is not None:
            return Waiting((spec.state.tables[0].name,), "window")
        case SessionAggregateSpec() | SessionWindowsSpec():
            return Waiting(("closing",), "session")
        case IntervalJoinSpec():
            return Waiting(("left", "right"), "row")
        case OverOnCloseSpec() | TemporalJoinSpec():
            return Waiting(("waiting",), "row")
    if spec.watermark_sources:
        raise InternalError(f"what waits in the state of a {spec.kind} is not known")
    return None
