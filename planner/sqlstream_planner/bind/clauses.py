"""Clauses of a query about how it is run: the hint STATE_TTL behind SELECT."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.catalog.options import parse_duration
from sqlstream_planner.diagnostics import Diagnostic, did_you_mean
from sqlstream_planner.sql.dialect import WindowTvf, function_name


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
