"""What docs/architecture.md says of adding a stateful operator and a rule: their own code and a line each, nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from pkgutil import iter_modules

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.operators.registry import OPERATORS
from sqlstream_planner import streaming
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import Filter, Node, Project, Sink, StreamingOperator, transform, walk
from sqlstream_planner.logical.arity import PassingNode
from sqlstream_planner.logical.text import describe, title_of
from sqlstream_planner.physical.operators.planned_operator import PlannedOperator
from sqlstream_planner.physical.operators.registry import PLANNED
from sqlstream_planner.physical.plan import plan_physical
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules import PRUNE, STREAMING, optimize
from sqlstream_planner.rules.prune.needed_columns import needed_columns
from sqlstream_planner.rules.streaming.over import over
from sqlstream_planner.testing import logical
from sqlstream_planner.testing import streaming as streaming_rules
from tests.planner.streaming.every_nth.rule import every_nth

TEXT = """CREATE TABLE t (a INT, b INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
SELECT a, COUNT(*) AS n FROM t WHERE b > 1 GROUP BY a;"""


ROOT = Path(__file__).parents[3]
TOY = "tests.planner.streaming.every_nth"
#: What is written into files that are there, beside the operator's own five: by file, what stands there and what is
#: put before it. A line says what is registered, and an import where it is.
LINES = {
    "operators/sqlstream_operators/plan/spec.py": (
        ("from sqlstream_operators.plan.first_row_spec", f"from {TOY}.spec import EveryNthSpec\n"),
        ("    | FirstRowSpec\n", "    | EveryNthSpec\n"),
    ),
    "operators/sqlstream_operators/operators/registry.py": (
        ("from sqlstream_operators.plan.first_row_spec", f"from {TOY}.operator import EveryNth\n"),
        ("from sqlstream_operators.plan.first_row_spec", f"from {TOY}.spec import EveryNthSpec\n"),
        ("    FirstRowSpec: FirstRow,\n", "    EveryNthSpec: EveryNth,\n"),
    ),
    "planner/sqlstream_planner/physical/operators/registry.py": (
        ("from sqlstream_operators.plan.spec", f"from {TOY} import planning as every_nth\n"),
        ("    first_row.OPERATOR,\n", "    every_nth.OPERATOR,\n"),
    ),
    "planner/sqlstream_planner/rules/__init__.py": (
        ("from sqlstream_planner.rules.streaming.epoch_values", f"from {TOY}.rule import every_nth\n"),
        ("    top_n,\n", "    every_nth,\n"),
    ),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three packages with `LINES` in them, and the tests."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("operators", "planner", "sqlstream"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests").symlink_to(ROOT / "tests")
    for name, lines in LINES.items():
        text = (folder / name).read_text()
        for before, line in lines:
            assert before in text, f"{name} has no {before!r} any more"
            text = text.replace(before, line + before, 1)
        (folder / name).write_text(text)
    return folder


def test_a_stateful_operator_is_five_files_and_a_line_in_each_registry(tree: Path, tmp_path: Path) -> None:
    """And then it is planned, explained, pruned, run, rescaled, restarted, queried, and edited, with KEEP and BACKFILL."""
    path = os.pathsep.join(str(tree / name) for name in ("", "operators", "planner"))
    done = subprocess.run(
        [sys.executable, "-m", f"{TOY}.pipeline", str(tmp_path)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout
    assert "every nth 3 by k" in printed  # the logical plan
    assert re.search(r"every nth: append-only, key \(k, row_number\), state grows without bound", printed)
    assert "= every 3th row of each key" in printed
    assert "reads k, v\n" in printed  # g is not read
    assert re.search(r"^0 +20$", printed, re.MULTILINE)  # its state
    assert re.search(r"= k, number of rows\(in\) +KEEP", printed)
    assert re.search(r"\+ g, number of rows\(in\) +BACKFILL", printed)


def test_registering_is_all_that_is_written() -> None:
    """One line where specs are named, one in each of the two registries and one in the tuple of rules; else imports."""
    written = [line for lines in LINES.values() for _, line in lines]
    assert len([line for line in written if not line.startswith("from ")]) == len(LINES) == 4


def test_an_operator_that_says_nothing_can_not_be_made() -> None:
    class Silent(StreamingOperator):
        pass

    with pytest.raises(TypeError, match=r"abstract.*stand_in"):
        Silent()  # type: ignore[abstract]


@pytest.mark.parametrize("operator", PLANNED, ids=lambda operator: operator.node.__name__)
def test_every_operator_of_the_registry_says_everything(operator: PlannedOperator) -> None:
    assert issubclass(operator.node, StreamingOperator)
    assert not operator.node.__abstractmethods__


def test_every_operator_is_in_the_registry() -> None:
    """Whatever file of `streaming/` has one: no list but `PLANNED` names it."""
    modules = [import_module(f"{streaming.__name__}.{m.name}") for m in iter_modules(streaming.__path__)]
    made = {found for module in modules for found in vars(module).values() if isinstance(found, type)}
    found = {
        c
        for c in made
        if issubclass(c, StreamingOperator)
        and c.__module__.startswith(streaming.__name__)
        and not isabstract(c)
    }
    assert found == {operator.node for operator in PLANNED}
    with pytest.raises(InternalError, match="it is not defined how a GroupAggregate is planned"):
        plan_physical(plan_file(TEXT).logical, operators={})


def test_a_node_that_nobody_knows_is_no_stateless_one() -> None:
    """It says nothing itself: whoever asks it raises, and tells which node and which question."""

    @dataclass(frozen=True, slots=True, eq=False, repr=False)
    class Tap(PassingNode):
        pass

    [root] = plan_file(TEXT).logical
    tap, facts = Tap(root.input), Facts()
    wanted: dict[str, Callable[[Node], object]] = {
        "changes": facts.changes,
        "keys": facts.keys,
        "constants": facts.constants,
        "timed": facts.timed,
        "consolidated": facts.consolidated,
        "text": describe,
        "title": title_of,
        "nesting depth": Meanings().nesting_depth,
        "columns": Meanings().columns,
        "pruning": lambda node: needed_columns((replace(root, input=node),)),
    }
    for question, ask in wanted.items():
        with pytest.raises(InternalError, match="Tap"):
            pytest.fail(f"{question}: {ask(tap)}")


def test_a_rule_is_a_function_in_a_tuple() -> None:
    """What it gives is checked, printed and planned as what every other rule gives."""

    def without_filters(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
        return transform(roots, lambda node: node.input if isinstance(node, Filter) else node)

    logical = optimize(plan_file(TEXT).algebra, (without_filters, *STREAMING, *PRUNE))
    assert not [n for n in walk(logical) if isinstance(n, Filter)]
    assert plan_physical(logical).stages


def test_a_rule_that_breaks_a_plan_is_named() -> None:
    """The check after every rule says which one it was."""

    def loses_columns(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
        def rewrite(node: Node) -> Node:
            if isinstance(node, Project) and len(node.fields) > 1:
                return replace(node, fields=node.fields[:1], items=node.items[:1])
            return node

        return transform(roots, rewrite)

    with pytest.raises(InternalError, match="rule loses_columns changed the columns of a sink"):
        optimize(plan_file(TEXT).algebra, (loses_columns,))


NUMBERED = "SELECT * FROM (SELECT a, c{more}, ROW_NUMBER() OVER (PARTITION BY a ORDER BY {order}) AS n FROM t) WHERE {test}"


@pytest.mark.parametrize(
    ("test", "order", "more", "made"),
    [
        ("n % 3 = 0", "PROCTIME()", "", True),
        ("3 % n = 0", "PROCTIME()", "", False),
        ("n % 3 = 1", "PROCTIME()", "", False),
        ("(n + 1) % 3 = 0", "PROCTIME()", "", False),
        ("c % 3 = 0", "PROCTIME()", "", False),
        ("m % 3 = 0", "PROCTIME()", ", c + 1 AS m", False),
        ("n % 3 = 0", "PROCTIME(), c", "", False),
        ("n % 3 = 0", "c", "", False),
        ("n % 3 = 0", "ts", "", False),
    ],
)
def test_the_rule_of_the_operator_to_copy_takes_what_it_says_and_nothing_else(
    test: str, order: str, more: str, made: bool
) -> None:
    query = NUMBERED.format(test=test, order=order, more=more)
    plan = logical(query, rules=streaming_rules(over, every_nth))
    assert ("every nth 3 by a" in plan) == made, plan


def test_what_the_rooms_of_operators_offer_is_listed() -> None:
    """Other code imports nodes from the room itself."""
    assert {operator.node.__name__ for operator in PLANNED} <= {*streaming.__all__}


def test_every_operator_is_in_the_documentation() -> None:
    page = (ROOT / "docs/architecture/operators.md").read_text(encoding="utf-8")
    kinds = {spec.kind for spec in OPERATORS}
    assert kinds <= {*re.findall(r"^\| `(\w+)`", page, re.MULTILINE)}
