"""Runs that are begun again after a failure that may be over in a while, and those that are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors.api import ConnectorContext, Limits, Position, SinkPart, SourcePlan
from sqlstream.connectors.exactly_once.target import unusable
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.loop.restarts import (
    NEVER,
    Restart,
    RestartStrategy,
    chosen_strategy,
    strategy_of,
)
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import RestartOptions, SinkSpec, SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.runtime.support import FileSink, RowSource, World, manifests, rows_of, tumbling

EVENTS = rows_of(*((n, "ab"[n % 2]) for n in range(0, 60, 5)))
SOON = RestartStrategy(delay_s=0.001, longest_s=0.001)


@dataclass
class Outage:
    """Raises `error` when it is calls for the n-th time, for n in `times`."""

    error: Callable[[], Exception]
    times: Sequence[int]
    calls: int = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls in self.times:
            raise self.error()


@dataclass
class Flaky(World):
    """A world whose source and sink fail as their outages say; a run that watches stops when all is read."""

    plans: Outage | None = None
    prepares: Outage | None = None
    commits: Outage | None = None
    starts: Outage | None = None
    restarts: list[Restart] = field(default_factory=list)
    stop: StopFlag = field(default_factory=StopFlag)

    def source(self, spec: SourceSpec, context: ConnectorContext) -> RowSource:
        world = self

        class Source(RowSource):
            def plan(self, position: Position, limits: Limits) -> SourcePlan:
                if world.plans is not None:
                    world.plans()
                if position["row"] == len(self.rows):
                    world.stop.request()
                return super().plan(position, limits)

        return Source(self.rows, self.bounded)

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> FileSink:
        world = self

        class Sink(FileSink):
            def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
                if world.prepares is not None:
                    world.prepares()
                super().prepare(epoch, parts, previous=previous)

            def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
                if world.commits is not None:
                    world.commits()
                super().commit(epoch, parts, previous=previous)

            def abort_uncommitted(self, last_epoch: int) -> None:
                if world.starts is not None:
                    world.starts()
                super().abort_uncommitted(last_epoch)

        return Sink(self.folder / "out")

    def watch(self, **options: Any) -> RunResult:
        return self.run(stop=self.stop, on_restart=self.restarts.append, **options)


def away() -> Exception:
    return unusable("table t in postgresql://db/x", "connection refused")


def network() -> Exception:
    return OSError(113, "No route to host")


def watched(folder: Path, **outages: Any) -> Flaky:
    return Flaky(folder, EVENTS, bounded=False, **outages)


def whole(folder: Path) -> dict[str, Any]:
    """What a run gives that nothing troubles."""
    world = watched(folder / "whole")
    assert world.watch().outcome == "stopped"
    return {"visible": world.visible(), "state": world.files()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("error", [away, network])
@pytest.mark.parametrize("where", ["plans", "prepares", "commits"])
def test_a_watching_run_goes_on_when_the_trouble_is_over(
    tmp_path: Path, where: str, error: Callable[[], Exception]
) -> None:
    world = watched(tmp_path / "flaky", **{where: Outage(error, (2, 3, 4, 6))})
    result = world.watch(restart=SOON)
    assert [restart.attempt for restart in world.restarts] == [1, 2, 3, 1], "an epoch ends the row"
    assert {d.code for restart in world.restarts for d in restart.diagnostics} <= {"ENV005", "ENV006"}
    assert {"visible": world.visible(), "state": world.files()} == whole(tmp_path)
    assert (result.outcome, result.rows_read) == ("stopped", {"bid": len(EVENTS)})


def test_it_does_so_without_being_asked_once_it_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StopFlag, "wait", lambda self, seconds: waited.append(seconds))
    waited: list[float] = []
    world = watched(tmp_path / "flaky", prepares=Outage(away, range(2, 30)))
    assert world.watch().outcome == "stopped"
    assert [restart.delay_s for restart in world.restarts][:4] == [1.0, 1.5, 2.25, 3.375]
    assert [restart.delay_s for restart in world.restarts][-1] == 60.0
    assert len(world.restarts) == 28
    assert {restart.delay_s for restart in world.restarts} <= set(waited)
    assert world.visible() == whole(tmp_path)["visible"]


def test_a_run_that_can_not_start_says_so_unless_it_is_asked_to_wait(tmp_path: Path) -> None:
    world = watched(tmp_path, starts=Outage(away, (1, 2)))
    with pytest.raises(DiagnosticError) as caught:
        world.watch()
    assert (caught.value.exit_code, caught.value.diagnostics[0].code, world.restarts) == (5, "ENV006", [])
    assert world.watch(restart=SOON).outcome == "stopped"
    assert len(world.restarts) == 1


def test_a_run_to_the_end_of_its_input_says_so_unless_it_is_asked_to_wait(tmp_path: Path) -> None:
    world = Flaky(tmp_path, EVENTS, prepares=Outage(away, (2, 4)))
    with pytest.raises(DiagnosticError):
        world.watch()
    assert world.watch(restart=SOON).outcome == "exhausted"
    assert len(world.restarts) == 1
    assert world.visible() == tumbling(EVENTS)


@pytest.mark.parametrize("strategy", [NEVER, RestartStrategy(2, 0.001, 0.001)])
def test_attempts_are_counted(tmp_path: Path, strategy: RestartStrategy) -> None:
    world = watched(tmp_path, prepares=Outage(away, range(2, 100)))
    with pytest.raises(DiagnosticError) as caught:
        world.watch(restart=strategy)
    assert caught.value.diagnostics[0].code == "ENV006"
    assert [(r.attempt, r.of) for r in world.restarts] == [
        (n, 2) for n in range(1, (strategy.attempts or 0) + 1)
    ]
    assert not (world.state / "run.lock").exists()
    world.prepares = None
    assert world.watch().outcome == "stopped"


@pytest.mark.parametrize(
    "error",
    [
        lambda: DataError("a row does not fit"),
        lambda: DiagnosticError(Diagnostic("STA003", "damaged"), exit_code=4),
        lambda: ZeroDivisionError("a bug"),
    ],
)
def test_what_no_waiting_mends_is_told_at_once(tmp_path: Path, error: Callable[[], Exception]) -> None:
    world = watched(tmp_path, prepares=Outage(error, (2,)))
    with pytest.raises((DiagnosticError, ZeroDivisionError)):
        world.watch(restart=SOON)
    assert world.restarts == []


def test_a_run_that_is_stopped_while_it_waits_tells_what_it_waited_for(tmp_path: Path) -> None:
    world = watched(tmp_path, commits=Outage(away, range(2, 100)))

    def stopped(restart: Restart) -> None:
        world.restarts.append(restart)
        world.stop.request()

    with pytest.raises(DiagnosticError) as caught:
        world.run(stop=world.stop, on_restart=stopped, restart=RestartStrategy(delay_s=1000))
    assert caught.value.diagnostics[0].code == "ENV006"
    assert len(world.restarts) == 1


class Gone(InProcessRunner):
    """Spark that is told to stop together with the run, in its second epoch."""

    def __init__(self, stop: StopFlag, code: str, world: World) -> None:
        super().__init__(2)
        self._stop, self._code, self._world, self._jobs = stop, code, world, 0

    def run(self, job: EpochJob) -> EpochOutcome:
        self._jobs += 1
        if self._jobs == 2:
            self._stop.request()
            raise DiagnosticError(Diagnostic(self._code, "Spark is gone"))
        return super().run(job)


@pytest.mark.parametrize("code", ["ENV003", "ENV004", "ENV007", "DAT001", "STA003"])
def test_spark_that_ends_with_the_run_is_a_clean_stop(tmp_path: Path, code: str) -> None:
    world = World(tmp_path, EVENTS)
    stop = StopFlag()
    runner = Gone(stop, code, world)
    from sqlstream.runtime.tasks.task_program import Connectors
    from tests.runtime.support import RowReader

    runner._connectors = Connectors(
        lambda spec, base: RowReader(world.rows),
        lambda spec, base: RowReader(world.rows),
        lambda s, b: world.the_sink,
    )
    if code.startswith("ENV"):
        result = world.run(stop=stop, runner=runner)
        assert (result.outcome, result.epochs, result.unfinished) == ("stopped", 1, 2)
        assert list(manifests(world.state)) == [1], "no number is given up"
    else:
        with pytest.raises(DiagnosticError):
            world.run(stop=stop, runner=runner)
    assert world.run().outcome == "exhausted"
    assert world.visible() == tumbling(EVENTS)


def test_settings_say_how(tmp_path: Path) -> None:
    def strategy(*lines: str) -> RestartStrategy | None:
        table = "CREATE TABLE t (a INT) WITH ('connector' = 'datagen');"
        query = "CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT a FROM t;"
        sets = "".join(f"SET 'restart-strategy.{line};\n" for line in lines)
        return strategy_of(plan_file(sets + table + query, file="p.sql").physical.options.restart)

    assert strategy() is None
    assert strategy("fixed-delay.attempts' = '3'") is None, "Flink wants the type, too"
    assert strategy("type' = 'none'") == NEVER
    fixed = ("type' = 'fixed-delay'", "fixed-delay.attempts' = '3'", "fixed-delay.delay' = '10 s'")
    assert strategy(*fixed) == RestartStrategy(3, 10.0, 10.0, 1.0)
    assert strategy("type' = 'fixed-delay'") == RestartStrategy(None, 1.0, 1.0, 1.0)
    assert strategy("type' = 'exponential-delay'") == RestartStrategy(None, 1.0, 60.0, 1.5)
    exponential = (
        "type' = 'exponential-delay'",
        "exponential-delay.initial-backoff' = '2 s'",
        "exponential-delay.max-backoff' = '5 s'",
        "exponential-delay.backoff-multiplier' = '2'",
        "exponential-delay.attempts-before-reset-backoff' = '4'",
    )
    found = strategy(*exponential)
    assert found is not None
    assert [found.delay(n) for n in range(1, 6)] == [2.0, 4.0, 5.0, 5.0, None]
    assert strategy_of(RestartOptions("none")) == NEVER


def test_the_command_line_asks_for_a_fixed_delay() -> None:
    assert chosen_strategy(None, None) is None
    assert chosen_strategy(0, None) == RestartStrategy(0)
    calls = chosen_strategy(None, 5.0)
    assert calls is not None
    assert [calls.delay(n) for n in (1, 2, 1000)] == [5.0, 5.0, 5.0]


class _Starting(InProcessRunner):
    """A runner that has to be started for its first epoch, as Spark has."""

    begun = False

    def make_ready(self, job: EpochJob | None = None) -> bool:
        before, self.begun = self.begun, True
        return not before


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("'connector' = 'filesystem', 'path' = 'in', 'format' = 'json'", "epoch 1 is at work, 0.2 MB"),
        ("'connector' = 'datagen', 'number-of-rows' = '2000'", "epoch 1 is at work, 1,000 rows"),
    ],
)
def test_what_is_done_once_spark_is_there_is_told(tmp_path: Path, source: str, reported: str) -> None:
    """Or "starting Spark" would stand for as long as the first epoch takes."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"a": 1}\n' * 20_000)
    sql = f"""
        CREATE TABLE t (a INT) WITH ({source});
        CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT a FROM t;
    """
    phases: list[str] = []
    run_pipeline(
        RunRequest(
            plan_file(sql, file="p.sql").physical,
            state_dir=tmp_path / "state",
            base_dir=tmp_path,
            local_dir=tmp_path / "cache",
            runner=_Starting(1),
            max_rows_per_epoch=1_000 if "datagen" in source else None,
            on_phase=phases.append,
            sync=False,
        )
    )
    assert phases == [reported]
