"""Errors as data: what is wrong, where, and what to write instead.

A `Diagnostic` is plain data; only the caller renders it (`render`, or `to_json`). Everything that a user
can cause is raised as a `DiagnosticError`; `InternalError` means a bug of ours and says so.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlstream_planner.text.masking import masked_message, masked_source
from sqlstream_planner.text.visible import visible


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a user's file: 1-based line and column, and a length in characters on that line."""

    file: str
    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, slots=True)
class Written:
    """Where a sink stands in a user's file: its query, and the declaration of its table."""

    query: Span | None = None
    table: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning about a user's SQL, options or data.

    `code` is stable (`SQL012`, `OPT003` …) and documented in docs/errors.md. `notes` say what is known
    (what exists), `help` says what to write instead. Passwords of URLs in them are stars.
    """

    code: str
    message: str
    span: Span | None = None
    notes: tuple[str, ...] = ()
    help: str | None = None
    severity: str = "error"

    def __post_init__(self) -> None:
        texts = "\n".join((self.message, *self.notes, self.help or ""))
        if "://" in texts:
            object.__setattr__(self, "message", masked_message(self.message))
            object.__setattr__(self, "notes", tuple(masked_message(note) for note in self.notes))
            object.__setattr__(self, "help", self.help and masked_message(self.help))

    def to_json(self) -> dict[str, Any]:
        """This diagnostic as a JSON object."""
        place = None
        if self.span is not None:
            place = {
                "file": self.span.file,
                "line": self.span.line,
                "column": self.span.column,
                "length": self.span.length,
            }
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "span": place,
            "notes": list(self.notes),
            "help": self.help,
        }


class SqlstreamError(Exception):
    """Base of every error that is raised on purpose."""


class DiagnosticError(SqlstreamError):
    """The user's SQL, options or data are wrong, or what they run on is: render the diagnostics, exit with `exit_code`.

    Exit codes: 1 the user's SQL or data, 2 usage, 3 consent needed, 4 state incompatible, 5 (the default for codes
    ENV…) the machine, Spark or a server refuses.
    """

    def __init__(self, *diagnostics: Diagnostic, exit_code: int | None = None) -> None:
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in diagnostics))
        self.diagnostics = diagnostics
        of_environment = bool(diagnostics) and all(d.code.startswith("ENV") for d in diagnostics)
        self.exit_code = exit_code if exit_code is not None else 5 if of_environment else 1


class InternalError(SqlstreamError):
    """A bug of sqlstream, not of the user: report it with the message. Exit code 70."""


#: What to do where something can't be run and nothing better is known.
SUPPORTED = "docs/sql.md lists what can be run"

#: What to do where an expression or a query nests too deeply.
SHALLOWER = "nest it less deeply, or compute it in more than one pipeline"


def refuse(
    at: Span | None, code: str, message: str, *, notes: tuple[str, ...] = (), help: str | None = None
) -> NoReturn:
    """Refuse what the user wrote at a place. Raises DiagnosticError."""
    raise DiagnosticError(Diagnostic(code, message, at, notes, help))


def not_run_yet(at: Span | None, what: str, help: str | None = None) -> NoReturn:
    """Refuse valid SQL that can't be run. Raises DiagnosticError."""
    refuse(at, "SQL100", f"{what} can't be run yet", help=help or SUPPORTED)


def nested_too_deeply(at: Span | None) -> Diagnostic:
    """The syntax at a source location nests deeper than can be planned."""
    return Diagnostic("SQL107", "this expression is nested too deeply", at, (), SHALLOWER)


def either(names: Iterable[str]) -> str:
    """Names to choose from, quoted.

    >>> either(["a", "b", "c"])
    "'a', 'b' or 'c'"
    """
    quoted = [f"'{name}'" for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The known name nearest to `name`, ignoring case, or None if none is near.

    >>> did_you_mean("pirce", ["price", "bidder"])
    'price'
    """
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """The help for a name that is not known, or None if no known name is near.

    >>> suggestion("pirce", ["price", "bidder"])
    'did you mean `price`?'
    """
    near = did_you_mean(name, known)
    return f"did you mean `{near}`?" if near else None


def counted(number: int, what: str) -> str:
    """A number of things, for a message.

    >>> counted(1, "column"), counted(3, "column")
    ('1 column', '3 columns')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"


def render(diagnostic: Diagnostic, source: str | None) -> str:
    """The diagnostic as text for a terminal: message, place, source line with a caret (no passwords), notes, help.

    `source` is the text of the file that the span is in, or None when it can't be read. Of a line with more than 160
    characters those around the place are shown, with … for the rest.

    >>> found = Diagnostic("SQL010", "unknown column `pirce`", Span("q.sql", 1, 8, 5), help="did you mean `price`?")
    >>> print(render(found, "SELECT pirce FROM bid"))
    error[SQL010]: unknown column `pirce`
     --> q.sql:1:8
      |
    1 | SELECT pirce FROM bid
      |        ^^^^^
      = help: did you mean `price`?
    """
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {_cut(diagnostic.message)}"]
    margin = " "
    if diagnostic.span is not None:
        span = diagnostic.span
        number = str(span.line)
        margin = " " * len(number)
        lines.append(f"{margin}--> {span.file}:{span.line}:{span.column}")
        text = masked_source(source).split("\n") if source is not None else []
        if 1 <= span.line <= len(text):
            line = text[span.line - 1].rstrip("\r").translate(_BLANKS)
            shown, before, length = _around(line, span)
            lines.append(f"{margin} |")
            lines.append(f"{number} | {shown}")
            lines.append(f"{margin} | {' ' * before}{'^' * length}")
    lines.extend(f"{margin} = note: {_cut(note)}" for note in diagnostic.notes)
    if diagnostic.help is not None:
        lines.append(f"{margin} = help: {_cut(diagnostic.help)}")
    return "\n".join(lines)


#: What a terminal would do something with is one blank in the line that is shown, so that the caret stays right.
_BLANKS = dict.fromkeys((*range(32), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)), " ")
#: How many characters of a longer line are shown, and what stands for the rest.
_SHOWN = 160
_REST = "…"


#: How much of a longer message is shown: names of columns can be whole expressions.
_LONGEST_MESSAGE = 2_000


def _cut(text: str) -> str:
    """A text of a message with at most so many characters, without its middle."""
    half = _LONGEST_MESSAGE // 2
    text = "\n".join(map(visible, text.split("\n")))
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:half]} {_REST} {text[-half:]}"


def _around(line: str, span: Span) -> tuple[str, int, int]:
    """What is shown of a line, how many characters stand before the place, and how many the place has there.

    >>> _around("x" * 1000 + "pirce" + "y" * 1000, Span("q.sql", 1, 1001, 5))[0].strip("…").strip("xy")
    'pirce'
    """
    at = min(max(span.column - 1, 0), len(line))
    length = max(1, min(span.length, len(line) - at))
    if len(line) <= _SHOWN:
        return line, at, length
    room = max(0, _SHOWN - length) // 2
    first = max(0, min(at - room, len(line) - _SHOWN))
    last = min(len(line), first + _SHOWN)
    head, tail = _REST if first else "", _REST if last < len(line) else ""
    return head + line[first:last] + tail, len(head) + at - first, max(1, min(length, last - at))
