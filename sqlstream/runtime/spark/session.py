"""Starts the Spark session that epochs run in, with the settings that they were measured with."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from sqlstream.runtime.spark.class_archive import ClassArchive, archive_of
from sqlstream.runtime.spark.java import Java, find_java, write_java_home
from sqlstream.runtime.spark.jvm import Jvm, JvmEndedError, spark_home
from sqlstream.runtime.spark.lost_jvm import quiet, quiet_gateway
from sqlstream.runtime.spark.masters import check_answers, check_master, is_local
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.duck import memory
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The packages that tasks import.
PACKAGES = ("sqlstream", "sqlstream_planner", "sqlstream_operators")

# Failures of a task come back as an exception and are reported to the user once, in words: the same stack trace
# on the terminal, once for each attempt, would bury them. A logger's level is `error` for the gateway because
# Spark lifts the root level to that of the logger of the program that it thinks is interactive.
_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m %ex{short.message}%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.scheduler.name = org.apache.spark.scheduler.TaskSchedulerImpl
logger.scheduler.level = off
logger.python.name = org.apache.spark.api.python
logger.python.level = off
"""

# The JVM of a local master passes blobs on and plans epochs. Its second compiler took a quarter of all CPU in the first
# minutes and a sixth when warm, and made nothing faster (docs/performance/starting.md).
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"

# The name of a socket has at most 107 bytes, 42 of which are its own.
_LONGEST_SOCKET_FOLDER = 60

#: What an epoch's job needs of its session; set on the session that the job runs in, whoever made it.
JOB_CONF: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "false",  # costs a job a stage; our partitions are exact
    "spark.sql.codegen.wholeStage": "false",  # code for stages that hand blobs on: compiled, then run for µs
    # Rows are blobs of up to 64 MB, and a batch of them must stay under Arrow's 2 GiB.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


