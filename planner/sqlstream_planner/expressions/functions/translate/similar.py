"""`SIMILAR TO`: SQL's patterns in Flink and PostgreSQL, regular expressions in DuckDB.

A pattern with `%`, `_` or ESCAPE is SQL's, and any other a regular expression; where that is not the same for both, it is
only taken for one if it can hardly be meant as SQL's: `.*`, `^a`, `\\d`.
"""

from __future__ import annotations

import re

from sqlglot import exp

from sqlstream_planner.expressions.functions.translate.entry import Context

_WILDCARDS = {"%": ".*", "_": "."}
#: Characters that are themselves in SQL's patterns and something else in a regular expression.
_DIFFERENT = frozenset(".^$\\")
#: The others that mean something, and the same, in both.
_SAME = frozenset("|*+?{}()[]")
#: What stands for one character, or one of several: an escaped one, a set, any.
_PIECE = re.compile(r"\\.|\[\^?\]?[^\]]*\]|.", re.DOTALL)


def similar_to(node: exp.SimilarTo, context: Context, escape: exp.Expr | None = None) -> exp.Expr:
    """The condition with SQL's pattern as a regular expression; raises TypeProblem where it could mean either.

    `|`, `*`, `+`, `?`, `{n}`, `()` and `[]` are the same in both.
    """
    text = _text(node.expression)
    if text is None:
        raise context.refuse(
            "the pattern of SIMILAR TO must be a literal",
            "write LIKE, or REGEXP_FULL_MATCH(x, pattern) for a regular expression",
        )
    if escape is not None:
        character = _text(escape)
        if character is None or len(character) > 1:
            raise context.refuse("ESCAPE takes one character", "write SIMILAR TO … ESCAPE '!'")
        regex = _of_sql(text, character, context)
    else:
        pieces = _PIECE.findall(text)
        if not any(piece in _WILDCARDS for piece in pieces):
            _check_regex(text, pieces, context)
            return node
        if "\\" in text:
            raise context.refuse(
                "a backslash in the pattern of SIMILAR TO is itself in Flink, and escapes in PostgreSQL",
                "write ESCAPE '\\', ESCAPE '' where it is itself, or REGEXP_FULL_MATCH(x, …) for a regular expression",
            )
        regex = _of_sql(text, "", context)
    return exp.Anonymous(
        this="regexp_full_match", expressions=[node.this, exp.Literal.string(regex), exp.Literal.string("s")]
    )


def _text(node: exp.Expr) -> str | None:
    """The text that a literal is, or several put together by ||."""
    node = node.unnest()
    if isinstance(node, exp.DPipe):
        left, right = _text(node.this), _text(node.expression)
        return None if left is None or right is None else left + right
    return node.name if isinstance(node, exp.Literal) and node.is_string else None


def _of_sql(pattern: str, escape: str, context: Context) -> str:
    """SQL's pattern as a regular expression."""
    regex, inside, position = "", False, 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if escape and character == escape:
            if position == len(pattern):
                raise context.refuse(f"nothing follows `{escape}` in the pattern of SIMILAR TO")
            regex += _itself(pattern[position])
            position += 1
            continue
        if inside:
            regex += "\\\\" if character == "\\" else character
        elif character in _DIFFERENT:
            regex += _itself(character)
        else:
            regex += _WILDCARDS.get(character, character)
        inside = character == "[" or (inside and character != "]")
    return regex


def _itself(character: str) -> str:
    return f"\\{character}" if character in _SAME | _DIFFERENT | {"-"} else character


def _check_regex(text: str, pieces: list[str], context: Context) -> None:
    """Raise TypeProblem for a pattern that is a regular expression to DuckDB alone, and may be meant as SQL's."""
    pairs = list(zip(pieces, [*pieces[1:], ""], strict=True))
    any_text = any(piece == "." and after in ("*", "+", "?", "{") for piece, after in pairs)
    if any_text or text.startswith("^") or any(piece.startswith("\\") for piece in pieces):
        return
    found = next((piece for piece in pieces if piece in _DIFFERENT), None)
    if found is not None:
        raise context.refuse(
            f"`{found}` in a SIMILAR TO pattern has two meanings: SQL's and a regular expression's",
            f"write [{found}] for the character itself, or regexp_full_match(x, '{text}') for a regular expression",
        )
