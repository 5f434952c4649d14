"""The state of a pipeline whose file, or whose name, was another before: it is offered, and never begun anew in silence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.project import Project, folder_of, path_in_project, pipeline_files
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from sqlstream_planner.pipeline import Planned

#: How deep the folders of states are that are looked at, below the folder of all.
_DEPTH = 4
#: Sinks that keep nothing, and are the same everywhere.
_NOWHERE = ("print", "blackhole")


def check_renamed(planned: Planned, file: Path, project: Project, state: str) -> None:
    """Raise DiagnosticError (STA031, exit code 4) where a pipeline would begin, and its state is there under another name.

    That is one beside `state` that no pipeline of the project uses any more, and that was written by the same SQL, or
    writes to the same places.
    """
    if "://" in state or _has_state(Path(state)):
        return
    base = file.parent / ".sqlstream"
    if project.state_dir is not None:
        base = project.root / project.state_dir
    used = {Path(state).absolute(), *_used(file, project, base)}
    for folder in _states(base.absolute(), _DEPTH):
        if folder in used or not _is_of(planned, folder):
            continue
        name = folder.relative_to(base.absolute()).as_posix()
        setting = f"SET 'pipeline.name' = '{name}'; in {file.name}, or " if "/" not in name else ""
        raise DiagnosticError(
            Diagnostic(
                "STA031",
                f"the pipeline has no state by its name, and `{name}` has one that is its own",
                notes=(f"{folder} was written by the same query, and no file has that name any more",),
                help=f"to go on with it: {setting}mv '{folder}' '{state}'; to start over: --state-dir '{state}'",
            ),
            exit_code=4,
        )


def _has_state(folder: Path) -> bool:
    try:
        return (folder / "epochs").is_dir() and any((folder / "epochs").iterdir())
    except PermissionError:
        return True  # what can't be looked at may have one; a run on it says what is missing


def _states(folder: Path, depth: int) -> Iterator[Path]:
    if not depth or not folder.is_dir():
        return
    try:
        children = [child for child in sorted(folder.iterdir()) if child.is_dir()]
    except PermissionError:
        return
    for child in children:
        if _has_state(child):
            yield child
        else:
            yield from _states(child, depth - 1)


def _used(file: Path, project: Project, base: Path) -> Iterator[Path]:
    """Where the other pipelines, of the project or beside the file, have their states by their names."""
    if project.state_dir is None:
        others = {one: one.stem for one in file.parent.glob("*.sql")}
    else:
        others = {one: path_in_project(one) for one in pipeline_files(project.root)}
    for one, name in others.items():
        yield base.absolute().joinpath(*map(folder_of, name.split("/")))
        if one.name == file.name and one.samefile(file):
            continue
        text = one.read_text(encoding="utf-8", errors="replace")
        for given in re.findall(r"'pipeline\.name'\s*=\s*'([^']*)'", text):
            yield base.absolute() / folder_of(given)


def _is_of(planned: Planned, folder: Path) -> bool:
    """Whether a state directory was written by the same SQL, or writes to a place of the plan."""
    from sqlstream.cli.moved import last_manifest
    from sqlstream.runtime.loop.recovery import physical_plan
    from sqlstream.runtime.loop.sink_places import place_of
    from sqlstream.storage.checked_json import DamagedFileError
    from sqlstream.storage.journal import Journal, digest_of
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

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
    there = {place_of(spec) for spec in before.sinks if spec.connector not in _NOWHERE}
    return any(place_of(spec) in there for spec in planned.physical.sinks if spec.connector not in _NOWHERE)
