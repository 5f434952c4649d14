"""Where in a statement its reader is: the parser, places in the user's file, and what all statements are made of."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.sql.datatypes import sql_type_of
from sqlstream_planner.sql.dialect import SqlStream, SqlSyntaxError, range_of
from sqlstream_planner.sql.dialect.parser import SqlStreamParser
from sqlstream_planner.sql.dialect.positions import set_range
from sqlstream_planner.sql.problems import TypeProblem
from sqlstream_planner.sql.rendered import RenderedSql

_DIALECT = SqlStream()


class Cursor:
    """The parser over the tokens of one statement, and the text that they are from."""

    def __init__(self, rendered: RenderedSql) -> None:
        self.rendered = rendered
        self.parser = SqlStreamParser(dialect=_DIALECT)

    def span(self, start: int, end: int) -> Span:
        """The place of a part of the text."""
        return self.rendered.span(start, end)

    def since(self, start: int) -> Span:
        """The place of what was read from `start` on."""
        return self.rendered.span(start, self.parser.last_end)

    def type_of(self, node: exp.DataType, start: int) -> SqlType:
        """The SqlType of a type that was read from `start` on. Raises SqlSyntaxError."""
        try:
            return sql_type_of(node)
        except TypeProblem as problem:
            at = range_of(problem.node) or (start, self.parser.last_end)
            raise SqlSyntaxError(problem.message, *at, help=problem.help, code="SQL003") from None
        except ValueError as error:
            raise SqlSyntaxError(str(error), start, self.parser.last_end, code="SQL003") from None

    def names(self, what: str) -> tuple[str, ...]:
        """Names in parentheses. Raises SqlSyntaxError."""
        p = self.parser
        p.expect("(")
        names = [p.identifier(what).name]
        while p.take(","):
            names.append(p.identifier(what).name)
        p.expect(")", after="the columns")
        return tuple(names)

    def if_not_exists(self) -> bool:
        """Take IF NOT EXISTS, if it is there."""
        if self.parser.take("IF"):
            self.parser.expect("NOT", after="IF")
            self.parser.expect("EXISTS", after="IF NOT")
            return True
        return False

    def query(self) -> exp.Query:
        """A query that is there. Raises SqlSyntaxError."""
        p = self.parser
        start = p.here
        query = p.query()
        if isinstance(query, exp.Values):
            query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=query))
            set_range(query, start, p.last_end)
        if isinstance(query, exp.Insert) and query.args.get("with_"):
            raise SqlSyntaxError(
                "write WITH after INSERT INTO, not before it",
                start,
                start + 4,
                help="write INSERT INTO the_sink WITH … SELECT …",
            )
        if not isinstance(query, exp.Query):
            raise SqlSyntaxError("this is not a query", start, p.last_end)
        for select in query.find_all(exp.Select):
            if not select.expressions:
                at = range_of(select) or (start, start + 1)
                raise SqlSyntaxError("this SELECT selects nothing", at[0], at[0] + 6, help="write SELECT *")
        holder = query.find(exp.Placeholder, exp.Parameter)
        if holder is not None:
            at = range_of(holder) or (start, start + 1)
            raise SqlSyntaxError(
                "a query has no parameters", *at, help="write {{ var('name') }} and pass --var name=…"
            )
        return query
