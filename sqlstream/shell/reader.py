"""Lines as they are typed or piped -> commands of the shell, and statements as soon as they are complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlstream.shell.pieces import Piece, is_complete, split
from sqlstream_planner.sql.rendered import RenderedSql

#: Commands that need no semicolon, by what psql, DuckDB's shell and Flink's client call them.
_COMMANDS = {
    "quit": "\\q",
    "exit": "\\q",
    "help": "\\?",
    "?": "\\?",
    ".quit": "\\q",
    ".exit": "\\q",
    ".help": "\\?",
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the shell: its name with the backslash, and what stands behind it."""

    name: str
    argument: str = ""


def command_of(line: str) -> Command | None:
    """The command that a line is, None if it belongs to a statement.

    >>> command_of("exit;"), command_of("\\\\d orders"), command_of("SELECT 1")
    (Command(name='\\\\q', argument=''), Command(name='\\\\d', argument='orders'), None)
    """
    bare = line.strip().rstrip(";").rstrip()
    if bare.lower() in _COMMANDS:
        return Command(_COMMANDS[bare.lower()])
    if not bare.startswith("\\"):
        return None
    name, _, argument = bare.partition(" ")
    return Command(name, argument.strip())


class Reader:
    """The lines of one text, whose name is `file`: what is complete is taken from it, line after line."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._text = ""
        self._done = 0

    @property
    def sources(self) -> dict[str, str]:
        """The text by its name, for messages."""
        return {self._file: self._text}

    def feed(self, line: str) -> Iterator[Piece | Command]:
        """Take a line, with its end. Raises DiagnosticError for what has no tokens; the text before it is left then."""
        waiting = self._text[self._done :].strip()
        begin = len(self._text)
        self._text += line
        command = None if waiting else command_of(line)
        if command is not None:
            self._done = len(self._text)
            yield command
            return
        if ";" not in line or not is_complete(self._text[self._done :]):
            return
        start, self._done = self._done, len(self._text)
        yield from split(RenderedSql.plain(self._text, self._file), min(start, begin), whole=True).pieces

    def rest(self) -> Iterator[Piece | Command]:
        """What is left at the end of the text, which needs no semicolon. Raises DiagnosticError."""
        start, self._done = self._done, len(self._text)
        if self._text[start:].strip():
            yield from split(RenderedSql.plain(self._text, self._file), start, whole=True).pieces


def read_lines(lines: Iterable[str], reader: Reader) -> Iterator[Piece | Command]:
    """The statements and commands of lines, each as soon as it is complete. Raises DiagnosticError."""
    for line in lines:
        yield from reader.feed(line)
    yield from reader.rest()
