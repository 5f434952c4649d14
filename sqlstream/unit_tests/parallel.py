"""Runs the tests of many files, in this process or in several, and gives what came of each file in the files' order."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from sqlstream.unit_tests.outcome import FileOutcome, Outcome
from sqlstream.unit_tests.reading import read_tests
from sqlstream.unit_tests.selection import Matches
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: How many tests of a file run in one go: they share what is planned.
_CHUNK = 25
#: So many tests for each process make it worth starting one: that takes as long as running some tests.
_WORTH = 4


@dataclass(frozen=True, slots=True)
class Selected:
    """A test file, and the names of its tests that run; or why it can't be read."""

    path: Path
    names: tuple[str, ...] = ()
    unreadable: FileOutcome | None = None

    @property
    def chunks(self) -> list[tuple[str, ...]]:
        """The names in parts that may run in other processes."""
        return [self.names[i : i + _CHUNK] for i in range(0, len(self.names), _CHUNK)]


def selected(files: Sequence[Path], matches: Matches | None) -> list[Selected]:
    """The tests of files that run; a file of which none does is left out."""
    found = []
    for path in files:
        try:
            tests = read_tests(path).tests
        except DiagnosticError as error:
            outcome = FileOutcome(path, diagnostics=error.diagnostics, watched=frozenset({path}))
            found.append(Selected(path, unreadable=outcome))
            continue
        names = tuple(t.name for t in tests if matches is None or matches(f"{path}::{t.name}"))
        if names:
            found.append(Selected(path, names))
    return found


def run_all(wanted: Sequence[Selected], processes: int) -> Iterator[FileOutcome]:
    """Run tests, in up to so many processes; a file's outcome comes when it and those before it are done.

    Raises DiagnosticError (ENV007) if a process is ended from outside.
    """
    tests = sum(len(one.names) for one in wanted)
    chunks = sum(len(one.chunks) for one in wanted)
    processes = min(processes, chunks, -(-tests // _WORTH))
    if processes <= 1:
        for one in wanted:
            yield one.unreadable or _joined(one.path, [run_chunk(one.path, one.names)])
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sqlstream.unit_tests.forked"])
    pool = ProcessPoolExecutor(processes, mp_context=context)
    try:
        jobs = [(one, [pool.submit(run_chunk, one.path, names) for names in one.chunks]) for one in wanted]
        for one, parts in jobs:
            yield one.unreadable or _joined(one.path, [part.result() for part in parts])
    except BrokenProcessPool:
        raise DiagnosticError(
            Diagnostic(
                "ENV007",
                "a process that runs tests was ended from outside",
                notes=("the system ends processes where memory is short",),
                help="run with fewer processes: -j 1",
            )
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def run_chunk(path: Path, names: Sequence[str]) -> FileOutcome:
    """Run tests of one file in this process."""
    from sqlstream.unit_tests.running import run_file
    from sqlstream.unit_tests.worker import ready

    ready()
    try:
        outcomes, watched = run_file(read_tests(path), names)
    except DiagnosticError as error:  # it was changed meanwhile
        return FileOutcome(path, diagnostics=error.diagnostics, watched=frozenset({path}))
    return FileOutcome(path, tuple(outcomes), watched=watched)


def _joined(path: Path, parts: Sequence[FileOutcome]) -> FileOutcome:
    outcomes: list[Outcome] = [outcome for part in parts for outcome in part.outcomes]
    diagnostics = dict.fromkeys(d for part in parts for d in part.diagnostics)
    watched = frozenset().union(*(part.watched for part in parts))
    return FileOutcome(path, tuple(outcomes), tuple(diagnostics), watched)
