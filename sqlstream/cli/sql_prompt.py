"""The prompt of `sqlstream sql` on a terminal: history, completion and colours by prompt_toolkit."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlstream.cli.render import colourful
from sqlstream.cli.sql_script import run_one
from sqlstream.cli.sql_text import Printer
from sqlstream.shell.completion import KEYWORDS, Completer
from sqlstream.shell.history import history_file, may_be_kept, prepared
from sqlstream.shell.opening import Opened
from sqlstream.shell.pieces import is_complete
from sqlstream.shell.reader import Reader, command_of, read_lines
from sqlstream.shell.session import Session
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.completion import Completer as ToolkitCompleter
    from prompt_toolkit.document import Document
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.lexers import Lexer
    from prompt_toolkit.output import ColorDepth
except ImportError as missing:
    raise DiagnosticError(
        Diagnostic(
            "ENV022",
            f"the prompt needs the package {missing.name or 'prompt_toolkit'}",
            notes=("-c, -f and statements from a pipe need no package",),
            help="pip install 'sqlstream-spark[sql]'",
        )
    ) from None

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

_PROMPT, _MORE = "sql> ", "...> "
_COLOURS = {
    "comment": "ansibrightblack",
    "text": "ansigreen",
    "number": "ansicyan",
    "keyword": "bold ansiblue",
}
_PIECES = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<text>'[^']*(?:'|\Z))|(?P<name>`[^`]*`|\"[^\"]*\")"
    r"|(?P<number>\b\d+(?:\.\d+)?\b)|(?P<word>\w+)|(?P<other>[^\w'`\"\-/]+|.)",
    re.DOTALL,
)


def prompt(
    session: Session, printer: Printer, given: Input | None = None, shown: Output | None = None
) -> int:
    """Read statements and run them until the user leaves; 0. `given` and `shown` stand for the terminal."""
    completer = Completer(session)
    asking: PromptSession[str] = PromptSession(
        history=_history(),
        completer=_Completions(completer),
        complete_while_typing=False,
        lexer=_Colours(),
        multiline=True,
        prompt_continuation=_MORE,
        key_bindings=_keys(),
        enable_history_search=False,
        color_depth=None if colourful(sys.stdout) else ColorDepth.DEPTH_1_BIT,
        input=given,
        output=shown,
    )
    sys.stdout.write(_greeting(session.opened))
    number = 0
    while True:
        try:
            text = asking.prompt(_PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        number += 1
        if not _run(session, printer, text, f"input {number}"):
            return 0
        completer.forget()


def _run(session: Session, printer: Printer, text: str, name: str) -> bool:
    """Run what was typed; False if it ends the shell. A mistake ends what was typed, not the shell."""
    reader = Reader(name)
    try:
        with _interrupts():
            for one in read_lines(text.splitlines(keepends=True), reader):
                code = run_one(session, printer, one)
                if code is None:
                    return False
                if code:
                    break
    except KeyboardInterrupt:
        sys.stdout.flush()
        sys.stderr.write("interrupted\n")
    except DiagnosticError as error:
        printer.failed(error, reader.sources)
    return True


@contextmanager
def _interrupts() -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt while inside, whatever handles it otherwise."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _greeting(opened: Opened) -> str:
    about = "" if opened.file is None else f" {opened.file}:"
    return f"sqlstream sql{about or ':'} help lists statements, SHOW TABLES what can be read; Ctrl-D ends\n"


def _history() -> History:
    file = history_file(os.environ)
    return _Kept(str(file)) if prepared(file) else InMemoryHistory()


class _Kept(FileHistory):
    """The history on disk, without statements that have passwords; those are known until the shell ends."""

    def store_string(self, string: str) -> None:
        if not may_be_kept(string):
            return
        try:
            super().store_string(string)
        except OSError:  # a full disk is no reason to lose a statement
            return


class _Completions(ToolkitCompleter):
    def __init__(self, completer: Completer) -> None:
        self._completer = completer

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for one in self._completer.proposals(document.text_before_cursor, document.text_after_cursor):
            yield Completion(one.text, -one.replaces, display_meta=one.kind)


class _Colours(Lexer):
    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines: list[StyleAndTextTuples] = [[]]
        for found in _PIECES.finditer(document.text):
            kind = found.lastgroup or ""
            if kind == "word" and found[0].upper() in KEYWORDS:
                kind = "keyword"
            for number, part in enumerate(found[0].split("\n")):
                if number:
                    lines.append([])
                lines[-1].append((_COLOURS.get(kind, ""), part))
        return lambda number: lines[number] if number < len(lines) else []


def is_ready(text: str) -> bool:
    """Whether Enter runs a text: it is a command, or ends with a statement that is closed.

    >>> [is_ready(text) for text in ("quit", "SELECT 1", "SELECT 1;", "", "SELECT 1;\\nSELECT")]
    [True, False, True, True, False]
    """
    return command_of(text) is not None or is_complete(text)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @Condition
    def ready() -> bool:
        return is_ready(get_app().current_buffer.text)

    @keys.add("enter", filter=ready)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys
