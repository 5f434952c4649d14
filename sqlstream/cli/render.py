"""Diagnostics on the terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from sqlstream_planner.diagnostics import Diagnostic, render

_COLOURS = {"error": "red", "warning": "yellow"}


def show(diagnostics: Sequence[Diagnostic], *, as_json: bool = False) -> None:
    """Write diagnostics to stderr (as JSON: to stdout), and a line that counts the errors if there are several."""
    if as_json:
        click.echo(json.dumps([d.to_json() for d in diagnostics], ensure_ascii=False))
        return
    for diagnostic in diagnostics:
        text = render(diagnostic, _source(diagnostic))
        first, newline, rest = text.partition("\n")
        click.echo(
            click.style(first, fg=_COLOURS.get(diagnostic.severity), bold=True) + newline + rest, err=True
        )
        click.echo(err=True)
    errors = sum(1 for d in diagnostics if d.severity == "error")
    if errors > 1:
        click.echo(f"{errors} errors", err=True)


def _source(diagnostic: Diagnostic) -> str | None:
    if diagnostic.span is None:
        return None
    try:
        return Path(diagnostic.span.file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
