"""What tasks do around the operators: bad rows, errors, messages that pass, sinks, cascaded windows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream_operators.codec.exchange import Message, decode, encode
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InternalError
from sqlstream_operators.plan.spec import (
    SLICE_COLUMN,
    Column,
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    LateStep,
    OperatorStep,
    PhysicalPlan,
    SinkOutput,
    SinkSpec,
    SourceInput,
    SourceSpec,
    Stage,
    WatermarkSpec,
)
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import BIGINT, HUGEINT, JSON, TIMESTAMP, VARCHAR
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_operators.state.version import ShardVersion
from sqlstream_operators.task.report import REPORT_EDGE, Report
from sqlstream_operators.task.task import EpochContext, run_shard_task, run_source_task, watermarks_for
from tests.operators.pipelines import Driver, ListWriter, MemoryStores, Row, table_of, window_plan

EPOCH = EpochContext(7, 2, 16, {"t": Watermarks()})
DUCK = DuckSession()


def pass_through(sql: str, output: Sequence[Column], *, watermark: str | None = None) -> PhysicalPlan:
    """INSERT INTO out <sql over t>: no exchange."""
    return PhysicalPlan(
        sources=(
            SourceSpec(
                "t",
                "test",
                {},
                (Column("a", VARCHAR),),
                ("a",),
                watermark=None if watermark is None else WatermarkSpec("ts", watermark, 1),
            ),
        ),
        sinks=(SinkSpec("out", "test", {}, tuple(output)),),
        stages=(
            Stage(
                "s",
                0,
                (SourceInput("t", "t"),),
                (FragmentStep("r", sql, ("t",)),),
                (SinkOutput("r", "out"),),
            ),
        ),
        states=(),
    )


@dataclass(frozen=True)
class Bad:
    origin: str
    line: int | None
    raw: str
    reason: str


class TextReader:
    """Strictly, every text is a number; carefully, those that are."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.opened: list[str] = []

    def open_strict(self, duck: DuckSession, relation: str, split: Any, *, queries: int) -> None:
        self.opened.append(f"strict {queries}")
        duck.register("texts", pa.table({"x": pa.array(self.texts)}))
        duck.view(relation, "SELECT CAST(x AS INTEGER) AS a FROM texts")

    def open_lenient(self, duck: DuckSession, relation: str, split: Any) -> list[Bad]:
        self.opened.append("lenient")
        duck.register("texts", pa.table({"x": pa.array(self.texts)}))
        duck.view(
            relation, "SELECT TRY_CAST(x AS INTEGER) AS a FROM texts WHERE TRY_CAST(x AS INTEGER) IS NOT NULL"
        )
        return [Bad("f.csv", i, x, "no number") for i, x in enumerate(self.texts, 1) if not x.isdigit()]


def run_source(plan: PhysicalPlan, reader: Any, epoch: EpochContext = EPOCH) -> tuple[list[Message], Report]:
    *messages, report = run_source_task(
        plan, "t", reader, None, epoch, 3, writers=lambda _: ListWriter(), duck=DUCK
    )
    assert isinstance(report, Report)
    return [m for m in messages if isinstance(m, Message)], Report.from_bytes(report.to_bytes())


def test_readable_rows_are_read_once_and_written_under_the_tasks_name() -> None:
    reader = TextReader(["1", "2", "40"])
    _, report = run_source(pass_through("SELECT a * 2 AS b FROM t", [Column("b", BIGINT)]), reader)
    assert reader.opened == ["strict 2"]
    [part] = report.parts
    assert part.table is not None
    assert part.table.to_pydict() == {"b": [2, 4, 80]}
    assert (part.sink, part.rows, part.payload) == ("out", 3, {"epoch": 7, "task": "0-00003"})
    assert (report.rows, report.malformed, report.letters, report.watermark) == (3, 0, None, None)
    assert set(report.timings) >= {"read", "fragment", "encode", "write"}


