"""Whether executors of a cluster have come, and the diagnostic if none has."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlstream.runtime.spark.masters import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: After how long without an executor a run says so, and how often it looks, seconds.
PATIENCE_S = 15.0
_PAUSE_S = 1.0
_ANSWER_S = 2.0


@contextmanager
def watched(
    spark: SparkSession, master: str, tell: Callable[[str], None], patience_s: float = PATIENCE_S
) -> Iterator[None]:
    """While inside, `tell` once that no executor of a cluster has come, if none has for `patience_s` seconds."""
    if is_local(master) or number(spark):
        yield
        return
    done = threading.Event()

    def watch() -> None:
        waited = 0.0
        while not done.wait(_PAUSE_S):
            waited += _PAUSE_S
            if number(spark) is None or number(spark):
                return
            if waited >= patience_s:
                why = reason(spark, master)
                if not done.is_set():
                    tell(
                        f"no executor of {master} has started for {patience_s:.0f} s{f': {why}' if why else ''}"
                    )
                return

    thread = threading.Thread(target=watch, name="executors", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


def number(spark: SparkSession) -> int | None:
    """How many executors there are beside the driver; None if Spark does not answer."""
    with contextlib.suppress(Exception):
        status: Any = spark.sparkContext._jsc.sc()
        return int(status.getExecutorMemoryStatus().size()) - 1
    return None


def reason(spark: SparkSession, master: str) -> str:
    """Why a standalone master gives no executor, by what its web page says of its workers; "" if it says nothing."""
    if not master.startswith("spark://"):
        return ""
    with contextlib.suppress(Exception):
        port = str(spark.conf.get("spark.master.ui.port", "8080"))
        for address in master.removeprefix("spark://").split(","):
            host = address.rpartition(":")[0]
            with urllib.request.urlopen(f"http://{host}:{port}/json/", timeout=_ANSWER_S) as answer:
                state = json.load(answer)
            if state["url"] == f"spark://{address}":
                return of_workers(state["workers"], int(spark.sparkContext._jsc.sc().executorMemory()))
    return ""


def of_workers(workers: Sequence[Mapping[str, Any]], wanted: int) -> str:
    """Why workers start no executor of `wanted` MiB.

    >>> of_workers([], 1024)
    'the master has no workers'
    >>> worker = {"state": "ALIVE", "cores": 4, "coresfree": 0, "memoryfree": 512}
    >>> of_workers([worker, {**worker, "state": "DEAD"}], 1024)
    'of the 4 cores of its workers 0 are free, an executor wants 1024 MiB, and no worker has more than 512 MiB free'
    """
    if not workers:
        return "the master has no workers"
    alive = [worker for worker in workers if worker["state"] == "ALIVE"]
    if not alive:
        return f"none of the master's {len(workers)} workers is alive"
    cores, free = (sum(int(worker[name]) for worker in alive) for name in ("cores", "coresfree"))
    most = max(int(worker["memoryfree"]) for worker in alive)
    return (
        f"of the {cores} cores of its workers {free} are free, an executor wants {wanted} MiB, "
        f"and no worker has more than {most} MiB free"
    )
