"""INSERT … ON CONFLICT  ->  what makes one row of the query's rows that claim one row of the sink."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.diagnostics import either, refuse
from sqlstream_planner.logical import ColumnId, ConflictAction, Field, Node, OverWindow, Sink, WindowCall
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.streaming import ChangelogNormalize, FirstRow, TopN


def conflicts(node: Node, streaming: Streaming) -> Node | None:
    """Do what ON CONFLICT says. Raises DiagnosticError where that can't be done.

    Nothing is needed where the query's key is within the sink's PRIMARY KEY. Otherwise, over append-only rows,
    DO NOTHING keeps the first row of each key and DO DEDUPLICATE the last, in order of arrival; over rows that change
    DO DEDUPLICATE shows the least of those that are there. DO ERROR is the sink's to check.
    """
    if not isinstance(node, Sink) or node.conflict is None:
        return None
    return _resolved(node, streaming)


def _resolved(root: Sink, streaming: Streaming) -> Sink:
    sink = root.sink
    if not sink.primary_key:
        _refuse(
            root,
            f"ON CONFLICT, but `{sink.name}` has no PRIMARY KEY",
            "declare PRIMARY KEY (…) NOT ENFORCED in its CREATE TABLE, or leave ON CONFLICT out",
        )
    primary = {name.lower() for name in sink.primary_key}
    by_name = {c.name.lower(): f.id for f, c in zip(root.fields, sink.schema, strict=True)}
    chosen = tuple(ColumnId(by_name[name.lower()]) for name in sink.primary_key)
    names = {id_: name for name, id_ in by_name.items()}
    if any({names.get(id_, "") for id_ in key} <= primary for key in streaming.keys(root.input)):
        return replace(root, conflict=None)  # there can't be any
    updating = streaming.changes(root.input)
    meaning = streaming.meaning(root).inputs[0]
    match root.conflict:
        case ConflictAction.ERROR:
            if not root.connectors[sink.connector].sink.checks_keys:
                able = root.connectors.sinks(lambda c: c.sink.checks_keys)
                _refuse(
                    root,
                    f"ON CONFLICT DO ERROR, but {sink.connector} does not know whether a key is taken",
                    f"write to a table with connector {either(able)}, or choose DO DEDUPLICATE",
                )
            return replace(root, sink=replace(sink, on_conflict="error"))
        case ConflictAction.NOTHING:
            if updating:
                _refuse(
                    root,
                    "ON CONFLICT DO NOTHING over updating rows",
                    "write ON CONFLICT DO DEDUPLICATE: when the row that is shown is retracted, another replaces it",
                )
            return replace(root, input=FirstRow(root.input, chosen, meaning, root.ttl_us))
        case _:
            if not updating:
                return replace(root, input=ChangelogNormalize(root.input, chosen, meaning, root.ttl_us))
            ties = tuple(ColumnId(f.id) for f in root.fields)
            rank = WindowCall(Field(f"{chosen[0]}.rank", "rank", BIGINT, False), "row_number")
            ranked = OverWindow(meaning, chosen, (), (rank,), ties)
            top = TopN(root.input, chosen, (), "row_number", 1, 0, None, ties, ranked, ttl_us=root.ttl_us)
            return replace(root, input=top)


def _refuse(root: Sink, message: str, help: str) -> NoReturn:
    refuse(root.conflict_at, "SQL073", message, help=help)
