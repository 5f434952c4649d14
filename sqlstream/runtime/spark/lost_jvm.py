"""A JVM of Spark's that has ended: how, whether memory was why, and what PySpark must forget to have another one."""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where the kernel counts the processes that it has ended for want of memory, those of containers among them.
_COUNTERS = Path("/proc/vmstat")
#: How long a process that does not answer any more may take to end.
_ENDING_S = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a JVM ended, in words; `for_memory`: the system says that it ended a process for want of memory since."""

    how: str
    for_memory: bool = False


def killed_for_memory(counters: Path = _COUNTERS) -> int | None:
    """How many processes the kernel has ended for want of memory since it started; None: it does not say."""
    try:
        lines = counters.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def how_it_ended(process: subprocess.Popen[bytes] | None, killed_before: int | None) -> Ended:
    """How the process of a JVM ended that can't be reached any more; `killed_before` is `killed_for_memory` at its start."""
    if process is None:
        return Ended("it can't be reached any more")
    try:
        code = process.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        return Ended("it does not answer any more")
    if code >= 0:
        return Ended(f"it ended with exit code {code}")
    with contextlib.suppress(ValueError):
        now = killed_for_memory()
        more = now is not None and killed_before is not None and now > killed_before
        return Ended(f"it was ended by {signal.Signals(-code).name}", more and -code == signal.SIGKILL)
    return Ended(f"it was ended by signal {-code}")


def quiet_gateway() -> None:
    """Keep py4j from printing stack traces when the JVM goes, or a signal ends what waits for it: the run reports it."""
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    logging.getLogger().addFilter(_is_not_py4j)  # of some of its messages it makes the root's


def quiet(session: SparkSession) -> None:
    """Keep PySpark's threads from printing stack traces when the JVM goes: the run reports it, once."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def forget(session: SparkSession) -> None:
    """Make PySpark start anew in this process: it keeps its one session and gateway for good otherwise."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, SQLContext

    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()
    if SparkContext._gateway is not None:
        with contextlib.suppress(Exception):
            SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
