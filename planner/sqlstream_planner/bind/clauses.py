"""Clauses of a query: conditions, the hint STATE_TTL, and those that are refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.catalog.options import parse_duration
from sqlstream_planner.diagnostics import Diagnostic, did_you_mean
from sqlstream_planner.logical import Filter, Node
from sqlstream_planner.sql.dialect import WindowTvf, function_name

#: Of a query.
QUERY_CLAUSES = {
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "match": "MATCH_RECOGNIZE",
    "sample": "TABLESAMPLE",
    "connect": "CONNECT BY",
    "into": "SELECT INTO",
    "locks": "FOR UPDATE",
    "prewhere": "PREWHERE",
    "settings": "SETTINGS",
    "format": "FORMAT",
    "for_": "FOR",
    "options": "OPTION",
    "exclude": "EXCLUDE behind the SELECT list",
    "operation_modifiers": "a word behind SELECT",
}
#: Of an item of FROM.
TABLE_CLAUSES = {
    "version": "FOR SYSTEM_TIME AS OF",
    "changes": "CHANGES",
    "match": "MATCH_RECOGNIZE",
    "when": "AT and BEFORE behind a table",
    "system_time": "FOR SYSTEM_TIME AS OF",
    "only": "ONLY before a table",
    "partition": "PARTITION behind a table",
    "indexed": "INDEXED BY",
    "pattern": "a pattern behind a table",
    "rows_from": "ROWS FROM",
    "format": "FORMAT behind a table",
}
_INSTEAD = {
    "SORT BY": "an order is only kept with LIMIT: ORDER BY … LIMIT",
    "TABLESAMPLE": "WHERE HASH(id) % 10 = 0 takes a tenth of the rows, and the same ones each time",
}


def refuse_clauses(context: BindContext, node: exp.Expr, clauses: Mapping[str, str]) -> None:
    """Refuse what is given of `clauses` (arguments of sqlglot, and what they are called). Raises DiagnosticError."""
    for key, what in clauses.items():
        found = node.args.get(key)
        if found and what:
            at = found[0] if isinstance(found, list) else found
            context.unsupported(at if isinstance(at, exp.Expr) else node, what, help=_INSTEAD.get(what))


def filtered(context: BindContext, predicate: exp.Expr, node: Node, scope: Scope, what: str) -> Filter:
    """The rows of `node` for which a condition holds; `what` is the clause that it stands in."""
    resolved = context.translated(scope.resolve(predicate), scope.fields)
    context.condition(resolved, scope.fields, what)
    return Filter(node, resolved, context.span(predicate))


def state_ttl(context: BindContext, query: exp.Select) -> int | None:
    """How long (µs) the state of a SELECT's operators is kept when nothing touches it: its hint's, or the file's.

    Raises DiagnosticError for a STATE_TTL that names nothing in FROM or is no duration; other hints are warned of.
    """
    hint = query.args.get("hint")
    found: list[int] = []
    for call in hint.expressions if hint is not None else []:
        if function_name(call) != "STATE_TTL":
            warn_hint(context, call)
            continue
        found += [_duration(context, query, pair) for pair in call.expressions]
    if not found:
        return context.clauses.default_ttl_us
    return None if 0 in found else max(found)


def _duration(context: BindContext, query: exp.Select, pair: exp.Expr) -> int:
    usage = "write /*+ STATE_TTL('t' = '1 d') */ with the name or alias of a table in FROM"
    if not isinstance(pair, exp.EQ) or not isinstance(pair.expression, exp.Literal):
        context.fail(pair, "SQL066", "STATE_TTL takes names of tables and durations", help=usage)
    names = _tables(query)
    if pair.this.name.lower() not in {name.lower() for name in names}:
        near = did_you_mean(pair.this.name, names)
        context.fail(
            pair.this,
            "SQL066",
            f"STATE_TTL names `{pair.this.name}`, which is not in FROM",
            notes=(f"FROM has {', '.join(names) or 'no table'}",),
            help=f"did you mean '{near}'?" if near else usage,
        )
    try:
        return parse_duration(pair.expression.name)
    except ValueError as error:
        context.fail(
            pair.expression,
            "SQL066",
            f"the time to live can't be '{pair.expression.name}'",
            help=f"write {error}",
        )


def _tables(query: exp.Select) -> list[str]:
    """The names and aliases of what is in FROM."""
    from_ = query.args.get("from_") or query.args.get("from")
    items = [from_.this] if from_ is not None else []
    items += [j.this for i in list(items) for j in i.args.get("joins") or []]
    items += [j.this for j in query.args.get("joins") or []]
    names = []
    for item in items:
        names.append(item.alias)
        if isinstance(item, exp.Table):
            data = item.this.args["data"] if isinstance(item.this, WindowTvf) else item
            names += [data.alias, data.name if isinstance(data, exp.Table) else ""]
    return list(dict.fromkeys(name for name in names if name))


def warn_hint(context: BindContext, hint: exp.Expr) -> None:
    """Say that a hint does nothing."""
    context.warnings.append(
        Diagnostic("SQL102", "this hint has no effect yet", context.span(hint), severity="warning")
    )
