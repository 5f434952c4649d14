"""Calls with a grammar of their own, read into plain calls of the functions that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from sqlstream_planner.sql.dialect.errors import ARROW, OPERATORS, refuse_arrow
from sqlstream_planner.sql.dialect.intervals import unit_name
from sqlstream_planner.sql.dialect.positions import range_of, set_range
from sqlstream_planner.sql.dialect.token_parser import TokenParser


def arrow(p: TokenParser, name: str, this: exp.Expr, path: exp.Expr | None) -> exp.Expr:
    """`x -> 'path'` and `x ->> 'path'` as calls, where no operator stands beside the arrow."""
    for operand in (this, path):
        if isinstance(operand, OPERATORS) and not isinstance(operand, (exp.Paren, exp.Neg, exp.Dot)):
            refuse_arrow(operand)
    call = p.call(name, this, path)
    call.meta[ARROW] = True
    return call


def substring(p: TokenParser) -> exp.Expr:
    """SUBSTRING(x, a, b) and SUBSTRING(x FROM a FOR b)."""
    arguments = p._parse_csv(p._parse_disjunction)
    if p._match(TokenType.FROM):
        arguments.append(p.expression_here("the position"))
    elif p.at("FOR"):
        arguments.append(exp.Literal.number(1))
    if p._match(TokenType.FOR):
        arguments.append(p.expression_here("the length"))
    return p.call("SUBSTRING", *arguments)


def trim(p: TokenParser) -> exp.Expr:
    """TRIM(x), TRIM(x, chars), TRIM([BOTH | LEADING | TRAILING] [chars] FROM x)."""
    side = next((s for s in ("BOTH", "LEADING", "TRAILING") if p.take(s)), None)
    name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(side or "", "TRIM")
    if p._match(TokenType.FROM):
        return p.call(name, p.expression_here("the string to trim"))
    first = p.expression_here("the string to trim")
    if p._match(TokenType.FROM):
        return p.call(name, p.expression_here("the string to trim"), first)
    if p.take(","):
        return p.call(name, first, p.expression_here("the characters to trim"))
    return p.call(name, first)


def position(p: TokenParser) -> exp.Expr:
    """POSITION(needle IN haystack) as DuckDB's STRPOS(haystack, needle)."""
    needle = p._parse_bitwise()
    if p._match(TokenType.IN):
        return p.call("STRPOS", p.expression_here("the string to search in"), needle)
    arguments = [needle]
    while p.take(","):
        arguments.append(p.expression_here("an argument"))
    return p.call("POSITION", *arguments)


def overlay(p: TokenParser) -> exp.Expr:
    """OVERLAY(x PLACING y FROM a [FOR b]) as OVERLAY(x, y, a[, b])."""
    arguments = [p.expression_here("a string")]
    for word in ("PLACING", "FROM", "FOR"):
        if p.take(word) or p.take(","):
            arguments.append(p.expression_here(f"what follows {word}"))
    return p.call("OVERLAY", *arguments)


def round_to_unit(p: TokenParser, name: str) -> exp.Expr:
    """FLOOR(x), and FLOOR(ts TO HOUR) as FLOOR_TO('HOUR', ts); CEIL alike."""
    arguments = p._parse_csv(p._parse_disjunction)
    if not (len(arguments) == 1 and p.take("TO")):
        return p.call(name, *arguments)
    at = p._curr
    unit = unit_name(at.text) if at else None
    if unit is None:
        p.fail_here("a unit of time, such as HOUR")
    p._advance()
    name = "FLOOR_TO" if name == "FLOOR" else "CEIL_TO"
    return p.call(name, exp.Literal.string(unit), arguments[0])


def unit_first(p: TokenParser, name: str) -> exp.Expr:
    """TIMESTAMPADD(HOUR, …) and kin: the unit becomes a string, as DuckDB's functions want it."""
    arguments: list[exp.Expr] = []
    token = p._curr
    if token and token.token_type != TokenType.STRING and p._next.token_type == TokenType.COMMA:
        unit = unit_name(token.text)
        if unit is not None and token.token_type != TokenType.IDENTIFIER:
            p._advance()
            arguments.append(p.expression(exp.Literal.string(unit), token))
            p.take(",")
    arguments.extend(p._parse_csv(p._parse_disjunction))
    return p.call(name, *arguments)


