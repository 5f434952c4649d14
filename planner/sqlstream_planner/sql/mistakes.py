"""What to write instead, for the frequent ways to get a statement wrong."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from sqlstream_planner.diagnostics import did_you_mean
from sqlstream_planner.sql.dialect.errors import SqlSyntaxError

_CLAUSES = (
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "UNION", "WINDOW", "QUALIFY",
    "LEFT", "INNER", "CREATE", "TABLE", "VIEW", "INSERT", "INTO", "WITH", "WATERMARK", "PRIMARY", "VALUES",
    "BETWEEN", "DISTINCT", "PARTITION", "PARTITIONED", "TEMPORARY", "EXECUTE", "STATEMENT", "BEGIN",
    "METADATA", "CASE", "WHEN", "THEN", "ELSE",
)  # fmt: skip
_VALUES = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.CASE})
_BEGINNINGS = ("INSERT", "CREATE", "SET", "SELECT", "EXECUTE")
_OPENING = {"(": ")", "[": "]", "{": "}"}


def help_for(failure: SqlSyntaxError, tokens: Sequence[Token]) -> str | None:
    """A proposal for a statement (its tokens) that failed to parse, or None if nothing is likely."""
    at = next((i for i, t in enumerate(tokens) if t.start >= failure.start), len(tokens))
    if failure.code == "SQL002":
        at = len(tokens)
    if at < len(tokens) and (known := _of_other_systems(tokens, at)) is not None:
        return known
    for index in (at, at - 1, at - 2):
        word = _misspelt(tokens, index)
        if word is not None:
            return word
    opened = _unclosed(tokens)
    if opened is not None and (at >= len(tokens) or "expected `" in failure.message):
        return f"the `{opened.text}` on line {opened.line} is never closed"
    if at >= len(tokens):
        return None
    token = tokens[at]
    written = _written_elsewhere(tokens, at, named=": " not in failure.message)
    if written is not None:
        return written
    if token.text in (")", "]", "}") and _balance(tokens[: at + 1]) < 0:
        return f"remove this `{token.text}`: nothing is open"
    before = tokens[at - 1] if at else None
    if before is None:
        return None
    if token.token_type in _VALUES and (before.token_type in _VALUES or before.text == ")"):
        return f"is a comma missing before `{_shown(token)}`?"
    if token.text.upper() in _BEGINNINGS and at > 2 and ": " not in failure.message:
        return f"is a semicolon missing before `{token.text}`?"
    return None


def _of_other_systems(tokens: Sequence[Token], at: int) -> str | None:
    """The right way to write what is right elsewhere, which no misspelling explains better."""
    token, before = tokens[at], tokens[at - 1].text.upper() if at else ""
    if token.text.upper() == "MINUS" or (before == "MINUS" and token.text.upper() == "SELECT"):
        return "write EXCEPT instead of MINUS"
    words = [t.text.upper() for t in tokens[max(0, at - 6) : at]]
    if token.text == "," and "WINDOW" in words and words[words.index("WINDOW") + 1 :][:1] == ["("]:
        return (
            "write windows in FROM: TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) … "
            "GROUP BY window_start, window_end"
        )
    if before == "TOP" and token.token_type == TokenType.NUMBER:
        return f"write LIMIT {token.text} at the end of the query"
    if before == "TIMESTAMPTZ_NS" and token.token_type == TokenType.STRING:
        return f"write TIMESTAMPTZ '{token.text}', as instants are kept in microseconds, or TIMESTAMP_NS, which has no zone"
    if token.token_type == TokenType.IDENTIFIER and before in ("DATE", "TIME", "TIMESTAMP"):
        return f"write {before} '{token.text}': double quotes are for names"
    return None


def _written_elsewhere(tokens: Sequence[Token], at: int, *, named: bool) -> str | None:
    """The right way to write what other systems write otherwise, or what must be quoted, before this token."""
    token, before = tokens[at], tokens[at - 1].text.upper() if at else ""
    if before in ("GROUPBY", "ORDERBY", "PARTITIONBY"):
        return f"write {before[:-2]} BY instead of `{tokens[at - 1].text}`"
    if token.text == ")" and before == ",":
        return "remove the comma before it"
    if token.text.isidentifier() and token.token_type != TokenType.STRING:
        if before == "(" and at > 1 and tokens[at - 2].text.upper() == "WITH":
            return f"write options in single quotes: '{token.text}' = '…'"
        if before == "AS" and named:
            return f"write a keyword as a name in backquotes: `{token.text}`"
    return None


def _misspelt(tokens: Sequence[Token], index: int) -> str | None:
    if not 0 <= index < len(tokens) or tokens[index].token_type != TokenType.VAR:
        return None
    text = tokens[index].text
    if len(text) < 4 or text.upper() in _CLAUSES:
        return None
    near = did_you_mean(text, _CLAUSES)
    if near is None or abs(len(near) - len(text)) > 1 or near[0] != text[0].upper():
        return None
    return f"did you mean {near} instead of `{text}`?"


def _unclosed(tokens: Sequence[Token]) -> Token | None:
    open_: list[Token] = []
    for token in tokens:
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        if token.text in _OPENING:
            open_.append(token)
        elif token.text in _OPENING.values() and open_:
            open_.pop()
    return open_[-1] if open_ else None


def _balance(tokens: Sequence[Token]) -> int:
    marks = [t.text for t in tokens if t.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)]
    return sum(m in _OPENING for m in marks) - sum(m in _OPENING.values() for m in marks)


def _shown(token: Token) -> str:
    return f"'{token.text}'" if token.token_type == TokenType.STRING else token.text
