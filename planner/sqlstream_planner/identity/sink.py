"""The content of a sink: the result of which query, in which table, and where. By it a run decides whether it goes on.

The identity of a sink is plain data, kept with the plan that a manifest names. Its parts are compared one by one: the
*destination* (the connector, and the options that decide where rows go and how they are written), the *table* as it is
declared, and the *answer*, which is what the queries mean that are put together in it. Unknown means
different.
"""

from __future__ import annotations

import functools
import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sqlglot import exp

from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, Past
from sqlstream_planner.catalog.options import OptionDef, OptionValue, Role, ValueKind
from sqlstream_planner.identity.canonical import Canonical
from sqlstream_planner.identity.form import Form, form, from_json, sort_forms, to_json
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.identity.source import option_value
from sqlstream_planner.logical import (
    ColumnId,
    EmitOnClose,
    Node,
    Project,
    SetOperation,
    Sink,
    StreamingOperator,
)
from sqlstream_planner.logical.operator import Given

#: Raised when an identity is made in another way: stored ones of other versions are not compared with ours.
VERSION = 1
#: An edit asks for each of them several times.
_MOST_KEPT = 256


class Holds(StrEnum):
    """What a sink is to readers, so what another query would make of it."""

    ANSWER = "answer"
    """A table or a changelog: all its rows together are the result of one query."""
    ROWS = "rows"
    """Rows that stay as they were emitted."""
    SHOWN = "shown"
    """Rows that somebody looked at."""
    NOTHING = "nothing"
    """Rows that are gone."""


@dataclass(frozen=True, slots=True)
class SinkIdentity:
    """The content of a sink; see the module's docstring.

    `columns` are (name, type), in the declared order if that is `ordered`, else by name; each of `queries` is a form
    `query` of the rows, then the conditions that they meet, then what each of the columns holds. `conflict` is what is
    done about rows with one key, if there can be any. `lasting`: no row is held back because of one that was given before
    (as DISTINCT holds back the second), so that what another query gives from now on does not depend on the old one.
    """

    destination: Mapping[str, Any]
    columns: tuple[tuple[str, str], ...]
    ordered: bool
    primary_key: tuple[str, ...]
    queries: tuple[Form, ...]
    conflict: str | None
    holds: Holds
    lasting: bool

    @property
    def text(self) -> str:
        """Everything, as compact JSON that is the same for the same meaning."""
        data = {
            "version": VERSION,
            "destination": dict(self.destination),
            "table": {
                "columns": [list(column) for column in self.columns],
                "ordered": self.ordered,
                "primary_key": list(self.primary_key),
            },
            "answer": to_json({"queries": self.queries, "conflict": self.conflict}),
            "holds": self.holds.value,
            "lasting": self.lasting,
        }
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@functools.lru_cache(_MOST_KEPT)
def read_sink_identity(text: str) -> SinkIdentity | None:
    """The identity that `SinkIdentity.text` wrote; None if the text is empty, or of another version."""
    data = json.loads(text) if text else {}
    if data.get("version") != VERSION:
        return None
    answer = from_json(data["answer"])
    queries, conflict = answer["queries"], answer["conflict"]
    assert isinstance(queries, list)
    return SinkIdentity(
        destination=data["destination"],
        columns=tuple((name, type_) for name, type_ in data["table"]["columns"]),
        ordered=data["table"]["ordered"],
        primary_key=tuple(data["table"]["primary_key"]),
        queries=tuple(query for query in queries if isinstance(query, Form)),
        conflict=conflict if isinstance(conflict, str) else None,
        holds=Holds(data["holds"]),
        lasting=data["lasting"],
    )


def in_words_of(new: SinkIdentity, old: SinkIdentity) -> SinkIdentity:
    """The identity `new`, with queries that mean the same as one of `old` written as they are there."""
    if (old.conflict, new.conflict) != (None, None) and old.queries != new.queries:
        return new  # which row arrived first may decide
    left = [q for q in old.queries if q not in new.queries]
    meant = {_spelled(q): q for q in reversed(left)}
    queries = [q if q in old.queries else meant.pop(_spelled(q), q) for q in new.queries]
    return replace(new, queries=sort_forms(queries))


def _spelled(query: Form) -> Form:
    return Canonical().knowing_branches_of(query)(query)


