"""Which golden files belong to a pipeline, and what its `-- golden:` comments say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlstream.project import PIPELINES, find_root
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span

FOLDER = "golden"
_COMMENT = re.compile(r"^[ \t]*--[ \t]*golden:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Directives:
    """What a pipeline's comments say about golden runs.

    `-- golden: var events=2000` sets a variable; `-- golden: none` says that the file has no golden on
    purpose, because its input never ends or its rows are not meant to be kept.
    """

    variables: dict[str, str]
    none: bool


def directives(file: Path) -> Directives:
    """Read the comments. Raises DiagnosticError (GLD003) for one that means nothing."""
    text = file.read_text(encoding="utf-8-sig")
    variables: dict[str, str] = {}
    none = False
    for found in _COMMENT.finditer(text):
        word = found[1]
        name, equals, value = word.removeprefix("var ").partition("=")
        if word == "none":
            none = True
        elif word.startswith("var ") and equals and name.strip():
            variables[name.strip()] = value.strip()
        else:
            line = text.count("\n", 0, found.start(1)) + 1
            column = found.start(1) - text.rfind("\n", 0, found.start(1))
            raise DiagnosticError(
                Diagnostic(
                    "GLD003",
                    f"`{word}` means nothing here",
                    Span(str(file), line, column, max(1, len(word))),
                    help="write `-- golden: var NAME=VALUE` or `-- golden: none`",
                )
            )
    return Directives(variables, none)


def golden_folder(file: Path, root: Path | None = None) -> Path:
    """The folder with a pipeline's golden files.

    `golden/` of the project mirrors `pipelines/`: `pipelines/nexmark/q1.sql` has `golden/nexmark/q1/`, and
    `pipelines/x/x.sql` has `golden/x/`. A file that is not under `pipelines/` has `golden/<name>/` beside
    it. `root` (--golden-dir) takes the place of `golden/`.
    """
    file = file.absolute()
    project = find_root(file.parent)
    base = project / PIPELINES
    if file.is_relative_to(base):
        parts = file.relative_to(base).with_suffix("").parts
        if len(parts) > 1 and parts[-1] == parts[-2]:
            parts = parts[:-1]
        return (root or project / FOLDER).joinpath(*parts)
    return (root or file.parent / FOLDER) / file.stem


def golden_file(folder: Path, sink: str) -> Path:
    """The file of one sink.

    >>> golden_file(Path("golden/q"), "per hour").name
    'per_hour.csv'
    """
    return folder / f"{_UNSAFE.sub('_', sink)}.csv"


def with_goldens(files: Iterable[Path], root: Path) -> list[Path]:
    """Those of the pipelines of the project in `root` that have goldens. Raises DiagnosticError (GLD006) if none has."""
    chosen = [file for file in files if not directives(file).none]
    if not chosen:
        raise DiagnosticError(
            Diagnostic(
                "GLD006",
                f"there are no pipelines under {root / PIPELINES}",
                help="give the files to check, or change to the project's folder",
            ),
            exit_code=2,
        )
    return chosen
