"""CREATE CATALOG and USE."""

from __future__ import annotations

from sqlstream_planner.sql.statement_reader.cursor import Cursor
from sqlstream_planner.sql.statement_reader.with_options import read_with
from sqlstream_planner.sql.statements import CreateCatalog, Option, UseCatalog, UseDatabase


def read_create_catalog(cursor: Cursor, start: int) -> CreateCatalog:
    """The statement that began at `start`, behind CREATE CATALOG. Raises SqlSyntaxError."""
    p = cursor.parser
    if_not_exists = cursor.if_not_exists()
    name_start = p.here
    name = p.identifier("the name of the catalog").name
    name_span = cursor.since(name_start)
    if p.at("."):
        p.fail_at_token(p._curr, "the name of a catalog has one part")
    if p.take("COMMENT"):
        p.string("a comment")
    options: tuple[Option, ...] = ()
    options_span = name_span
    at = p.here
    if p.take("WITH"):
        options = read_with(cursor)
        options_span = cursor.span(at, at + 4)
    return CreateCatalog(name, options, if_not_exists, cursor.since(start), name_span, options_span)


def read_use(cursor: Cursor, start: int) -> UseCatalog | UseDatabase:
    """The statement that began at `start`, behind USE. Raises SqlSyntaxError."""
    p = cursor.parser
    if p.take("CATALOG"):
        name_start = p.here
        name = p.identifier("the name of a catalog").name
        return UseCatalog(name, cursor.since(start), cursor.since(name_start))
    if p.at("MODULES"):
        p.fail_at_token(p._curr, "there are no modules", "remove the statement: all functions are there")
    name_start = p.here
    parts = [p.identifier("CATALOG, or the name of a database").name]
    if p.take("."):
        parts.append(p.identifier("the name of a database").name)
    return UseDatabase(tuple(parts), cursor.since(start), cursor.since(name_start))
