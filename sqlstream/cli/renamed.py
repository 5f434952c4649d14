"""The state of a pipeline whose file, or whose name, was another before: it is offered, and never begun anew in silence."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.project import STATES, Project, folder_of_state, state_folders, states_by_name
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from sqlstream_planner.pipeline import Planned


def check_renamed(planned: Planned, file: Path, project: Project, state: str) -> None:
    """Raise DiagnosticError (STA031, exit code 4) where a pipeline would begin, and its state is there under another name.

    That is one that no pipeline of the project uses any more, and that was written by the same SQL, or writes to the
    same places. The file may have been moved to another folder.
    """
    from sqlstream.runtime.edits.savepoints.renamed import has_state

    if "://" in state or has_state(Path(state)):
        return
    found = _found(planned, file, project, Path(state))
    if found is None:
        return
    base, folder = found
    name = folder.relative_to(base).as_posix()
    by_name = "/" not in name and (project.state_dir is not None or base == file.parent.absolute() / STATES)
    setting = f"SET 'pipeline.name' = '{name}'; in {file.name}, or " if by_name else ""
    parent = "" if Path(state).parent.is_dir() else f"mkdir -p '{Path(state).parent}' && "
    raise DiagnosticError(
        Diagnostic(
            "STA031",
            f"the pipeline has no state by its name, and `{name}` has one that is its own",
            notes=(f"{folder} was written by the same query, and no file has that name any more",),
            help=f"to go on with it: {setting}{parent}mv '{folder}' '{state}'; to start over: --state-dir '{state}'",
        ),
        exit_code=4,
    )


def _found(planned: Planned, file: Path, project: Project, state: Path) -> tuple[Path, Path] | None:
    """A folder of states, and the one in it that is the pipeline's own."""
    from sqlstream.runtime.edits.savepoints.renamed import state_by_another_name

    bases = state_folders(file) if project.state_dir is None else [project.root / project.state_dir]
    for base in (base.absolute() for base in bases):
        used = {state.absolute(), *states_by_name(file, project, base)}
        before = partial(folder_of_state, project, base)
        folder = state_by_another_name(planned, base, used, file.parent.absolute(), before)
        if folder is not None:
            return base, folder
    return None
