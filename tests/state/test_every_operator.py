"""Every operator that is registered: its spec survives JSON, its kind is its own, its state can be read, empty and filled.

The operators are those of the savepoints of tests/compat, which have rows of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from sqlstream.state.committed import Committed, find_committed
from sqlstream.state.query import StateDatabase
from sqlstream.storage.savepoint_copies import the_savepoint_in
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import KeepsAnswer, OperatorContext
from sqlstream_operators.operators.registry import OPERATORS, READERS, operator_of, reader_of
from sqlstream_operators.operators.views import view
from sqlstream_operators.plan.operator_spec import Forgets, StatefulSpec
from sqlstream_operators.plan.plain_data import PLAN, decode, encode
from sqlstream_operators.plan.spec import (
    SPECS,
    JoinStep,
    OperatorSpec,
    OperatorStep,
    Stage,
    Step,
    check_registered,
)
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.physical.operators.registry import EXPLAINED
from sqlstream_planner.physical.states import States
from tests.compat.cases import cases, formats

EVERY = pytest.mark.parametrize("kind", [spec.kind for spec in SPECS])


@cache
def kept() -> Mapping[str, tuple[tuple[Committed, OperatorStep], ...]]:
    """Of each kind the steps whose state has rows, and where."""
    found: dict[str, list[tuple[Committed, OperatorStep]]] = {spec.kind: [] for spec in SPECS}
    for case in cases(formats()[-1]):
        store = case.savepoint(Path(mkdtemp(prefix="every-operator-")))
        committed = find_committed(store, the_savepoint_in(store).name)
        filled = {s.state_id for s in committed.manifest.states if any(x["rows"] for x in s.shards)}
        for step in committed.plan.operators:
            if step.operator.state.state_id in filled:
                found[step.operator.kind].append((committed, step))
    return {kind: tuple(steps) for kind, steps in found.items()}


def specs(kind: str) -> list[OperatorSpec]:
    """Some specs of a kind."""
    found = [step.operator for _, step in kept()[kind]]
    assert found, f"no savepoint of tests/compat has rows of {kind}"
    return found


@contextmanager
def counting(committed: Committed) -> Iterator[Any]:
    """Counts the rows of the relations that a step is seen as: by stored table, None for what it gives."""
    with StateDatabase(committed) as database:

        def counted(step: OperatorStep) -> dict[str | None, int]:
            found: dict[str | None, int] = {}
            for relation in database.relations:
                if relation.step == step.name:
                    name = ".".join(map(quote_identifier, relation.name))
                    rows = list(database.query(f"SELECT * FROM {name}").rows)
                    assert found.setdefault(relation.table, len(rows)) == len(rows)
            return found

        yield counted


def test_kinds_are_their_own_and_both_registries_have_them_all() -> None:
    assert len({spec.kind for spec in SPECS}) == len(SPECS)
    assert set(OPERATORS) == set(EXPLAINED) == set(SPECS)
    for registry in (OPERATORS, EXPLAINED):
        with pytest.raises(InternalError, match=r"OperatorSpec .* and the list do not agree about TopNSpec"):
            check_registered("the list", [spec for spec in registry if spec.kind != "top_n"])


def test_what_is_not_registered_has_no_operator() -> None:
    class Unknown:
        kind = "unknown"
        ttl_us = None

    spec: Any = Unknown()
    with pytest.raises(InternalError, match="no operator runs a Unknown"):
        operator_of(spec)


def test_a_spec_that_says_nothing_of_itself_can_not_be_made() -> None:
    class Silent(StatefulSpec):
        kind = "silent"

    with pytest.raises(TypeError, match="abstract"):
        Silent()  # type: ignore[abstract]


@EVERY
def test_a_spec_survives_json(kind: str) -> None:
    for spec in specs(kind):
        step: Step = OperatorStep("op", spec, ("in",))
        data = encode(Step, step, PLAN)
        assert data["operator"]["@type"] == kind
        assert decode(Step, data, "plan", PLAN) == step


@EVERY
def test_its_state_is_of_its_kind(kind: str) -> None:
    assert {spec.state.operator for spec in specs(kind)} == {kind}


@EVERY
def test_what_it_says_of_itself_is_about_its_state(kind: str) -> None:
    for spec in specs(kind):
        facts, tables = spec.facts, {table.name: table for table in spec.state.tables}
        assert (facts.waiting is None) == (not spec.watermark_sources)
        assert set(facts.waiting.tables if facts.waiting else ()) <= tables.keys()
        assert set(facts.unchanged.values()) <= {column.name for column in spec.output}
        assert facts.times.keys() <= {t.name for t in tables.values() if t.layout == "time"}
        if facts.view is not None and facts.view.paged_by is not None:
            assert facts.view.paged_by in tables
        moved = spec.moved_by(tuple(f"{name}!" for name in spec.watermark_sources))
        assert moved.watermark_sources == tuple(f"{name}!" for name in spec.watermark_sources)
        assert spec.moved_by(()).watermark_sources == ()


@EVERY
def test_a_filled_state_is_shown(kind: str) -> None:
    shown = 0
    for committed, step in kept()[kind]:
        [state] = [s for s in committed.manifest.states if s.state_id == step.operator.state.state_id]
        with counting(committed) as counted:
            rows = counted(step)
        view_of_it = rows.pop(None, None)
        assert (view_of_it is None) == (step.operator.facts.view is None)
        stored = sum(rows.values())
        if not any(table.layout == "list" for table in step.operator.state.tables):
            # A manifest may count rows that went; of a list it counts all rows of a key as one.
            assert stored <= sum(shard["rows"] for shard in state.shards)
        assert stored
        shown += view_of_it is None or view_of_it > 0
    assert shown


@pytest.mark.sampled(2)
@EVERY
def test_an_empty_state_is_shown(kind: str) -> None:
    empty = ShardVersion.empty().to_json()
    for committed, step in kept()[kind]:
        states = tuple(replace(s, shards=(empty,) * len(s.shards)) for s in committed.manifest.states)
        nothing = replace(committed, manifest=replace(committed.manifest, states=states))
        with counting(nothing) as counted:
            assert set(counted(step).values()) == {0}


@EVERY
def test_an_empty_state_answers(kind: str) -> None:
    """All that it has of itself are the keys that there are without rows."""
    for spec in specs(kind):
        facts = spec.facts
        store = MemoryShardStore(spec.state)
        context = OperatorContext(0, 1, 128, Watermarks(), store, DuckSession())
        most = 0 if facts.seed is None else 1
        if facts.view is not None:
            assert view(spec, context).num_rows <= most
        if facts.keeps_answer:
            operator: Any = operator_of(spec)
            answers: KeepsAnswer = operator
            assert answers.answer(context).num_rows <= most


@EVERY
def test_two_times_to_live_of_one_state_are_two_specs(kind: str) -> None:
    for spec in specs(kind):
        has_field = "ttl_us" in {field.name for field in fields(spec)}
        assert isinstance(spec, Forgets) == has_field == spec.may_forget
        if not isinstance(spec, Forgets):
            assert spec.ttl_us is None
            continue
        own = {name: spec.state.table(name) for name in (t.name for t in spec.state.tables)}
        tables = tuple(t for name, t in own.items() if name not in ("touched", "expiry"))
        lasting = spec.living(None).keeping(replace(spec.state, tables=tables))
        states = States(ttl_in_ids=True)
        one, other = (states.keep(lasting, days * 86_400_000_000, f"{days} days") for days in (1, 2))
        if not tables[0].key:  # there is one key, which is never forgotten
            assert one.ttl_us is other.ttl_us is None
            continue
        assert (one.ttl_us, other.ttl_us) == (86_400_000_000, 172_800_000_000)
        assert one.state.state_id != other.state.state_id
        assert states.ambiguous is False
        texts = [encode(Step, OperatorStep("op", living, ()), PLAN) for living in (one, other)]
        assert texts[0] != texts[1]
        without = States()
        for days in (1, 2):
            without.keep(lasting, days * 86_400_000_000, f"{days} days")
        assert without.ambiguous


def reading() -> tuple[Committed, Stage, JoinStep]:
    """A step without state, where it stands."""
    for committed, _ in kept()["arrange"]:
        for stage in committed.plan.stages:
            for step in stage.steps:
                if isinstance(step, JoinStep):
                    return committed, stage, step
    raise AssertionError("no savepoint of tests/compat has a join of arrangements")


def test_an_operator_without_state_names_those_that_it_reads() -> None:
    committed, stage, step = reading()
    states = {s.name: s.operator for s in stage.steps if isinstance(s, OperatorStep)}
    assert step.join.reads == tuple(states[name].state.state_id for name in step.inputs)
    assert set(READERS) == {type(step.join)}
    assert reader_of(step.join, [states[name] for name in step.inputs])
    data = encode(Stage, stage, PLAN)
    assert decode(Stage, data, "plan", PLAN) == stage
    assert committed.plan.operators


def test_a_step_reads_what_its_inputs_keep() -> None:
    _, stage, step = reading()
    other = replace(step.join.sides[0], state_id="another")
    wrong = replace(step, join=replace(step.join, sides=(other, *step.join.sides[1:])))
    with pytest.raises(ValueError, match="reads states that its inputs don't keep"):
        replace(stage, steps=tuple(wrong if one is step else one for one in stage.steps))


def test_what_reads_and_is_not_registered_has_no_operator() -> None:
    unknown: Any = object()
    with pytest.raises(InternalError, match="no operator runs a object"):
        reader_of(unknown, [])


def test_a_step_of_an_unknown_kind_is_no_plan() -> None:
    stage = Stage("s", 1, (), (), ())
    data = encode(Stage, stage, PLAN)
    data["steps"] = [{"@type": "operator", "name": "op", "operator": {"@type": "unknown"}, "inputs": []}]
    with pytest.raises(ValueError, match="unknown @type 'unknown'"):
        decode(Stage, data, "plan", PLAN)
