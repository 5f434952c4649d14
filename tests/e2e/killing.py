"""Drivers that are really killed (SIGKILL) at chosen steps: at a point of an epoch, or at the n-th call in our code.

A server process imports everything once and forks a driver for each order, so that a killed run costs what it does
and not what Python needs to start. `python -m tests.e2e.killing` is the server; `Killer` talks to it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from sqlstream.runtime.loop.faults import Point
from sqlstream.runtime.tasks.no_pandas import hide_pandas_from_arrow
from tests.e2e import driver

ROOT = Path(__file__).parents[2]
POINTS: tuple[Point, ...] = ("planned", "run", "prepared", "published", "committed", "collected")
#: Calls in these folders are steps.
_OURS = (f"{ROOT / 'sqlstream'}{os.sep}", f"{ROOT / 'operators'}{os.sep}")


@dataclass(frozen=True)
class Order:
    """A run of the pipeline of a folder, killed at `point` of the n-th epoch that gets there, or at a step, or not.

    With `counted` its steps are counted, which takes longer than the run.
    """

    folder: str
    rows_per_epoch: int
    parallelism: int
    point: Point | None = None
    occurrence: int = 1
    step: int | None = None
    counted: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code (-9 if it was killed), how many steps it made if they were counted, and what it
    wrote to stderr.
    """

    code: int
    steps: int
    errors: str

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Killer:
    """Runs drivers and kills them where it is told to."""

    def __init__(self, server: subprocess.Popen[str], errors: Path) -> None:
        self._server, self._errors = server, errors

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[Killer]:
        """A server, whose drivers write their errors into a file of `folder`."""
        path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
        errors = folder / "errors.txt"
        with (
            errors.open("w") as stream,
            subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.killing"],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
            ) as server,
        ):
            yield cls(server, errors)
            assert server.stdin is not None
            server.stdin.close()

    def run(self, order: Order) -> Ended:
        """Run a driver to its end, whatever that is."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        before = self._errors.stat().st_size
        print(json.dumps(asdict(order)), file=self._server.stdin, flush=True)
        answer = json.loads(self._server.stdout.readline())
        with self._errors.open() as stream:
            stream.seek(before)
            return Ended(**answer, errors=stream.read())

    def finish(self, order: Order) -> Ended:
        """Run a driver that nothing kills; it must come to its end."""
        ended = self.run(order)
        assert ended.code == 0, ended.errors
        return ended

    def kill(self, order: Order) -> None:
        """Run a driver that must be killed where the order says."""
        ended = self.run(order)
        assert ended.killed, f"{order} ended with {ended.code}: {ended.errors}"


def steps_within(rng: random.Random, steps: int, count: int) -> list[int]:
    """`count` steps of a run of so many, one in each of as many equal parts, in any order."""
    assert steps > 100 * count, f"{steps} steps: they were not counted"
    chosen = [1 + int(steps * (part + rng.random()) / count) for part in range(count)]
    rng.shuffle(chosen)
    return chosen


# ------------------------------------------------------------------------------------------------------ the server


def _serve() -> None:
    """What one driver had to import is imported here for those that follow."""
    hide_pandas_from_arrow()  # as in a run
    for line in sys.stdin:
        order = Order(**json.loads(line))
        with tempfile.TemporaryFile() as told:
            here = set(sys.modules)
            child = os.fork()
            if child == 0:
                _drive(order, told.fileno(), here)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            told.seek(0)
            steps, *modules = json.loads(told.read() or b"[0]")
        for module in modules:
            with contextlib.suppress(
                ImportError
            ):  # some are made by others, under names that can't be imported
                importlib.import_module(module)
        print(json.dumps({"code": code, "steps": steps}), flush=True)


def _drive(order: Order, told: int, loaded: set[str]) -> None:
    """The child: one run, whose output is no answer of the server.

    At its end, or before it is killed at a point, it tells how many steps it made and what it had to import.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ.update(order.environment)
    reached = 0
    steps: Callable[[], int] = int

    def tell() -> None:
        sys.setprofile(None)
        os.write(told, json.dumps([steps(), *sorted(set(sys.modules) - loaded)]).encode())

    def at(point: Point, epoch: int) -> None:
        nonlocal reached
        reached += point == order.point
        if point == order.point and reached == order.occurrence:
            tell()
            os.kill(os.getpid(), signal.SIGKILL)

    if order.counted or order.step is not None:
        steps = _count_steps(order.step)
    code = driver.main(Path(order.folder), order.rows_per_epoch, order.parallelism, None, faults=at)
    tell()
    sys.stderr.flush()
    os._exit(code)


def _count_steps(last: int | None) -> Callable[[], int]:
    """Count calls of our functions, and their calls of functions in C; kill this process at step `last`.

    What is returned gives how many there were.
    """
    steps = 0
    ours: dict[str, bool] = {}

    def called(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal steps
        if event not in ("call", "c_call"):
            return
        file = frame.f_code.co_filename
        known = ours.get(file)
        if known is None:
            known = ours[file] = file.startswith(_OURS)
        if known:
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(called)
    return lambda: steps


if __name__ == "__main__":
    import sqlstream.connectors.registry  # noqa: F401 -- what a run imports, before there are children

    _serve()
