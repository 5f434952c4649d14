"""A window aggregate as a hand-written physical plan, and a driver that runs plans epoch by epoch."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sqlstream_operators.codec.exchange import Message
from sqlstream_operators.duck.session import DuckSession
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
from sqlstream_operators.plan.types import BIGINT, BOOLEAN, HUGEINT, TIMESTAMP, VARCHAR, array, decimal
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.plan.window_aggregate_spec import DistinctSpec, WindowAggregateSpec
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.state.staged_rows import StagedRows
from sqlstream_operators.task.io import Stores
from sqlstream_operators.task.report import Report
from sqlstream_operators.task.task import EpochContext, run_shard_task, run_source_task
from tests.rows_given import note

TICK = 1
PHYSICAL = (
    Column("ts", TIMESTAMP),
    Column("k", VARCHAR),
    Column("v", BIGINT),
    Column("d", decimal(12, 3)),
    Column("n", BIGINT),
)
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("k", pa.string()),
        ("v", pa.int64()),
        ("d", pa.decimal128(12, 3)),
        ("n", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Row:
    ts: int
    k: str | None
    v: int | None
    d: Decimal | None
    n: int  # the row's number in the source


def table_of(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_arrays(
        [pa.array([getattr(row, f.name) for row in rows], f.type) for f in SCHEMA], schema=SCHEMA
    )


# ------------------------------------------------------------------------------------------------- the plan


def bounds_sql(window: WindowSpec) -> tuple[str, str, str]:
    """DuckDB SQL over column `t` (µs): a row's slice end, and its first and last window end."""

    def floor(value: str, width: int) -> str:
        offset = window.offset_us
        return f"({value} - ((({value} - {offset}) % {width}) + {width}) % {width})"

    end = f"({floor('t', window.slice_us)} + {window.slice_us})"
    if window.kind is WindowKind.CUMULATE:
        return end, end, f"({floor('t', window.size_us)} + {window.size_us})"
    last = f"({floor('t', window.slide_us)} + {window.size_us})"
    least = f"(t + 1 - {window.size_us})"  # a window's least start
    above = f"({floor(f'({least} - 1)', window.slide_us)} + {window.slide_us})"
    return end, f"({above} + {window.size_us})", last


