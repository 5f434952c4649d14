"""What a run would meet at its sources: whether they have what the state knows of them, as far as a look shows."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from sqlstream.connectors.api import Limits, Position, Source
from sqlstream.connectors.capabilities import close
from sqlstream.runtime.tasks.failures import error_of, not_as_listed
from sqlstream.runtime.tasks.task_failure import describe
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.errors import DataError, InputFileError, ListedFileError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: Makes the driver's half of a source, which has this folder of this store for itself.
SourceIn = Callable[[SourceSpec, CheckpointStore, str], Source]


def source_problems_now(
    specs: Mapping[str, SourceSpec],
    known: Mapping[str, SourceState],
    kept: Callable[[str], tuple[CheckpointStore, str]],
    scratch: CheckpointStore,
    source_in: SourceIn,
) -> Iterator[Diagnostic]:
    """Why sources can't go on from where they stand: a file was changed that was read, or is gone that was not.

    `known` are the states of `specs`, by names, `kept` says where the folder of one is. What a look writes down goes to
    `scratch`, so that nothing is changed. Raises DiagnosticError for what is wrong with the sources beside what is known.
    """
    for name, state in known.items():
        store, folder = kept(state.folder)
        for file in store.list(folder):
            scratch.put(f"{state.folder}{file[len(folder) :]}", store.get(file))
        source = source_in(specs[name], scratch, state.folder)
        try:
            _look(source, state.position)
        except ListedFileError as error:
            yield from not_as_listed(error).diagnostics


def look_at_new_sources(
    specs: Iterable[SourceSpec], known: Container[str], scratch: CheckpointStore, source_in: SourceIn
) -> None:
    """Look at the sources that are read from their beginning: those that are not `known`.

    What a look writes down goes to `scratch`. Raises DiagnosticError as a run would: DAT004 for what is not there, DAT003
    for a file that is not of its format, as far as that is seen before its rows are read.
    """
    for number, spec in enumerate(specs):
        if spec.name not in known:
            _look(source_in(spec, scratch, f"new/{number}"), None)


def _look(source: Source, position: Position | None) -> None:
    """Plan an epoch from a position (None: the first) as a run would; the source is let go."""
    try:
        start = source.initial_position() if position is None else position
        source.plan(start, Limits(rows=1, files=1, tasks=1))
    except ListedFileError:
        raise
    except InputFileError as error:
        raise error_of(describe(error)) from error
    except DataError as error:
        raise DiagnosticError(Diagnostic("DAT002", error.message)) from error
    finally:
        close(source)
