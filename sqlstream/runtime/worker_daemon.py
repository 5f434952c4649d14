"""Spark's Python daemon with a task's libraries imported before it forks, so that a new worker starts warm.

Set as `spark.python.daemon.module` where every task runs on this machine. Spark closes workers that were idle
for a minute; without this, the first epoch after a pause imports Arrow, DuckDB and RocksDB in every worker
again. None of the imports may start a thread, or a forked worker could hang: a test counts them.
"""

from __future__ import annotations

import duckdb  # noqa: F401
import numpy as np  # noqa: F401
import pyarrow as pa  # noqa: F401
import pyarrow.ipc  # noqa: F401
import rocksdict  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
