"""What a spec says of its operator must be about that operator: silence is no answer."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators import registry
from sqlstream_operators.operators.registry import OPERATORS, operator_of
from sqlstream_operators.plan.operator_spec import (
    NO_TIMES,
    OperatorFacts,
    StatefulSpec,
    TimeColumn,
    View,
    check_facts,
)

SQL = """CREATE TABLE t (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'datagen', 'number-of-rows' = '3');
SELECT a, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY a, window_start, window_end;
SELECT a, COUNT(*) FROM t GROUP BY a;"""


def spec(kind: str) -> Any:
    [found] = [s.operator for s in plan_file(SQL).physical.operators if s.operator.kind == kind]
    return found


def saying(one: StatefulSpec, **said: Any) -> Any:
    """The spec, which says something else of itself."""
    facts = replace(one.facts, **said)

    class Odd(type(one)):  # type: ignore[misc]
        __slots__ = ()

        @property
        def facts(self) -> OperatorFacts:
            return facts

    given: Any = one
    return Odd(**{f.name: getattr(one, f.name) for f in fields(given)})


@dataclass(frozen=True)
class Case:
    kind: str
    said: dict[str, Any]
    wrong: str


CASES = [
    Case("window_aggregate", {"waiting": None}, "moved by watermarks, and nothing in its facts waits"),
    Case("window_aggregate", {"times": NO_TIMES}, "of each table with layout 'time'"),
    Case("group_aggregate", {"times": {"acc": (TimeColumn("t", "a time"),)}}, "and of no other"),
    Case("group_aggregate", {"unchanged": {"a": "b"}}, "unchanged that it does not emit"),
    Case("group_aggregate", {"view": View("other")}, "shown by a table that it has not"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.wrong)
def test_a_spec_that_says_what_is_not_so_is_refused(case: Case) -> None:
    one = spec(case.kind)
    check_facts(one)
    with pytest.raises(InternalError, match=case.wrong):
        check_facts(saying(one, **case.said))


def test_what_waits_needs_a_watermark_and_tables_that_there_are() -> None:
    one = spec("window_aggregate")
    with pytest.raises(InternalError, match="no watermark that moves it"):
        check_facts(one.moved_by(()))
    elsewhere = replace(one.facts.waiting, tables=("elsewhere",))
    with pytest.raises(InternalError, match="waits with tables that it has not"):
        check_facts(saying(one, waiting=elsewhere))
    with pytest.raises(InternalError, match="its state one of a top_n"):
        check_facts(replace(one, state=replace(one.state, operator="top_n")))


@pytest.mark.parametrize(("fact", "method"), [("keeps_answer", "answer"), ("view", "shown")])
def test_what_a_spec_promises_its_operator_does(
    fact: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be missed when a sink is written anew, or when somebody looks at the state, and not before."""

    class Mute:
        def __init__(self, spec: StatefulSpec) -> None:
            for other in {"answer", "shown"} - {method}:
                setattr(self, other, lambda context: None)

    one = spec("group_aggregate")
    assert operator_of(one)
    monkeypatch.setattr(registry, "OPERATORS", {**OPERATORS, type(one): Mute})
    with pytest.raises(InternalError, match=f"`{fact}`, and Mute no `{method}`"):
        operator_of(one)
