"""The command line in this process, for runs that need no Spark."""

from __future__ import annotations

import pytest

from sqlstream.cli.main import run_cli
from tests.cli.command import Command


@pytest.fixture
def sqlstream(capfd: pytest.CaptureFixture[str]) -> Command:
    """The command in this process."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run_cli(list(arguments))
        return (code, *capfd.readouterr())

    return run
