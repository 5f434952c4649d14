"""Spark's JVM as a process of ours: begun early, and connected to when it is needed.

PySpark would launch it itself, but only when it is wanted, and would wait for it at once. Here it starts with the same
command (`spark-submit … pyspark-shell`) while the file is planned and PySpark is imported; PySpark then gets the
address where it is, as it is by a `spark-submit` (`PYSPARK_GATEWAY_PORT` and `PYSPARK_GATEWAY_SECRET`). The JVM ends
when its standard input is closed, which is held by this process: however the run ends, none is left behind.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlstream.runtime.spark.class_archive import ClassArchive
from sqlstream.runtime.spark.java import Java
from sqlstream.runtime.spark.lost_jvm import Ended, how_it_ended, killed_for_memory
from sqlstream.storage.run_folder import RunFolder

_PAUSE_S = 0.02


class JvmEndedError(Exception):
    """The JVM ended before it could say where it is; its own words are on standard error."""


@dataclass(frozen=True, slots=True)
class Jvm:
    """A JVM that was begun for `conf`, the settings of its session; `folder` goes when it is closed."""

    master: str
    conf: Mapping[str, str]
    java: Java
    archive: ClassArchive | None
    folder: RunFolder
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None
    killed_before: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its process is known to have ended."""
        return self.process is not None and self.process.poll() is not None

    def more_killed_for_memory(self) -> bool | None:
        """Whether the system of this machine has ended a process for want of memory since; None: tasks run elsewhere, or it
        does not say."""
        now = killed_for_memory()
        if not self.master.startswith("local") or now is None or self.killed_before is None:
            return None
        return now > self.killed_before

    def how_it_ended(self) -> Ended:
        """How it ended, if Spark can't be reached any more."""
        return how_it_ended(self.process, self.killed_before)

    @classmethod
    def begin(
        cls,
        master: str,
        conf: Mapping[str, str],
        java: Java,
        archive: ClassArchive | None,
        folder: RunFolder,
        environment: Mapping[str, str],
    ) -> Jvm:
        """Launch it and return at once.

        Without Spark's scripts beside PySpark there is no
        process, and PySpark launches one; nor where this process has one from a session before. Raises OSError if a program
        can't be started.
        """
        home = None if _is_connected() else spark_home(os.environ)
        process = None
        if home is not None:
            settings = folder.path / "settings.properties"
            write_settings(settings, {"spark.master": master, **conf})
            process = subprocess.Popen(
                [
                    str(home / "bin/spark-submit"),
                    # Anyone on the machine can read the arguments of a process, and settings may be passwords.
                    f"--properties-file={settings}",
                    "--load-spark-defaults",
                    *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")),
                ],
                stdin=subprocess.PIPE,
                env={
                    **os.environ,
                    **environment,
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder.path / "gateway"),
                },
                preexec_fn=_ignore_interrupts,
            )
        return cls(master, conf, java, archive, folder, environment, process, killed_for_memory())

    def gateway(self) -> dict[str, str]:
        """Wait until the JVM listens; the variables by which PySpark finds it. Raises JvmEndedError."""
        if self.process is None:
            return {}
        file = self.folder.path / "gateway"
        while not file.is_file():
            if self.process.poll() is not None and not file.is_file():
                raise JvmEndedError("Java ended before Spark was there")
            time.sleep(_PAUSE_S)
        content = (
            file.read_bytes()
        )  # two integers, big-endian, and a text: the port, the text's length, the secret
        port, length = (int.from_bytes(content[i : i + 4], "big") for i in (0, 4))
        return {
            "PYSPARK_GATEWAY_PORT": str(port),
            "PYSPARK_GATEWAY_SECRET": content[8 : 8 + length].decode(),
        }

    def abandon(self) -> None:
        """End it, if it is not needed."""
        if self.process is not None:
            with contextlib.suppress(OSError):
                self.process.kill()
            self.process.wait()
            if self.process.stdin is not None:
                self.process.stdin.close()
        self.folder.close()


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Write settings as Java reads them from a file of properties, which nobody else may read."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        for name, value in settings.items():
            out.write(f"{_property(name)}={_property(value)}\n")


def _property(text: str) -> str:
    """A name or a value of a property, as `java.util.Properties` reads it."""
    escaped = text.translate(_ESCAPED)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


#: What properties files write otherwise.
_ESCAPED = str.maketrans(
    {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"} | {c: f"\\{c}" for c in "\\=:#!"}
)


def spark_home(environ: Mapping[str, str]) -> Path | None:
    """Where Spark's scripts and jars are: `SPARK_HOME`, else beside PySpark; None if they are neither there."""
    if environ.get("SPARK_HOME"):
        homes = [environ["SPARK_HOME"]]
    else:
        found = importlib.util.find_spec("pyspark")
        homes = list(found.submodule_search_locations or ()) if found is not None else []
    for home in map(Path, homes):
        distribution = home / "spark-distribution"
        for folder in (distribution, home):
            if (folder / "bin/spark-submit").is_file() and (folder / "jars").is_dir():
                return folder
    return None


def _is_connected() -> bool:
    """Whether PySpark has a JVM already, which it keeps."""
    loaded = sys.modules.get("pyspark")
    return loaded is not None and loaded.SparkContext._gateway is not None


def _ignore_interrupts() -> None:
    """Ctrl-C goes to all processes of a terminal, and the epoch that is under way needs Spark to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
