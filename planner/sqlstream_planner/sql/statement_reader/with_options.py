"""WITH (…): options as they are written."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from sqlstream_planner.sql.dialect import SqlSyntaxError
from sqlstream_planner.sql.statement_reader.cursor import Cursor
from sqlstream_planner.sql.statements import Option


def read_with(cursor: Cursor) -> tuple[Option, ...]:
    """The options in the parentheses behind WITH. Raises SqlSyntaxError."""
    p = cursor.parser
    p.expect("(", after="WITH")
    options: list[Option] = []
    while not p.at(")"):
        key_start = p.here
        key = p.string("an option's name")
        key_span = cursor.since(key_start)
        p.expect("=", after="an option's name")
        value_start = p.here
        token = p._curr
        if token and token.token_type in (TokenType.NUMBER, TokenType.TRUE, TokenType.FALSE):
            raise SqlSyntaxError(
                "an option's value must be a string in single quotes",
                token.start,
                token.end + 1,
                help=f"write '{token.text}'",
                code="SQL006",
            )
        value = p.string("an option's value")
        options.append(Option(key.name, value.name, key_span, cursor.since(value_start)))
        if not p.take(","):
            if p._curr and p._curr.token_type == TokenType.STRING:
                p.fail_at_token(p._curr, "expected a comma or `)`", "write a comma between two options")
            break
        if p.at(")"):
            p.fail_at_token(p._prev, "nothing follows this comma", "remove the comma")
    p.expect(")", after="the options")
    return tuple(options)
