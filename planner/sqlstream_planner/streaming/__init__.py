"""The operators of a streaming plan, which keep state, one per file; rules make them of relational algebra.

Stateless nodes of the algebra (Scan, Project, Filter, WindowFunction, Unnest, UNION ALL, Sink) stand between them as
they are. Each operator has `meaning`, the relational node whose rows it gives: what its state means is derived from
that, never from how it is computed.
"""

from __future__ import annotations

from sqlstream_planner.streaming.arrangement import ArrangedBy, Arrangement
from sqlstream_planner.streaming.changelog_normalize import ChangelogNormalize
from sqlstream_planner.streaming.first_row import FirstRow
from sqlstream_planner.streaming.group_aggregate import GroupAggregate, GroupExpiry
from sqlstream_planner.streaming.interval_join import IntervalJoin
from sqlstream_planner.streaming.join_keys import EqualKey
from sqlstream_planner.streaming.over import Over
from sqlstream_planner.streaming.regular_join import RegularJoin, is_arranged
from sqlstream_planner.streaming.session_aggregate import SessionAggregate
from sqlstream_planner.streaming.session_windows import SessionWindows
from sqlstream_planner.streaming.suppress_until_close import SuppressUntilClose
from sqlstream_planner.streaming.temporal_join import TemporalJoin
from sqlstream_planner.streaming.top_n import TopN
from sqlstream_planner.streaming.window_aggregate import WindowAggregate

__all__ = [
    "ArrangedBy",
    "Arrangement",
    "ChangelogNormalize",
    "EqualKey",
    "FirstRow",
    "GroupAggregate",
    "GroupExpiry",
    "IntervalJoin",
    "Over",
    "RegularJoin",
    "SessionAggregate",
    "SessionWindows",
    "SuppressUntilClose",
    "TemporalJoin",
    "TopN",
    "WindowAggregate",
    "is_arranged",
]
