"""How another process, or another machine, asks a run to stop: a file in the state directory, read with each beat."""

from __future__ import annotations

import contextlib

from sqlstream_operators.state.checkpoint_store import CheckpointStore

REQUEST = "stop.request"


def request_stop(store: CheckpointStore, run_id: str) -> None:
    """Ask this run to end after the epoch that is under way. Raises OSError."""
    store.put(REQUEST, run_id.encode())


def is_stop_requested(store: CheckpointStore, run_id: str) -> bool:
    """Whether this run is asked to end."""
    try:
        return store.get(REQUEST) == run_id.encode()
    except OSError:
        return False


def withdraw(store: CheckpointStore, run_id: str) -> None:
    """Remove the request for a run that has ended."""
    if is_stop_requested(store, run_id):
        with contextlib.suppress(OSError):
            store.delete(REQUEST)
