"""Plans and contexts as JSON: nothing lost, nothing unknown accepted, the same text for the same plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import (
    Column,
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    JobOptions,
    MetadataColumn,
    PhysicalPlan,
    SinkOutput,
    SinkSpec,
    SourceInput,
    SourceSpec,
    Stage,
    WatermarkSpec,
)
from sqlstream_operators.plan.types import SqlType
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_operators.task.task import EpochContext
from tests.operators.arrow_strategies import any_types
from tests.operators.pipelines import window_plan

TEXT = st.text(max_size=6)
NAME = st.text(min_size=1, max_size=6)
TYPES: st.SearchStrategy[SqlType] = any_types()
COLUMNS = st.lists(st.builds(Column, NAME, TYPES, st.booleans()), max_size=3).map(tuple)
OPTIONS = st.dictionaries(NAME, TEXT, max_size=3)


@st.composite
def plans(draw: st.DrawFn) -> PhysicalPlan:
    physical = draw(COLUMNS)
    source = SourceSpec(
        draw(NAME),
        draw(NAME),
        draw(OPTIONS),
        physical,
        tuple(column.name for column in physical),
        tuple(draw(st.lists(st.builds(MetadataColumn, NAME, NAME, TYPES), max_size=2))),
        draw(st.none() | TEXT),
        draw(st.none() | st.builds(WatermarkSpec, NAME, TEXT, st.integers(1), st.none() | st.integers())),
        tuple(draw(st.lists(NAME, max_size=2))),
    )
    sink = draw(st.builds(SinkSpec, NAME, NAME, OPTIONS, COLUMNS, st.just(("a", "b"))))
    schema = draw(COLUMNS)
    edge = draw(NAME)
    window = WindowSpec(draw(st.sampled_from([WindowKind.HOP])), draw(st.integers(1)), draw(st.integers(1)))
    inner = window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10, draw(st.integers()), draw(st.booleans())))
    scan = Stage(
        "scan-2",
        0,
        (SourceInput("x", source.name),),
        (FragmentStep("y", draw(TEXT), ("x",)),),
        (ExchangeOutput("y", f"{edge}!", tuple(c.name for c in schema), ()), SinkOutput("x", sink.name)),
    )
    last = Stage("last", 2, (ExchangeInput("z", f"{edge}!", schema),), (), (SinkOutput("z", sink.name),))
    options = draw(
        st.builds(
            JobOptions,
            name=st.none() | TEXT,
            parallelism=st.none() | st.integers(),
            max_parallelism=st.integers(1, 99),
            state_dir=st.none() | TEXT,
        )
    )
    assert window.slice_us > 0
    return PhysicalPlan((source, *inner.sources), (sink,), (*inner.stages, scan, last), inner.states, options)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_round_trip(plan: PhysicalPlan) -> None:
    text = plan_json.to_text(plan)
    again = plan_json.from_text(text)
    assert again == plan
    assert plan_json.to_text(again) == text


def test_the_text_does_not_depend_on_the_order_of_options() -> None:
    plan = window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10))
    one = replace(plan, sources=(replace(plan.sources[0], options={"a": "1", "b": "2"}),))
    two = replace(plan, sources=(replace(plan.sources[0], options={"b": "2", "a": "1"}),))
    assert plan_json.to_text(one) == plan_json.to_text(two)


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    data = json.loads(plan_json.to_text(window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10))))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return dict(data)


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (["sources", 0, "colour"], 1, r"plan.sources\[0\]: SourceSpec has no fields \['colour'\]"),
        (["sources", 0, "name"], 1, r"plan.sources\[0\].name: 1 is not a str"),
        (["sources", 0, "watermark", "tick_us"], True, "tick_us: True is not a int"),
        (["stages", 0, "steps", 0, "@type"], "FragmentStep", "unknown @type 'FragmentStep'"),
        (["stages", 0, "level"], "0", "level: '0' is not a int"),
        (["stages", 0, "steps", 4, "window", "kind"], "SLIDE", "'SLIDE' is not a WindowKind"),
        (["stages", 0, "steps", 4, "window", "size_us"], 0, "must be positive"),
        (["stages", 1, "inputs", 0, "schema", 0, "type"], "INT", "not a type: 'INT'"),
        (["states", 0, "tables", 0, "layout"], "heap", "'heap' is not one of"),
        (["sinks", 0], {"name": "x"}, "SinkSpec needs connector"),
    ],
)
def test_what_is_not_a_plan_is_refused_by_place(path: list[Any], value: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        plan_json.from_json(changed(path, value))


def test_a_missing_field_takes_its_default() -> None:
    data = plan_json.to_json(window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10)))
    del data["options"]
    assert plan_json.from_json(data).options == JobOptions()


def test_a_context_survives_json() -> None:
    marks = {"a": Watermarks(WATERMARK_MIN, 5, WATERMARK_MAX), "b": Watermarks()}
    epoch = EpochContext(3, 2, 128, marks, checkpoint="s3://x", local_dir="/tmp/y")
    assert EpochContext.from_json(json.loads(json.dumps(epoch.to_json()))) == epoch


def unions(hint: Any, seen: set[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every field that holds one of several dataclasses, as (where, the classes), from `hint` downwards."""
    if isinstance(hint, type) and is_dataclass(hint):
        if hint in seen:
            return
        seen.add(hint)
        for field in fields(hint):
            inner = get_type_hints(hint)[field.name]
            for found in members(inner):
                yield f"{hint.__name__}.{field.name}", found
            yield from unions(inner, seen)
    for argument in get_args(hint):
        yield from unions(argument, seen)


def members(hint: Any) -> Iterator[tuple[Any, ...]]:
    classes = tuple(a for a in get_args(hint) if a is not NoneType)
    if get_origin(hint) in (UnionType, Union) and len(classes) > 1:
        yield classes
    for argument in classes:
        yield from members(argument)


def test_what_stands_for_a_class_in_a_stored_plan_is_fixed() -> None:
    """Stored plans must stay readable: add a line for a new class, never change one, never use one again."""
    found = {}
    for where, classes in unions(PhysicalPlan, set()):
        assert all("kind" in vars(c) for c in classes), f"{where}: a class has no kind of its own"
        kinds = sorted(c.kind for c in classes)
        assert len(set(kinds)) == len(kinds), f"{where}: two classes have one kind"
        found[where] = kinds
    assert found == {
        "Stage.inputs": ["dimension", "epoch", "exchange", "source"],
        "Stage.steps": ["fragment", "join_arranged", "late", "load_state", "operator", "read_state"],
        "Stage.outputs": ["exchange", "sink"],
        "OperatorStep.operator": [
            "arrange",
            "changelog_normalize",
            "deduplicate",
            "distinct_values",
            "first_row",
            "group_aggregate",
            "interval_join",
            "join",
            "over",
            "over_on_close",
            "session_aggregate",
            "session_windows",
            "suppress_until_close",
            "temporal_join",
            "top_n",
            "window_aggregate",
            "window_top_n",
        ],
    }


def test_a_stored_plan_names_no_class() -> None:
    text = plan_json.to_text(window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10)))
    assert not [
        c.__name__ for _, classes in unions(PhysicalPlan, set()) for c in classes if c.__name__ in text
    ]