def map_literal(p: TokenParser) -> exp.Expr:
    """Flink's MAP['k', 1, 'l', 2] as DuckDB's MAP(['k', 'l'], [1, 2])."""
    p._advance(2)
    items = p._parse_csv(p._parse_disjunction)
    p.expect("]", after="the entries of MAP")
    if len(items) % 2:
        p.fail_at_token(p._prev, "MAP[…] needs a value for every key")
    keys = p.expression(exp.Array(expressions=items[0::2]))
    values = p.expression(exp.Array(expressions=items[1::2]))
    return p.expression(exp.Map(keys=keys, values=values))


def map_(p: TokenParser) -> Any:
    """DuckDB's MAP {'k': 1} and MAP(['k'], [1]); MAP {} is MAP(), which sqlglot writes rightly inside a CAST."""
    at = p._prev
    if p._match(TokenType.L_BRACE, advance=False):
        read: Any = p._parse_bracket()
        entries = read  # what is inside of the brackets that follow it: MAP {'k': 1}['k']
        while isinstance(entries, exp.Bracket):
            entries = entries.this
        made = p.expression(exp.ToMap(this=entries.copy()) if entries.expressions else exp.Map(), at)
        if entries is read:
            return made
        entries.replace(made)
        return read
    arguments = p._parse_wrapped_csv(p._parse_assignment, optional=False)
    if len(arguments) not in (0, 2):
        p.fail_at_token(at, "MAP(…) takes a list of keys and a list of values")
    return p.expression(exp.Map(**dict(zip(("keys", "values"), arguments, strict=False))), at)


def array_of_query(p: TokenParser, query: exp.Query) -> exp.Expr:
    """ARRAY(SELECT x …) as the list that ARRAY_AGG makes of its rows, in its order; no rows are an empty list."""
    inner = query.unnest()
    order = inner.args.get("order")
    terms = list(order.expressions) if order is not None else []
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1 or inner.is_star:
        rows: exp.Expr = exp.alias_(exp.Subquery(this=inner), "rows_", table=["item"])
        made = exp.Select(expressions=[p.call("array_agg", exp.column("item"))]).from_(rows, copy=False)
        return p.call("coalesce", exp.Subquery(this=made), exp.Array())
    item = inner.expressions[0]
    value = item.unalias()
    for term in terms:
        if term.this.name == "1" or (isinstance(term.this, exp.Column) and term.this.name == item.alias):
            term.set("this", value.copy())
    if any(inner.args.get(key) for key in ("distinct", "group", "having", "qualify", "limit", "offset")):
        keys = [f"key_{n}" for n in range(len(terms))]
        if not inner.args.get("distinct"):
            inner.set("expressions", [exp.alias_(value.copy(), "item")])
            for key, term in zip(keys, terms, strict=True):
                inner.append("expressions", exp.alias_(term.this.copy(), key))
        else:
            keys = ["item" for _ in terms]
            inner.set("expressions", [exp.alias_(value.copy(), "item")])
        sorted_by = [_ordered_by(exp.column(key), term) for key, term in zip(keys, terms, strict=True)]
        if not (inner.args.get("limit") or inner.args.get("offset")):
            inner.set("order", None)
        rows = exp.alias_(exp.Subquery(this=inner), "rows_", table=True)
        made = exp.Select(expressions=[_listed(p, exp.column("item"), sorted_by)]).from_(rows, copy=False)
    else:
        inner.set("order", None)
        inner.set("expressions", [_listed(p, value.copy(), terms)])
        made = inner
    return p.call("coalesce", exp.Subquery(this=made), exp.Array())


def _ordered_by(value: exp.Expr, like: exp.Expr) -> exp.Ordered:
    return exp.Ordered(this=value, desc=like.args.get("desc"), nulls_first=like.args.get("nulls_first"))


def _listed(p: TokenParser, value: exp.Expr, terms: Sequence[exp.Expr]) -> exp.Expr:
    return p.call("array_agg", exp.Order(this=value, expressions=list(terms)) if terms else value)


#: Schemas that DuckDB's own functions are in.
_SCHEMAS = frozenset({"main", "pg_catalog", "system"})
#: Arguments of nodes that are names and not values.
_NAMES = frozenset({"alias", "to", "unit", "kind"})


