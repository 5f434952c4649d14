"""Small plans for doctests and tests."""

from __future__ import annotations

from sqlstream_planner.bind.script import bind_script
from sqlstream_planner.catalog.script import read_catalog
from sqlstream_planner.logical.text import logical_text
from sqlstream_planner.parse import parse_file
from sqlstream_planner.rules import SETTLE, Rule, optimize
from sqlstream_planner.rules.normalize.merge_projections import merge_projections
from sqlstream_planner.rules.streaming.node_rules import NodeRule, in_one_pass

TABLE = """
CREATE TABLE t (a INT, c INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 't.json', 'format' = 'json');
"""


def streaming(*rules: NodeRule) -> tuple[Rule, ...]:
    """The rule that applies these node rules, for `logical`; projections that only rename are merged."""
    return (in_one_pass(*rules), merge_projections)


def logical(query: str, *, rules: tuple[Rule, ...], declarations: str = TABLE) -> str:
    """The logical plan of `query` after `rules`, as text."""
    script = parse_file(declarations + query)
    roots = bind_script(script, read_catalog(script)).roots
    return logical_text(optimize(roots, (*SETTLE, *rules)))
