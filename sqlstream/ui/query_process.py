"""A process that answers queries of state: what a query uses is not the memory of a run, nor its lock of the interpreter.

DuckDB counts what its operators use, and not what one expression makes (`repeat('x', 1000000000)`): the system's limit of
the process counts all. A process that is ended by it is followed by another one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sqlstream.runtime.run.errors import errors_as_diagnostics
from sqlstream.runtime.tasks.no_pandas import hide_pandas_from_arrow
from sqlstream.state.committed import find_committed
from sqlstream.state.query import Bounds, StateDatabase, needs_more_memory
from sqlstream_operators.errors import StateError
from sqlstream_operators.large_stack import on_large_stack
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, InternalError

_ATTEMPTS = 3
#: How long a process waits for another query, and how long after its time a query that does not end is killed, seconds.
_IDLE_S, _GRACE_S = 120.0, 5.0
#: What a process may use besides the memory of a query, bytes: to read the state, and its answer.
_READING = 256 << 20


@dataclass(frozen=True, slots=True)
class Question:
    """A SELECT over the last epoch's state of a store, of which the first `limit` rows are wanted within `longest_s`."""

    store: CheckpointStore
    sql: str
    limit: int
    longest_s: float
    bounds: Bounds


class QueryProcess:
    """One process, which answers one question at a time."""

    def __init__(self) -> None:
        # A run has threads, and a Java machine: it can't be forked.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), name="state queries", daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, question: Question) -> dict[str, Any] | None:
        """The answer; None if the process had ended before it got the question.

        Raises DiagnosticError: what `StateDatabase.query` raises, UIS003 for one that takes too long, and what kept the
        state from being read.
        """
        try:
            self._connection.send(question)
            if not self._connection.poll(question.longest_s + _GRACE_S):
                self.close()
                raise took_too_long(question.longest_s)
            answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            if self._process.exitcode == 0:
                return None
            raise needs_more_memory(question.bounds) from None
        if isinstance(answer, tuple):
            raise DiagnosticError(*answer)
        if isinstance(answer, str):
            raise InternalError(answer)
        return dict(answer)

    @property
    def lives(self) -> bool:
        """Whether it can be asked."""
        return self._process.is_alive()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.join()
        self._connection.close()


def took_too_long(seconds: float) -> DiagnosticError:
    """UIS003."""
    return DiagnosticError(
        Diagnostic(
            "UIS003",
            f"the query took more than {seconds:g} s and was ended",
            help="ask for some keys, or run it with `sqlstream state query`",
        )
    )


# ----------------------------------------------------------------------------------------------------- the process


def _serve(connection: Connection) -> None:
    """Answer questions until none came for a while, or nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")  # where memory is short, this goes before the run
    hide_pandas_from_arrow()
    with contextlib.suppress(EOFError, ConnectionError):
        while connection.poll(_IDLE_S):
            question = connection.recv()
            connection.send(_answered(question))


def _answered(question: Question) -> dict[str, Any] | tuple[Diagnostic, ...] | str:
    """The answer, or what is wrong, or the trace of a bug."""
    try:
        with errors_as_diagnostics(question.store):
            return on_large_stack(_answer)(question)
    except DiagnosticError as error:
        return error.diagnostics
    except MemoryError:
        return needs_more_memory(question.bounds).diagnostics
    except Exception:
        return traceback.format_exc()


def _answer(question: Question) -> dict[str, Any]:
    _limit_memory(question.bounds.memory + _READING)
    for attempt in range(_ATTEMPTS):
        committed = find_committed(question.store)
        try:
            with StateDatabase(committed, question.bounds) as database:
                rows, columns = _rows(database, question)
        except (StateError, FileNotFoundError):
            # Collected meanwhile; the next epoch has what this one had.
            if committed.is_there or attempt == _ATTEMPTS - 1:
                raise
            continue
        return {
            "epoch": committed.manifest.epoch,
            "columns": list(columns),
            "rows": [list(row) for row in rows[: question.limit]],
            "more": len(rows) > question.limit,
        }
    raise AssertionError  # the last attempt returns or raises


def _limit_memory(more: int) -> None:
    """Let this process have so many bytes more than now, of its own; only Linux counts them."""
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[5])
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(
        resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )


def _rows(
    database: StateDatabase, question: Question
) -> tuple[list[tuple[str | None, ...]], tuple[str, ...]]:
    late = threading.Event()

    def interrupt() -> None:
        late.set()
        database.interrupt()

    timer = threading.Timer(question.longest_s, interrupt)
    timer.daemon = True
    timer.start()
    try:
        result = database.query(question.sql)
        return list(islice(result.rows, question.limit + 1)), result.columns
    except DiagnosticError as error:
        if late.is_set():
            raise took_too_long(question.longest_s) from error
        raise
    finally:
        timer.cancel()
