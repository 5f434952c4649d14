"""Pages that are walks: their commands are run in one shell, in order, and must print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MARKER = "=== step "
_TIMEOUT_S = 600


def walk(
    page: Path,
    folder: Path,
    *,
    instead: Mapping[str, str],
    tools: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run the commands of `page` in `folder`, with texts of it replaced (addresses), and check what they print.

    `tools` are commands that are on PATH, as shell texts, beside `sqlstream` of this checkout and Python.
    """
    steps: list[tuple[str, list[str]]] = []
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                command = line[2:]
                for text, other in instead.items():
                    command = command.replace(text, other)
                steps.append((command, []))
            elif line:
                steps[-1][1].append(line)
    # A step that a signal ended is no failure: the page kills what it started.
    script = "set -m\n" + "".join(f'echo "{_MARKER}{n}"\n{command}\n' for n, (command, _) in enumerate(steps))
    path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
    errors = folder / "errors.txt"
    with errors.open("w") as stream:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env={
                **os.environ,
                **(environment or {}),
                "PATH": f"{_tools(folder, tools or {})}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": path,
                "HOME": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            timeout=_TIMEOUT_S,
        )
    shown: list[list[str]] = []
    for line in done.stdout.splitlines():
        if line.startswith(_MARKER):
            shown.append([])
        elif line:
            shown[-1].append(line)
    assert steps
    assert len(shown) == len(steps), errors.read_text()
    for (command, expected), given in zip(steps, shown, strict=True):
        assert given[: len(expected)] == expected, f"{command}\n{given}\n{errors.read_text()}"


def _tools(folder: Path, tools: Mapping[str, str]) -> Path:
    """A folder for PATH."""
    bin_ = folder / "bin"
    bin_.mkdir()
    python = {"python": f'"{sys.executable}" "$@"', "sqlstream": f'"{sys.executable}" -m sqlstream "$@"'}
    for name, command in {**python, **tools}.items():
        path = bin_ / name
        path.write_text(f"#!/bin/sh\nexec {command}\n")
        path.chmod(0o755)
    return bin_
