"""One Spark session for all tests that need one, where their files are, and how hypothesis draws."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.examples import is_long
from tests.planned_once import PLANNING, planned_once
from tests.rows_given import watched
from tests.sampling import case_of, chosen

if TYPE_CHECKING:
    from sqlstream.runtime.spark.stages import SparkJobRunner

# Thousands of small files: in memory, where there is enough of it and nobody says where they should be.
_MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 4 << 30:
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None

# A JVM that has its classes from an archive starts with half of the processor's time. All tests share the one of whoever
# runs them: another one for every test with a home of its own would take longer than the tests.
os.environ.setdefault("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))

# The tests draw the same examples each time, so that CI says the same twice; `make search` draws new ones. Making a failing
# example smaller takes minutes where the test passes in seconds: SQLSTREAM_SHRINK=1 asks for it, on a second look.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=tuple(Phase) if os.environ.get("SQLSTREAM_SHRINK") else _PHASES,
)
settings.register_profile(
    "search", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("search" if is_long() else "fixed")


def pytest_sessionstart() -> None:
    """pandas is hidden from Arrow, as in a run: a test that needs it would pass only until another test runs a pipeline."""
    from sqlstream.runtime.tasks.no_pandas import hide_pandas_from_arrow

    hide_pandas_from_arrow()


def pytest_addoption(parser: pytest.Parser) -> None:
    """An explicit flag for what must not be rewritten by the way."""
    parser.addoption(
        "--rewrite-screenshots", action="store_true", help="make docs/images/dashboard-*.png anew"
    )
    parser.addoption("--rewrite-identities", action="store_true", help="write tests/identity/goldens anew")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that `sampled` says, but not where a case is asked for by its name. Spark's tests come first.

    Each process begins with a part of its own, so the first has Spark's session, and what waits for a JVM or a killed
    process does so beside the others. Whoever is done takes from the end.
    """
    items.sort(key=_after_spark)
    if is_long() or any("[" in argument for argument in config.args):
        return
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[str] = set()
    for family in families.values():
        marker = family[0].get_closest_marker("sampled")
        assert marker is not None
        run = chosen([case_of(item) for item in family], *marker.args, **marker.kwargs)
        left_out.update(item.nodeid for number, item in enumerate(family) if number not in run)
    kept = [item for item in items if item.nodeid not in left_out]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = kept


def _after_spark(item: pytest.Item) -> int:
    """0 with the session that Spark's tests share, 1 with Spark or kills in processes of their own, 2 without."""
    if "spark_runner" in getattr(item, "fixturenames", ()):
        return 0
    return 1 if any(item.get_closest_marker(name) for name in ("spark", "kill")) else 2


def pytest_collection_finish() -> None:
    """What is loaded now stays: to look through it for garbage every 700 objects, as Python does, is a waste."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # as in a run, see `sqlstream.cli.main`


def pytest_unconfigure() -> None:
    """What was left out is taken apart at the end, or DuckDB complains of it."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A property that runs over rows, and was given none in any of its examples, says nothing: it fails.

    Where planning is not what is tested, a text is planned once in a test.
    """
    once = nullcontext() if item.nodeid.startswith(PLANNING) else planned_once()
    if not hasattr(getattr(item, "obj", None), "hypothesis"):
        with once:
            return (yield)
    with once, watched() as given:
        result = yield
    if given.runs and not given.rows:
        pytest.fail(f"{given.runs} examples of this property, and no row in any of them")
    return result


Sqlstream = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def spark_runner() -> Iterator[SparkJobRunner]:
    """Spark on two cores of this machine."""
    from sqlstream.runtime.spark.stages import SparkJobRunner

    runner = SparkJobRunner.start("local[2]")
    yield runner
    runner.close()


@pytest.fixture
def sqlstream_here(spark_runner: SparkJobRunner, capfd: pytest.CaptureFixture[str]) -> Sqlstream:
    """The command `sqlstream` in this process, whose runs join the Spark that is there."""
    from sqlstream.cli.main import run_cli

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        code = run_cli(list(arguments))
        out, errors = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, errors)

    return run