def test_unreadable_rows_become_dead_letters(tmp_path: Path) -> None:
    reader = TextReader(["1", "zwei", "3"])
    plan = pass_through("SELECT a FROM t", [Column("a", BIGINT)])
    _, report = run_source(plan, reader, replace(EPOCH, checkpoint=str(tmp_path)))
    assert reader.opened == ["strict 2", "lenient"]
    assert (report.rows, report.malformed) == (3, 1)
    assert report.parts[0].table is not None
    assert report.parts[0].table.to_pydict() == {"a": [1, 3]}
    assert report.letters is not None
    assert report.letters.rows == {"malformed": 1}
    assert report.letters.file.startswith("staging/dead-letter/epoch-000007-0-00003-")
    assert json.loads((tmp_path / report.letters.file).read_text()) == {
        "epoch": 7,
        "kind": "malformed",
        "source": "t",
        "origin": "f.csv",
        "line": 2,
        "reason": "no number",
        "row": "zwei",
    }


def test_an_expression_that_fails_on_readable_rows_is_an_error_that_names_the_source() -> None:
    written: list[str] = []
    plan = pass_through("SELECT CAST('x' || a AS INTEGER) AS a FROM t", [Column("a", BIGINT)])
    with pytest.raises(DataError, match=r"source t: Conversion Error.*x1") as caught:
        list(
            run_source_task(
                plan,
                "t",
                TextReader(["1"]),
                None,
                EPOCH,
                0,
                writers=lambda sink: written.append(sink.name) or ListWriter(),  # type: ignore[func-returns-value]
                duck=DUCK,
            )
        )
    assert "CAST('x'" in caught.value.sql
    assert written == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("SELECT TIMESTAMP '1969-12-31 23:59:59' AS ts UNION ALL SELECT NULL", -1_000_000 - 5_000_000),
        ("SELECT CAST(NULL AS TIMESTAMP) AS ts", None),
        ("SELECT unnest([TIMESTAMP '1970-01-01', TIMESTAMP 'infinity']) AS ts, 1 AS a", -5_000_000),
        ("SELECT TIMESTAMPTZ '1970-01-01 00:00:06+00' AS ts", 1_000_000),
    ],
)
@pytest.mark.parametrize("rises_with", [None, "ts"])
def test_the_watermark_is_the_maximum_of_its_expression_in_microseconds(
    tmp_path: Path, rows: str, expected: int | None, rises_with: str | None
) -> None:
    class Reader:
        def open_strict(self, duck: DuckSession, relation: str, split: Any, *, queries: int) -> None:
            duck.view(relation, rows)

        def open_lenient(self, duck: DuckSession, relation: str, split: Any) -> list[Any]:
            raise AssertionError

    plan = pass_through("SELECT 1 AS a FROM t", [Column("a", BIGINT)], watermark="ts - INTERVAL 5 SECOND")
    [source] = plan.sources
    assert source.watermark is not None
    source = replace(source, watermark=replace(source.watermark, rises_with=rises_with))
    epoch = replace(EPOCH, checkpoint=str(tmp_path))
    _, report = run_source(replace(plan, sources=(source,)), Reader(), epoch)
    assert report.watermark == expected
    letters = {"no-time": 1} if "infinity" in rows else {}
    assert (report.letters.rows if report.letters else {}) == letters


@dataclass(frozen=True)
class Lanes:
    lanes: tuple[str, ...]


@pytest.mark.parametrize("far", [None, "infinity"])
@pytest.mark.parametrize("rises_with", [None, "ts"])
def test_a_split_of_several_lanes_has_a_watermark_of_each(
    tmp_path: Path, far: str | None, rises_with: str | None
) -> None:
    times = [(0, "10:00"), (0, "10:07"), (1, "09:00"), (3, "08:00"), (3, "08:30"), (4, None), (4, far)]
    rows = ", ".join(f"({n}, {'NULL' if at is None else repr(_at(at))})" for n, at in times)

    class Reader:
        def open_strict(self, duck: DuckSession, relation: str, split: Any, *, queries: int) -> None:
            duck.view(
                relation,
                f'SELECT n AS "$lane", CAST(t AS TIMESTAMP) AS ts, 1 AS a FROM (VALUES {rows}) AS v(n, t)',
            )

        def open_lenient(self, duck: DuckSession, relation: str, split: Any) -> list[Any]:
            raise AssertionError

    plan = pass_through(
        "SELECT * FROM t", [Column("ts", TIMESTAMP), Column("a", BIGINT)], watermark="ts - INTERVAL 5 SECOND"
    )
    [source] = plan.sources
    assert source.watermark is not None
    source = replace(source, watermark=replace(source.watermark, rises_with=rises_with))
    plan = replace(plan, sources=(source,))
    epoch = replace(EPOCH, checkpoint=str(tmp_path))
    split = Lanes(("a", "b", "none", "a", "c"))
    *_, report = run_source_task(
        plan, "t", Reader(), split, epoch, 3, writers=lambda _: ListWriter(), duck=DUCK
    )
    assert isinstance(report, Report)
    assert {lane: _time(us) for lane, us in report.lanes.items()} == {"a": "10:06:55", "b": "08:59:55"}
    assert report.rows == len(times)
    [part] = report.parts
    assert part.table is not None
    assert part.table.column_names == ["ts", "a"]
    assert part.rows == len(times) - (far is not None)


