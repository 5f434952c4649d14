"""Run one rendered SQL file with Flink SQL, `--repeat` times in one process, each into a topic of its own.

Called by `kafka_peers.py` with the interpreter of an environment that has `apache-flink`; standard library and PyFlink
only. Prints one JSON line: ``runs``, seconds from the statements to the end of the job, the first one cold.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]


def run(text: str, jar: str, parallelism: int, checkpoints_ms: int) -> float:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "pipeline.jars": f"file://{jar}",
        "parallelism.default": str(parallelism),
        "execution.checkpointing.interval": f"{checkpoints_ms} ms",
        "execution.checkpointing.dir": f"file://{tempfile.mkdtemp(prefix='flink-')}",
        "table.local-time-zone": "UTC",
    }
    for name, value in settings.items():
        tables.get_config().set(name, value)
    started = time.perf_counter()
    *before, last = [part.strip() for part in text.split(";") if part.strip()]
    for statement in before:
        tables.execute_sql(statement)
    tables.execute_sql(last).wait()
    return time.perf_counter() - started


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("file", type=Path, help="SQL whose sink's topic is called SINK")
    p.add_argument("--jar", required=True, help="flink-sql-connector-kafka")
    p.add_argument("--sinks", nargs="+", required=True, help="a topic for each run")
    p.add_argument("--parallelism", type=int, default=4)
    p.add_argument("--checkpoints-ms", type=int, default=1000)
    args = p.parse_args()
    text = args.file.read_text()
    runs = [
        run(text.replace("SINK", sink), args.jar, args.parallelism, args.checkpoints_ms)
        for sink in args.sinks
    ]
    print(json.dumps({"runs": [round(seconds, 3) for seconds in runs]}), flush=True)


if __name__ == "__main__":
    main()
