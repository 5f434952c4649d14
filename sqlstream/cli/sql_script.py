"""Statements of a text, run and printed one after the other: of `-c`, a file, a pipe, and one from the prompt."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from sqlstream.cli.sql_text import Printer
from sqlstream.shell.commands import statement_of
from sqlstream.shell.pieces import Piece
from sqlstream.shell.reader import Command, Reader, read_lines
from sqlstream.shell.session import Session
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def run_script(session: Session, printer: Printer, path: Path) -> int:
    """Run the statements of a file up to the first error; the exit code."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        return printer.failed(DiagnosticError(Diagnostic("SHL005", f"can't read `{path}`: {why}")), {})
    return run_all(session, printer, text.splitlines(keepends=True), str(path))


def run_all(session: Session, printer: Printer, lines: Iterable[str], name: str) -> int:
    """Run the statements and commands of a text, as its lines come, up to the first error; the exit code."""
    reader = Reader(name)
    statements = read_lines(lines, reader)
    while True:
        try:
            one = next(statements, None)
        except DiagnosticError as error:
            return printer.failed(error, reader.sources)
        if one is None:
            return 0
        code = run_one(session, printer, one)
        if code is None:
            return 0
        if code:
            return code


def run_one(session: Session, printer: Printer, one: Piece | Command) -> int | None:
    """Run a statement or command; the exit code, 0 if nothing is wrong, None if it ends the shell."""
    if not isinstance(one, Command):
        return printer.run(session, one)
    if one.name == "\\q":
        return None
    if one.name == "\\x":
        printer.expanded = not printer.expanded
        sys.stdout.write(f"a line for each column: {'on' if printer.expanded else 'off'}\n")
        return 0
    try:
        if one.name == "\\i":
            return run_script(session, printer, Path(one.argument))
        return printer.run(session, statement_of(one))
    except DiagnosticError as error:
        return printer.failed(error, {})
