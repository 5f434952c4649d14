"""What docs/architecture.md says of adding an operator's node and a rule: their own code and one line, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.spec import FragmentStep
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import Filter, Node, Project, Sink, transform, walk
from sqlstream_planner.logical.algebra import PassingNode
from sqlstream_planner.logical.node import APART
from sqlstream_planner.logical.text import logical_text
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.operators.registry import OPERATORS
from sqlstream_planner.physical.plan import plan_physical
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.properties.summary import Summary
from sqlstream_planner.rules import OPERATORS as NODE_RULES
from sqlstream_planner.rules import PRUNE, STREAMING, optimize
from sqlstream_planner.rules.streaming.node_rules import Streaming, in_one_pass

TEXT = """CREATE TABLE t (a INT, b INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
SELECT a, COUNT(*) AS n FROM t WHERE b > 1 GROUP BY a;"""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tap(PassingNode):
    """A streaming operator that the planner has never heard of: it gives its rows as they come."""

    meaning: Node = field(metadata=APART)


def taps(node: Node, streaming: Streaming) -> Node | None:
    """A filter  ->  a Tap over it."""
    return Tap(node, streaming.meaning(node)) if isinstance(node, Filter) else None


def plan_tap(planner: Planner, node: Node) -> Block:
    """A fragment of its own in the stage that it reads."""
    [below] = planner.blocks(node.inputs[0])
    name = planner.stages.name("tap")
    items = [(f'"{f.name}"', f.id) for f in node.fields]
    planner.stages[below.stage].steps.append(FragmentStep(name, below.select(items), below.reads))
    return replace(below, source=name, reads=(name,), where=())


def test_an_operator_is_its_node_a_rule_a_file_and_a_line() -> None:
    """Walking, printing, pruning, properties and the layout over stages take a new node as it is."""
    algebra = plan_file(TEXT).algebra
    rules = (in_one_pass(*NODE_RULES, taps), *STREAMING[1:], *PRUNE)
    logical = optimize(algebra, rules)
    assert [type(n).__name__ for n in walk(logical)].count("Tap") == 1
    assert "  Tap" in logical_text(logical)
    [tap] = [n for n in walk(logical) if isinstance(n, Tap)]
    assert Summary().of(tap).text() == "append-only"
    plan = plan_physical(logical, operators={**OPERATORS, Tap: plan_tap})
    [scan] = [stage for stage in plan.stages if stage.level == 0]
    assert "tap_1" in [step.name for step in scan.steps]
    assert len(plan.states) == 1


def test_a_rule_is_a_function_in_a_tuple() -> None:
    """What it gives is checked, printed and planned as what every other rule gives."""

    def without_filters(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
        return transform(roots, lambda node: node.input if isinstance(node, Filter) else node)

    logical = optimize(plan_file(TEXT).algebra, (without_filters, *STREAMING, *PRUNE))
    assert not [n for n in walk(logical) if isinstance(n, Filter)]
    assert plan_physical(logical).stages


def test_a_rule_that_breaks_a_plan_is_named() -> None:
    """The check after every rule says which one it was."""

    def loses_columns(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
        def rewrite(node: Node) -> Node:
            if isinstance(node, Project) and len(node.fields) > 1:
                return replace(node, fields=node.fields[:1], items=node.items[:1])
            return node

        return transform(roots, rewrite)

    with pytest.raises(InternalError, match="rule loses_columns changed the columns of a sink"):
        optimize(plan_file(TEXT).algebra, (loses_columns,))
