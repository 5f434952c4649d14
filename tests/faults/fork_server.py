"""A process that has loaded what the command `sqlstream` loads, and forks for each command.

A command is a process of its own as a shell starts it, with its own folder, descriptors and exit code, for a tenth of
the time that Python takes to start and load the libraries. `python -m tests.faults.fork_server` reads a request per line
(JSON: folder, arguments, files for standard output and error) and answers with the exit code, as `subprocess` has it.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import duckdb  # noqa: F401
import pyarrow.parquet  # noqa: F401
import rocksdict  # noqa: F401

import sqlstream.cli.check
import sqlstream.cli.progress
import sqlstream.cli.run
import sqlstream.connectors.filesystem.factory
import sqlstream.connectors.print.sink
import sqlstream.planning
import sqlstream.runtime.api
import sqlstream.state.query
import sqlstream.type_oracle.remembered  # noqa: F401
from sqlstream.cli.main import main
from sqlstream.runtime.spark import on_demand
from tests.faults.without_spark import Here

#: A command that takes longer than so many seconds is ended.
_MOST_S = 60


def serve() -> None:
    """Answer requests until there are no more; in a forked process this returns at its first, which is then to be run."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    requests = os.fdopen(os.dup(0), buffering=1)
    for line in iter(requests.readline, ""):
        child = os.fork()
        if not child:
            _become(json.loads(line))
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers)
    sys.exit()


def _become(request: dict[str, str | list[str]]) -> None:
    os.chdir(str(request["folder"]))
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, str(request["stdout"]), os.O_WRONLY | os.O_APPEND),
        (2, str(request["stderr"]), os.O_WRONLY | os.O_APPEND),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["sqlstream", *request["arguments"]]
    signal.alarm(_MOST_S)


if __name__ == "__main__":
    on_demand.SparkOnDemand = Here  # type: ignore[assignment,misc]
    serve()
    main()