def _at(time: str) -> str:
    return time if time == "infinity" else f"2026-01-01 {time}"


def _time(us: int) -> str:
    return str(datetime.fromtimestamp(us / 1e6, UTC).time())


def test_types_that_arrow_does_not_have_survive_between_steps() -> None:
    plan = pass_through("SELECT a FROM t", [Column("kind", VARCHAR), Column("h", VARCHAR)])
    stage = Stage(
        "s",
        0,
        (SourceInput("t", "t"),),
        (
            FragmentStep("r", "SELECT to_json({x: a}) AS j, a::HUGEINT AS h FROM t", ("t",)),
            FragmentStep("one", "SELECT typeof(j) AS kind, typeof(h) AS h FROM r", ("r",)),
            FragmentStep("two", "SELECT typeof(j) AS kind, typeof(h) AS h FROM r", ("r",)),
        ),
        (SinkOutput("one", "out"), SinkOutput("two", "out")),
    )
    _, report = run_source(replace(plan, stages=(stage,)), TextReader(["1"]))
    assert report.parts[0].table is not None
    assert report.parts[0].table.to_pylist() == [{"kind": str(JSON), "h": str(HUGEINT)}] * 2


def test_two_stages_on_one_edge_make_one_blob_a_shard() -> None:
    def stage(name: str, sql: str) -> Stage:
        steps = (FragmentStep("r", sql, ("t",)),)
        return Stage(name, 0, (SourceInput("t", "t"),), steps, (ExchangeOutput("r", "e", ("a",), ("a",)),))

    schema = (Column("a", BIGINT),)
    reading = Stage("z", 1, (ExchangeInput("in", "e", schema),), (), (SinkOutput("in", "out"),))
    plan = replace(
        pass_through("SELECT a FROM t", schema),
        stages=(stage("x", "SELECT a FROM t"), stage("y", "SELECT a + 100 AS a FROM t"), reading),
    )
    messages, report = run_source(plan, TextReader([str(i) for i in range(20)]))
    assert [(m.edge, m.shard, m.producer) for m in messages] == [("e", 0, 3), ("e", 1, 3)]
    rows = decode(m.blob for m in messages).column("a").to_pylist()
    assert Counter(rows) == Counter([*range(20), *range(100, 120)])
    assert report.shipped_bytes == sum(len(m.blob) for m in messages)


# ------------------------------------------------------------------------------------------ shard tasks


def no_state(_: StateSchema) -> AbstractContextManager[Any]:
    raise AssertionError("opened")


def two_levels() -> PhysicalPlan:
    schema = (Column("a", BIGINT),)
    return replace(
        pass_through("SELECT a FROM t", schema),
        stages=(
            Stage(
                "s",
                0,
                (SourceInput("t", "t"),),
                (),
                (ExchangeOutput("t", "near", ("a",), ("a",)), ExchangeOutput("t", "far", ("a",), ("a",))),
            ),
            Stage("one", 1, (ExchangeInput("x", "near", schema),), (), (SinkOutput("x", "out"),)),
            Stage("two", 2, (ExchangeInput("x", "far", schema),), (), (SinkOutput("x", "out"),)),
        ),
    )


def test_messages_for_later_levels_and_reports_pass_and_blobs_are_read_in_order() -> None:
    def blob(*values: int) -> bytes:
        return encode(pa.table({"a": pa.array(values, pa.int64())}))

    sent = [
        Message("near", 1, 9, blob(5, 6)),
        Message("far", 1, 0, blob(1)),
        Message(REPORT_EDGE, 0, 0, b"..."),
        Message("near", 1, 2, blob(3, 4)),
    ]
    drained = iter(sent)
    made = list(
        run_shard_task(
            two_levels(), 1, 1, drained, EPOCH, no_state, writers=lambda _: ListWriter(), duck=DUCK
        )
    )
    assert next(drained, None) is None
    assert made[:-1] == [sent[1], sent[2]]
    report = made[-1]
    assert isinstance(report, Report)
    assert report.parts[0].table is not None
    assert report.parts[0].table.to_pydict() == {"a": [3, 4, 5, 6]}
    assert (report.rows, report.task) == (4, "1-00001")


