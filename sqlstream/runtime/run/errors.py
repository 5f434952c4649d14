"""What goes wrong in a run with data, state and files, as diagnostics."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from sqlstream.runtime.edits.sinks.sink_places import target_refused
from sqlstream.runtime.tasks.failures import FIX_STORE, error_of, machine_refuses, not_as_listed
from sqlstream.runtime.tasks.task_failure import describe
from sqlstream.storage.checked_json import DamagedFileError
from sqlstream.storage.journal import damaged
from sqlstream_operators.errors import (
    DataError,
    InputFileError,
    ListedFileError,
    MachineError,
    RefusedRowError,
    StateError,
    TargetError,
    TargetRowError,
    machine_trouble,
)
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


@contextmanager
def errors_as_diagnostics(store: CheckpointStore) -> Iterator[None]:
    """Turns what is raised inside about data, state and files into a DiagnosticError."""
    try:
        yield
    except ListedFileError as error:
        raise not_as_listed(error) from error
    except InputFileError as error:
        raise error_of(describe(error)) from error
    except TargetError as error:
        diagnostic = target_refused(error)
        if isinstance(error, TargetRowError):  # which may be the input's fault as well as the table's
            raise DiagnosticError(replace(diagnostic, code="DAT002")) from error
        raise DiagnosticError(diagnostic, exit_code=4) from error
    except DataError as error:
        advice = error.help if isinstance(error, RefusedRowError) else None
        raise DiagnosticError(Diagnostic("DAT002", error.message, help=advice)) from error
    except StateError as error:
        raise error_of(describe(error)) from error
    except DamagedFileError as error:
        raise damaged(error, store) from error
    except (OSError, MachineError) as error:
        if isinstance(error, OSError) and error.errno is None:
            raise machine_refuses(str(error), help=FIX_STORE) from error
        what = str(error) if isinstance(error, MachineError) else machine_trouble(error)
        notes = [f"the state directory is {store.uri}"]
        if store.is_local:
            with suppress(OSError):
                free = shutil.disk_usage(store.path("")).free
                notes.append(f"its disk has {free >> 20:,} MiB left")
        raise machine_refuses(what or str(error), *notes) from error
