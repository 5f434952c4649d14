"""JSON functions of Flink and Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.expressions.functions.translate.entry import (
    FLINK,
    SPARK,
    Context,
    call,
    entry,
    literal_text,
    text,
)

#: `['key']` of SQL/JSON, which DuckDB writes `."key"`; keys with quotes stay as they are.
_BRACKETS = re.compile(r"""\[\s*(['"])([^'"\\]*)\1\s*\]""")


def _path(node: exp.Expr, context: Context) -> exp.Expr:
    """SQL/JSON paths may begin with a mode; DuckDB's are always lax."""
    path = literal_text(node)
    if path is None:
        type_ = context.type(node)
        if isinstance(node, exp.Array) or (type_ is not None and type_.kind is Kind.ARRAY):
            raise context.refuse(
                "a JSON path is one text", "JSON_EXTRACT(json, ['$.a', '$.b']) takes several paths"
            )
        return node
    mode, _, rest = path.partition(" ")
    if mode == "strict":
        raise context.refuse("only lax JSON paths can be run", f"write '{rest}'")
    if "*" in path or ".." in path:
        raise context.refuse(
            f"the JSON path '{path}' can find several values",
            "JSON_EXTRACT(json, '$.*') gives all that it finds",
        )
    return text(_BRACKETS.sub(r'."\2"', rest if mode == "lax" else path))


def _json_value(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    return call(
        "json_extract_string", call("json_value", arguments[0], _path(arguments[1], context)), text("$")
    )


def _json_query(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    source, path = arguments[0], _path(arguments[1], context)
    as_text = exp.Cast(this=call("json_extract", source, path), to=exp.DataType.build("VARCHAR"))
    if isinstance(source, exp.Column):
        type_ = call("json_type", source.copy(), path.copy())
        nested = exp.In(this=type_, expressions=[text("OBJECT"), text("ARRAY")])
        return exp.Case(ifs=[exp.If(this=nested, true=as_text)])
    # A lambda gives what was found a name, so that calls in calls grow no faster than they are written.
    first = call("left", exp.to_identifier("found"), exp.Literal.number(1))
    nested = exp.In(this=first, expressions=[text("{"), text("[")])
    keep = exp.Lambda(this=nested, expressions=[exp.to_identifier("found")])
    kept = call("list_filter", exp.Array(expressions=[as_text]), keep)
    return call("list_extract", kept, exp.Literal.number(1))


def _get_json_object(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    return call("json_extract_string", arguments[0], _path(arguments[1], context))


def _json_exists(arguments: Sequence[exp.Expr], context: Context) -> exp.Expr:
    return call("json_exists", arguments[0], _path(arguments[1], context))


def is_json(node: exp.Is, context: Context) -> exp.Expr:
    """`x IS JSON [VALUE | OBJECT | ARRAY | SCALAR]`. Raises TypeProblem for WITH UNIQUE KEYS."""
    if node.expression.args.get("unique"):
        raise context.refuse("IS JSON … WITH UNIQUE KEYS can't be run", "write IS JSON")
    valid = call("json_valid", node.this)
    kind = str(node.expression.this or "VALUE").upper()
    if kind == "VALUE":
        return valid
    type_ = call("json_type", node.this.copy())
    if kind == "SCALAR":
        holds: exp.Expr = exp.Not(this=exp.In(this=type_, expressions=[text("OBJECT"), text("ARRAY")]))
    else:
        holds = exp.EQ(this=type_, expression=text(kind))
    return exp.Case(ifs=[exp.If(this=valid, true=holds)], default=valid.copy())


JSON_FUNCTIONS = (
    entry(
        "JSON_VALUE(json, path)",
        "json_extract_string(json_value(json, path), '$')",
        "a scalar as text without quotes, NULL if there is none (DuckDB: with quotes)",
        FLINK,
        _json_value,
    ),
    entry(
        "JSON_QUERY(json, path)",
        "CASE WHEN json_type(json, path) IN ('OBJECT', 'ARRAY') "
        "THEN CAST(json_extract(json, path) AS VARCHAR) END",
        "an object or array as text, NULL if there is none",
        FLINK,
        _json_query,
    ),
    entry(
        "JSON_EXISTS(json, path)",
        "json_exists(json, path)",
        "whether the path finds anything",
        FLINK,
        _json_exists,
    ),
    entry(
        "GET_JSON_OBJECT(json, path)",
        "json_extract_string(json, path)",
        "what the path finds, as text",
        SPARK,
        _get_json_object,
    ),
    entry("JSON_STRING(value)", "CAST(to_json(value) AS VARCHAR)", "any value as JSON text", FLINK),
    entry(
        "JSON_UNQUOTE(string)",
        "CASE WHEN json_valid(string) AND json_type(string) = 'VARCHAR' "
        "THEN json_extract_string(string, '$') ELSE string END",
        "the text of a JSON string; other text as it is",
        FLINK,
    ),
    entry("JSON_LENGTH(json)", "CAST(json_array_length(json) AS BIGINT)", "elements of a JSON array", FLINK),
)
