"""Disks that are full while a run works: what it says, and that it goes on with the right result when there is room."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import DiagnosticError
from tests.conftest import Sqlstream
from tests.small_disk import small_disk

ROWS = 6_000
KEYS = 1_500
EXPECTED = Counter({f"key {n:050d}": ROWS // KEYS for n in range(KEYS)})


@dataclass(frozen=True)
class Disk:
    """A small file system of its own."""

    folder: Path

    def fill(self) -> None:
        """Leave no room at all."""
        with (self.folder / "filler").open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue

    def free(self) -> None:
        (self.folder / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    with small_disk(folder, "24m"):
        yield Disk(folder)


@dataclass
class Job:
    """Counts by key, written to files or to a DuckDB file; each of its folders is where it is told."""

    folder: Path
    state: Path
    cache: Path
    out: Path
    to: str = "filesystem"

    def __post_init__(self) -> None:
        (self.folder / "in").mkdir()
        for number in range(6):
            rows = ({"k": f"key {n % KEYS:050d}"} for n in range(number * 1000, number * 1000 + 1000))
            (self.folder / f"in/{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    @property
    def sql(self) -> str:
        to = f"'connector' = 'filesystem', 'path' = '{self.out}', 'format' = 'changelog-json'"
        if self.to == "duckdb":
            to = f"'connector' = 'duckdb', 'path' = '{self.out}/db.duckdb'"
        return f"""
            CREATE TABLE t (k STRING) WITH ('connector' = 'filesystem', 'path' = '{self.folder}/in', 'format' = 'json');
            CREATE TABLE counts (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({to});
            INSERT INTO counts SELECT k, COUNT(*) FROM t GROUP BY k;
        """

    def run(self, runner: JobRunner | None = None, **options: Any) -> RunResult:
        return run_pipeline(
            RunRequest(
                plan_file(self.sql, file="p.sql").physical,
                state_dir=self.state,
                base_dir=self.folder,
                local_dir=self.cache,
                runner=runner or InProcessRunner(2),
                parallelism=2,
                max_rows_per_epoch=1000,
                **options,
            )
        )

    def counts(self) -> Counter[str]:
        """What is in the sink now, each change applied."""
        if self.to == "duckdb":
            with duckdb.connect(str(self.out / "db.duckdb"), read_only=True) as connection:
                return Counter(dict(connection.execute("SELECT k, n FROM counts").fetchall()))
        found: Counter[str] = Counter()
        for file in self.out.glob("*.json"):
            for line in file.read_text().splitlines():
                change = json.loads(line)
                row = change.get("data", change)
                sign = 1 if change["op"] in ("+I", "+U") else -1
                found[row["k"]] += sign * row["n"]
        return found


def full_at(disk: Disk, point: str, epoch: int) -> Callable[[str, int], None]:
    def fill(at: str, number: int) -> None:
        if (at, number) == (point, epoch):
            disk.fill()

    return fill


def refused(job: Job, runner: JobRunner | None = None, **options: Any) -> DiagnosticError:
    with pytest.raises(DiagnosticError) as caught:
        job.run(runner, **options)
    (diagnostic,) = caught.value.diagnostics
    assert (caught.value.exit_code, diagnostic.code) in ((5, "ENV005"), (5, "ENV006")), diagnostic
    assert "disk is full" in diagnostic.message or "No space left" in diagnostic.message
    assert diagnostic.help is not None
    assert "run again" in diagnostic.help
    assert "TRY" not in diagnostic.help
    return caught.value


POINTS = ("planned", "run", "prepared", "published", "committed", "collected")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("epoch", [1, 4])
@pytest.mark.sampled(2)
def test_the_disk_of_the_state_directory(tmp_path: Path, disk: Disk, point: str, epoch: int) -> None:
    job = Job(tmp_path, disk.folder / "state", tmp_path / "cache", tmp_path / "out")
    error = refused(job, faults=full_at(disk, point, epoch))
    assert str(disk.folder / "state") in error.diagnostics[0].message + str(error.diagnostics[0].notes)
    refused(job)  # nor does another run begin
    disk.free()
    assert job.run().outcome in ("exhausted", "nothing new")
    assert job.counts() == EXPECTED


@pytest.mark.parametrize("to", ["filesystem", "duckdb"])
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.sampled(2)
def test_the_disk_of_a_sink(tmp_path: Path, disk: Disk, point: str, to: str) -> None:
    (disk.folder / "out").mkdir()
    job = Job(tmp_path, tmp_path / "state", tmp_path / "cache", disk.folder / "out", to)
    refused(job, faults=full_at(disk, point, 3))
    disk.free()
    assert job.run().outcome in ("exhausted", "nothing new")
    assert job.counts() == EXPECTED


@pytest.mark.sampled(2)
@pytest.mark.parametrize("epoch", [1, 3])
@pytest.mark.parametrize("lost", [False, True])
def test_the_disk_of_the_local_cache(tmp_path: Path, disk: Disk, epoch: int, lost: bool) -> None:
    job = Job(tmp_path, tmp_path / "state", disk.folder / "cache", tmp_path / "out")

    def fill(at: str, number: int) -> None:
        if (at, number) == ("planned", epoch):
            if lost:
                subprocess.run(["rm", "-rf", str(disk.folder / "cache")], check=True)
            disk.fill()

    if lost or epoch == 1:
        assert refused(job, faults=fill).diagnostics[0].code == "ENV005"
        disk.free()
    else:
        job.run(
            faults=fill, max_epochs=epoch
        )  # a cache that can't be written is thrown away, which makes room
        disk.free()
    assert job.run().outcome == "exhausted"
    assert job.counts() == EXPECTED


@pytest.mark.spark
def test_the_disk_of_a_sink_on_spark(tmp_path: Path, disk: Disk, sqlstream_here: Sqlstream) -> None:
    (disk.folder / "out").mkdir()
    job = Job(tmp_path, tmp_path / "state", tmp_path / "cache", disk.folder / "out")
    (tmp_path / "p.sql").write_text(f"SET 'execution.single-task-rows' = '0';\n{job.sql}")
    disk.fill()
    command = ("run", str(tmp_path / "p.sql"), "--state-dir", str(tmp_path / "state"), "--parallelism", "2")
    done = sqlstream_here(*command)
    assert done.returncode == 5, done.stderr
    assert "error[ENV005]" in done.stderr
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    disk.free()
    assert sqlstream_here(*command).returncode == 0
    assert job.counts() == EXPECTED
