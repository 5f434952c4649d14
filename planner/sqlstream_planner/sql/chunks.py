"""Tokens of a file -> tokens of each statement; a statement set holds those of its INSERTs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens of one statement, and where its semicolon is; of a statement set its INSERTs too."""

    tokens: tuple[Token, ...]
    stop: int
    parts: tuple[Chunk, ...] | None = None
    closed: bool = True

    @property
    def start(self) -> int:
        """Where the first token starts."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """Where the last token ends."""
        return self.tokens[-1].end + 1


def chunks(tokens: Sequence[Token], size: int) -> list[Chunk]:
    """The statements in `tokens` of a text of `size` characters; a statement set is one."""
    pieces: list[tuple[list[Token], int]] = []
    piece: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            pieces.append((piece, token.start))
            piece = []
        else:
            piece.append(token)
    pieces.append((piece, size))
    chunks: list[Chunk] = []
    whole: list[Token] = []
    parts: list[Chunk] | None = None
    for piece, stop in pieces:
        if not piece:
            continue
        head = 0
        if parts is None:
            head = _set_head(piece)
            if head == 0:
                chunks.append(Chunk(tuple(piece), stop))
                continue
            whole, parts = [], []
        whole.extend(piece)
        inner, ended = _split_end(piece[head:])
        if inner:
            parts.append(Chunk(tuple(inner), stop))
        if ended:
            chunks.append(Chunk(tuple(whole), stop, tuple(parts)))
            parts = None
    if parts is not None:
        chunks.append(Chunk(tuple(whole), size, tuple(parts), closed=False))
    return chunks


def _set_head(piece: list[Token]) -> int:
    words = [t.text.upper() for t in piece[:4]]
    if words[:3] == ["EXECUTE", "STATEMENT", "SET"]:
        return 4 if words[3:] == ["BEGIN"] else 3
    return 3 if words[:3] == ["BEGIN", "STATEMENT", "SET"] else 0


def _split_end(piece: list[Token]) -> tuple[list[Token], bool]:
    """The tokens before the END that closes the set, and whether there is one (CASE has an END too)."""
    if not piece or piece[-1].token_type != TokenType.END:
        return piece, False
    cases = sum(t.token_type == TokenType.CASE for t in piece)
    ends = sum(t.token_type == TokenType.END for t in piece)
    return (piece[:-1], True) if ends > cases else (piece, False)
