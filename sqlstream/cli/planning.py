"""What `check`, `explain`, `run` and `golden` share: a file argument, variables, and the plan of the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from sqlstream.cli.render import show
from sqlstream_planner.pipeline import Planned, plan_file

_F = TypeVar("_F", bound=Callable[..., Any])

file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


def pairs(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """`k=v` options as a dict. Raises BadParameter (exit code 2) where there is no `=`."""
    found = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{value!r} is not of the form name=value")
        found[key] = text
    return found


def variables_option(command: _F) -> _F:
    """The option `--var name=value`, which may be repeated."""
    decorated: _F = click.option(
        "--var",
        "variables",
        metavar="NAME=VALUE",
        multiple=True,
        callback=pairs,
        help="A value for {{ var('NAME') }} in the file; may be repeated.",
    )(command)
    return decorated


def planned(file: Path, variables: dict[str, str], *, quiet: bool = False) -> Planned:
    """Plan a file, showing warnings. Raises DiagnosticError."""
    result = plan_file(file, variables=variables, env=dict(os.environ))
    if result.warnings and not quiet:
        show(result.warnings)
    return result
