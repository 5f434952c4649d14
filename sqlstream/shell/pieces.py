"""Statements as parts of the texts that they were typed into or read from, and scripts put together of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlglot.errors import TokenError

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, refuse
from sqlstream_planner.sql.chunks import chunks
from sqlstream_planner.sql.dialect.lexer import lex, unreadable
from sqlstream_planner.sql.rendered import RenderedSql, Segment

#: What the parts of generated statements are in; nobody wrote it.
GENERATED = "<shell>"
#: `closed` of this many characters stands between two statements.
_END = "\n;\n"


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a statement, and where it is in its text (`end` is behind it)."""

    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """As keywords are compared."""
        return self.text.upper()


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement without its semicolon: `[start, stop)` of a rendered text, and the words that it is made of."""

    rendered: RenderedSql
    start: int
    stop: int
    words: tuple[Word, ...]

    @property
    def text(self) -> str:
        """The statement as it is written."""
        return self.rendered.text[self.start : self.stop]

    def starts_with(self, *words: str) -> bool:
        """Whether these keywords stand at the beginning."""
        return tuple(word.upper for word in self.words[: len(words)]) == words

    def part(self, number: int) -> Piece:
        """The statement that begins at the word of this number."""
        return replace(self, start=self.words[number].start, words=self.words[number:])

    def refuse(
        self, code: str, message: str, help: str | None, *, word: int = 0, notes: tuple[str, ...] = ()
    ) -> DiagnosticError:
        """The error about the statement, at one of its words."""
        at = self.words[min(word, len(self.words) - 1)]
        return DiagnosticError(
            Diagnostic(code, message, self.rendered.span(at.start, at.end), notes, help), exit_code=1
        )


@dataclass(frozen=True, slots=True)
class Split:
    """The statements of a text, and where what is not closed by a semicolon begins (its end: nothing is)."""

    pieces: tuple[Piece, ...]
    rest: int


def split(rendered: RenderedSql, start: int = 0, *, whole: bool = False) -> Split:
    """The statements of a text from `start` on; with `whole` the last one needs no semicolon.

    Raises DiagnosticError (SQL001) for a text that has no tokens, and with `whole` SQL007 for what is never closed.

    >>> found = split(RenderedSql.plain("SELECT 1; SELECT", "q"))
    >>> [piece.text for piece in found.pieces], found.rest
    (['SELECT 1'], 9)
    """
    text = rendered.text
    try:
        lexed = lex(text[start:])
    except TokenError as error:
        first, last = unreadable(text[start:], error)
        refuse(
            rendered.span(start + first, start + last),
            "SQL001",
            f"can't read `{text[start + first : start + last]}`",
        )
    if whole and lexed.unclosed is not None:
        mark = lexed.unclosed.mark
        what = {"'": "string", '"': "name", "`": "name", "/*": "comment"}[mark]
        at = start + lexed.unclosed.start
        close = "*/" if mark == "/*" else mark
        refuse(
            rendered.span(at, at + len(mark)),
            "SQL007",
            f"this {what} is never closed",
            help=f"close it with {close}",
        )
    pieces, rest = [], start
    for chunk in chunks(lexed.tokens, len(text) - start):
        closed = chunk.closed and start + chunk.stop < len(text)
        if not closed and not whole:
            break
        words = tuple(Word(t.text, start + t.start, start + t.end + 1) for t in chunk.tokens)
        pieces.append(Piece(rendered, start + chunk.start, start + chunk.end, words))
        rest = min(start + chunk.stop + 1, len(text))
    return Split(tuple(pieces), len(text) if whole else rest)


def is_complete(text: str) -> bool:
    """Whether a text ends with a statement that is closed, or has none.

    >>> [is_complete(text) for text in ("SELECT 1", "SELECT 1;", "SELECT ';", "-- nothing", "SELECT 1; -- one")]
    [False, True, False, True, True]
    """
    try:
        rest = split(RenderedSql.plain(text, GENERATED)).rest
        lexed = lex(text[rest:])
    except (DiagnosticError, TokenError):
        return True  # it is reported
    return lexed.unclosed is None and not [t for t in lexed.tokens if t.text != ";"]


def generated(text: str) -> Piece:
    """A statement that the shell writes itself."""
    return split(RenderedSql.plain(text, GENERATED), whole=True).pieces[0]


def composed(pieces: Iterable[Piece], behind: str = "") -> RenderedSql:
    """One text with these statements and the way back to theirs; `behind` is written behind the last.

    >>> made = composed([generated("SELECT 1"), generated("SELECT 2")])
    >>> made.span(made.text.index("2"), made.text.index("2") + 1)
    Span(file='<shell>', line=1, column=8, length=1)
    """
    segments: list[Segment] = []
    sources: dict[str, str] = {}
    parts: list[str] = []
    at = 0
    file = GENERATED
    for piece in pieces:
        file = piece.rendered.file
        sources.update(piece.rendered.sources)
        segments += _moved(piece, at)
        parts += [piece.text, _END]
        at += len(piece.text) + len(_END)
    text = "".join(parts[:-1]) + behind
    if not segments:
        return RenderedSql.plain(text, GENERATED)
    return RenderedSql(text, file, tuple(segments), MappingProxyType(sources))


def _moved(piece: Piece, at: int) -> Sequence[Segment]:
    """The segments of a statement whose text begins at `at` elsewhere."""
    found: list[Segment] = []
    segments = piece.rendered.segments
    for number, segment in enumerate(segments):
        end = segments[number + 1].start if number + 1 < len(segments) else len(piece.rendered.text)
        begin = max(segment.start, piece.start)
        if begin >= min(end, piece.stop):
            continue
        offset = segment.source_offset + (begin - segment.start if segment.verbatim else 0)
        found.append(replace(segment, start=at + begin - piece.start, source_offset=offset))
    return found
