"""Small plans for doctests and tests, and connectors for them: the planner has none of its own."""

from __future__ import annotations

from sqlstream_planner.bind.script import bind_script
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, Connectors, SinkAbilities
from sqlstream_planner.catalog.options import BOTH, OptionDef, Role, ValueKind
from sqlstream_planner.catalog.script import read_catalog
from sqlstream_planner.logical.text import logical_text
from sqlstream_planner.rules import SETTLE, Rule, optimize
from sqlstream_planner.rules.normalize.merge_projections import merge_projections
from sqlstream_planner.rules.streaming.node_rules import NodeRule, in_one_pass
from sqlstream_planner.sql.parse import parse_file

CONNECTORS = Connectors(
    (
        ConnectorDescriptor(
            "rows",
            "rows from nowhere",
            BOTH,
            (
                OptionDef("count", ValueKind.INTEGER, "how many rows", default="1"),
                OptionDef("wait", ValueKind.DURATION, "between two rows", changes_rows=False),
            ),
            sink=SinkAbilities(changes=True),
        ),
        ConnectorDescriptor("changes", "changes of rows, from nowhere", (Role.SOURCE,), changelog=True),
        ConnectorDescriptor("print", "rows on the terminal", (Role.SINK,), sink=SinkAbilities(changes=True)),
    )
)

TABLE = """
CREATE TABLE t (a INT, c INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'rows');
"""


def streaming(*rules: NodeRule) -> tuple[Rule, ...]:
    """The rule that applies these node rules, for `logical`; projections that only rename are merged."""
    return (in_one_pass(*rules), merge_projections)


def logical(query: str, *, rules: tuple[Rule, ...], declarations: str = TABLE) -> str:
    """The logical plan of `query` after `rules`, as text."""
    script = parse_file(declarations + query)
    roots = bind_script(script, read_catalog(script, CONNECTORS)).roots
    return logical_text(optimize(roots, (*SETTLE, *rules)))
