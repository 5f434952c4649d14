"""What the query calls the columns of its operators: for people who look at state, long after the query was planned."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_planner.logical.algebra import Aggregate, OverWindow, Project, SetOperation, Sink
from sqlstream_planner.logical.columns import Field
from sqlstream_planner.logical.operator import StreamingOperator
from sqlstream_planner.logical.tree import walk

#: What a name looks like that somebody wrote, and not the text of an expression.
_WRITTEN = re.compile(r"[^\W\d]\w*")
_NUMBERED = re.compile(r"_\d+$")


def column_names(roots: Sequence[Sink]) -> dict[str, str]:
    """For each column whose id is not what the query calls it, what that is; `roots` are those of the query as it was bound,
    which has all that was written, and of the streaming plan, which has columns of its own.

    A column of a table or with an alias has its name. What an aggregate gives (its keys too) and ranks have the name in the
    SELECT list above, the alias if there is one, or else that of the sink's column; if there is neither, the function's.
    """
    fields: dict[str, Field] = {}
    made: set[str] = set()
    above: dict[str, list[tuple[str, str]]] = defaultdict(list)  # id -> (id or "", name) of what it becomes
    for node in walk(roots):
        fields.update((f.id, f) for f in node.fields)
        match node:
            case Project():
                for f, item in zip(node.fields, node.items, strict=True):
                    bare = item.unnest()
                    while isinstance(bare, exp.Cast):  # into the type of a sink's column
                        bare = bare.this.unnest()
                    if isinstance(bare, exp.Column):
                        above[bare.name].append((f.id, f.name))
            case SetOperation():
                for branch in node.branches:
                    for f, given in zip(node.fields, branch.fields, strict=True):
                        above[given.id].append((f.id, f.name))
            case Aggregate():
                made |= {c.field.id for c in node.calls} | {f.id for f in node.keys}
                made |= {f.id for f in (node.grouping,) if f is not None}
            case OverWindow():
                made |= {c.field.id for c in node.calls}
            case StreamingOperator():
                made |= {f.id for f in node.named_above}
            case Sink():
                for f, column in zip(node.fields, node.sink.schema, strict=True):
                    above[f.id].append(("", column.name))
    found: dict[str, str] = {}
    for id_, f in fields.items():
        written = f.name if _WRITTEN.fullmatch(f.name) else None
        further = _given(id_, above) if id_ in made or written is None else None
        name = further or written or (_NUMBERED.sub("", id_) if id_ in made else None)
        if name is not None and name != id_:
            found[id_] = name
    return found


def _given(id_: str, above: Mapping[str, Sequence[tuple[str, str]]]) -> str | None:
    """The nearest name above a column that somebody wrote."""
    seen, frontier = {id_}, [id_]
    while frontier:
        given = [pair for id_ in frontier for pair in above.get(id_, ())]
        for _, name in given:
            if _WRITTEN.fullmatch(name):
                return name
        frontier = [further for further, _ in given if further and further not in seen]
        seen.update(frontier)
    return None
