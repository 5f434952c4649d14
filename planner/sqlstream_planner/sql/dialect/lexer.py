"""SQL text -> tokens, statement boundaries and hints, without comments.

Comments are blanked out before sqlglot's tokenizer sees them (offsets stay as they are), so no comment can
change how a statement parses, and hints `/*+ … */` keep their place.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import ClassVar

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

_PIECE = re.compile(
    r"""
      (?P<estring> (?<![\w$]) [eE] ' (?: \\. | '' | [^'\\] )* ' )
    | (?P<dollar> (?<![\w$]) \$ (?P<tag> (?:[^\W\d]\w*)? ) \$ .*? \$ (?P=tag) \$ )
    | (?P<string> ' (?: '' | [^'] )* ' )
    | (?P<quoted> " (?: "" | [^"] )* " | ` (?: `` | [^`] )* ` )
    | (?P<line> -- [^\n]* )
    | (?P<hint> /\*\+ .*? \*/ )
    | (?P<block> /\* .*? \*/ )
    | (?P<open> /\* | ['"`] )
    | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{4})|\+([0-9a-fA-F]{6})|\\)")
#: How much sqlglot shows on both sides of where it gave up.
_CONTEXT = 50
_BYTES_BEFORE = re.compile(r"(?:^|[^\w$])[xX]$")
_HEX = re.compile(r"'[0-9a-fA-F]*'")
_NOT_NEWLINE = re.compile(r"[^\n]")


class SqlStreamTokenizer(DuckDB.Tokenizer):
    """DuckDB's tokens, with backtick identifiers, `x'…'` strings and Flink's keywords."""

    IDENTIFIERS = ['"', "`"]  # noqa: RUF012
    UNICODE_STRINGS = [("U&'", "'"), ("u&'", "'")]  # noqa: RUF012
    HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012
    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS = {  # noqa: RUF012
        **{
            word: kind
            for word, kind in DuckDB.Tokenizer.KEYWORDS.items()
            if kind not in (TokenType.BLOCK_START, TokenType.BLOCK_END, TokenType.COMMAND)
            and word not in ("<->", "<<->>", "-|-", "SQL SECURITY", "STRAIGHT_JOIN", "CONNECT BY")
        },
        "BYTES": TokenType.VARBINARY,
        "MATCH_CONDITION": TokenType.MATCH_CONDITION,
        "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        "TIMESTAMP_LTZ": TokenType.TIMESTAMPLTZ,
    }


@dataclass(frozen=True, slots=True)
class HintText:
    """A hint `/*+ … */`: the text between its delimiters and where that text starts and ends."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unclosed:
    """A string, identifier or comment that is never closed: its opening mark and where that is."""

    mark: str
    start: int


@dataclass(frozen=True, slots=True)
class Lexed:
    """All tokens of a text, its hints, and the first thing that is never closed (tokens end before it)."""

    tokens: tuple[Token, ...]
    hints: tuple[HintText, ...]
    unclosed: Unclosed | None


def lex(sql: str) -> Lexed:
    """The tokens of `sql`, with `start` and inclusive `end` offsets into it.

    When something is never closed, only the whole statements before it give tokens.

    >>> [t.text for t in lex("SELECT a -- b; c\\n; -- d").tokens]
    ['SELECT', 'a', ';']
    >>> lex("SELECT 1; SELECT 'a").unclosed
    Unclosed(mark="'", start=17)
    """
    pieces: list[str] = []
    hints: list[HintText] = []
    unclosed: Unclosed | None = None
    done = 0
    statement_end = 0
    for found in _PIECE.finditer(sql):
        kind = found.lastgroup
        start, end = found.span()
        if kind == "tag":
            continue
        if kind == "open":
            unclosed = Unclosed(found.group(), start)
            break
        if kind == "end":
            statement_end = end
        if kind in ("line", "hint", "block"):
            pieces.append(sql[done:start])
            pieces.append(_NOT_NEWLINE.sub(" ", found.group()))
            done = end
            if kind == "hint":
                hints.append(HintText(found.group()[3:-2], start + 3, end - 2))
    pieces.append(sql[done:])
    blank = "".join(pieces)
    if unclosed is not None:
        blank = blank[:statement_end]
    tokens = tuple(_plain(t) for t in SqlStreamTokenizer(dialect=DuckDB()).tokenize(blank))
    return Lexed(tokens, tuple(h for h in hints if h.start < len(blank)), unclosed)


def unreadable(sql: str, error: TokenError) -> tuple[int, int]:
    """Where a text is that has no tokens: bytes with something else than hex digits, or near where sqlglot gave up.

    >>> unreadable("SELECT x'0g'", TokenError("…", start=0, end=12))
    (7, 12)
    """
    for found in _PIECE.finditer(sql):
        start, end = found.span()
        bytes_ = found.lastgroup == "string" and _BYTES_BEFORE.search(sql, max(start - 2, 0), start)
        if bytes_ and not _HEX.fullmatch(found.group()):
            return start - 1, end
    at = error.start + _CONTEXT if error.start else (error.end or 0) - _CONTEXT
    at = max(0, min(at, len(sql) - 1))
    return at, at + 1


def comments(sql: str) -> list[tuple[int, int]]:
    """Where the comments of `sql` are: the offsets of each one's start and end.

    >>> comments("SELECT '-- a' -- b")
    [(14, 18)]
    """
    return [found.span() for found in _PIECE.finditer(sql) if found.lastgroup in ("line", "block")]


def _plain(token: Token) -> Token:
    """`U&'\\0009'` as the string that it stands for; `token` itself if it is something else."""
    if token.token_type != TokenType.UNICODE_STRING:
        return token
    text = _ESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else "\\", token.text)
    return Token(TokenType.STRING, text, token.line, token.col, token.start, token.end, token.comments)


class HintBook:
    """The hints of a text, to be taken once each by the place where the grammar allows them."""

    def __init__(self, hints: tuple[HintText, ...]) -> None:
        self._left = list(hints)

    def take(self, start: int, end: int) -> list[HintText]:
        """The hints not yet taken that lie in `[start, end)`."""
        if not self._left:
            return []
        low = bisect_left(self._left, start, key=lambda h: h.start)
        high = bisect_left(self._left, end, key=lambda h: h.start)
        taken = self._left[low:high]
        del self._left[low:high]
        return taken