def test_what_several_levels_read_arrives_at_each_and_is_counted_there() -> None:
    schema = (Column("a", BIGINT),)
    first, second, *rest = two_levels().stages
    both = replace(second, inputs=(*second.inputs, ExchangeInput("y", "far", schema)))
    first = replace(first, outputs=(*first.outputs, ExchangeOutput("t", "last", ("a",), ("a",))))
    last = Stage("three", 4, (ExchangeInput("x", "last", schema),), (), (SinkOutput("x", "out"),))
    plan = replace(two_levels(), stages=(first, both, *rest, last))
    blob = encode(pa.table({"a": pa.array([1, 2], pa.int64())}))
    near, far, later = (Message(edge, 1, 0, blob) for edge in ("near", "far", "last"))
    *passed, report = run_shard_task(
        plan, 1, 1, [near, far, later], EPOCH, no_state, writers=lambda _: ListWriter(), duck=DUCK
    )
    assert passed == [far, later]
    assert isinstance(report, Report)
    assert (report.rows, report.read_bytes) == (4, 2 * len(blob))


@pytest.mark.parametrize("fails", [False, True])
def test_a_task_leaves_nothing_in_its_session(fails: bool) -> None:
    """The next task of the worker has the same session."""
    blob = encode(pa.table({"a": pa.array([1], pa.int64())}))
    one, two, three = two_levels().stages
    sql = "SELECT error('no') AS a FROM x" if fails else "SELECT a FROM x"
    steps = (FragmentStep("r", "SELECT a FROM x", ("x",)), FragmentStep("s", sql, ("r",)))
    plan = replace(
        two_levels(), stages=(one, replace(two, steps=steps, outputs=(SinkOutput("s", "out"),)), three)
    )
    for _ in range(2):
        made = run_shard_task(
            plan,
            1,
            1,
            [Message("near", 1, 0, blob)],
            EPOCH,
            no_state,
            writers=lambda _: ListWriter(),
            duck=DUCK,
        )
        if fails:
            with pytest.raises(DataError):
                list(made)
        else:
            list(made)
        left = DUCK.query("SELECT view_name FROM duckdb_views() WHERE NOT internal")
        tables = DUCK.query("SELECT table_name FROM duckdb_tables()")
        assert (left.num_rows, tables.num_rows) == (0, 0)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("near", 0, 0, b""), "shard 0"),
        (Message("nowhere", 1, 0, b""), "nowhere"),
    ],
)
def test_messages_that_are_misrouted_are_refused(message: Message, error: str) -> None:
    with pytest.raises(InternalError, match=error):
        list(
            run_shard_task(
                two_levels(), 1, 1, [message], EPOCH, no_state, writers=lambda _: ListWriter(), duck=DUCK
            )
        )


def test_two_blobs_of_one_producer_are_refused() -> None:
    blob = encode(pa.table({"a": pa.array([1], pa.int64())}))
    twice = [Message("near", 1, 0, blob)] * 2
    with pytest.raises(InternalError, match="one producer"):
        list(
            run_shard_task(
                two_levels(), 1, 1, twice, EPOCH, no_state, writers=lambda _: ListWriter(), duck=DUCK
            )
        )


def test_an_idle_shard_does_not_open_its_state() -> None:
    plan = window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10))
    schema = plan.states[0]
    full = ShardVersion(4, rows=1, bytes=10, schemas=(schema,))
    marks = {"bid": Watermarks(12, 14, 14)}
    epoch = EpochContext(5, 1, 16, marks, {schema.state_id: (full,)})
    [report] = run_shard_task(plan, 1, 0, [], epoch, no_state, writers=lambda _: ListWriter(), duck=DUCK)
    assert isinstance(report, Report)
    assert report.state == {schema.state_id: full}
    # But it does when a window may close, and when the state is of another parallelism.
    closing = replace(epoch, watermarks={"bid": Watermarks(12, 24, 24)})
    rescaled = replace(epoch, state={schema.state_id: (full, full)})
    for other in (closing, rescaled):
        with pytest.raises(AssertionError, match="opened"):
            list(run_shard_task(plan, 1, 0, [], other, no_state, writers=lambda _: ListWriter(), duck=DUCK))


