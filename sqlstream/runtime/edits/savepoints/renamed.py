"""The state of a pipeline whose file, or whose name, was another before: found by what wrote it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.runtime.edits.sinks.sink_places import place_of
from sqlstream.runtime.loop.recovery import last_manifest, physical_plan
from sqlstream.storage.checked_json import DamagedFileError
from sqlstream.storage.journal import Journal, digest_of
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from sqlstream_planner.pipeline import Planned

#: How deep the folders of states are that are looked at, below the folder of all.
_DEPTH = 4
#: Sinks that keep nothing, and are the same everywhere.
_NOWHERE = ("print", "blackhole")


def state_by_another_name(
    planned: Planned, base: Path, used: Collection[Path], now: Path, before: Callable[[str], Path]
) -> Path | None:
    """The state directory below `base` that the same SQL wrote, or that writes to a place of the plan; None: there is none.

    Those that are `used` are other pipelines'. The file is in the folder `now`; the file of a state of a name was in
    `before(name)`.
    """

    def is_its_own(folder: Path) -> bool:
        then = before(folder.relative_to(base).as_posix())
        return folder not in used and _is_of(planned, folder, now, then)

    return next((folder for folder in _states(base, _DEPTH) if is_its_own(folder)), None)


def has_state(folder: Path) -> bool:
    """Whether a folder is a state directory with a run in it."""
    try:
        return (folder / "epochs").is_dir() and any((folder / "epochs").iterdir())
    except PermissionError:
        return True  # what can't be looked at may have one; a run on it says what is missing


def _states(folder: Path, depth: int) -> Iterator[Path]:
    try:
        there = sorted(folder.iterdir()) if depth and folder.is_dir() else []
        children = [child for child in there if child.is_dir()]
    except PermissionError:
        return
    for child in children:
        if has_state(child):
            yield child
        else:
            yield from _states(child, depth - 1)


def _is_of(planned: Planned, folder: Path, now: Path, then: Path) -> bool:
    """Whether a state directory was written by the same SQL, or writes to a place of the plan.

    Relative paths of the plan refer to `now`, those of the state to `then`.
    """
    journal = Journal(CheckpointStore(str(folder)))
    try:
        last = last_manifest(journal)
        if last is None:
            return False
        if last.sql_digest == digest_of(planned.masked_sql.encode()):
            return True
        before = physical_plan(journal, last)
    except (OSError, DamagedFileError, DiagnosticError):
        return False
    there = _places(before.sinks, then)
    return not there.isdisjoint(_places(planned.physical.sinks, now))


def _places(sinks: Iterable[SinkSpec], folder: Path) -> set[tuple[str, ...] | None]:
    """Where sinks are, in their words, as a whole folder may have been moved, and for a folder."""
    kept = [spec for spec in sinks if spec.connector not in _NOWHERE]
    return {place_of(spec) for spec in kept} | {place_of(spec, str(folder)) for spec in kept}