def window_plan(window: WindowSpec, *, keyed: bool = True) -> PhysicalPlan:
    """COUNT, SUM, SUM of decimals, MAX, list in order, COUNT and SUM of DISTINCT, by k or globally."""
    end, first, last = bounds_sql(window)
    keys = (Column("k", VARCHAR),) if keyed else ()
    k = ", k" if keyed else ""
    accumulators = (
        Column("c", BIGINT),
        Column("s", HUGEINT),
        Column("ds", decimal(38, 3)),
        Column("m", VARCHAR),
        Column("l", array(BIGINT)),
    )
    source_rows = "SELECT *, epoch_us(ts) AS t FROM bid WHERE n >= 0"
    if window.shared_slices:
        sliced = f"SELECT {end} AS {SLICE_COLUMN}, * FROM rows"
    else:
        sliced = (
            f"SELECT unnest(range({first}, {last} + 1, {window.slide_us})) AS {SLICE_COLUMN}, * FROM rows"
        )
    partial = (
        f"SELECT {SLICE_COLUMN}{k}, count(*) AS c, sum(v) AS s, sum(d)::DECIMAL(38,3) AS ds, max(k) AS m, "
        f"list(n) AS l FROM sliced GROUP BY ALL"
    )
    distinct = (
        f"SELECT {SLICE_COLUMN}{k}, v, bool_or(true) AS f_all, bool_or(coalesce(d > 0, false)) AS f_positive "
        "FROM sliced WHERE v IS NOT NULL GROUP BY ALL"
    )
    start = "cycle" if window.kind is WindowKind.CUMULATE else f"e - {window.size_us}"
    late_sql = (
        f"SELECT make_timestamp(min({start})) AS window_start, make_timestamp(max(e)) AS window_end, "
        "count(*) AS windows, min(ts) AS event_time, to_json(struct_pack(n := n)) AS row FROM ("
        f"SELECT unnest(range({first}, {last} + 1, {window.slide_us})) AS e, ts, n, "
        f"{last} - {window.size_us} AS cycle FROM rows) WHERE e - {TICK} <= $late_watermark GROUP BY n"
    )
    state = StateSchema(
        "w1",
        "WindowAggregate",
        "for tests",
        (
            StateTable.of(
                "acc",
                "time",
                key=[StateField(c.name, c.type, c.name) for c in keys],
                value=[StateField(c.name, c.type, c.name) for c in accumulators],
            ),
            StateTable.of(
                "d0",
                "time",
                key=[StateField(c.name, c.type, c.name) for c in keys],
                sub_key=[StateField("v", BIGINT, "v")],
                value=[StateField(f, BOOLEAN, f) for f in ("f_all", "f_positive")],
            ),
        ),
    )
    output = (
        *keys,
        Column("window_start", TIMESTAMP),
        Column("window_end", TIMESTAMP),
        Column("c", BIGINT),
        Column("s", HUGEINT),
        Column("ds", decimal(38, 3)),
        Column("m", VARCHAR),
        Column("l", array(BIGINT)),
        Column("dc", BIGINT),
        Column("dp", HUGEINT),
    )
    operator = WindowAggregateSpec(
        state=state,
        window=window,
        keys=keys,
        accumulators=accumulators,
        merge=("sum(c)", "sum(s)", "sum(ds)", "max(m)", "flatten(list(l))"),
        emit=f"SELECT {'k, ' if keyed else ''}window_start, window_end, c, s, ds, m, l, "
        '"d0.count" AS dc, "d0.sum" AS dp FROM merged',
        output=output,
        watermark_sources=("bid",),
        tick_us=TICK,
        distincts=(DistinctSpec("d0", (Column("v", BIGINT),), ("f_all", "f_positive")),),
        distinct_aggregates=(
            (("d0.count", "count(*) FILTER (f_all)"), ("d0.sum", "sum(v) FILTER (f_positive)")),
        ),
    )
    acc_schema = (Column(SLICE_COLUMN, BIGINT), *keys, *accumulators)
    distinct_schema = (
        Column(SLICE_COLUMN, BIGINT),
        *keys,
        Column("v", BIGINT),
        Column("f_all", BOOLEAN),
        Column("f_positive", BOOLEAN),
    )
    names = tuple(column.name for column in keys)
    return PhysicalPlan(
        sources=(
            SourceSpec(
                "bid",
                "test",
                {},
                PHYSICAL,
                tuple(column.name for column in PHYSICAL),
                watermark=WatermarkSpec("ts", "ts", TICK),
            ),
        ),
        sinks=(SinkSpec("out", "test", {}, output),),
        stages=(
            Stage(
                "scan",
                0,
                (SourceInput("bid", "bid"),),
                (
                    FragmentStep("rows", source_rows, ("bid",)),
                    FragmentStep("sliced", sliced, ("rows",)),
                    FragmentStep("partial", partial, ("sliced",)),
                    FragmentStep("partial_distinct", distinct, ("sliced",)),
                    LateStep(
                        "kept",
                        "partial",
                        ("partial_distinct",),
                        window,
                        TICK,
                        ("bid",),
                        "agg",
                        "bid",
                        late_sql,
                        ("rows",),
                    ),
                ),
                (
                    ExchangeOutput("kept", "acc", names, tuple(c.name for c in acc_schema)),
                    ExchangeOutput(
                        "partial_distinct.kept", "distinct", names, tuple(c.name for c in distinct_schema)
                    ),
                ),
            ),
            Stage(
                "aggregate",
                1,
                (
                    ExchangeInput("acc_in", "acc", acc_schema),
                    ExchangeInput("distinct_in", "distinct", distinct_schema),
                ),
                (OperatorStep("agg", operator, ("acc_in", "distinct_in")),),
                (SinkOutput("agg", "out"),),
            ),
        ),
        states=(state,),
    )


# ------------------------------------------------------------------------------------------------- the driver


class TableReader:
    """A reader of splits that are Arrow tables."""

    def __init__(self) -> None:
        self.queries: list[int] = []

    def open_strict(self, duck: DuckSession, relation: str, split: Any, *, queries: int) -> None:
        self.queries.append(queries)
        duck.register(relation, split)

    def open_lenient(self, duck: DuckSession, relation: str, split: Any) -> list[Any]:
        duck.register(relation, split)
        return []


@dataclass(frozen=True)
class Part:
    rows: int
    payload: Mapping[str, Any]
    table: pa.Table | None = None
    staged: StagedRows | None = None


@dataclass
class ListWriter:
    """A sink that gives its rows back in the report."""

    def write(self, table: pa.Table, *, epoch: int, task: str) -> Part:
        return Part(table.num_rows, {"epoch": epoch, "task": task}, table)