def test_late_rows_that_late_sql_does_not_find_are_an_error() -> None:
    plan = window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10))
    scan = plan.stages[0]
    steps = tuple(
        replace(step, late_sql=f"SELECT * FROM ({step.late_sql}) WHERE false")
        if isinstance(step, LateStep)
        else step
        for step in scan.steps
    )
    plan = replace(plan, stages=(replace(scan, steps=steps), *plan.stages[1:]))
    driver = Driver(plan, 1, MemoryStores(1, 16))
    driver.run([table_of([Row(100, "a", 1, None, 0)])])
    with pytest.raises(InternalError, match="late_sql"):
        driver.run([table_of([Row(5, "a", 1, None, 1)])])


def cascaded() -> PhysicalPlan:
    """TUMBLE windows of 20 µs over the window times of TUMBLE windows of 10 µs."""
    inner = window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10))
    outer = WindowSpec(WindowKind.TUMBLE, 20, 20)
    keys = (Column("k", VARCHAR),)
    accumulators = (Column("c", BIGINT), Column("windows", BIGINT))
    output = (*keys, Column("window_end", TIMESTAMP), *accumulators)
    state = StateSchema(
        "w2",
        "WindowAggregate",
        "outer",
        (
            StateTable.of(
                "acc",
                "time",
                key=[StateField("k", VARCHAR, "k")],
                value=[StateField(c.name, c.type, c.name) for c in accumulators],
            ),
        ),
    )
    schema = (Column(SLICE_COLUMN, BIGINT), *keys, *accumulators)
    partial = (
        f"SELECT ((epoch_us(window_end) - 1) // 20) * 20 + 20 AS {SLICE_COLUMN}, k, sum(c)::BIGINT AS c, "
        "count(*) AS windows FROM agg GROUP BY ALL"
    )
    aggregate = inner.stages[1]
    late = LateStep("kept", "partial", (), outer, 1, ("bid",), "agg2", "agg", "SELECT 1", ("agg",))
    operator = WindowAggregateSpec(
        state,
        outer,
        keys,
        accumulators,
        ("sum(c)", "sum(windows)"),
        "SELECT k, window_end, c, windows FROM merged",
        output,
        ("bid",),
        1,
    )
    return PhysicalPlan(
        sources=inner.sources,
        sinks=(SinkSpec("out", "test", {}, output),),
        stages=(
            inner.stages[0],
            replace(
                aggregate,
                steps=(*aggregate.steps, FragmentStep("partial", partial, ("agg",)), late),
                outputs=(ExchangeOutput("kept", "outer", ("k",), tuple(c.name for c in schema)),),
            ),
            Stage(
                "outer",
                2,
                (ExchangeInput("in", "outer", schema),),
                (OperatorStep("agg2", operator, ("in",)),),
                (SinkOutput("agg2", "out"),),
            ),
        ),
        states=(*inner.states, state),
    )


def test_cascaded_windows_get_the_rows_that_the_same_watermark_closes() -> None:
    plan = cascaded()
    driver = Driver(plan, 3, MemoryStores(3, 16), duck=DUCK)
    expected: Counter[tuple[str, int]] = Counter()
    for epoch in range(6):
        rows = [Row(9 * epoch + i % 9, "abc"[i % 3], i, None, 100 * epoch + i) for i in range(18)]
        for row in rows:
            expected[str(row.k), row.ts // 20 * 20 + 20] += 1
        driver.run([table_of(rows)], last=epoch == 5)
    found = {
        (row["k"], int((row["window_end"] - datetime(1970, 1, 1)).microseconds)): row["c"]
        for row in driver.output
    }
    assert driver.letters == []
    assert len(driver.output) == len(found)
    assert found == dict(expected)


def test_an_operators_watermark_is_the_least_of_its_sources() -> None:
    plan = window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10))
    marks = {"a": Watermarks(1, 5, WATERMARK_MAX), "b": Watermarks(WATERMARK_MIN, 7, 7)}
    epoch = EpochContext(1, 1, 16, marks)
    assert watermarks_for(plan, epoch, "agg", ("a", "b")) == Watermarks(WATERMARK_MIN, 5, 7)
    with pytest.raises(InternalError, match="'c'"):
        watermarks_for(plan, epoch, "agg", ("a", "c"))
