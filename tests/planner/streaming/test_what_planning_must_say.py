"""A file of `physical/operators/` that forgets something is refused: nobody else would see what is lost."""

from __future__ import annotations

from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import Node
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.operators import over
from sqlstream_planner.physical.operators.over_rows import run_over_rows
from sqlstream_planner.physical.operators.registry import OPERATORS
from sqlstream_planner.physical.plan import plan_physical
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.states import States
from sqlstream_planner.streaming import GroupAggregate

TABLE = """CREATE TABLE t (a INT, b INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'datagen', 'number-of-rows' = '3');
"""
GROUPS = TABLE + "SELECT a, COUNT(*) AS n FROM t GROUP BY a;"
OVER = TABLE + "SELECT a, LEAD(b) OVER (PARTITION BY a ORDER BY b) AS c FROM t;"
TOP = """SELECT a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a, window_start, window_end ORDER BY b) AS n
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))) WHERE n = 1;"""


def test_a_state_that_is_in_no_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    logical = plan_file(GROUPS).logical
    monkeypatch.setattr(States, "add", lambda self, state, ttls: state)
    with pytest.raises(InternalError, match=r"group_aggregate_1 keeps the state \S+, which the plan has not"):
        plan_physical(logical)


def test_a_state_that_no_operator_keeps() -> None:
    def plan(planner: Planner, node: Node) -> Block:
        block = OPERATORS[GroupAggregate](planner, node)
        planner.states.add(planner.states.all[0], "")
        return block

    with pytest.raises(InternalError, match="no operator keeps the states"):
        plan_physical(plan_file(GROUPS).logical, operators={**OPERATORS, GroupAggregate: plan})


def test_rows_of_closed_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    logical = plan_file(TABLE + TOP).logical
    monkeypatch.setattr(Planner, "late_rows", lambda *_, **__: None)
    with pytest.raises(InternalError, match="window_top_n_1 is shipped windows, and no `late`"):
        plan_physical(logical)


def test_retractions_that_are_read_as_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    logical = plan_file(OVER).logical

    def unweighted(*arguments: Any, weighted: bool, **named: Any) -> Block:
        return run_over_rows(*arguments, weighted=False, **named)

    monkeypatch.setattr(over, "run_over_rows", unweighted)
    with pytest.raises(InternalError, match="its node says that they are updating"):
        plan_physical(logical)
