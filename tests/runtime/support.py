"""A source of rows in memory, a sink of files, and runs of a window aggregate over them without Spark."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlstream.connectors.api import (
    BadRow,
    ConnectorContext,
    Dimension,
    Limits,
    Position,
    SinkPart,
    SourcePlan,
    Split,
)
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.runtime.tasks.task_program import Connectors
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import DimensionSpec, PhysicalPlan, SinkSpec, SourceSpec
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from tests.operators.pipelines import Row, table_of, window_plan

EPOCH = datetime(1970, 1, 1)
TUMBLE = WindowSpec(WindowKind.TUMBLE, 10, 10)


class Crash(BaseException):
    """A fault: nothing catches it, as nothing catches SIGKILL."""


def rows_of(*events: tuple[int, str]) -> list[Row]:
    """Rows with these event times (µs) and keys."""
    return [Row(ts, key, 1, None, n) for n, (ts, key) in enumerate(events)]


@dataclass
class RowSource:
    """All rows of a list that grows; bounded unless told otherwise. Two rows a split."""

    rows: list[Row]
    bounded: bool = True
    split_rows: int = 2
    plans: int = 0

    def initial_position(self) -> Position:
        return {"row": 0}

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        self.plans += 1
        first = int(position["row"])
        last = min(len(self.rows), first + (limits.rows if limits.rows is not None else len(self.rows)))
        splits = [
            Split("bid", {"from": low, "to": min(low + self.split_rows, last)}, rows=None)
            for low in range(first, last, self.split_rows)
        ]
        return SourcePlan(tuple(splits), {"row": last}, self.bounded and last == len(self.rows))

    def lag(self, position: Position) -> int | None:
        return len(self.rows) - int(position["row"])


@dataclass
class RowReader:
    rows: Sequence[Row]

    def open_strict(self, duck: DuckSession, relation: str, split: Any, *, queries: int) -> None:
        duck.register(relation, table_of(self.rows[split.payload["from"] : split.payload["to"]]))

    def open_lenient(self, duck: DuckSession, relation: str, split: Any) -> Sequence[BadRow]:
        self.open_strict(duck, relation, split, queries=1)
        return []


@dataclass
class FileSink:
    """Staged files are moved to where readers look; a missing one is an error, unless it was moved
    already.
    """

    folder: Path
    committed: list[int] = field(default_factory=list)

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        name = f"{epoch:06d}-{task}.json"
        staged = self.folder / "staged"
        staged.mkdir(parents=True, exist_ok=True)
        text = json.dumps(table.to_pylist(), default=str)
        (staged / name).write_text(text)
        return SinkPart(table.num_rows, {"file": name})

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        for part in parts:
            assert (self.folder / "staged" / part.payload["file"]).exists()

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        self.committed.append(epoch)
        visible = self.folder / "visible"
        visible.mkdir(parents=True, exist_ok=True)
        for part in parts:
            name = part.payload["file"]
            if not (visible / name).exists():
                shutil.move(self.folder / "staged" / name, visible / name)

    def abort_uncommitted(self, last_epoch: int) -> None:
        for file in (self.folder / "staged").glob("*.json"):
            if int(file.name[:6]) > last_epoch:
                file.unlink()


@dataclass
class World:
    """A state directory, a source and a sink that outlive runs; `run` is one run of a pipeline on them."""

    folder: Path
    rows: list[Row]
    window: WindowSpec = TUMBLE
    bounded: bool = True
    program: PhysicalPlan | None = None
    reports: list[EpochReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan = self.program or window_plan(self.window)
        self.the_source = RowSource(self.rows, self.bounded)
        self.the_sink = FileSink(self.folder / "out")

    def source(self, spec: SourceSpec, context: ConnectorContext) -> RowSource:
        return self.the_source

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> FileSink:
        return self.the_sink

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> Dimension:
        raise AssertionError("nothing is looked up")

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def run(
        self, *, shards: int | None = 2, rows: int | None = 3, drains: bool = True, **options: Any
    ) -> RunResult:
        """One run; it drains its sources, unless `drains` leaves that to the plan's options."""
        runner = options.pop("runner", None) or InProcessRunner(
            2,
            Connectors(
                lambda spec, base: RowReader(self.rows),
                lambda spec, base: RowReader(self.rows),
                lambda spec, base: self.the_sink,
            ),
        )
        plan = options.pop("plan", self.plan)
        if drains:
            plan = replace(plan, options=replace(plan.options, drain=True))
        return run_pipeline(
            RunRequest(
                plan,
                state_dir=self.state,
                parallelism=shards,
                max_rows_per_epoch=rows,
                runner=runner,
                connectors=self,
                local_dir=self.folder / "cache",
                on_epoch=self.reports.append,
                sync=False,
                poll_s=0.01,
                lease_beat_s=options.pop("lease_beat_s", 0.05),
                **options,
            )
        )

    def visible(self) -> Counter[tuple[str, int, int, int]]:
        """What a reader of the sink sees: (key, window start, window end, count), µs."""
        found: Counter[tuple[str, int, int, int]] = Counter()
        for file in sorted((self.folder / "out" / "visible").glob("*.json")):
            for row in json.loads(file.read_text()):
                found[row["k"], micros(row["window_start"]), micros(row["window_end"]), row["c"]] += 1
        return found

    def dead_letters(self) -> list[dict[str, Any]]:
        folder = self.state / "dead-letter"
        files = sorted(folder.glob("*.jsonl")) if folder.exists() else []
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def files(self) -> set[str]:
        """All but the history, in which an epoch may be missing whose run has crashed."""
        found = {str(p.relative_to(self.state)) for p in self.state.rglob("*") if p.is_file()}
        return {name for name in found if not name.startswith("history/")}


def micros(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def tumbling(rows: Sequence[Row], size: int = 10) -> Counter[tuple[str, int, int, int]]:
    """What the windows of all rows hold, none being late."""
    counts: Counter[tuple[str, int]] = Counter((row.k or "", row.ts // size * size) for row in rows)
    return Counter((key, start, start + size, n) for (key, start), n in counts.items())


def crash_at(point: str, epoch: int) -> Callable[[str, int], None]:
    """A fault at one point of one epoch."""

    def fault(at: str, number: int) -> None:
        if (at, number) == (point, epoch):
            raise Crash(f"{point} {epoch}")

    return fault


def manifests(state: Path) -> Mapping[int, dict[str, Any]]:
    return {
        int(p.name[:6]): json.loads(p.read_text()) for p in sorted((state / "epochs").glob("*.manifest.json"))
    }
