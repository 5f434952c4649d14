"""INSERT … ON CONFLICT: what becomes of rows of a query that claim one row of the sink."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, either
from sqlstream_planner.logical import KeepFirst, Normalize, Sink, TopN
from sqlstream_planner.properties import changes, keys
from sqlstream_planner.statements import InsertInto


def resolve_conflicts(root: Sink, context: BindContext, insert: InsertInto | None) -> Sink:
    """The root with what ON CONFLICT puts before the sink. Raises DiagnosticError where it can't do what it says.

    Nothing is needed where the query's key is within the sink's PRIMARY KEY. Otherwise, over rows that only come,
    DO NOTHING keeps the first row of each key and DO DEDUPLICATE the last, in order of arrival; over rows that change
    DO DEDUPLICATE shows the least of those that are there. DO ERROR is the sink's to check.
    """
    if insert is None or insert.conflict is None:
        return root
    sink = root.sink
    if not sink.primary_key:
        _fail(
            insert,
            f"ON CONFLICT, but `{sink.name}` has no PRIMARY KEY",
            "declare PRIMARY KEY (…) NOT ENFORCED in its CREATE TABLE, or leave ON CONFLICT out",
        )
    primary = {name.lower() for name in sink.primary_key}
    by_name = {c.name.lower(): f.id for f, c in zip(root.fields, sink.schema, strict=True)}
    chosen = tuple(by_name[name.lower()] for name in sink.primary_key)
    names = {id_: name for name, id_ in by_name.items()}
    if any({names.get(id_, "") for id_ in key} <= primary for key in keys(root.input)):
        return root
    ttl_us = context.clauses.default_ttl_us
    updating = changes(root.input)
    match insert.conflict:
        case "ERROR":
            if not context.connectors[sink.connector].sink.checks_keys:
                able = context.connectors.sinks(lambda c: c.sink.checks_keys)
                _fail(
                    insert,
                    f"ON CONFLICT DO ERROR, but {sink.connector} can't tell whether a key is taken",
                    f"write to a table with connector {either(able)}, or choose DO DEDUPLICATE",
                )
            return replace(root, sink=replace(sink, on_conflict="error"))
        case "NOTHING":
            if updating:
                _fail(
                    insert,
                    "ON CONFLICT DO NOTHING over rows that change after they were given",
                    "write ON CONFLICT DO DEDUPLICATE: when the row that is shown goes, another of its key takes its place",
                )
            return replace(root, input=KeepFirst(root.input, chosen, ttl_us))
        case _:
            if not updating:
                return replace(root, input=Normalize(root.input, chosen, ttl_us))
            top = TopN(root.input, chosen, (), "row_number", 1, 0, None, ttl_us=ttl_us)
            return replace(root, input=top)


def _fail(insert: InsertInto, message: str, help: str) -> NoReturn:
    raise DiagnosticError(Diagnostic("SQL073", message, insert.conflict_span, (), help))
