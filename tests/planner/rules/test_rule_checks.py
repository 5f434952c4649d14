"""What is checked after every rule and of every plan: an event time that no watermark bounds is a bug that is named."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import Scan, walk
from sqlstream_planner.physical import plan as physical
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules.check import Check

TABLE = """CREATE TABLE {name} (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{name}', 'format' = 'json');
"""
SQL = f"""{TABLE.format(name="t")}{TABLE.format(name="u")}
CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
"""


def test_an_event_time_of_a_table_that_is_not_read_is_named() -> None:
    planned = plan_file(SQL, file="p.sql")
    roots = planned.algebra
    [scan] = (node for node in walk(roots) if isinstance(node, Scan))
    check = Check(roots, Facts())
    assert scan.source.watermark is not None
    renamed = replace(scan, source=replace(scan.source, name="u"))
    with pytest.raises(InternalError, match=r"rule renamed made a Scan whose event time waits for \['t'\]"):
        check._check_times("renamed", renamed)
    unmarked = replace(scan, source=replace(scan.source, watermark=None))
    with pytest.raises(InternalError, match=r"waits for \['t'\]"):
        check._check_times("unmarked", unmarked)


def test_a_watermark_that_no_source_gives_is_named() -> None:
    plan = plan_file(SQL, file="p.sql").physical
    with pytest.raises(InternalError, match=r"waits for watermarks of \['t'\]"):
        physical._check_watermarks(replace(plan, sources=()))
    [source] = plan.sources
    with pytest.raises(InternalError, match=r"waits for watermarks of \['t'\]"):
        physical._check_watermarks(replace(plan, sources=(replace(source, watermark=None),)))


def test_every_plan_is_looked_at() -> None:
    with mock.patch.object(physical, "_check_watermarks") as looked:
        plan_file(SQL, file="p.sql")
    assert looked.call_count
