from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors.api import Limits, Source, SourceFactory
from sqlstream.connectors.numbered import NumberedSource
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.harness import context, rows, source_spec

NEXMARK = {
    "event_type": "INTEGER",
    "bid": "STRUCT(auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR)",
    "dateTime": "TIMESTAMP",
}


def _read(
    duck: DuckSession, spec: SourceSpec, tmp_path: Path, limits: Limits | None = None, relation: str = "r"
) -> list[Any]:
    factory: SourceFactory = REGISTERED.source_factory(spec.connector)
    source: Source = factory.source(spec, context(tmp_path))
    position, found = source.initial_position(), []
    for _ in range(1000):
        plan = source.plan(position, limits or Limits())
        for split in plan.splits:
            reader = factory.reader(spec, str(tmp_path))
            reader.open_strict(duck, relation, split, queries=1)
            table = duck.query(f'SELECT * FROM "{relation}"')
            assert table.num_rows == split.rows
            found += rows(table)
            duck.reset()
        position = plan.next_position
        if plan.exhausted:
            return found
    raise AssertionError("the source does not end")


@pytest.mark.parametrize("limits", [Limits(), Limits(rows=7), Limits(rows=2500, tasks=3)])
def test_any_cutting_gives_the_same_rows(tmp_path: Path, duck: DuckSession, limits: Limits) -> None:
    datagen = source_spec(
        {"a": "BIGINT", "s": "VARCHAR"},
        {
            "number-of-rows": "3000",
            "fields.a.kind": "sequence",
            "fields.a.start": "1",
            "fields.a.end": "5000",
        },
        connector="datagen",
    )
    nexmark = source_spec(
        NEXMARK, {"events": "3000", "out-of-order": "2 s", "seed": "7"}, connector="nexmark"
    )
    for spec in (datagen, nexmark):
        found = _read(duck, spec, tmp_path, limits)
        assert len(found) == 3000
        if limits.rows != 7 or spec is datagen:
            assert found == _read(duck, spec, tmp_path)


def test_nexmark_makes_only_what_is_needed(tmp_path: Path, duck: DuckSession) -> None:
    whole = source_spec(NEXMARK, {"events": "100"}, connector="nexmark")
    part = source_spec(
        NEXMARK, {"events": "100"}, connector="nexmark", columns=["bid"], needed_paths=("bid.price",)
    )
    prices = [None if row[1] is None else {"price": row[1]["price"]} for row in _read(duck, whole, tmp_path)]
    assert [row[0] for row in _read(duck, part, tmp_path)] == prices
    nothing = source_spec(NEXMARK, {"events": "100"}, connector="nexmark", columns=[])
    assert len(_read(duck, nothing, tmp_path)) == 100


def test_declared_types_and_spellings_decide(tmp_path: Path, duck: DuckSession) -> None:
    spec = source_spec(
        {"EVENT_TYPE": "BIGINT", "datetime": "TIMESTAMP WITH TIME ZONE"}, {"events": "3"}, connector="nexmark"
    )
    table = _read(duck, spec, tmp_path)
    assert [row[0] for row in table] == [0, 1, 1]
    assert str(table[0][1].tzinfo) == "UTC"
    uuid = source_spec({"u": "UUID", "h": "HUGEINT"}, {"number-of-rows": "2"}, connector="datagen")
    reader = REGISTERED.source_factory("datagen").reader(uuid, "")
    split = (
        REGISTERED.source_factory("datagen")
        .source(uuid, context(tmp_path))
        .plan({"row": 0}, Limits())
        .splits[0]
    )
    reader.open_strict(duck, "r", split, queries=1)
    assert duck.query("SELECT typeof(u) AS u, typeof(h) AS h FROM r LIMIT 1").to_pylist() == [
        {"u": "UUID", "h": "HUGEINT"}
    ]


def test_the_first_event(tmp_path: Path, duck: DuckSession) -> None:
    whole = source_spec(NEXMARK, {"events": "30"}, connector="nexmark")
    rest = source_spec(NEXMARK, {"events": "20", "first-event": "10"}, connector="nexmark")
    assert _read(duck, rest, tmp_path) == _read(duck, whole, tmp_path)[10:]


@pytest.mark.parametrize("column", ["bids", "bid.prize"])
def test_columns_that_events_do_not_have(tmp_path: Path, column: str) -> None:
    name, _, field = column.partition(".")
    spec = source_spec({name: f"STRUCT({field} BIGINT)" if field else "BIGINT"}, connector="nexmark")
    with pytest.raises(DiagnosticError) as error:
        REGISTERED.source_factory("nexmark").source(spec, context(tmp_path))
    assert error.value.diagnostics[0].help in ("did you mean `bid`?", "did you mean `bid.price`?")


def test_the_throttle() -> None:
    now = 100.0
    source = NumberedSource("t", None, 10, clock=lambda: now)
    assert source.plan({"row": 50}, Limits()).splits == ()
    now = 101.5
    plan = source.plan({"row": 50}, Limits())
    assert (plan.next_position, plan.exhausted, source.lag({"row": 50})) == ({"row": 65}, False, 15)
    assert source.plan({"row": 50}, Limits(rows=4)).next_position == {"row": 54}
    bounded = NumberedSource("t", 60, 10, clock=lambda: now)
    bounded.plan({"row": 50}, Limits())
    now = 200.0
    assert bounded.plan({"row": 50}, Limits()).exhausted
    assert bounded.plan({"row": 60}, Limits()).splits == ()


def test_datagen_is_throttled_as_documented(tmp_path: Path) -> None:
    def first(options: dict[str, str]) -> int:
        spec = source_spec({"a": "BIGINT"}, options, connector="datagen")
        source = REGISTERED.source_factory("datagen").source(spec, context(tmp_path))
        return int(source.plan({"row": 0}, Limits()).next_position["row"])

    assert first({"number-of-rows": "500"}) == 500
    assert first({"number-of-rows": "500", "rows-per-second": "1"}) == 0
    assert first({}) == 0


def test_what_a_descriptor_says_can_be_made() -> None:
    for connector in REGISTERED:
        descriptor = connector.descriptor
        internal = connector.internal
        assert internal == (not descriptor.roles)
        assert (connector.source is not None) == (internal or Role.SOURCE in descriptor.roles)
        assert (connector.sink is not None) == (Role.SINK in descriptor.roles)
        if connector.source is not None:
            assert REGISTERED.source_factory(descriptor.name)
        if connector.sink is not None:
            assert REGISTERED.sink_factory(descriptor.name)
        REGISTERED.batch_input(descriptor.name)


def test_columns_that_events_do_not_have_are_told_by_their_place() -> None:
    text = "CREATE TABLE t (bid ROW<prize BIGINT>, v AS 1) WITH ('connector' = 'nexmark', 'events' = '1');"
    with pytest.raises(DiagnosticError) as error:
        plan_file(f"{text} SELECT v FROM t;", file="p.sql")
    [found] = error.value.diagnostics
    assert found.help == "did you mean `bid.price`?"
    assert found.span is not None
    assert found.span.column == text.index("bid") + 1