def chained(node: exp.Expr) -> exp.Expr:
    """`s.upper().lower()` as LOWER(UPPER(s)): a function behind a dot takes what is before it."""
    if isinstance(node, exp.Bracket):
        node.set("this", chained(node.this))
        return node
    if not isinstance(node, exp.Dot):
        return node
    call = node.expression
    if not isinstance(call, exp.Anonymous):
        node.set("this", chained(node.this))
        return node
    start, end = range_of(node) or (0, 0)
    if isinstance(node.this, exp.Identifier) and node.this.name.lower() in _SCHEMAS and call.expressions:
        set_range(call, start, end)
        return call
    before = chained(node.this)
    call.set("expressions", [_with_columns(before, frozenset()), *call.expressions])
    set_range(call, start, end)
    return call


def _with_columns(node: exp.Expr, parameters: frozenset[str]) -> exp.Expr:
    """What stands before a dot with columns where sqlglot has put their bare names; parameters of lambdas stay names."""
    if isinstance(node, exp.Column | exp.DataType | exp.Literal):
        return node
    names = _names(node)
    if names:
        return node if names[0].name.lower() in parameters else _column(names, node)
    if isinstance(node, exp.Lambda):
        parameters |= {p.name.lower() for p in node.expressions}
        node.set("this", _with_columns(node.this, parameters))
        return node
    for key, value in list(node.args.items()):
        if key in _NAMES or (key == "this" and isinstance(node, exp.PropertyEQ | exp.Kwarg)):
            continue
        if isinstance(value, list):
            node.set(key, [_with_columns(v, parameters) if isinstance(v, exp.Expr) else v for v in value])
        elif isinstance(value, exp.Expr):
            node.set(key, _with_columns(value, parameters))
    return node


def _names(node: exp.Expr) -> list[exp.Identifier]:
    """The names with dots between them that `node` is; none if it is something else."""
    parts: list[exp.Identifier] = []
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        parts.insert(0, node.expression)
        node = node.this
    return [node, *parts] if isinstance(node, exp.Identifier) else []


def _column(names: list[exp.Identifier], node: exp.Expr) -> exp.Expr:
    keys = ("this", "table", "db", "catalog")
    found = range_of(node)
    made: exp.Expr = exp.Column(**dict(zip(keys, reversed(names[: len(keys)]), strict=False)))
    for name in names[len(keys) :]:
        made = exp.Dot(this=made, expression=name)
    if found is not None:
        set_range(made, *found)
    return made


def without_comprehension(p: TokenParser, node: exp.Expr) -> exp.Expr:
    """`[f(x) FOR x IN list]`, and what brackets behind it take of it, as calls; with a position it stays as it is."""
    if isinstance(node, exp.Bracket):
        node.set("this", without_comprehension(p, node.this))
    if not isinstance(node, exp.Array) or len(node.expressions) != 1:
        return node
    [only] = node.expressions
    listed = isinstance(only, exp.Comprehension) and only.args.get("position") is None
    return comprehension(p, only) if listed else node


def comprehension(p: TokenParser, node: exp.Comprehension) -> exp.Expr:
    """`[f(x) FOR x IN list IF g(x)]` as LIST_TRANSFORM(LIST_FILTER(list, lambda x: g(x)), lambda x: f(x))."""

    def over(body: exp.Expr) -> exp.Expr:
        return exp.Lambda(
            this=p._replace_lambda(body, [node.expression]), expressions=[node.expression.copy()]
        )

    made, condition = node.args["iterator"], node.args.get("condition")
    if condition is not None:
        made = p.call("list_filter", made, over(condition))
    return p.call("list_transform", made, over(node.this))


def of_rows(node: exp.Expr) -> exp.Expr:
    """ANY, SOME, ALL or EXISTS of VALUES, and EXISTS of TABLE t, as of a query; `node` itself if it is anything else."""
    inner = node.this.unnest() if isinstance(node, exp.Any | exp.All) else None
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        inner = node.expressions[0]
        if node.name.upper() == "EXISTS":
            return _exists(node, inner.unnest())
    if not isinstance(inner, exp.Values):
        return node
    query = _all_of(inner)
    quantifier = (
        "ANY" if isinstance(node, exp.Any) else "ALL" if isinstance(node, exp.All) else node.name.upper()
    )
    if quantifier not in ("ANY", "SOME", "ALL"):
        return node
    return exp.All(this=query) if quantifier == "ALL" else exp.Any(this=query)


def _all_of(values: exp.Values) -> exp.Select:
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=values.copy()))
    query.meta.update(values.meta)
    return query


