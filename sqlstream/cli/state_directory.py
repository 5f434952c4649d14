"""Commands on a state directory: they take what says which one, and are given the store."""

from __future__ import annotations

import functools
from collections.abc import Callable
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
    return CheckpointStore(state_dir)
