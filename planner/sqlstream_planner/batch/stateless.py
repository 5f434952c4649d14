"""Scan, Project, Filter, WindowFunction and Unnest: what concerns one row at a time."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.epoch_values import CLOCK_SQL
from sqlstream_operators.plan.types import Kind, quote_identifier
from sqlstream_planner.batch.select import Select
from sqlstream_planner.expressions.unnests import long_series
from sqlstream_planner.logical import (
    EpochKind,
    EpochValues,
    Filter,
    Project,
    Unnest,
    Values,
    WindowFunction,
    raw,
    sql,
)
from sqlstream_planner.windows import window_time as window_sql

#: An expression of more nodes is not written into each of its readers.
INLINE_LIMIT = 400

_OF_SCRIPT = {
    EpochKind.CLOCK: CLOCK_SQL,
    EpochKind.RANDOM: "md5(CAST(uuid() AS VARCHAR))",
    EpochKind.ARRIVAL: "CAST(1 AS BIGINT)",
    EpochKind.PLACE: "row_number() OVER ()",
}


def fits(select: Select, node: Project | Filter) -> bool:
    """Whether the node can be written over what its input's columns are, and the text stays small."""
    uses: dict[str, int] = {}
    for expression in node.expressions():
        for c in expression.find_all(exp.Column):
            uses[c.name] = uses.get(c.name, 0) + 1
    return not any(
        n * sum(1 for _ in select.columns[id_].walk()) > INLINE_LIMIT
        for id_, n in uses.items()
        if id_ in select.columns
    )


def project(node: Project, below: Select) -> Select:
    """The items in terms of the input's source."""
    items = {f.id: below.over(e) for f, e in zip(node.fields, node.items, strict=True)}
    return replace(below, columns=items)


def filtered(node: Filter, below: Select) -> Select:
    """The input with one more condition."""
    return replace(below, where=(*below.where, below.over(node.predicate)))


def windowed(node: WindowFunction, below: Select) -> Select:
    """Each row in every window that it falls into; rows without a time are in none."""
    us = f"epoch_us({sql(below.columns[node.time_column])})"
    present = exp.Not(this=exp.Is(this=below.columns[node.time_column].copy(), expression=exp.Null()))
    below = replace(below, where=(*below.where, present))
    gap = window_sql.in_some_window(node.window, us)
    if gap is not None:
        below = replace(below, where=(*below.where, raw(gap)))
    ids = [f.id for f in node.input.fields]
    end_id = f"__{node.end.id}"
    rows = below.as_item("__rows", ids, [(f"unnest({window_sql.window_ends(node.window, us)})", end_id)])
    end = quote_identifier(end_id)
    maker = "make_timestamptz" if node.time.type.kind is Kind.TIMESTAMPTZ else "make_timestamp"
    columns: dict[str, exp.Expr] = {id_: raw(quote_identifier(id_)) for id_ in ids}
    columns[node.start.id] = raw(f"make_timestamp({window_sql.start_of(node.window, end)})")
    columns[node.end.id] = raw(f"make_timestamp({end})")
    columns[node.time.id] = raw(f"{maker}({end} - 1000)")
    return Select(rows, columns)


def given_by_epoch(node: EpochValues, below: Select) -> Select:
    """The clock of the whole script, random numbers of DuckDB's, which no replay gives again, and the order of the rows."""
    columns = dict(below.columns)
    for value in node.values:
        columns[value.field.id] = raw(_OF_SCRIPT[value.kind])
    if not any(value.kind is EpochKind.PLACE for value in node.values):
        return replace(below, columns=columns)
    # Rows are numbered before any condition above can leave some out.
    return Select(
        replace(below, columns=columns).as_item("__rows"),
        {id_: raw(quote_identifier(id_)) for id_ in columns},
    )


def unnested(node: Unnest, below: Select) -> Select:
    """Each row beside every element of its array."""
    series = long_series(node.array) if node.is_one_column and isinstance(node.input, Values) else None
    if series is not None:  # as a list it would be one value, all of it in memory
        [f] = node.element
        ids = [f.id for f in node.input.fields]
        source = f"{below.as_item('__rows', ids)}\nCROSS JOIN {series} AS __series({quote_identifier(f.id)})"
        return Select(source, {id_: raw(quote_identifier(id_)) for id_ in (*ids, f.id)})
    array = sql(below.over(node.array))
    element = f"__{node.element[0].id}"
    parts = [(array, element)]
    if node.ordinality is not None:
        parts.append((f"range(1, len({array}) + 1)", node.ordinality.id))
    if node.outer:
        # A row without elements is kept, once, with neither an element nor a number.
        parts = [(f"CASE WHEN len({array}) > 0 THEN {text} ELSE [NULL] END", id_) for text, id_ in parts]
    else:
        below = replace(below, where=(*below.where, raw(f"len({array}) > 0")))
    ids = [f.id for f in node.input.fields]
    rows = below.as_item("__rows", ids, [(f"unnest({text})", id_) for text, id_ in parts])
    columns: dict[str, exp.Expr] = {id_: raw(quote_identifier(id_)) for id_ in ids}
    quoted = quote_identifier(element)
    for f in node.element:
        columns[f.id] = raw(f"({quoted}).{quote_identifier(f.name)}") if node.spread else raw(quoted)
    if node.ordinality is not None:
        columns[node.ordinality.id] = raw(quote_identifier(node.ordinality.id))
    return Select(rows, columns)
