"""How each operator's node is planned: one line an operator."""

from __future__ import annotations

from sqlstream_planner.logical import (
    ChangelogNormalize,
    FirstRow,
    GroupAggregate,
    SuppressUntilClose,
    TopN,
    WindowAggregate,
)
from sqlstream_planner.physical.operators.changelog_normalize import plan_changelog_normalize
from sqlstream_planner.physical.operators.first_row import plan_first_row
from sqlstream_planner.physical.operators.group_aggregate import plan_group_aggregate
from sqlstream_planner.physical.operators.suppress_until_close import plan_suppress_until_close
from sqlstream_planner.physical.operators.top_n import plan_top_n
from sqlstream_planner.physical.operators.window_aggregate import plan_window_aggregate
from sqlstream_planner.physical.planner import Operators

OPERATORS: Operators = {
    WindowAggregate: plan_window_aggregate,
    GroupAggregate: plan_group_aggregate,
    SuppressUntilClose: plan_suppress_until_close,
    TopN: plan_top_n,
    ChangelogNormalize: plan_changelog_normalize,
    FirstRow: plan_first_row,
}
