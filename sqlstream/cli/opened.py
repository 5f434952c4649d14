"""A pipeline that a command works on: its plan, its project, and where its state is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.cli.origins import origin_of
from sqlstream.cli.renamed import check_renamed
from sqlstream.cli.state_directory import check_folder
from sqlstream.project import Project, load_project, parse_pairs, plan, state_directory

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
        """What a state directory begins with. Raises UsageError."""
        own = state_directory(self.planned, self.file, self.project, None)
        return origin_of(savepoints, own, state, self.base_dir, self.planned.secrets)


def opened(file: Path, profile: str | None, variables: Sequence[str]) -> Opened:
    """Plan a file with what its project and the command line give. Raises DiagnosticError and UsageError."""
    project = load_project(file.parent, profile)
    given = parse_pairs(variables, "--var")
    planned = plan(file, project, given)
    return Opened(file, project, given, planned)
