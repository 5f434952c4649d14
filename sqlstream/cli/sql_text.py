"""What `sqlstream sql` prints of statements and their mistakes."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.cli.known_errors import known
from sqlstream.cli.painted import explained
from sqlstream.cli.render import colourful, show
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from sqlstream.shell.pieces import Piece
    from sqlstream.shell.session import Session

_EXIT_CODES = {"STA": 4, "ENV": 5}


@dataclass(slots=True)
class Printer:
    """Writes results to standard output, and notes and mistakes to standard error.

    `form` is table, csv or json; a table has `most` rows at most (None: all). `expanded`: a line for each column.
    """

    form: str
    most: int | None
    expanded: bool = False

    def run(self, session: Session, piece: Piece) -> int:
        """Run a statement and print what it gives; the exit code, 0 if nothing is wrong.

        Lets KeyboardInterrupt through, and errors that are bugs.
        """
        try:
            self._print(session, piece)
        except Exception as error:
            sys.stdout.flush()
            return self.failed(error, piece.rendered.sources)
        return 0

    def failed(self, error: Exception, sources: Mapping[str, str]) -> int:
        """Print a mistake; its exit code. Raises what is a bug."""
        if isinstance(error, DiagnosticError):
            show(error.diagnostics, sources)
            return error.exit_code
        diagnostic = known(error)
        if diagnostic is None:
            raise error
        show([diagnostic], sources)
        return _EXIT_CODES.get(diagnostic.code[:3], 1)

    def _print(self, session: Session, piece: Piece) -> None:
        from sqlstream.state.results import write_csv, write_expanded, write_json, write_table

        start = time.monotonic()
        out = sys.stdout
        with session.run(piece, as_json=self.form == "json") as answer:
            show(answer.warnings, piece.rendered.sources)
            if answer.text:
                out.write(answer.text.rstrip("\n") + "\n")
            if answer.plan is not None:
                out.write(explained(answer.plan, colour=colourful(out)))
            if answer.result is not None and self.form == "json":
                write_json(answer.result, out)
            elif answer.result is not None and self.form == "csv":
                write_csv(answer.result, out)
            elif answer.result is not None:
                if self.expanded:
                    shown = write_expanded(answer.result, out, most=self.most)
                else:
                    width = shutil.get_terminal_size().columns if out.isatty() else None
                    shown = write_table(answer.result, out, most=self.most, width=width)
                taken = f", {time.monotonic() - start:.2f} s" if answer.timed else ""
                out.write(f"({shown.text}{taken})\n")
            out.flush()
            for note in answer.notes:
                sys.stderr.write(f"note: {note}\n")
            sys.stderr.flush()
