"""Which state directories a command is about: named ones, those of files, or all that a project has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlstream.cli.state_directory import check_folder, is_missing
from sqlstream.project import STATES, load_project, plan, state_directory
from sqlstream.state.overview import state_directories
from sqlstream_operators.state.checkpoint_store import CheckpointStore, local_path
from sqlstream_operators.state.object_clients import shown
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def stores(places: tuple[str, ...], profile: str | None) -> Iterator[tuple[str, CheckpointStore]]:
    """The state directories at `places`, with what they are called; without any, those of the project around.

    A place is a state directory (a path or URI), a folder with some, or a pipeline's file. Raises DiagnosticError (STA033)
    for one that is not there, and for a file with mistakes.
    """
    if not places:
        project = load_project(Path(), profile)
        found = project.root / STATES if project.state_dir is None else Path(project.state_dir)
        places = (str(found),) if local_path(str(found)) is None or found.is_dir() else ()
        if not places:
            # The folders of sinks have one of this name, too.
            folders = sorted(project.root.glob(f"**/{STATES}"))
            places = tuple(str(folder) for folder in folders if any(state_directories(folder)))
    for place in places:
        if place.endswith(".sql") and Path(place).is_file():
            file = Path(place)
            project = load_project(file.parent, profile)
            place = state_directory(plan(file, project, {}), file, project, None)
        check_folder(place)
        local = local_path(place)
        if local is None:
            yield shown(place).rstrip("/").rpartition("/")[2], CheckpointStore(place)
            continue
        inner = [] if is_missing(place) else list(state_directories(local))
        if not inner:
            raise DiagnosticError(
                Diagnostic(
                    "STA033",
                    f"there is no state directory at {place}",
                    help="name a state directory, a folder with some, or a pipeline's .sql file",
                ),
                exit_code=4,
            )
        for one in inner:
            yield str(one.relative_to(local)) if one != local else one.name, CheckpointStore(str(one))
