"""Which test files a command is about, and which of their tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sqlstream.project import PIPELINES, find_root
from sqlstream.unit_tests.reading import SUFFIX
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def test_files(given: Sequence[Path]) -> list[Path]:
    """The test files that are given, of the pipelines that are, and below the folders that are; without any, the project's.

    Raises DiagnosticError (TST009, exit code 2) if there is none.
    """
    if not given:
        root = find_root(Path())
        inside = root / PIPELINES
        return [_relative(path) for path in _below(inside if inside.is_dir() else root)]
    found: dict[Path, None] = {}
    for path in given:
        found |= dict.fromkeys(_of(path))
    return list(found)


def test_file_of(pipeline: Path) -> Path:
    """The test file of a pipeline.

    >>> test_file_of(Path("pipelines/x.sql")).as_posix()
    'pipelines/x.test.yaml'
    """
    return pipeline.with_name(pipeline.name.removesuffix(".sql") + SUFFIX)


def _of(path: Path) -> list[Path]:
    if path.is_dir():
        return _below(path)
    if path.name.endswith(SUFFIX) and path.is_file():
        return [path]
    if path.suffix == ".sql" and path.is_file() and test_file_of(path).is_file():
        return [test_file_of(path)]
    if path.suffix == ".sql" and path.is_file():
        raise DiagnosticError(
            Diagnostic(
                "TST009",
                f"{path} has no tests: there is no {test_file_of(path)}",
                help=f"begin with rows of its sources: sqlstream test --new {path}",
            ),
            exit_code=2,
        )
    near = [str(p) for p in sorted(path.parent.glob(f"*{SUFFIX}"))[:5]] if path.parent.is_dir() else []
    raise DiagnosticError(
        Diagnostic(
            "TST009",
            f"{path} does not exist" if not path.exists() else f"{path} is no test file",
            notes=(f"there is {', '.join(near)}",) if near else (),
            help=f"give a file *{SUFFIX}, a pipeline that has one, or a folder",
        ),
        exit_code=2,
    )


def _below(folder: Path) -> list[Path]:
    """The test files below a folder, without those in hidden folders, or in folders that are no pipelines' (`_…`)."""
    return sorted(
        path
        for path in folder.rglob(f"*{SUFFIX}")
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts[:-1])
    )


def _relative(path: Path) -> Path:
    """A path from here, where it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def none_found(files: Iterable[Path]) -> Diagnostic:
    """The message if there is nothing to run."""
    paths = list(map(str, files))
    looked = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more files" if len(paths) > 3 else "")
    return Diagnostic(
        "TST009",
        f"no test is selected in {looked}"
        if looked
        else f"there are no test files (*{SUFFIX}) in this project",
        help=None if looked else "write the first: sqlstream test --new pipelines/NAME.sql",
    )
