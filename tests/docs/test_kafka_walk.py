"""docs/kafka.md does what it says: its commands, Kafka's own tools among them, run against a real broker in one shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.kafka.broker import POM, Broker, run_broker
from tests.jars import classpath, java

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kafka.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ADDRESS = "localhost:9092"
_TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}
_TIMEOUT_S = 240


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    yield from run_broker()


def _tools(folder: Path) -> Path:
    """A folder for PATH with `sqlstream` of this checkout and Kafka's tools."""
    bin_ = folder / "bin"
    bin_.mkdir()
    commands = {
        name: f'"{java()}" -cp "{classpath(POM, "Kafka broker")}" {main} "$@"'
        for name, main in _TOOLS.items()
    }
    commands["python"] = f'"{sys.executable}" "$@"'
    commands["python"] = f'"{sys.executable}" "$@"'
    commands["sqlstream"] = f'"{sys.executable}" -m sqlstream "$@"'
    for name, command in commands.items():
        path = bin_ / name
        path.write_text(f"#!/bin/sh\nexec {command}\n")
        path.chmod(0o755)
    return bin_


@pytest.mark.kill
def test_the_walk_through_is_true(tmp_path: Path, own_broker: Broker) -> None:
    shutil.copytree(ROOT / "pipelines" / "kafka", tmp_path / "pipelines" / "kafka")
    pipeline = tmp_path / "pipelines" / "kafka" / "revenue.sql"
    pipeline.write_text(pipeline.read_text().replace(_ADDRESS, own_broker.bootstrap))
    steps: list[tuple[str, list[str]]] = []
    for block in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:].replace(_ADDRESS, own_broker.bootstrap), []))
            elif line:
                steps[-1][1].append(line)
    marker = "=== step "
    # A step that a signal ended is no failure: the page kills what it started.
    script = "set -m\n" + "".join(f'echo "{marker}{n}"\n{command}\n' for n, (command, _) in enumerate(steps))
    path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
    environment = {
        **os.environ,
        "PATH": f"{_tools(tmp_path)}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": path,
        "HOME": str(tmp_path),
    }
    errors = tmp_path / "errors.txt"
    with errors.open("w") as stream:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            timeout=_TIMEOUT_S,
        )
    shown: list[list[str]] = []
    for line in done.stdout.splitlines():
        if line.startswith(marker):
            shown.append([])
        elif line:
            shown[-1].append(line)
    assert len(shown) == len(steps), errors.read_text()
    for (command, expected), given in zip(steps, shown, strict=True):
        assert given[: len(expected)] == expected, f"{command}\n{given}\n{errors.read_text()}"
