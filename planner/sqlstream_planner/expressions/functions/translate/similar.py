"""`SIMILAR TO`: SQL's patterns in Flink, regular expressions in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.expressions.functions.translate.entry import Context

_WILDCARDS = {"%": ".*", "_": "."}
#: Characters that are themselves in SQL's patterns and something else in a regular expression.
_DIFFERENT = frozenset(".^$\\")


def similar_to(node: exp.SimilarTo, context: Context) -> exp.Expr:
    """The condition with SQL's pattern as a regular expression; raises TypeProblem where it could mean either.

    `|`, `*`, `+`, `?`, `{n}`, `()` and `[]` are the same in both.
    """
    pattern = node.expression
    if isinstance(node.parent, exp.Escape):
        raise context.refuse(
            "ESCAPE belongs to LIKE, not to SIMILAR TO", "write LIKE … ESCAPE, or [%] for the character"
        )
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise context.refuse(
            "the pattern of SIMILAR TO must be a literal",
            "write LIKE, or REGEXP(x, pattern) for a regular expression",
        )
    text = pattern.name
    if found := sorted(_DIFFERENT & set(text)):
        raise context.refuse(
            f"`{found[0]}` in the pattern of SIMILAR TO means one thing in SQL and another in a regular expression",
            f"write LIKE for SQL's wildcards, or regexp_full_match(x, '{text}') for a regular expression",
        )
    if not set(text) & set(_WILDCARDS):
        return node
    regex, inside = "", False
    for character in text:
        inside = character == "[" or (inside and character != "]")
        regex += character if inside else _WILDCARDS.get(character, character)
    return exp.Anonymous(
        this="regexp_full_match", expressions=[node.this, exp.Literal.string(regex), exp.Literal.string("s")]
    )
