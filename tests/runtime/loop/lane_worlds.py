"""A source of several lanes that follows a script, and a plain model of Flink's rule for the watermark of its partitions.

A step of a script is a look of the run at the source: some time goes by, then it has these rows of these lanes, or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlstream.connectors.api import ConnectorContext, Limits, Position, SourcePlan, Split
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN
from tests.operators.pipelines import Row
from tests.runtime.support import TUMBLE, World

SIZE = TUMBLE.size_us
START = 100.0


@dataclass(frozen=True)
class Step:
    """After `gap` seconds in which nothing comes: event times by lane, and `new` lanes that are there from now on.

    `ends`: the run ends behind it, and another one goes on.
    """

    rows: Mapping[str, tuple[int, ...]]
    gap: float = 0.0
    new: tuple[str, ...] = ()
    ends: bool = False


@dataclass
class Clock:
    """Seconds that only the script moves."""

    now: float = START

    def __call__(self) -> float:
        return self.now


@dataclass
class LaneSource:
    """The rows of a script; a position is the number of the next step. Bounded, a run at a time (`final`: for good)."""

    steps: Sequence[Step]
    clock: Clock
    bounded: bool = True
    final: bool = False
    rows: list[Row] = field(default_factory=list)
    _places: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    _waited: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for number, step in enumerate(self.steps):
            for lane, times in step.rows.items():
                first = len(self.rows)
                self.rows += [Row(ts, lane, 1, None, first + n) for n, ts in enumerate(times)]
                self._places[number, lane] = first, len(self.rows)

    def initial_position(self) -> Position:
        return {"step": 0}

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        number = int(position["step"])
        if number >= len(self.steps):
            return SourcePlan((), position, True, final=self.final, lanes=self.lanes(number))
        step = self.steps[number]
        if step.gap and number not in self._waited:
            self._waited.add(number)
            self.clock.now += step.gap
            return SourcePlan((), position, False, lanes=self.lanes(number - 1))
        return SourcePlan(
            tuple(self._splits(number)),
            {"step": number + 1},
            step.ends,
            final=self.final and step.ends,
            lanes=self.lanes(number),
        )

    def lag(self, position: Position) -> int | None:
        return None

    def lanes(self, number: int) -> tuple[str, ...]:
        return tuple(lane for step in self.steps[: number + 1] for lane in step.new)

    def _splits(self, number: int) -> Iterator[Split]:
        """Two rows a split."""
        for lane, times in self.steps[number].rows.items():
            first, last = self._places[number, lane]
            for low in range(first, last, 2):
                payload = {"from": low, "to": min(low + 2, last)}
                yield Split("bid", payload, lane=lane)
            assert times or first == last

    def until(self, position: Position) -> LaneSource:
        """The steps before a position, without waiting."""
        steps = self.steps[: int(position["step"])]
        return replace(
            self, steps=[replace(s, gap=0.0, ends=False) for s in steps], _waited=set(), rows=[], _places={}
        )


class LaneWorld(World):
    """Runs of a script; its windows are tumbling ones of `SIZE` µs."""

    def __init__(self, folder: Path, steps: Sequence[Step], idle_s: float | None = None) -> None:
        self.clock = Clock()
        self.lanes = LaneSource(steps, self.clock)
        super().__init__(folder, self.lanes.rows)
        (spec,) = self.plan.sources
        assert spec.watermark is not None
        timeout = None if idle_s is None else round(idle_s * 1e6)
        watermark = replace(spec.watermark, idle_timeout_us=timeout)
        self.plan = replace(self.plan, sources=(replace(spec, watermark=watermark),))

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Any:
        return self.lanes

    def run_all(self, **options: Any) -> None:
        """All runs of the script, of which the last one drains."""
        for _ in range(sum(step.ends for step in self.lanes.steps)):
            self.run(drains=False, rows=None, **options)
        self.run(rows=None, **options)

    def late(self) -> list[int]:
        """The numbers of the rows that were late."""
        return sorted(letter["row"]["n"] for letter in self.dead_letters() if letter["kind"] == "late")


@dataclass
class FlinkModel:
    """What Flink's rule gives for a script: windows, and the rows that are late.

    The watermark is the least of the partitions that are not idle (all idle: the greatest), and never goes back; a
    partition without a row has none yet. What is late is decided by what epochs before have read, what closes by the epoch
    too. An epoch runs if there are rows, or if it closes a window.
    """

    idle_s: float | None
    seen: dict[str, int] = field(default_factory=dict)
    fed: dict[str, float] = field(default_factory=dict)
    applied: int = WATERMARK_MIN
    now: float = START
    windows: Counter[tuple[str, int]] = field(default_factory=Counter)
    given: Counter[tuple[str, int, int, int]] = field(default_factory=Counter)
    late: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    number: int = 0

    def play(self, steps: Sequence[Step]) -> FlinkModel:
        for step in steps:
            if step.gap:
                self.now += step.gap
                self._look({})
            for lane in step.new:
                self.seen[lane] = WATERMARK_MIN
                self.fed[lane] = self.now
            self._look(step.rows)
            if step.ends:
                self.fed = dict.fromkeys(self.seen, self.now)
        self._close(WATERMARK_MAX)
        return self

    def _look(self, rows: Mapping[str, tuple[int, ...]]) -> None:
        self.fed |= {lane: self.now for lane, times in rows.items() if times}
        active = {
            lane
            for lane in self.seen
            if self.idle_s is None or self.now - self.fed[lane] < self.idle_s or rows.get(lane)
        }
        late = max(self.applied, self._least(active))
        if not any(rows.values()) and not (self.windows and self._ends(late) > self._ends(self.applied)):
            return
        for lane, times in rows.items():
            for ts in times:
                start = ts // SIZE * SIZE
                if start + SIZE - 1 <= late:
                    self.late.append(self.number)
                else:
                    self.windows[lane, start] += 1
                self.number += 1
                self.seen[lane] = max(self.seen[lane], ts)
        self._close(max(late, self._least(active)))
        self.marks.append(self.applied)

    def _least(self, active: set[str]) -> int:
        marks = [self.seen[lane] for lane in active]
        return min(marks) if marks else max(self.seen.values(), default=WATERMARK_MIN)

    def _close(self, watermark: int) -> None:
        self.applied = watermark
        for key, start in list(self.windows):
            if start + SIZE - 1 <= watermark:
                self.given[key, start, start + SIZE, self.windows.pop((key, start))] += 1

    @staticmethod
    def _ends(watermark: int) -> int:
        return (watermark + 1) // SIZE