def package_roots() -> tuple[str, ...]:
    """The folders that our packages are imported from, without those that a Python finds by itself."""
    installed = {str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib")}
    roots = []
    for package in PACKAGES:
        file = importlib.import_module(package).__file__
        if file is not None:
            root = str(Path(file).resolve().parent.parent)
            if root not in installed and root not in roots:
                roots.append(root)
    return tuple(roots)


def jvm_memory() -> int:
    """Bytes for the heap of a local master's JVM, which hands blobs on: 2 GiB, or a quarter of what there is."""
    return min(2 << 30, max(512 << 20, memory.available() // 4))


def session_conf(
    master: str, conf: Mapping[str, str], directory: Path, archive: ClassArchive | None = None
) -> dict[str, str]:
    """All settings of a new session; what the user gave in `conf` wins.

    `directory` is where the log settings and Spark's scratch folders go, `archive` what a JVM of this machine has its
    classes from.
    """
    settings = {
        "spark.app.name": "sqlstream",
        "spark.python.unix.domain.socket.enabled": "true",  # 35 to 40 ms less for every Python stage
        "spark.python.worker.reuse": "true",
        "spark.shuffle.compress": "false",  # blobs are compressed already where it pays
        "spark.ui.enabled": "false",
        # Figures of past jobs are kept in the driver even without its UI, and every epoch is a job.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.cleaner.periodicGC.interval": "3min",  # files of past shuffles go when the JVM collects
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.executorEnv.PYTHONSAFEPATH": "1",  # or a user's folder called `duckdb` shadows the package
        **JOB_CONF,
    }
    if is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Other users of the machine reach its ports, too. Spark makes a secret of its own for a local master.
            "spark.authenticate": "true",
            "spark.driver.memory": f"{jvm_memory() >> 20}m",
            "spark.python.daemon.module": "sqlstream.runtime.spark.worker_daemon",
            # What the JVM and its workers leave when they are killed goes with the folder.
            "spark.executorEnv.TMPDIR": str(directory),
        }
        if master.startswith(
            "local-cluster["
        ):  # its executors are processes of their own, which need it, too
            settings["spark.authenticate.secret"] = token_hex(32)
        if len(str(directory)) > _LONGEST_SOCKET_FOLDER:
            settings["spark.python.unix.domain.socket.dir"] = "/tmp"
        roots = package_roots()
        if roots:
            settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(roots)
    settings |= conf
    options = settings.get("spark.driver.extraJavaOptions", "")
    ours = []
    if is_local(master) and "-XX:TieredStopAtLevel" not in options:
        ours.append(_FIRST_COMPILER)
    if archive is not None:
        ours += archive.options(directory)
    if is_local(master) and "-Djava.io.tmpdir" not in options and not any(map(str.isspace, str(directory))):
        ours.append(f"-Djava.io.tmpdir={directory}")
    if "log4j" not in options:
        ours.append(f"-Dlog4j2.configurationFile={(directory / 'log4j2.properties').as_uri()}")
    if ours:
        settings["spark.driver.extraJavaOptions"] = " ".join([options, *ours]).strip()
    return settings


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _clean_up(session: SparkSession, jvm: Jvm) -> None:
    """Stop Spark before its `java` goes away: a local cluster needs it to restart executors.

    The JVM itself ends with this process, which holds its standard input.
    """
    with contextlib.suppress(Exception):  # it may have been stopped, and its JVM may be gone
        session.stop()
    jvm.folder.close()


def _reason(error: Exception) -> str:
    """What an exception says, without the stack of Java's: the line of the first exception that Java names."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = (line.removeprefix(": ") for line in lines if line.startswith((": ", "Caused by: ")))
    return next(named, lines[0] if lines else type(error).__name__)[:500]


def tasks_python(master: str, conf: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The Python that tasks run in: `spark.pyspark.python`, of a cluster PYSPARK_PYTHON, else this process's own.

    The variable is often set for all programs of a machine, and tasks on this machine are this program's own.

    >>> tasks_python("yarn", {}, {"PYSPARK_PYTHON": "env/bin/python"})
    'env/bin/python'
    >>> tasks_python("local", {"spark.pyspark.python": "python3"}, {"PYSPARK_PYTHON": "env/bin/python"})
    'python3'
    """
    named = conf.get("spark.pyspark.python")
    if named is None and not is_local(master):
        named = environ.get("PYSPARK_PYTHON")
    return named or sys.executable


def begin(master: str, conf: Mapping[str, str]) -> Jvm:
    """Launch the JVM of a session without waiting for it; `start_session` is given it, or it is to be abandoned.

    `conf` are the user's settings. Raises DiagnosticError when there is no usable Java (ENV001) or it can't be run (ENV003).
    """
    java = find_java(os.environ)
    archive = archive_of(java, os.environ, conf, spark_home(os.environ)) if is_local(master) else None
    folder = RunFolder("spark-")
    directory = folder.path
    (directory / "log4j2.properties").write_text(_LOG4J)
    environment = {
        "JAVA_HOME": str(write_java_home(java, directory / "java")),
        "PYSPARK_PYTHON": tasks_python(master, conf, os.environ),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if is_local(master) and "SPARK_LOCAL_IP" not in os.environ:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"  # where Spark's pages are, if they are enabled
    settings = session_conf(master, conf, directory, archive)
    try:
        return Jvm.begin(master, settings, java, archive, folder, environment)
    except OSError as error:
        folder.close()
        raise _not_started(master, java, error) from None


def start_session(
    master: str, conf: Mapping[str, str] | None = None, begun: Jvm | None = None
) -> SparkSession:
    """Start Spark in this process, or join the session that is active in it.

    `conf` are the user's settings; `begun` is a JVM that was launched for them. Raises DiagnosticError
    when there is no usable Java (ENV001), the master can't be used (ENV002) or Spark does not start (ENV003).
    """
    return start(master, conf, begun)[0]


def start(
    master: str, conf: Mapping[str, str] | None = None, begun: Jvm | None = None
) -> tuple[SparkSession, Jvm | None]:
    """As `start_session`; beside it the JVM, None if the session was there before."""
    check_master(master)
    active = _active_session()
    if active is not None:
        if begun is not None:
            begun.abandon()
        return active, None
    if begun is None:
        check_answers(master)
        begun = begin(master, conf or {})  # it comes up while PySpark is imported
    try:
        return _connected(begun), begun
    except JvmEndedError as error:
        begun.abandon()
        archive = begun.archive
        if archive is None or not archive.is_there:
            raise _not_started(master, begun.java, error) from None
        archive.drop()
    again = begin(master, conf or {})
    try:
        return _connected(again), again
    except JvmEndedError as error:
        again.abandon()
        raise _not_started(master, again.java, error) from None


def _active_session() -> SparkSession | None:
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _connected(jvm: Jvm) -> SparkSession:
    """A session on a JVM that was begun. Raises JvmEndedError and DiagnosticError."""
    from pyspark.sql import SparkSession  # while Java starts

    quiet_gateway()  # before anything waits for Java, which takes a minute where a master does not answer
    gateway = jvm.gateway()
    builder = SparkSession.builder.master(jvm.master)
    for name, value in jvm.conf.items():
        builder = builder.config(name, value)
    with _environment({**jvm.environment, **gateway}):
        try:
            session = builder.getOrCreate()
        except (
            Exception
        ) as error:  # Java's own come as they are: a master that is none, a port that is taken …
            jvm.folder.close()  # PySpark keeps the JVM for another try
            raise _not_started(jvm.master, jvm.java, error) from None
    quiet(session)
    atexit.register(_clean_up, session, jvm)
    if jvm.archive is not None and not jvm.archive.is_there:
        java = session.sparkContext._jvm
        assert java is not None
        class_path = str(java.java.lang.System.getProperty("java.class.path"))
        atexit.register(jvm.archive.make_of, jvm.folder.path, class_path)  # before the folder goes
    return session


def _not_started(master: str, java: Java, error: Exception) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            "ENV003",
            f"Spark did not start on master {master} with Java {java.major} ({java.origin}): {_reason(error)}",
            help="the lines above are Spark's own, if there are any; a wrong --conf is the usual cause",
        )
    )
