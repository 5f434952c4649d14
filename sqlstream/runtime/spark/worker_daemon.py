"""Spark's Python daemon with a task's libraries imported before it forks, so that a new worker starts warm.

Set as `spark.python.daemon.module` where every task runs on this machine. A worker imports for half a second, and Spark
closes workers that were idle for a minute, so without this the first epoch and every epoch after a pause pay it in each
worker. None of the imports may leave a thread running, or it would be missing in the child: a test counts them.
"""

from __future__ import annotations

import gc
import os
import signal
import socket

# Read when the libraries are loaded: no thread for jemalloc (Arrow's own copy) and none for OpenBLAS (numpy).
os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from sqlstream.runtime.tasks.no_pandas import hide_pandas_from_arrow

hide_pandas_from_arrow()

import pyspark.daemon  # noqa: E402
import pyspark.worker  # noqa: E402

import sqlstream.runtime.spark.map_tasks  # noqa: E402, F401
from sqlstream.connectors.registry import REGISTERED  # noqa: E402

_serve = pyspark.daemon.worker


def _serve_quietly(sock: socket.socket, authenticated: bool) -> int:
    """A worker's task. When Spark stops while it waits, there is nobody to answer, and no reason for a stack."""
    try:
        return int(_serve(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return 1


if __name__ == "__main__":
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        # As the JVM, whose handling it inherits: a run that is stopped finishes its epoch (`java`). Spark's daemon
        # would end its workers on SIGTERM; it listens to another signal, which nobody sends, and ends with the JVM.
        pyspark.daemon.SIGTERM = signal.SIGUSR2
    REGISTERED.preload()
    # Spark's worker collects garbage after every task, which walks through all that was imported unless that is
    # set aside: 42 ms per task. It also keeps the pages shared between the workers.
    gc.collect()
    gc.freeze()
    pyspark.daemon.worker = _serve_quietly
    try:
        pyspark.daemon.manager()
    finally:
        os._exit(0)  # what was set aside is not torn down, and DuckDB would list all of it as leaked
