"""The tables that a query names, and the query with other names for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from sqlstream_planner.sql.dialect.positions import range_of, set_range
from sqlstream_planner.sql.qualified import table_parts


def named_tables(query: exp.Query) -> dict[int, exp.Table]:
    """The tables that a query reads, without its own CTEs, by their numbers among all that stand in FROM."""
    return {
        number: table
        for number, table in enumerate(query.find_all(exp.Table))
        if isinstance(table.this, exp.Identifier | exp.Dot) and not _is_cte(table)
    }


def with_names(query: exp.Query, names: Mapping[int, tuple[str, ...]]) -> exp.Query:
    """The query with these names for some of its tables, by their numbers.

    Columns that say the whole name of a table (`lake.sales.orders.id`) say its last part then.
    """
    made = query.copy()
    for column in list(made.find_all(exp.Column)):
        _shorten(column)
    for number, table in enumerate(list(made.find_all(exp.Table))):
        if number not in names:
            continue
        at = range_of(table)
        *before, last = names[number]
        written = table.this
        if not table.alias and written.name != last:
            # It is called as it is written, whatever case it has in its store.
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table_parts(table)[-1], quoted=True)))
        table.set("this", exp.to_identifier(last, quoted=True))
        table.set("db", exp.to_identifier(before[-1], quoted=True) if before else None)
        rest = before[:-1]
        table.set("catalog", exp.to_identifier(rest[-1], quoted=True) if rest else None)
        if at is not None:
            set_range(table, *at)
    return made


def _is_cte(table: exp.Table) -> bool:
    """Whether a name means a CTE of the query, or of one around it."""
    if len(table_parts(table)) > 1:
        return False
    name = table.name.lower()
    below: exp.Expr = table
    above = table.parent
    inside: exp.Expr | None = None
    while above is not None:
        if isinstance(above, exp.CTE):
            inside = above
        with_ = above.args.get("with_")
        if isinstance(with_, exp.With) and below is not with_:
            if any(cte.alias.lower() == name for cte in with_.expressions):
                return True
        elif isinstance(with_, exp.With):
            for cte in with_.expressions:
                if cte is inside and not with_.args.get("recursive"):
                    break
                if cte.alias.lower() == name:
                    return True
                if cte is inside:
                    break
        below, above = above, above.parent
    return False


def _shorten(column: exp.Column) -> None:
    prefix = tuple(part.name.lower() for part in column.parts[:-1])
    if len(prefix) < 2 or not any(prefix == written for written in _written_around(column)):
        return
    column.set("db", None)
    column.set("catalog", None)


def _written_around(column: exp.Column) -> Iterator[tuple[str, ...]]:
    """The names of the tables without an alias in FROM of the SELECTs around a column, in lower case."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        from_ = select.args.get("from_")
        items = [from_.this] if from_ is not None else []
        items += [join.this for join in select.args.get("joins") or []]
        for item in items:
            if isinstance(item, exp.Table) and not item.alias and isinstance(item.this, exp.Identifier):
                yield tuple(part.lower() for part in table_parts(item))
        select = select.find_ancestor(exp.Select)
