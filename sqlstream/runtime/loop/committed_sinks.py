"""That all sinks have the last epoch: noted at the end of a run, so that the next one need not reach those that are gone."""

from __future__ import annotations

from sqlstream.runtime.loop.recovery import is_fresh_fork
from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.state.checkpoint_store import CheckpointStore

NAME = "sinks/committed.json"
_KIND = "last epoch of sinks"


def note_committed(store: CheckpointStore, last: Manifest) -> None:
    """Keep that all sinks have the last epoch."""
    if _committed(store) != last.epoch:
        store.put(NAME, encode(_KIND, {"epoch": last.epoch}))


def all_have_it(store: CheckpointStore, last: Manifest) -> bool:
    """Whether all sinks are known to have the last epoch."""
    return last.void or is_fresh_fork(last) or _committed(store) == last.epoch


def _committed(store: CheckpointStore) -> int | None:
    try:
        return int(decode(_KIND, NAME, store.get(NAME))["epoch"])
    except (OSError, DamagedFileError, KeyError, TypeError, ValueError):
        return None
