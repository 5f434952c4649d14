"""A sink  ->  the same, knowing what changes it gets: whether it can take them is checked here."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_planner.catalog.descriptor import Connectors
from sqlstream_planner.diagnostics import DiagnosticError, either, refuse
from sqlstream_planner.logical import (
    Node,
    Scan,
    SetOperation,
    Sink,
    StreamingOperator,
    WindowFunction,
    transform,
    walk,
)
from sqlstream_planner.logical.operator import EARLY, Corrected
from sqlstream_planner.properties.analysis import Analysis
from sqlstream_planner.properties.changelog import Changes
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.properties.unique_keys import UniqueKeys
from sqlstream_planner.sql.qualified import as_columns


def sink_changelogs(roots: tuple[Sink, ...], facts: Facts) -> tuple[Sink, ...]:
    """Tell each sink the changelog mode and the key of what it gets. Raises DiagnosticError where it can't take that."""
    changes, keys = facts.changes, facts.keys
    by_query, anytime = _ChangesByQuery(changes), _ChangesAnytime(changes)

    def rewrite(node: Node) -> Node:
        if not isinstance(node, Sink):
            return node
        _check_windows(node, changes, by_query, anytime)
        return _informed(node, changes, keys)

    return transform(roots, rewrite)


def _informed(root: Sink, changes: Changes, keys: UniqueKeys) -> Sink:
    sink = root.sink
    updating = changes(root.input)
    connector = root.connectors[sink.connector]
    names = {f.id: c.name for f, c in zip(root.fields, sink.schema, strict=True)}
    known = [tuple(names[id_] for id_ in key) for key in keys(root.input) if all(id_ in names for id_ in key)]
    format_ = connector.row_format(sink.options)
    if updating and not connector.takes_changes(sink.options):
        refuse(
            root.at,
            "SQL070",
            f"`{sink.name}` takes append-only rows, but rows of this query are updated later",
            notes=(
                f"{_why(root.input, changes)}",
                f"`{sink.name}` is {sink.connector} with format {'' if format_ is None else format_.name!r}",
            ),
            help=f"write to {_takers(root.connectors)}, or aggregate in windows, which are emitted once",
        )
    if updating and connector.sink.needs_key and not sink.primary_key:
        key = f"({as_columns(known[0])})" if known else "(…)"
        refuse(
            root.at,
            "SQL070",
            f"`{sink.name}` needs a PRIMARY KEY, because rows of this query are updated later",
            notes=(
                f"{_why(root.input, changes)}",
                f"`{sink.name}` is {sink.connector}, whose rows are found again by their key",
            ),
            help=f"declare PRIMARY KEY {key} NOT ENFORCED in its CREATE TABLE, or aggregate in windows, which are emitted "
            "once",
        )
    primary = {name.lower() for name in sink.primary_key}
    matches = any({n.lower() for n in key} <= primary for key in known)
    # Rows that are only appended conflict as well: what a table held would depend on how epochs were cut.
    claimed = updating or connector.sink.keyed
    if primary and claimed and not matches and sink.on_conflict != "error":
        unique = (
            f"its rows are unique by {', '.join(known[0])}"
            if known
            else "no columns of it are known to be unique"
        )
        refuse(
            root.at,
            "SQL071",
            f"the PRIMARY KEY of `{sink.name}` is ({', '.join(sink.primary_key)}), but the query's key is another",
            notes=(unique, "two rows of the query could claim one row of the table"),
            help=(
                f"declare PRIMARY KEY ({as_columns(known[0])}) NOT ENFORCED"
                if known
                else f"make one row of each key: … QUALIFY ROW_NUMBER() OVER (PARTITION BY "
                f"{as_columns(sink.primary_key)} ORDER BY …) = 1"
            )
            + "; or say what to do: INSERT INTO … SELECT … ON CONFLICT DO DEDUPLICATE",
        )
    best = next((key for key in known if {n.lower() for n in key} <= primary), known[0] if known else None)
    forgets = any(_time_to_live(node) is not None for node in walk((root,)))
    # A row inserted for a key that is taken is an error: the sink gets an insertion, not a replacement.
    mode = "retract" if updating or sink.on_conflict == "error" else "append"
    informed = replace(sink, changelog=mode, key=best, forgets=forgets)
    wrong = connector.wrong_sink(informed)
    if wrong is not None:
        raise DiagnosticError(replace(wrong, span=root.at))
    return replace(root, sink=informed)


def _time_to_live(node: Node) -> int | None:
    """For how long something at a node is kept that nothing touches; also of what is not kept in the end."""
    match node:
        case StreamingOperator():
            return node.time_to_live
        case Scan() | SetOperation() | Sink():
            return node.ttl_us
    return None


def _takers(connectors: Connectors) -> str:
    """The tables that can take changes, for people."""
    tables = connectors.sinks(lambda c: c.sink.keyed)
    found = [f"a table with connector {either(tables)}"] if tables else []
    for c in connectors:
        formats = [f.name for f in c.formats if c.takes_changes({"format": f.name})]
        if formats and not c.sink.changes:
            found.append(f"to '{c.name}' with format {either(formats)}")
    return ", ".join(found)


def _check_windows(root: Sink, changes: Changes, by_query: Analysis[bool], anytime: Analysis[bool]) -> None:
    """A window is emitted once: of updating rows, it takes those of a source, whose changes have a time.

    What an operator takes back it does because of other rows, whenever they come: windows would have closed.
    """
    for node in walk((root,)):
        if (isinstance(node, WindowFunction) and by_query(node.input)) or (
            isinstance(node, StreamingOperator)
            and node.corrected is Corrected.IN_WINDOW
            and any(map(anytime, node.inputs))
        ):
            why = _why(node.inputs[0], changes)
            without = (
                "leave EMIT CHANGES and allow-lateness out of what is inside, or " if why == EARLY else ""
            )
            refuse(
                root.at,
                "SQL072",
                "a window over updating rows",
                notes=(why, "a window's result is emitted once, when the watermark closes it"),
                help=f"{without}group by a time that you compute, such as date_trunc('minute', ts), "
                "without a window function",
            )


class _ChangesByQuery(Analysis[bool]):
    """Whether rows of a node change because of what the query does with them."""

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes

    def of(self, node: Node) -> bool:
        if not self._changes(node):
            return False
        own = isinstance(node, StreamingOperator) and node.corrected is not Corrected.BY_SOURCE
        return own or any(self(i) for i in node.inputs)


class _ChangesAnytime(Analysis[bool]):
    """Whether rows of a window change because of rows outside of it, so also when it has closed."""

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes

    def of(self, node: Node) -> bool:
        if not self._changes(node):
            return False
        if isinstance(node, StreamingOperator) and node.corrected is Corrected.ANYTIME:
            return True
        return any(self(i) for i in node.inputs)


def _why(node: Node, changes: Changes) -> str:
    """Which part of the query makes rows change, for people."""
    below = node
    while True:
        if isinstance(below, StreamingOperator) and below.why_updating is not None:
            return below.why_updating
        changing = [i for i in below.inputs if len(below.inputs) == 1 or changes(i)]
        if not changing:
            return "its source is a changelog"
        below = changing[0]
