"""An epoch as one Spark job: a chain of `mapInArrow` stages with an exact exchange between two stage levels.

    range(tasks) -> mapInArrow(level 0) -> repartitionById(shards) -> mapInArrow(level 1) -> … -> collect

Only the DataFrame API is used. The plan (decoded once a worker process), the epoch's context and its splits
travel inside the function as compressed JSON; reports travel as rows through the later stage levels to the
driver, so a task that ran twice reports once, as its rows do.
"""

from __future__ import annotations

import contextlib
import io
import re
import zipfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from sqlstream.runtime.spark.executors import watched
from sqlstream.runtime.spark.jvm import Jvm
from sqlstream.runtime.spark.lost_jvm import Ended, forget
from sqlstream.runtime.spark.map_tasks import ShardTasks, SourceTasks
from sqlstream.runtime.spark.masters import is_local
from sqlstream.runtime.spark.session import JOB_CONF, PACKAGES, start
from sqlstream.runtime.tasks.failures import EpochTooLargeError, WorkerEndedError, error_of, machine_refuses
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome
from sqlstream.runtime.tasks.message_batches import ROW, from_batches
from sqlstream.runtime.tasks.outcome import outcome_of
from sqlstream.runtime.tasks.task_failure import failure_in
from sqlstream.runtime.tasks.task_program import TaskProgram
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.task.report import reports_among
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, SqlstreamError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: Mapping[pa.DataType, DataType] = {
    pa.int32(): IntegerType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
}
#: `message_batches.ROW` for Spark; as an object, because Spark parses text anew for every stage.
_ROW = StructType([StructField(field.name, _TYPES[field.type]) for field in ROW])


#: Signs in the text of a failed job that memory ran out, and the message for it.
_OUT_OF_MEMORY = (
    (
        re.compile(r"java\.lang\.OutOfMemoryError|Java heap space|GC overhead limit|SparkOutOfMemoryError"),
        "Spark's own memory ran out",
    ),
    (re.compile(r"OOMKilled"), "the system ended an executor for want of memory"),
    (
        re.compile(r"exceeding (?:physical |virtual )?memory limits|std::bad_alloc|Cannot allocate memory"),
        "memory ran out",
    ),
)