class MemoryStores:
    """In-memory state for every (state, shard), kept between epochs."""

    def __init__(self, shards: int, max_parallelism: int) -> None:
        self.shards, self.max_parallelism = shards, max_parallelism
        self.stores: dict[tuple[str, int], MemoryShardStore] = {}

    def __call__(self, epoch: EpochContext, shard: int) -> Stores:
        @contextmanager
        def open_store(schema: StateSchema) -> Iterator[MemoryShardStore]:
            key = (schema.state_id, shard)
            if key not in self.stores:
                self.stores[key] = MemoryShardStore(schema, shard, self.shards, self.max_parallelism)
            yield self.stores[key]

        return open_store


@dataclass
class Driver:
    """Runs epochs one after the other as the runtime would, with the tasks in one process.

    `rises`: what an epoch reads closes windows in it, as it does unless a source is read again for a backfill.
    """

    plan: PhysicalPlan
    shards: int
    stores: Callable[[EpochContext, int], Stores]
    max_parallelism: int = 16
    seed: int = 0
    context: dict[str, Any] = field(default_factory=dict)
    duck: DuckSession = field(default_factory=DuckSession)
    reader: TableReader = field(default_factory=TableReader)
    output: list[dict[str, Any]] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    by_epoch: list[list[dict[str, Any]]] = field(default_factory=list)
    rises: bool = True
    epoch: int = 0
    watermark: int = WATERMARK_MIN
    previous: int = WATERMARK_MIN
    state: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "checkpoint" not in self.context:
            folder = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, folder)
            self.context["checkpoint"] = folder

    def run(self, splits: Sequence[pa.Table], *, last: bool = False) -> None:
        """One epoch over these splits of the only source."""
        self.epoch += 1
        note(sum(split.num_rows for split in splits))
        late = max(self.previous, self.watermark)
        most = WATERMARK_MAX if self.rises else WATERMARK_MIN
        marks = Watermarks(self.previous, late, WATERMARK_MAX if last else late, most)
        epoch = EpochContext(
            self.epoch, self.shards, self.max_parallelism, {"bid": marks}, self.state, **self.context
        )
        epoch = EpochContext.from_json(json.loads(json.dumps(epoch.to_json())))
        reports: list[Report] = []
        messages: list[Message] = []
        for ordinal, split in enumerate(splits):
            made = list(self._source(epoch, split, ordinal))
            reports += [item for item in made if isinstance(item, Report)]
            messages += [item for item in made if isinstance(item, Message)]
        random.Random(self.seed + self.epoch).shuffle(messages)
        for level in range(1, self.plan.levels):
            moved: list[Message] = []
            for shard in range(self.shards):
                mine = [message for message in messages if message.shard == shard]
                for item in self._shard(epoch, level, shard, mine):
                    if isinstance(item, Report):
                        reports.append(item)
                    else:
                        moved.append(item)
            messages = moved
        assert not messages
        reports = [Report.from_bytes(report.to_bytes()) for report in reports]
        emitted = []
        for report in reports:
            for part in report.parts:
                assert part.table is not None
                emitted += part.table.to_pylist()
            if report.letters is not None:
                lines = CheckpointStore(epoch.checkpoint).get(report.letters.file).splitlines()
                self.letters += [json.loads(line) for line in lines]
            if report.watermark is not None:
                self.watermark = max(self.watermark, report.watermark)
        state: dict[str, dict[int, Any]] = {}
        for report in reports:
            for state_id, version in report.state.items():
                state.setdefault(state_id, {})[report.ordinal] = version
        self.state = {s: tuple(v[i] for i in range(self.shards)) for s, v in state.items()}
        self.output += emitted
        self.by_epoch.append(emitted)
        self.reports += reports
        self.previous = marks.raised(
            max((r.watermark for r in reports if r.watermark is not None), default=None)
        ).close

    def _source(self, epoch: EpochContext, split: pa.Table, ordinal: int) -> list[Message | Report]:
        return list(
            run_source_task(
                self.plan,
                "bid",
                self.reader,
                split,
                epoch,
                ordinal,
                writers=lambda _: ListWriter(),
                duck=self.duck,
            )
        )

    def _shard(
        self, epoch: EpochContext, level: int, shard: int, messages: list[Message]
    ) -> list[Message | Report]:
        return list(
            run_shard_task(
                self.plan,
                level,
                shard,
                messages,
                epoch,
                self.stores(epoch, shard),
                writers=lambda _: ListWriter(),
                duck=self.duck,
            )
        )


def without_timings(report: Report) -> Report:
    metrics = {
        step: {name: value for name, value in values.items() if not name.endswith("_us")}
        for step, values in report.metrics.items()
    }
    return replace(report, timings={}, metrics=metrics)
