"""What a translated call was before it became DuckDB's: a parenthesis that remembers the call as it was written.

The binder puts functions of Flink's and Spark's into DuckDB's form before they reach the plan. What such a call
*means* is its written name and arguments; how it is translated may change and mean the same. The marked
parenthesis holds both, so whatever rewrites an expression (other columns for its columns, say) rewrites both.
Only the outermost of nested translated calls is marked: the written arguments are as the user wrote them, and
the translation has no marks inside, so both copies together stay linear in the text. Calls of aggregates are
never marked, and what stands in their arguments is marked by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_planner.sql.written_calls import WrittenCall

#: What the places of arrays that are unnested side by side are marked as: a call of them, in any order.
SIDE_BY_SIDE = "side by side"

_NAME = "written_name"
_ARGUMENTS = "written_arguments"


def marked(translated: exp.Expr, name: str, arguments: Sequence[exp.Expr]) -> exp.Paren:
    """`translated` in a parenthesis that remembers the call `name(arguments)`; the nodes are taken, not copied."""
    mark = exp.Paren(this=translated, **{_NAME: name.lower(), _ARGUMENTS: list(arguments)})
    mark.meta.update(translated.meta)
    return mark


def as_written(node: exp.Expr) -> WrittenCall | None:
    """The call that became what is in the parenthesis `node`, None if `node` is nothing of the kind.

    >>> from sqlglot import parse_one
    >>> as_written(marked(parse_one("coalesce(a, 0)"), "NVL", [parse_one("a"), parse_one("0")])).name
    'nvl'
    """
    name = node.args.get(_NAME) if isinstance(node, exp.Paren) else None
    return None if name is None else WrittenCall(name, tuple(node.args[_ARGUMENTS]))


def without_marks(expression: exp.Expr) -> exp.Expr:
    """The expression as DuckDB runs it and nothing more; `expression` itself if it has no marks.

    A mark is taken away with its parentheses where the translation stands by itself without them.

    >>> from sqlglot import parse_one
    >>> mark = marked(parse_one("ln(a)"), "LOG", [parse_one("a")])
    >>> print(without_marks(mark).sql(), without_marks(parse_one("(a)")).sql())
    LN(a) (a)
    """
    if not any(_NAME in paren.args for paren in expression.find_all(exp.Paren)):
        return expression
    plain = exp.Paren(this=expression.copy())  # so that a mark at the root has something around it, too
    for paren in list(plain.find_all(exp.Paren)):
        if _NAME in paren.args:
            paren.replace(_grouped(paren.this))
    inner: exp.Expr = plain.this
    return inner.pop()


def _grouped(translated: exp.Expr) -> exp.Expr:
    """In parentheses if what is around it could be read into it."""
    operator = isinstance(translated, exp.Binary | exp.Unary | exp.Between | exp.In)
    if not operator or isinstance(translated, exp.Paren | exp.Dot):
        return translated
    return exp.Paren(this=translated.copy())


def without_parentheses(expression: exp.Expr) -> exp.Expr:
    """What is inside the parentheses around an expression; a mark stays.

    >>> from sqlglot import parse_one
    >>> print(without_parentheses(parse_one("((a))")).sql())
    a
    """
    while isinstance(expression, exp.Paren) and _NAME not in expression.args:
        expression = expression.this
    return expression
