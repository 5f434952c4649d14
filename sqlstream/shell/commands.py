"""The commands that stand for a statement."""

from __future__ import annotations

from sqlstream.shell.pieces import Piece, generated
from sqlstream.shell.reader import Command
from sqlstream_operators.plan.types import quote_literal
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, suggestion

_PLAIN = {"\\?": "HELP", "\\h": "HELP", "\\dt": "SHOW TABLES", "\\dv": "SHOW VIEWS", "\\df": "SHOW FUNCTIONS"}
#: All commands, those of the prompt too.
COMMANDS = ("\\?", "\\d", "\\df", "\\dt", "\\dv", "\\h", "\\i", "\\q", "\\x")


def statement_of(command: Command) -> Piece:
    """The statement that a command stands for. Raises DiagnosticError (SHL001) if there is no such command.

    >>> statement_of(Command("\\\\d", "orders")).text
    'DESCRIBE orders'
    """
    if command.name == "\\d":
        return generated(f"DESCRIBE {command.argument}" if command.argument else "SHOW TABLES")
    if command.name not in _PLAIN:
        raise DiagnosticError(
            Diagnostic(
                "SHL001",
                f"there is no command {command.name}",
                help=suggestion(command.name, COMMANDS) or "\\? lists the commands",
            )
        )
    statement = _PLAIN[command.name]
    shown = statement.startswith("SHOW") and command.argument
    return generated(f"{statement} LIKE {quote_literal(command.argument)}" if shown else statement)
