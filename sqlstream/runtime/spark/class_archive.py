"""An archive of the classes that Spark's JVM loads, so that the next one maps them in place of loading them.

Most of what a short run waits for is the JVM reading, checking and linking some 14,000 classes; from an archive
(class-data sharing, JEP 310) it has them at once. A run that finds no archive lets its JVM write the list of what it
loads (`-XX:DumpLoadedClassList`), and when it ends, a process of its own makes the archive of it (`-Xshare:dump`),
with what is left of the processor's time. The next runs say `-XX:SharedArchiveFile`.

An archive holds for one Java, one class path and one machine's Spark: all of that is in its name, and the JVM itself
compares the class path and the times of the jars. It is only ever a matter of time: where there is no folder for it, no room
or no right, or where the JVM does not like it, runs begin as they did without.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Unix: no archive is made there
    fcntl = None  # type: ignore[assignment]

from sqlstream.runtime.spark.java import Java
from sqlstream_operators.state.private_folder import make_private

#: The variable of the environment that turns archives off (`off`).
SWITCH = "SQLSTREAM_CLASS_ARCHIVE"
#: Settings with which the JVM's classes, or what it says, are the user's business.
_USERS_OWN = (
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
)
#: Variables that change Java's options or Spark's class path.
_ENVIRONMENT = (
    "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH",
    "SPARK_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR",
)  # fmt: skip
#: A list without this class is of a run that did not get as far as a task.
_OF_A_TASK = b"org/apache/spark/api/python/PythonWorkerFactory$MonitorThread"
_LIST = "classes.list"
_KEPT = 3
_ROOM = 1 << 30
_LONGEST_S = 1800
_NICENESS = 10


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Where the archive of one Java and one Spark is, or would be."""

    file: Path
    java: Path

    @property
    def is_there(self) -> bool:
        """Whether it can be used."""
        return os.access(self.file, os.R_OK)

    def options(self, directory: Path) -> tuple[str, ...]:
        """Java's options that use it, or that write the list for it into `directory`; none if neither can be."""
        listed = directory / _LIST
        if any(map(str.isspace, f"{self.file}{listed}")):  # Spark splits the options there
            return ()
        if self.is_there:
            with contextlib.suppress(OSError):
                os.utime(self.file)  # the ones that were not used for longest go first
            # The JVM's messages about an archive go to standard output, where a run's rows are.
            return (f"-XX:SharedArchiveFile={self.file}", "-Xlog:cds*=off", "-Xlog:class+path*=off")
        if self._failed.exists() or not _room_in(self.file.parent):
            return ()
        return (f"-XX:DumpLoadedClassList={listed}", "-Xlog:cds*=off")

    @property
    def _failed(self) -> Path:
        return self.file.with_suffix(".failed")

    def drop(self) -> None:
        """Remove an archive with which no JVM starts."""
        with contextlib.suppress(OSError):
            self.file.unlink()

    def make_of(self, directory: Path, class_path: str) -> subprocess.Popen[bytes] | None:
        """Begin to make the archive of the list in `directory`, in a process that outlives this one; returns it.

        None if there is one, or nothing to make it of.
        """
        try:
            listed = (directory / _LIST).read_bytes()
            if self.is_there or _OF_A_TASK not in listed:
                return None
            handle, name = tempfile.mkstemp(
                prefix=f"{self.file.stem}.", suffix=".classlist", dir=self.file.parent
            )
            with os.fdopen(handle, "wb") as file:
                file.write(listed[: listed.rfind(b"\n") + 1])  # the JVM is still there, and may be writing
            return subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(self.file), str(self.java), name, class_path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError:
            return None


def archive_of(
    java: Java, environ: Mapping[str, str], conf: Mapping[str, str], home: Path | None
) -> ClassArchive | None:
    """The archive for this Java, the Spark in `home` and these settings of the user's.

    None if they have a say in Java's options or class path, if it is turned off, or if there is no folder for it.
    """
    if fcntl is None or home is None or environ.get(SWITCH, "").lower() in ("off", "0", "no"):
        return None
    if any(conf.get(name) for name in _USERS_OWN):
        return None
    try:
        folder = make_private(_cache_folder(environ))
        name = hashlib.sha256("\n".join(_signs(java, environ, home)).encode()).hexdigest()[:16]
    except OSError:
        return None
    return ClassArchive(folder / f"{name}.jsa", java.executable)


def _cache_folder(environ: Mapping[str, str]) -> Path:
    """The user's folder for caches (XDG base directories), below it ours. Raises OSError if it is another user's."""
    given = environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():
        return Path(given) / "sqlstream"
    own = Path(environ["HOME"]) if environ.get("HOME") else Path("~").expanduser()
    if (
        own.stat().st_uid != os.getuid()
    ):  # sudo keeps HOME: nothing of root's goes there, and nothing there is believed
        raise PermissionError(own)
    return own / ".cache" / "sqlstream"


def _signs(java: Java, environ: Mapping[str, str], home: Path) -> list[str]:
    """What an archive depends on, as text."""
    jars = sorted(
        f"{entry.name} {entry.stat().st_size} {entry.stat().st_mtime_ns}"
        for entry in os.scandir(home / "jars")
    )
    release = java.home / "release"
    return [
        str(java.home.resolve()),
        release.read_text() if release.is_file() else str(java.executable.stat().st_mtime_ns),
        str(home),
        *(f"{name}={environ.get(name, '')}" for name in _ENVIRONMENT),
        *jars,
    ]


def _room_in(folder: Path) -> bool:
    try:
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > _ROOM
    except OSError:
        return False


def make(file: Path, java: Path, listed: Path, class_path: str) -> bool:
    """Make an archive of a list of classes, which is removed; False if it fails, or another process makes it.

    It appears under its name when it is whole. One that can't be made is not tried again: an empty file says so.
    """
    part = file.with_suffix(f".{os.getpid()}.part")
    try:
        with file.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            if file.exists():
                return True
            if not listed.exists():  # another process tidied up
                return False
            for left in file.parent.glob(f"{file.stem}.*"):
                if left.suffix in (".part", ".classlist") and left != listed:  # of one that was ended
                    left.unlink()
            done = subprocess.run(
                [
                    java,
                    "-Xshare:dump",
                    "-Xmx1g",
                    f"-XX:SharedClassListFile={listed}",
                    f"-XX:SharedArchiveFile={part}",
                    "-cp",
                    class_path,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_LONGEST_S,
            )
            if done.returncode or not part.exists():
                file.with_suffix(".failed").touch()
                return False
            part.replace(file)
            _keep_newest(file.parent)
            return True
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        for rest in (part, listed):
            with contextlib.suppress(OSError):
                rest.unlink()


def _keep_newest(folder: Path) -> None:
    """Remove all but the archives that were used last, and what processes that were ended left a day ago."""
    archives = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
    left = [
        path
        for pattern in ("*.part", "*.classlist")
        for path in folder.glob(pattern)
        if path.stat().st_mtime < time.time() - 86400
    ]
    for path in (*archives[:-_KEPT], *left):
        with contextlib.suppress(OSError):
            path.unlink()


if __name__ == "__main__":
    os.nice(_NICENESS)
    _file, _java, _listed, _class_path = sys.argv[1:]
    sys.exit(not make(Path(_file), Path(_java), Path(_listed), _class_path))
