"""How long the dashboard takes to answer, for 40 operators and 10,000 epochs: `python -m benchmarks.dashboard`.

Prints p50 and p95 per address, on the server's side, and how large the answers are. The target is p95 <= 300 ms.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.storage.epoch_history import History, HistoryWriter, TaskFigures
from sqlstream.ui.server import served
from sqlstream_operators.state.checkpoint_store import CheckpointStore

OPERATORS, EPOCHS, ASKED = 40, 10_000, 40


def sql() -> Iterator[str]:
    """A table, and a sink for each operator."""
    yield (
        "CREATE TABLE t (k BIGINT, v BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ("
        "'connector' = 'filesystem', 'path' = 'in', 'format' = 'json');"
    )
    for n in range(OPERATORS):
        select = f"SELECT k % {n + 2} AS k, SUM(v) AS v{n} FROM t GROUP BY 1"
        yield f"CREATE TABLE o{n} WITH ('connector' = 'blackhole') AS {select};"


def made(folder: Path) -> CheckpointStore:
    """A state directory of the pipeline, with a history as long as is kept."""
    (folder / "in").mkdir()
    rows = ({"k": n, "v": n, "at": f"2026-01-01 00:{n // 60 % 60:02d}:{n % 60:02d}"} for n in range(5000))
    (folder / "in" / "0.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "p.sql").write_text("\n".join(sql()))
    planned = plan_file(folder / "p.sql")
    run_pipeline(
        RunRequest(
            planned.physical,
            folder / "state",
            sql=planned.masked_sql,
            nodes=planned.state_nodes,
            base_dir=folder,
            runner=InProcessRunner(2),
            name="many",
        )
    )
    store = CheckpointStore(str(folder / "state"))
    first = next(History(store).latest())
    tasks = tuple(
        TaskFigures(f"1-{n:05d}", 1000, 10_000, 10_000, {"state": 5000, "fragment": 700}) for n in range(12)
    )
    writer = HistoryWriter(store)
    for epoch in range(first.epoch + 1, first.epoch + EPOCHS):
        at = first.at_us + epoch * 1_000_000
        writer.add(replace(first, epoch=epoch, at_us=at, tasks=tasks, task_count=80))
        if epoch % 100 == 0:
            writer.write()
    writer.write()
    return store


def main() -> None:
    """Ask each address some times."""
    with tempfile.TemporaryDirectory() as folder:
        store = made(Path(folder))
        size = sum(store.size(name) or 0 for name in store.list("history"))
        print(f"{OPERATORS} operators, {EPOCHS:,} epochs: a history of {size / 1e6:.1f} MB")
        with served(lambda: [("many", store)], "127.0.0.1", 0) as url:
            with urllib.request.urlopen(f"{url}api/pipelines") as answer:
                one = json.load(answer)["pipelines"][0]["id"]
            for path in (
                "",
                "/graph",
                "/source",
                "/epochs",
                "/epochs?before=5000",
                "/epochs/5000",
                "/series?epochs=500",
                "/series?epochs=10000",
                "/relations",
                "/letters",
                "/savepoints",
            ):
                took: list[float] = []
                for _ in range(ASKED):
                    begin = time.perf_counter()
                    with urllib.request.urlopen(f"{url}api/pipelines/{one}{path}") as answer:
                        length = len(answer.read())
                    took.append(time.perf_counter() - begin)
                p95 = statistics.quantiles(took, n=20)[-1]
                print(
                    f"{path or '/':24} first {took[0] * 1e3:6.0f} ms  p50 {statistics.median(took) * 1e3:6.0f} ms  "
                    f"p95 {p95 * 1e3:6.0f} ms  {length / 1e3:7.1f} kB"
                )


if __name__ == "__main__":
    main()