def sink_identity(algebra: Sink, streaming: Sink, meanings: Meanings) -> SinkIdentity:
    """The identity of a sink: `algebra` is what its query means, `streaming` how the plan gives that."""
    spec = streaming.sink
    descriptor = streaming.connectors[spec.connector]
    settings = dict(_settings(spec, descriptor))
    lookup = descriptor.lookup_with({option.name: value for option, value in settings.items()})
    columns = [
        (c.name.lower() if lookup.any_case else c.name, str(c.type), ColumnId(f.id))
        for f, c in zip(algebra.fields, spec.schema, strict=True)
    ]
    if not lookup.by_position:
        columns.sort()
    destination: dict[str, Any] = {"connector": descriptor.name}
    if not descriptor.sink.records_epochs:
        destination["options"] = {
            option.name: posixpath.normpath(str(value)) if _is_local(option, value) else value
            for option, value in settings.items()
            if option.changes_output and not option.secret
        }
    if spec.partitioned_by:
        destination["partitioned_by"] = list(spec.partitioned_by)
    return SinkIdentity(
        destination=destination,
        columns=tuple((name, type_) for name, type_, _ in columns),
        ordered=lookup.by_position,
        primary_key=tuple(sorted(spec.primary_key)),
        queries=sort_forms(_queries(algebra, tuple(id_ for *_, id_ in columns), meanings)),
        conflict=streaming.conflict.value if streaming.conflict is not None else None,
        holds=_holds(spec, descriptor),
        lasting=not any(
            isinstance(node, StreamingOperator) and node.remembers_given for node in _given_at_once(streaming)
        ),
    )


def _holds(spec: SinkSpec, descriptor: ConnectorDescriptor) -> Holds:
    format_ = descriptor.row_format(spec.options)
    if descriptor.sink.past is Past.DROPPED:
        return Holds.NOTHING
    if spec.changelog != "append" or descriptor.sink.keyed or (format_ is not None and format_.changelog):
        return Holds.ANSWER
    return Holds.SHOWN if descriptor.sink.past is Past.SHOWN else Holds.ROWS


def _settings(spec: SinkSpec, descriptor: ConnectorDescriptor) -> Iterator[tuple[OptionDef, OptionValue]]:
    """The options that concern a sink, with values as read: those that are set, and defaults."""
    for option in descriptor.concerned(spec.options):
        if Role.SINK in option.roles:
            text = spec.options.get(option.name, option.default)
            if text is not None:
                yield option, option_value(option, text)


def _is_local(option: OptionDef, value: OptionValue) -> bool:
    return option.kind is ValueKind.PATH and "://" not in str(value)


def _queries(sink: Sink, wanted: tuple[ColumnId, ...], meanings: Meanings) -> list[Form]:
    """The queries whose rows are put together, down through UNION ALL, whose order and nesting mean nothing."""
    # A column of a branch is looked for by its id, and cast to these types on its way up.
    whole: _Wanted = [(str(id_), ()) for id_ in wanted]
    stack: list[tuple[Node, _Wanted]] = [(sink.input, whole)]
    found: list[Form] = []
    while stack:
        if len(stack) + len(found) > _MOST_QUERIES:
            return [_query(sink.input, whole, meanings)]
        node, columns = stack.pop()
        below = _put_together(node, columns)
        if below is None:
            found.append(_query(node, columns, meanings))
        else:
            stack += below
    return found


#: The columns that are wanted of a node, and the types that they are cast to one after the other.
_Wanted = list[tuple[str, tuple[str, ...]]]
#: Views over views that read each other twice have more branches than can be described one by one; that is one query then.
_MOST_QUERIES = 64


def _put_together(node: Node, columns: _Wanted) -> list[tuple[Node, _Wanted]] | None:
    """What a node puts together, as it is; None if it does something to its rows."""
    if isinstance(node, EmitOnClose):
        return [(node.input, columns)]
    if isinstance(node, Project):
        items = {f.id: e for f, e in zip(node.fields, node.items, strict=True)}
        inside = [(items[id_], casts) for id_, casts in columns]
        if all(isinstance(e, exp.Column) for e, _ in inside):
            return [(node.input, [(e.name, casts) for e, casts in inside])]
    if isinstance(node, SetOperation) and node.is_union_all:
        position = {f.id: n for n, f in enumerate(node.fields)}
        return [
            (branch, [_of_branch(branch, node, position[id_], c) for id_, c in columns])
            for branch in node.branches
        ]
    return None


def _of_branch(
    branch: Node, union: SetOperation, position: int, casts: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    given, taken = branch.fields[position], union.fields[position]
    return given.id, (casts if given.type == taken.type else (str(taken.type), *casts))


def _query(node: Node, columns: _Wanted, meanings: Meanings) -> Form:
    rows = meanings.rows(node)
    forms = meanings.columns(node)
    held = []
    for id_, casts in columns:
        found = forms[id_]
        for type_ in casts:
            found = form("cast", found, type_)
        held.append(found)
    return form("query", rows.base, form("conditions", *sort_forms(rows.conditions)), form("columns", *held))


def _given_at_once(sink: Sink) -> Iterator[Node]:
    """The nodes over all windows that close: one that closes later is computed whole by the query as it is then."""
    seen: set[int] = set()
    stack: list[Node] = [sink]
    while stack:
        node = stack.pop()
        closes = isinstance(node, StreamingOperator) and node.given is Given.ON_CLOSE
        if id(node) not in seen and not closes:
            seen.add(id(node))
            yield node
            stack += node.inputs