def _exists(node: exp.Anonymous, inner: exp.Expr) -> exp.Expr:
    # sqlglot takes only what begins with SELECT, FROM or WITH for a query.
    if isinstance(inner, exp.Values):
        inner = _all_of(inner)
    return exp.Exists(this=inner.copy()) if isinstance(inner, exp.Query) else node


def struct_pack(p: TokenParser) -> exp.Expr:
    """STRUCT_PACK(a := 1, b): a column without a name gives its own, which in a plan it has no more."""
    arguments = p._parse_csv(p._parse_lambda)
    return p.call("STRUCT_PACK", *(_named_as_itself(p, argument) for argument in arguments))


def _named_as_itself(p: TokenParser, argument: exp.Expr) -> exp.Expr:
    if isinstance(argument, exp.Kwarg):
        return p.expression(exp.PropertyEQ(this=argument.this, expression=argument.expression))
    if not isinstance(argument, exp.Column) or isinstance(argument.this, exp.Star):
        return argument
    return p.expression(exp.PropertyEQ(this=argument.this.copy(), expression=argument))


def json_value(p: TokenParser) -> exp.Expr:
    """JSON_VALUE(x, path [RETURNING type] [NULL ON EMPTY] [NULL ON ERROR])."""
    arguments = p._parse_csv(p._parse_disjunction)
    to = p.data_type() if p.take("RETURNING") else None
    _only_null_on_trouble(p)
    call = p.call("JSON_VALUE", *arguments)
    return call if to is None else p.expression(exp.TryCast(this=call, to=to))


def json_path_call(p: TokenParser, name: str) -> exp.Expr:
    """JSON_QUERY(x, path) and JSON_EXISTS(x, path), with their behaviour when none is written."""
    arguments = p._parse_csv(p._parse_disjunction)
    if name == "JSON_QUERY":
        p.take("WITHOUT", "WRAPPER")
        p.take("WITHOUT", "ARRAY", "WRAPPER")
        _only_null_on_trouble(p)
    else:
        p.take("FALSE", "ON", "ERROR")
    return p.call(name, *arguments)


def _only_null_on_trouble(p: TokenParser) -> None:
    while not p.at(")"):
        if not (p.take("NULL", "ON", "EMPTY") or p.take("NULL", "ON", "ERROR")):
            p.fail_at_token(p._curr, "only NULL ON EMPTY and NULL ON ERROR can be run")


def json_object(p: TokenParser) -> exp.Expr:
    """JSON_OBJECT(KEY 'a' VALUE x, …) and JSON_OBJECT('a', x, …)."""
    arguments: list[exp.Expr] = []
    while not p.at(")"):
        p.take("KEY")
        arguments.append(p.expression_here("a key"))
        if p.take("VALUE") or p.take(":"):
            arguments.append(p.expression_here("a value"))
        if not p.take(","):
            break
    p.take("NULL", "ON", "NULL")
    return p.call("JSON_OBJECT", *arguments)


def json_arrayagg(p: TokenParser) -> exp.Expr:
    """JSON_ARRAYAGG(x [ORDER BY y] [ABSENT ON NULL | NULL ON NULL]): without NULLs by default."""
    distinct = p.take("DISTINCT")
    value = p.expression_here("a value")
    argument: exp.Expr = exp.Distinct(expressions=[value]) if distinct else value
    order = p._parse_order(this=argument)
    call = p.call("JSON_GROUP_ARRAY", order or argument)
    if p.take("NULL", "ON", "NULL"):
        return call
    p.take("ABSENT", "ON", "NULL")
    return _without_nulls(p, call, value)


def json_objectagg(p: TokenParser) -> exp.Expr:
    """JSON_OBJECTAGG([KEY] k VALUE v [NULL ON NULL | ABSENT ON NULL]): with NULLs by default."""
    p.take("KEY")
    key = p.expression_here("a key")
    if not p.take("VALUE") and not p.take(":"):
        p.expect(",")
    value = p.expression_here("a value")
    call = p.call("JSON_GROUP_OBJECT", key, value)
    if p.take("ABSENT", "ON", "NULL"):
        return _without_nulls(p, call, value)
    p.take("NULL", "ON", "NULL")
    return call


def _without_nulls(p: TokenParser, call: exp.Expr, value: exp.Expr) -> exp.Expr:
    there = exp.Not(this=exp.Is(this=exp.paren(value), expression=exp.Null()))
    return p.expression(exp.Filter(this=call, expression=exp.Where(this=there)))
