"""Watermarks of partitions: rows of a slow one are not late, on Spark, in a backfill, and where savepoints are merged.

The rows of each partition are in order of time, so none may be late; the partitions' times are hours apart. What there must
be is said by DuckDB, from all rows.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.edits.savepoints.origins import origin_of
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.storage.journal import Journal
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.connectors.kafka.topics import Topics

PARTITIONS = 3
SOURCE = """CREATE TABLE {name} (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka',
  'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker}', 'scan.startup.mode' = 'earliest-offset',
  'properties.fetch.max.wait.ms' = '10', 'format' = 'json');
"""
SINK = """CREATE TABLE {name} ({columns}) WITH ('connector' = 'duckdb', 'path' = '{path}.duckdb');
INSERT INTO {name} SELECT window_start, k, {value} FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, k;
"""
COUNTS, LARGEST = "COUNT(*)", "MAX(v)"
Row = tuple[int, int, int]


def produced(topics: Topics, topic: str, rng: random.Random, begin: int) -> list[Row]:
    """Rows from a moment of each partition on (`begin` of the slow one, in s); the others are further and faster."""
    rows: list[Row] = []
    for partition in range(PARTITIONS):
        speed = 10**partition
        moments = sorted(rng.randrange(begin * speed, (begin + 300) * speed) for _ in range(60))
        mine = [(rng.randrange(4), rng.randrange(100), moment) for moment in moments]
        texts = [json.dumps({"k": k, "v": v, "ts": _moment(at)}) for k, v, at in mine]
        topics.produce(topic, texts, partition=partition)
        rows += mine
    return rows


def _moment(seconds: int) -> str:
    days, hours = 1 + seconds // 86_400, seconds // 3600 % 24
    return f"2024-01-{days:02} {hours:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def sink(name: str, table: str, value: str, path: str = "out") -> str:
    kind = "BIGINT" if value == COUNTS else "INT"
    return SINK.format(
        name=name, table=table, value=value, path=path, columns=f"window_start TIMESTAMP(3), k INT, n {kind}"
    )


def expected(rows: Sequence[Row], value: str) -> Counter[tuple[Any, ...]]:
    made: dict[tuple[str, int], list[int]] = {}
    for k, v, at in rows:
        made.setdefault((_moment(at // 60 * 60), k), []).append(v)
    return Counter((*key, len(vs) if value == COUNTS else max(vs)) for key, vs in made.items())


def given(folder: Path, name: str, path: str = "out") -> Counter[tuple[Any, ...]]:
    with duckdb.connect(str(folder / f"{path}.duckdb"), read_only=True) as connection:
        return Counter(connection.execute(f"SELECT window_start::TEXT, k, n FROM {name}").fetchall())


class Pipeline:
    """A file in a folder, with a state directory by its name."""

    def __init__(self, folder: Path, name: str, text: str) -> None:
        self.folder, self.file = folder, folder / f"{name}.sql"
        self.state = folder / ".sqlstream" / name
        self.edit(text)

    def edit(self, text: str) -> None:
        self.file.write_text(text)

    def run(
        self,
        *,
        epochs: int | None = None,
        runner: JobRunner | None = None,
        parallelism: int = 2,
        rows: int = 50,
        savepoints: Sequence[str] = (),
    ) -> None:
        """So many epochs; or all that is there, which ends it for good. No row is late."""
        planned = plan_file(self.file)
        given = ([str(one) for one in savepoints], str(self.state), str(self.state), str(self.folder))
        with origin_of(*given, planned.secrets) as origin:
            done = run_pipeline(
                RunRequest(
                    planned.physical,
                    state_dir=self.state,
                    local_dir=self.folder / "cache",
                    base_dir=self.folder,
                    nodes=planned.state_nodes,
                    sql=planned.masked_sql,
                    parallelism=parallelism,
                    max_rows_per_epoch=rows,
                    max_epochs=epochs,
                    runner=runner or InProcessRunner(2),
                    origin=origin,
                    drain=epochs is None,
                    sync=False,
                    poll_s=0.01,
                )
            )
        assert not sum(done.dead_letters.values()), "no row is late"

    def lanes(self, table: str) -> dict[str, int]:
        journal = Journal(CheckpointStore(self.state, sync=False))
        (source,) = [s for s in journal.manifest(journal.epochs()[1][-1]).positions if s.name == table]
        return dict(source.lanes)


@pytest.mark.spark
def test_on_spark(topics: Topics, tmp_path: Path, spark_runner: JobRunner) -> None:
    """In turns with the driver's process, with other shards each time."""
    topic = topics.create(PARTITIONS)
    rows = produced(topics, topic, random.Random(1), 0)
    text = "SET 'execution.single-task-rows' = '0';\n" + SOURCE.format(
        name="t", topic=topic, broker=topics.bootstrap
    )
    pipeline = Pipeline(tmp_path, "p", text + sink("counts", "t", COUNTS))
    pipeline.run(epochs=2, runner=spark_runner)
    assert len(set(pipeline.lanes("t").values())) == PARTITIONS
    pipeline.run(epochs=1, parallelism=1)
    rows += produced(topics, topic, random.Random(2), 300)
    pipeline.run(runner=spark_runner, parallelism=3)
    assert given(tmp_path, "counts") == expected(rows, COUNTS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows_again", [7, 50, 1000])
def test_in_a_backfill(topics: Topics, tmp_path: Path, rows_again: int) -> None:
    """The history goes by lane too, however it is cut: what the original had open is open, with every row."""
    topic = topics.create(PARTITIONS)
    rows = produced(topics, topic, random.Random(rows_again), 0)
    source = SOURCE.format(name="t", topic=topic, broker=topics.bootstrap)
    pipeline = Pipeline(tmp_path, "p", source + sink("counts", "t", COUNTS))
    pipeline.run(epochs=3)
    before = pipeline.lanes("t")
    pipeline.edit(source + sink("counts", "t", COUNTS) + sink("largest", "t", LARGEST))
    pipeline.run(epochs=1, rows=rows_again)
    assert pipeline.lanes("t") == before, "an edit reads nothing new"
    rows += produced(topics, topic, random.Random(3), 300)
    pipeline.run(parallelism=3)
    assert given(tmp_path, "counts") == expected(rows, COUNTS)
    assert given(tmp_path, "largest") == expected(rows, LARGEST)


def test_where_savepoints_are_put_together(topics: Topics, tmp_path: Path) -> None:
    """Each table's lanes are those of its own savepoint: the windows that were open then have every row."""
    values = {"t": COUNTS, "u": LARGEST}
    names = {table: topics.create(PARTITIONS) for table in values}
    rows = {table: produced(topics, names[table], random.Random(table), 0) for table in values}
    sources = {
        table: SOURCE.format(name=table, topic=names[table], broker=topics.bootstrap) for table in values
    }
    single = {}
    for table, value in values.items():
        text = sources[table] + sink(f"of_{table}", table, value, table)
        single[table] = Pipeline(tmp_path, f"only_{table}", text)
        single[table].run(epochs=2 if table == "t" else 3)
        assert run_cli(["savepoint", "create", str(single[table].file), "cut"]) == 0
    text = "".join(sources.values())
    text += "".join(sink(f"of_{table}", table, value, "both") for table, value in values.items())
    both = Pipeline(tmp_path, "both", text)
    both.run(epochs=1, savepoints=[f"{pipeline.state}@cut" for pipeline in single.values()])
    for table in values:
        rows[table] += produced(topics, names[table], random.Random(f"{table} again"), 300)
    both.run()
    for table, value in values.items():
        before, after = given(tmp_path, f"of_{table}", table), given(tmp_path, f"of_{table}", "both")
        assert before
        assert before + after == expected(rows[table], value)
