"""Window table functions in FROM: `TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))` and kin.

Accepted: with or without `TABLE( … )` around; positional or named arguments (`SIZE => …`) in any order;
`TABLE name`, a bare name or a query in parentheses as data; `DESCRIPTOR(ts)` or the bare column.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sqlstream_planner.diagnostics import did_you_mean
from sqlstream_planner.sql.dialect.errors import SqlSyntaxError
from sqlstream_planner.sql.dialect.nodes import WindowTvf
from sqlstream_planner.sql.dialect.positions import set_range
from sqlstream_planner.sql.dialect.token_parser import TokenParser

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
USAGE: dict[str, str] = {
    "TUMBLE": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    "HOP": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE): slide, then size",
    "CUMULATE": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' HOUR): step, then size",
    "SESSION": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
}


def parse_table_function(p: TokenParser) -> exp.Expr | None:
    """Read a window table function or `[LATERAL] TABLE(f(…))` in FROM, without its alias; None if not one."""
    start = p.here
    lateral = p.at("LATERAL", "TABLE", "(")
    if lateral:
        p.take("LATERAL")
    if p.at("TABLE", "("):
        p.take("TABLE", "(")
        inner: exp.Expr | None = _window(p)
        if inner is None:
            _check_name(p)
            inner = p._parse_function()
        if inner is None:
            p.fail_here("a table function, such as TUMBLE(…)", after="TABLE(")
        p.expect(")", after="the table function")
    else:
        inner = _window(p)
        if inner is None:
            return None
    node: exp.Expr = exp.Lateral(this=inner) if lateral else exp.Table(this=inner)
    set_range(node, start, p.last_end)
    return node


def _check_name(p: TokenParser) -> None:
    """Refuse a misspelt window function by its name; its arguments could not be read as an expression's."""
    token = p._curr
    near = did_you_mean(token.text, ARGUMENTS) if token and p._next and p._next.text == "(" else None
    if near is not None:
        message = f"there is no table function `{token.text}`"
        raise SqlSyntaxError(message, token.start, token.end + 1, help=f"did you mean {near}?", code="SQL004")


def _window(p: TokenParser) -> WindowTvf | None:
    name = next((n for n in ARGUMENTS if p.at(n, "(")), None)
    if name is None:
        return None
    start = p.here
    p.take(name)
    kind = exp.Var(this=name)
    set_range(kind, start, p.last_end)
    p.take("(")
    order = ARGUMENTS[name]
    given: dict[str, exp.Expr] = {}
    partition: list[exp.Expr] = []
    position = 0
    named = False
    while not p.at(")"):
        at = p.here
        token = p._curr
        if token and p._next.token_type == TokenType.FARROW:
            named = True
            role = token.text.upper()
            if role not in order:
                _fail(p, name, f"{name} has no argument `{token.text}`", at, token.end + 1)
            p._advance(2)
        elif named:
            _fail(
                p, name, "a positional argument follows a named one", at, token.end + 1 if token else at + 1
            )
        elif position < len(order):
            role = order[position]
        else:
            _fail(p, name, f"too many arguments for {name}", at, p._curr.end + 1 if token else at + 1)
        position += 1
        if role in given:
            _fail(p, name, f"{name}: `{role}` is given twice", at, p.last_end)
        if role == "DATA":
            given[role], partition = _data(p, name)
        elif role == "TIMECOL":
            given[role] = _time_column(p, name)
        else:
            given[role] = p.expression_here(f"{role} of {name}, an interval")
        if not p.take(","):
            break
    p.expect(")", after=f"the arguments of {name}")
    missing = [role for role in ("DATA", "TIMECOL") if role not in given]
    if missing:
        _fail(p, name, f"{name} misses {' and '.join(missing)}", start, p.last_end)
    node = WindowTvf(
        this=kind,
        partition_by=partition or None,
        **{role.lower(): value for role, value in given.items()},
    )
    set_range(node, start, p.last_end)
    return node


def _fail(p: TokenParser, name: str, message: str, start: int, end: int) -> NoReturn:
    raise SqlSyntaxError(message, start, end, help=f"write {USAGE[name]}", code="SQL004")


def _data(p: TokenParser, name: str) -> tuple[exp.Expr, list[exp.Expr]]:
    start = p.here
    p.take("TABLE")
    data: exp.Expr
    if p.at("("):
        p.take("(")
        query = p.query()
        p.expect(")", after="the query")
        data = exp.Subquery(this=query)
    elif p._curr and p._curr.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.INTERVAL):
        _fail(p, name, f"the first argument of {name} is a table", start, p._curr.end + 1)
    else:
        data = p.table_name(f"the table that {name} reads")
        if p.at("("):
            _fail(p, name, f"the first argument of {name} is a table", start, p.last_end)
    set_range(data, start, p.last_end)
    partition: list[exp.Expr] = []
    at = p.here
    if p._match(TokenType.PARTITION_BY):
        if p.take("("):
            partition = p._parse_csv(p._parse_column)
            p.expect(")")
        else:
            # A comma ends the argument, so several keys need parentheses.
            partition = [p.expression_here("a column to partition by")]
            while name == "SESSION" and p.at(",") and not _is_time_argument(p):
                p.take(",")
                partition.append(p.expression_here("a column to partition by"))
        if name != "SESSION":
            _fail(p, name, f"PARTITION BY belongs to SESSION, {name} has none", at, p.last_end)
    return data, partition


def _is_time_argument(p: TokenParser) -> bool:
    """Whether what follows the comma is DESCRIPTOR(…) or a named argument."""
    index = p._index
    p._advance()
    found = p.at("DESCRIPTOR", "(") or p._next.token_type == TokenType.FARROW
    p._retreat(index)
    return found


def _time_column(p: TokenParser, name: str) -> exp.Expr:
    start = p.here
    wrapped = p.take("DESCRIPTOR", "(")
    token = p._curr
    column = p._parse_column() if token and token.token_type != TokenType.INTERVAL else None
    if not isinstance(column, exp.Column):
        end = p.last_end if p.last_end > start else (token.end + 1 if token else start + 1)
        _fail(p, name, f"the second argument of {name} is the time column, as DESCRIPTOR(column)", start, end)
    if wrapped:
        if p.at(","):
            _fail(p, name, "DESCRIPTOR takes exactly one column here", start, p.last_end)
        p.expect(")", after="the time column")
    set_range(column, start, p.last_end)
    return column
