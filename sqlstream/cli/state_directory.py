"""Commands on a state directory: they take what says which one, and are given the store."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlstream.cli import options
from sqlstream.project import load_project, parse_pairs, plan, state_directory

if TYPE_CHECKING:
    from sqlstream_operators.state.checkpoint_store import CheckpointStore


def of_store(command: Callable[..., None]) -> Callable[..., None]:
    """A command on a state directory: it takes FILE and the options that say which, and is given the store."""

    @functools.wraps(command)
    def run(
        file: Path, variables: tuple[str, ...], profile: str | None, state_dir: str | None, **more: Any
    ) -> None:
        command(_store(file, variables, profile, state_dir), **more)

    option = click.option(
        "--state-dir",
        metavar="DIR",
        help="The pipeline's state directory, a path or URI. Default: what `run` takes. FILE is not read then.",
    )
    return options.pipeline_argument(options.var_option(options.profile_option(option(run))))


def _store(
    file: Path, variables: tuple[str, ...], profile: str | None, state_dir: str | None
) -> CheckpointStore:
    """The state directory of a pipeline. Raises DiagnosticError for a file with mistakes, unless it is given."""
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    if state_dir is None:
        project = load_project(file.parent, profile)
        state_dir = state_directory(plan(file, project, parse_pairs(variables, "--var")), file, project, None)
    check_folder(state_dir)
    return CheckpointStore(state_dir)


def check_folder(state_dir: str) -> None:
    """Raises StorePlaceError (PRJ006, exit code 2) for a state directory that is no path, a file, or would be below one."""
    from sqlstream_operators.errors import StorePlaceError
    from sqlstream_operators.state.checkpoint_store import local_path

    if not state_dir:
        raise StorePlaceError(f"{state_dir!r} is no path")
    local = local_path(state_dir)
    with suppress(OSError):  # rights that are missing: whoever opens it says so
        for place in () if local is None else (local, *local.parents):
            if place.is_dir():
                return
            if place.exists():
                raise StorePlaceError(f"{state_dir} can't be a state directory: {place} is a file")


def is_missing(state_dir: str) -> bool:
    """Whether a state directory is a folder of this machine that does not exist."""
    from sqlstream_operators.state.checkpoint_store import local_path

    local = local_path(state_dir)
    return local is not None and not local.exists()
