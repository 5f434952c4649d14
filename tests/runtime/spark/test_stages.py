"""Epochs as Spark jobs: the results of the in-process runner, errors in words, big blobs, packages for executors."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.spark.stages import _ROW, SparkJobRunner, zipped_packages
from sqlstream.runtime.tasks import message_batches
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome, JobRunner
from sqlstream.runtime.tasks.local_runner import InProcessRunner, run_here
from sqlstream.runtime.tasks.message_batches import from_batches, to_batches
from sqlstream_operators.codec.exchange import Message
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    pass

#: What is tested here is several tasks, unless a test says otherwise.
TASKS = "SET 'execution.single-task-rows' = '0';"
SQL = f"""{TASKS}
CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3),
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE per_bidder (bidder BIGINT, bids BIGINT, auctions BIGINT, window_end TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = 'out/per_bidder', 'format' = 'json');
CREATE TABLE dear (auction BIGINT, price BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out/dear', 'format' = 'json');
INSERT INTO per_bidder
SELECT bidder, COUNT(*), COUNT(DISTINCT auction), window_end
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
INSERT INTO dear SELECT auction, price FROM bid WHERE price > 90;
"""


def write_bids(folder: Path, files: int = 3, rows: int = 40) -> None:
    (folder / "in").mkdir(parents=True)
    for file in range(files):
        lines = []
        for n in range(file * rows, (file + 1) * rows):
            second = n * 7 % 5 + n // 2
            lines.append(
                json.dumps(
                    {
                        "auction": n * 13 % 11,
                        "bidder": n * 31 % 7,
                        "price": n * 17 % 100,
                        "dateTime": f"2026-01-01 00:{second // 60:02}:{second % 60:02}",
                    }
                )
            )
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


def run(folder: Path, runner: JobRunner, sql: str = SQL, shards: int = 3, rows: int = 25) -> RunResult:
    return run_pipeline(
        RunRequest(
            plan_file(sql, file="p.sql").physical,
            state_dir=folder / "state",
            local_dir=folder / "cache",
            base_dir=folder,
            parallelism=shards,
            max_rows_per_epoch=rows,
            runner=runner,
            drain=True,
        )
    )


def visible(folder: Path) -> dict[str, Counter[str]]:
    return {
        table: Counter(
            line for file in (folder / "out" / table).glob("*.json") for line in file.read_text().splitlines()
        )
        for table in ("per_bidder", "dear")
    }


@pytest.mark.spark
def test_spark_gives_what_the_process_gives(tmp_path: Path, spark_runner: SparkJobRunner) -> None:
    for name, runner in (("spark", spark_runner), ("process", InProcessRunner())):
        write_bids(tmp_path / name)
        result = run(tmp_path / name, runner)
        assert result.outcome == "exhausted"
        assert result.rows_read == {"bid": 120}
    assert visible(tmp_path / "spark") == visible(tmp_path / "process")
    assert sum(visible(tmp_path / "spark")["per_bidder"].values()) > 10
    letters = [
        [file.read_text() for file in sorted((tmp_path / name / "state" / "dead-letter").glob("*"))]
        for name in ("spark", "process")
    ]
    assert letters[0] == letters[1]


@pytest.mark.spark
def test_epochs_here_and_on_spark_go_on_from_each_other(tmp_path: Path, spark_runner: SparkJobRunner) -> None:
    where: list[str] = []

    class Turns(InProcessRunner):
        def run(self, job: EpochJob) -> EpochOutcome:
            on_spark = bool(job.plan.epoch % 2)
            where.append("spark" if on_spark else "here")
            return spark_runner.run(job) if on_spark else run_here(job)

    for name, runner in (("turns", Turns()), ("process", InProcessRunner(2))):
        write_bids(tmp_path / name, files=5)
        run(tmp_path / name, runner)
    assert where[:5] == ["spark", "here", "spark", "here", "spark"]
    assert visible(tmp_path / "turns") == visible(tmp_path / "process")


@pytest.mark.spark
def test_a_run_may_go_on_with_the_other_runner(tmp_path: Path, spark_runner: SparkJobRunner) -> None:
    write_bids(tmp_path / "whole")
    run(tmp_path / "whole", InProcessRunner())
    write_bids(tmp_path / "mixed", files=3)
    late_file = tmp_path / "mixed" / "in" / "2.json"
    content = late_file.read_text()
    late_file.unlink()
    run(tmp_path / "mixed", spark_runner)
    late_file.write_text(content)
    result = run(tmp_path / "mixed", InProcessRunner(), shards=5)
    assert result.rows_read == {"bid": 40}
    assert visible(tmp_path / "mixed")["dear"] == visible(tmp_path / "whole")["dear"]


@pytest.mark.spark
def test_nothing_to_read(tmp_path: Path, spark_runner: SparkJobRunner) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "empty.json").write_text("")
    assert run(tmp_path, spark_runner).outcome in ("exhausted", "nothing new")


@pytest.mark.spark
def test_an_error_of_the_data_is_told_without_a_stack(
    tmp_path: Path, spark_runner: SparkJobRunner, capfd: pytest.CaptureFixture[str]
) -> None:
    write_bids(tmp_path)
    sql = SQL.replace("SELECT auction, price FROM", "SELECT auction, CAST('x' || price AS BIGINT) FROM")
    reported = []
    for runner in (spark_runner, InProcessRunner()):
        with pytest.raises(DiagnosticError) as caught:
            run(tmp_path, runner, sql)
        (diagnostic,) = caught.value.diagnostics
        assert (caught.value.exit_code, diagnostic.code) == (1, "DAT001")
        assert "Could not convert string" in diagnostic.message
        reported.append(diagnostic)
    assert reported[0].message == reported[1].message
    text = "".join(capfd.readouterr()) + repr(reported[0])
    assert "Traceback" not in text
    assert "org.apache" not in text
    assert run(tmp_path, spark_runner).outcome == "exhausted"


class Big:
    """Sends one message of `size` bytes to shard 1 of 2."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from to_batches([Message("e", 1, number, bytes([number]) * self.size)])


def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The sizes of the messages that came, and whether they are whole."""
    found = sorted((m.producer, len(m.blob), len(set(m.blob[::4099]))) for m in from_batches(batches))
    yield from to_batches([Message("sizes", 0, 0, json.dumps(found).encode())])


@pytest.mark.spark
def test_messages_of_hundreds_of_megabytes(spark_runner: SparkJobRunner) -> None:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        size = 200 << 20
        frame = spark_runner._spark.range(0, 2, 1, 2).mapInArrow(Big(size), _ROW)
        rows = frame.repartitionById(2, "shard").mapInArrow(sizes, _ROW).toArrow()
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    found = [json.loads(row["blob"]) for row in rows.to_pylist()]
    assert sorted(found, key=len) == [[], [[0, size, 1], [1, size, 1]]]


def test_executors_can_import_our_packages_from_the_zip(tmp_path: Path) -> None:
    target = tmp_path / "packages.zip"
    target.write_bytes(zipped_packages())
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r}); import sqlstream.runtime.spark.map_tasks as w; "
        "import sqlstream.connectors.registry; print(w.__file__)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.stdout.startswith(str(target)), done.stderr
    assert b"__pycache__" not in zipped_packages()
    assert io.BytesIO(zipped_packages()).getbuffer().nbytes < 3 << 20
    assert message_batches.PART_BYTES < 64 << 20
