"""A pipeline that a command works on: its plan, its project, and where its state is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlstream.cli.state_directory import check_folder
from sqlstream.project import (
    STATES,
    Project,
    folder_of_state,
    load_project,
    parse_pairs,
    plan,
    state_directory,
    state_folders,
    states_by_name,
)
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from sqlstream.runtime.edits.savepoints.fork import Origin
    from sqlstream_planner.pipeline import Planned


@dataclass(frozen=True, slots=True)
class Opened:
    """A file, planned within its project with the `variables` of the command line."""

    file: Path
    project: Project
    variables: Mapping[str, str]
    planned: Planned

    @property
    def base_dir(self) -> str:
        """What relative paths in the file refer to."""
        return str(self.file.parent.absolute())

    def again(self, known_as: Mapping[str, str]) -> Planned:
        """The plan of the file with sources under the identities that its state knows them by."""
        return plan(self.file, self.project, self.variables, known_as)

    def state(self, given: str | None, savepoints: Sequence[str]) -> str:
        """The state directory, which may be `given`. Raises DiagnosticError if it can't be one, or has another name."""
        planned = self.planned
        found = state_directory(planned, self.file, self.project, given)
        check_folder(found)
        if given is None and planned.physical.options.state_dir is None and not savepoints:
            check_renamed(planned, self.file, self.project, found)
        return found

    def origin(self, savepoints: Sequence[str], state: str) -> Origin | None:
        """What a state directory begins with, kept until the command ends. Raises UsageError."""
        from sqlstream.runtime.edits.savepoints.origins import NamedTwiceError, origin_of

        own = state_directory(self.planned, self.file, self.project, None)
        found = origin_of(savepoints, own, state, self.base_dir, self.planned.secrets)
        try:
            return click.get_current_context().with_resource(found)
        except NamedTwiceError as error:
            raise click.UsageError(str(error)) from None


def opened(file: Path, profile: str | None, variables: Sequence[str]) -> Opened:
    """Plan a file with what its project and the command line give. Raises DiagnosticError and UsageError."""
    project = load_project(file.parent, profile)
    given = parse_pairs(variables, "--var")
    planned = plan(file, project, given)
    return Opened(file, project, given, planned)


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
            f"the pipeline has no state by its name; its state is that of `{name}`",
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
