"""COLUMNS(…) and `* LIKE` a pattern: an expression for each of the columns that they stand for, in place of one."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.stars import chosen_by
from sqlstream_planner.sql.dialect.positions import range_of
from sqlstream_planner.sql.written_calls import written_call

_HELP = "write COLUMNS(* EXCLUDE (a, b)), COLUMNS('a regular expression'), COLUMNS(['a', 'b']) or * LIKE 'a%'"


@dataclass(frozen=True, slots=True)
class _Chosen:
    """One of the columns: its name in the result, what stands for it, and how its name matched."""

    name: str
    value: exp.Expr
    match: re.Match[str] | None = None


#: Whether a column's name matches, or how, where an alias can say it.
_Matcher = Callable[[str], re.Match[str] | bool | None]


def with_columns(context: BindContext, query: exp.Select, scope: Scope) -> exp.Select:
    """A SELECT with an item for each column in place of one with COLUMNS, and AND of the conditions in WHERE and FILTER.

    `scope` is that of its FROM. Raises DiagnosticError for no columns, and for what only DuckDB could choose.
    """
    query = _with_distinct_on(context, _with_filters(context, query, scope), scope)
    where = query.args.get("where")
    if not any(_asks(place) for place in [*query.expressions, *([where.this] if where is not None else [])]):
        return query
    query = query.copy()
    items: list[exp.Expr] = []
    for item in query.expressions:
        items += _items(context, item, scope) if _asks(item) else [item]
    query.set("expressions", items)
    where = query.args.get("where")
    if where is not None and _asks(where.this):
        where.set("this", _all_of(context, where.this, scope))
    return query


def _with_distinct_on(context: BindContext, query: exp.Select, scope: Scope) -> exp.Select:
    """A SELECT whose DISTINCT ON lists each of the columns in place of COLUMNS."""
    distinct = query.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    if on is None or not _asks(on):
        return query
    query = query.copy()
    on = query.args["distinct"].args["on"]
    listed = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
    keys: list[exp.Expr] = []
    for key in listed:
        keys += [made for _, made in _spread(context, key, scope)] if _asks(key) else [key]
    on.replace(exp.Tuple(expressions=[key.copy() for key in keys]))
    return query


def _with_filters(context: BindContext, query: exp.Select, scope: Scope) -> exp.Select:
    """A SELECT whose FILTERs are conditions on each of the columns: COLUMNS there makes no items of its own."""

    def asking(select: exp.Select) -> list[exp.Expr]:
        found = (f.expression for f in select.find_all(exp.Filter) if f.find_ancestor(exp.Query) is select)
        return [where for where in found if _asks(where.this)]

    if not asking(query):
        return query
    query = query.copy()
    for where in asking(query):
        where.set("this", _all_of(context, where.this, scope))
    return query


def _all_of(context: BindContext, condition: exp.Expr, scope: Scope) -> exp.Expr:
    """The condition for each of the columns, all of which must hold."""
    joined = exp.and_(
        *(exp.paren(made, copy=False) for _, made in _spread(context, condition, scope)), copy=False
    )
    joined.meta.update(condition.meta)
    return joined


def _items(context: BindContext, item: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """The items that one of the SELECT list stands for, each called as its column, or as its alias says."""
    bare = item.this if isinstance(item, exp.Alias) else item
    made = []
    for chosen, expression in _spread(context, bare, scope):
        name = chosen.name
        if isinstance(item, exp.Alias):
            name = chosen.match.expand(item.alias) if chosen.match is not None else item.alias
        named = exp.alias_(expression, name, quoted=True, copy=False)
        named.meta.update(item.meta)
        made.append(named)
    return made


def _asks(node: exp.Expr) -> bool:
    """Whether COLUMNS stands in an expression, or it is `* LIKE` a pattern."""
    if isinstance(node, exp.Query):
        return False
    if _is_columns(node) or _pattern_of(node.unalias()) is not None:
        return True
    return any(_asks(child) for child in node.iter_expressions())


def _is_columns(node: exp.Expr) -> bool:
    call = written_call(node)
    return call is not None and call.name == "columns"


def _calls(node: exp.Expr) -> list[exp.Expr]:
    if _is_columns(node):
        return [node]
    if isinstance(node, exp.Query):
        return []
    return [call for child in node.iter_expressions() for call in _calls(child)]


def _spread(context: BindContext, expression: exp.Expr, scope: Scope) -> list[tuple[_Chosen, exp.Expr]]:
    """The expression over each of the columns."""
    pattern = _pattern_of(expression)
    if pattern is not None:
        star, matches = pattern
        every = [(c, matches(c.name)) for c in _of_star(context, star, scope)]
        found = [
            replace(c, match=match if isinstance(match, re.Match) else None) for c, match in every if match
        ]
        return [(c, c.value) for c in _some(context, expression, found)]
    around = exp.Paren(this=expression.copy())
    _unpack(context, around, scope)
    calls = _calls(around.this)
    if not calls:  # all of them stood for arguments
        return [(_Chosen("columns", around.this), around.this)]
    for other in calls[1:]:
        if other != calls[0]:
            context.unsupported(other, "COLUMNS of other columns in the same expression", help=_HELP)
    made = []
    for chosen in _some(context, calls[0], _chosen(context, calls[0], scope)):
        copy = around.copy()
        for call in _calls(copy.this):
            call.replace(chosen.value.copy())
        made.append((chosen, copy.this))
    return made


def _unpack(context: BindContext, expression: exp.Expr, scope: Scope) -> None:
    """`f(*COLUMNS(…))`: the columns as so many arguments, in place."""
    for call in _calls(expression):
        found = range_of(call)
        # The star before it, which sqlglot reads past, is in its range or stands before it.
        text = context.rendered.text
        starred = found is not None and (text[found[0]] == "*" or text[: found[0]].rstrip().endswith("*"))
        if not starred or isinstance(call.parent, exp.Mul):
            continue
        if not isinstance(call.parent, exp.Anonymous):
            context.unsupported(call, "*COLUMNS(…) that is no argument of a function", help=_HELP)
        call.replace([c.value for c in _some(context, call, _chosen(context, call, scope))])


def _chosen(context: BindContext, call: exp.Expr, scope: Scope) -> list[_Chosen]:
    """The columns that a call of COLUMNS stands for."""
    written = written_call(call)
    assert written is not None
    argument = written.arguments[0] if len(written.arguments) == 1 else exp.Null()
    bare = argument.unnest()
    if isinstance(bare, exp.Star) or (isinstance(bare, exp.Column) and isinstance(bare.this, exp.Star)):
        return _of_star(context, bare, scope)
    every = _of_star(context, exp.Star(), scope)
    if isinstance(bare, exp.Literal) and bare.is_string:
        try:
            wanted = re.compile(bare.name)
        except re.error:
            context.fail(bare, "TYP012", f"'{bare.name}' is no regular expression")
        matched = ((c, wanted.search(c.name)) for c in every)
        return [_Chosen(c.name, c.value, match) for c, match in matched if match is not None]
    if isinstance(bare, exp.Array) and all(
        isinstance(e, exp.Literal) and e.is_string for e in bare.expressions
    ):
        names = {e.name.lower() for e in bare.expressions}
        for e in bare.expressions:
            if e.name.lower() not in {c.name.lower() for c in every}:
                context.fail(e, "SQL010", f"unknown column `{e.name}` in COLUMNS")
        return [c for c in every if c.name.lower() in names]
    if isinstance(bare, exp.Lambda) and len(bare.expressions) == 1:
        matches = _matching(bare.this, bare.expressions[0].name)
        if matches is not None:
            return [c for c in every if matches(c.name)]
    context.unsupported(call, "COLUMNS of an expression that is no pattern", help=_HELP)


def _of_star(context: BindContext, star: exp.Expr, scope: Scope) -> list[_Chosen]:
    return [_Chosen(name, value) for name, value in chosen_by(context, star, scope)]


def _some(context: BindContext, at: exp.Expr, chosen: Sequence[_Chosen]) -> Sequence[_Chosen]:
    if not chosen:
        context.fail(at, "SQL034", "no column matches the pattern")
    return chosen


def _pattern_of(node: exp.Expr) -> tuple[exp.Expr, _Matcher] | None:
    """The star before LIKE and its like, and which names match the pattern behind it."""
    if isinstance(node, exp.Star) and node.args.get("ilike"):
        plain = node.copy()
        pattern = plain.args["ilike"]
        plain.set("ilike", None)
        return plain, lambda name: _like(pattern.name, re.IGNORECASE).fullmatch(name) is not None
    if isinstance(node, exp.Like | exp.ILike | exp.Glob | exp.SimilarTo):
        star = node.this
        of_table = isinstance(star, exp.Column) and isinstance(star.this, exp.Star)
        matches = _matcher(node) if isinstance(star, exp.Star) or of_table else None
        return None if matches is None else (star, matches)
    return None


def _matching(condition: exp.Expr, parameter: str) -> _Matcher | None:
    """What a lambda of a name says of it, where it is a pattern; None of anything else."""
    bare = condition.unnest()
    if isinstance(bare, exp.Not):
        inner = _matching(bare.this, parameter)
        return None if inner is None else lambda name: not inner(name)
    named = isinstance(bare.this, exp.Identifier | exp.Column) and bare.this.name == parameter
    return _matcher(bare) if named else None


def _matcher(node: exp.Expr) -> _Matcher | None:
    pattern = node.args.get("expression")
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        return None
    text = pattern.name
    match node:
        case exp.Like():
            wanted = _like(text)
        case exp.ILike():
            wanted = _like(text, re.IGNORECASE)
        case exp.Glob():
            wanted = re.compile(fnmatch.translate(text))
        case exp.SimilarTo():
            wanted = re.compile(text)
        case _:
            return None
    if node.args.get("negate"):
        return lambda name: wanted.fullmatch(name) is None
    if isinstance(node, exp.SimilarTo):  # an alias may name its groups
        return wanted.fullmatch
    return lambda name: wanted.fullmatch(name) is not None


def _like(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """LIKE's pattern as a regular expression.

    >>> _like("a_%").fullmatch("abc") is not None, _like("a.").fullmatch("ab") is not None
    (True, False)
    """
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(c) or re.escape(c) for c in pattern), flags | re.DOTALL)