#: A worker process that is killed leaves no other word than that it has gone.
_WORKER_ENDED = re.compile(
    r"Python worker exited unexpectedly|exit(?:ed with)? (?:code|status):? 137|SIGKILL"
)
_TRACE = "Traceback (most recent call last)"
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([^'.]+)[^']*'")
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")


class SparkJobRunner:
    """Runs epochs on Spark; see `JobRunner`. `spark` is used through a session of its own."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        parallelism: int,
        owned: bool = False,
        jvm: Jvm | None = None,
        on_wait: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._owner = spark
        self._jvm = jvm
        self._on_wait = on_wait
        self._spark = spark.newSession()
        self._parallelism = parallelism
        self._owned = owned
        self._python = str(spark.sparkContext.pythonExec)
        self._ranges: dict[int, DataFrame] = {}
        self._plan: tuple[PhysicalPlan, bytes] | None = None
        for name, value in JOB_CONF.items():
            self._spark.conf.set(name, value)

    @classmethod
    def start(
        cls,
        master: str = "local[*]",
        conf: Mapping[str, str] | None = None,
        begun: Jvm | None = None,
        *,
        on_wait: Callable[[str], None] = lambda text: None,
    ) -> SparkJobRunner:
        """Start Spark, or join this process's session; see `start_session`. `on_wait` is called if no executor comes."""
        from pyspark.sql import SparkSession

        joined = SparkSession.getActiveSession() is not None
        spark, jvm = start(master, conf, begun)
        if not is_local(master):
            ship_packages(spark, RunFolder("packages-") if jvm is None else jvm.folder)
        parallelism = spark.sparkContext.defaultParallelism
        return cls(spark, parallelism=parallelism, owned=not joined, jvm=jvm, on_wait=on_wait)

    @property
    def parallelism(self) -> int:
        """The cores that Spark has."""
        return self._parallelism

    @property
    def known_parallelism(self) -> int:
        """The same: Spark runs."""
        return self._parallelism

    def session(self) -> SparkSession:
        """Spark, as it was started or found; epochs run in a session beside it."""
        return self._owner

    def make_ready(self, job: EpochJob | None = None) -> bool:
        """Spark runs."""
        return False

    def run(self, job: EpochJob) -> EpochOutcome:
        """Run one epoch; see `JobRunner`."""
        program = TaskProgram.of(job)
        if self._plan is None or self._plan[0] is not program.plan:
            self._plan = program.plan, program.plan_bytes()
        try:
            with watched(self._owner, self._owner.sparkContext.master, self._on_wait):
                collected = self._staged(program, self._plan[1]).toArrow()
        except PySparkException as error:
            ended_for_memory = None if self._jvm is None else self._jvm.more_killed_for_memory()
            raise job_error(
                str(error), job.plan.epoch, python=self._python, for_memory=ended_for_memory
            ) from None
        except (Py4JError, ConnectionError) as error:
            lost = self._is_lost()
            ended = (
                None if not lost else Ended("it is gone") if self._jvm is None else self._jvm.how_it_ended()
            )
            raise job_error(str(error), job.plan.epoch, lost=ended, python=self._python) from None
        return outcome_of(job, program.ordinals, list(reports_among(from_batches(collected.to_batches()))))

    def _staged(self, program: TaskProgram, plan: bytes) -> DataFrame:
        """A task for each split or some, and for each shard of each later stage level."""
        rows = self._tasks(len(program.tasks)).mapInArrow(
            SourceTasks(plan, program.epoch_bytes(state=False)), _ROW
        )
        if program.plan.levels > 1:
            epoch = program.epoch_bytes(tasks=False)
            for level in range(1, program.plan.levels):
                rows = rows.repartitionById(program.context.shards, "shard").mapInArrow(
                    ShardTasks(plan, epoch, level), _ROW
                )
        return rows

    def _tasks(self, number: int) -> DataFrame:
        if number not in self._ranges:
            self._ranges[number] = self._spark.range(0, number, 1, number)
        return self._ranges[number]

    @property
    def is_lost(self) -> bool:
        """Whether Spark's JVM was started here and is gone: another runner is needed."""
        return self._owned and ((self._jvm is not None and self._jvm.has_ended) or self._is_lost())

    @property
    def has_ended(self) -> bool:
        """The same as far as it is known without a call of Spark."""
        return self._owned and self._jvm is not None and self._jvm.has_ended

    def give_up(self) -> None:
        """Make room for another runner in this process, when the JVM of this one is gone."""
        forget(self._owner)
        if self._jvm is not None:
            self._jvm.abandon()

    def _is_lost(self) -> bool:
        """Whether Spark does not answer any more."""
        try:
            return bool(self._owner.sparkContext._jsc.sc().isStopped())
        except Exception:
            return True

    def close(self) -> None:
        """Stop Spark, if this runner has started it."""
        if self._owned:
            with contextlib.suppress(Py4JError, OSError):  # its JVM may be gone, which is reported already
                self._owner.stop()


def job_error(
    text: str, epoch: int, *, lost: Ended | None = None, python: str = "", for_memory: bool | None = None
) -> SqlstreamError:
    """The error for a job that has failed, by the text of its exception: that of the task, without Spark's stack.

    `lost`: Spark's JVM is gone, and how. `python` is the interpreter that tasks run in. `for_memory`: whether
    the system has ended a process for want of memory meanwhile, None if that is not known.
    """
    described = failure_in(text)
    if described is not None:
        return error_of(described, epoch)
    full = _DISK_FULL.search(text)
    if full is not None:
        return machine_refuses(
            f"the disk of Spark's scratch folder is full ({full[0]})",
            f"in epoch {epoch}; nothing of it was committed",
            "Spark shuffles there: spark.local.dir, SPARK_LOCAL_DIRS or else the temporary folder",
        )
    for sign, what in _OUT_OF_MEMORY:
        if sign.search(text):
            return EpochTooLargeError(epoch, what, runner_lost=lost is not None)
    if lost is None and _WORKER_ENDED.search(text):
        if for_memory:
            return EpochTooLargeError(epoch, "the system ended a worker process for want of memory")
        return WorkerEndedError(
            epoch,
            "whether memory ran out there is not known"
            if for_memory is None
            else "no sign of a lack of memory was found",
        )
    if lost is not None and lost.for_memory:
        return EpochTooLargeError(epoch, "the system ended Spark's JVM for want of memory", runner_lost=True)
    if lost is not None:
        return DiagnosticError(
            Diagnostic(
                "ENV004",
                f"Spark's JVM is gone, which epoch {epoch} ran on: {lost.how}",
                notes=("nothing of the epoch was committed", "no sign of a lack of memory was found"),
                help="run again: the run goes on where it stopped, and an epoch that fails again is planned anew, smaller",
            )
        )
    missing = _MISSING.search(text)
    if missing is not None:
        return DiagnosticError(
            Diagnostic(
                "ENV004",
                f"Spark could not run epoch {epoch}: the executors' Python has no package `{missing[1]}`",
                notes=(f"it is {python or 'the one that Spark finds'}", "nothing of the epoch was committed"),
                help="install there what sqlstream needs (pip install sqlstream brings it along), or name a Python that has "
                "it: --conf spark.pyspark.python=PATH, or PYSPARK_PYTHON",
            )
        )
    first = _cause_in(text)
    return DiagnosticError(
        Diagnostic(
            "ENV004",
            f"Spark could not run epoch {epoch}: {first[:500]}",
            notes=(
                *((f"the Python of the executors is {python}",) if python and _TRACE in text else ()),
                "nothing of the epoch was committed",
            ),
            help="run again: the run goes on where it stopped, and an epoch that fails again is planned anew, smaller",
        )
    )


def _cause_in(text: str) -> str:
    """What an exception comes down to: the last line of Python's own trace, if there is one, else the first line."""
    lines = [line.rstrip() for line in text.splitlines()]
    for at, line in enumerate(lines):
        if _TRACE in line:
            # Frames are indented, and what was raised is not: the first such line behind them.
            raised = next((one for one in lines[at + 1 :] if one and not one[0].isspace()), "")
            if raised:
                return raised.strip()
    return next((line.strip() for line in lines if line.strip()), "no reason is given")


def ship_packages(spark: SparkSession, folder: RunFolder) -> None:
    """Send our packages to executors on other machines, where they need not be installed; Spark reads them in `folder`."""
    target = folder.path / "sqlstream-packages.zip"
    target.write_bytes(zipped_packages())
    spark.addArtifacts(str(target), pyfile=True)


def zipped_packages() -> bytes:
    """Our three packages as a zip that Python can import from."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            file = import_module(package).__file__
            assert file is not None
            root = Path(file).parent
            for path in sorted(root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, str(Path(package) / path.relative_to(root)))
    return out.getvalue()
