"""Sources whose data is declared in other words now: a path that is written in another way, more rows of a generator.

State knows a source by its identity, which is text; whether another text means the same data is known to its connector
alone. What it says is kept as a move is (`moved_sources`), so that the position, the state and the sinks go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlstream.connectors.api import ConnectorContext, Continuing, SourceFactory
from sqlstream.runtime.edits.sources.moved_sources import Moves
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage.checked_json import DamagedFileError
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.spec import SourceSpec

Options = Mapping[str, Any]
#: Says whether a source whose options are the second has what one with the first had read, and, if all is closed, no more;
#: see `connectors.api.Continuing`.
Continues = Callable[[SourceState, Options, Options, bool], bool]


def with_respelled(
    moved: Moves, read: Sequence[SourceState], sources: Sequence[SourceSpec], continues: Continues
) -> Moves:
    """`moved` with the tables that have the data of one of the sources `read` in other words.

    Only a source that no table goes on from otherwise can be meant.
    """
    known_as = dict(moved.known_as)
    respelled: dict[str, Options] = {}
    declared = {spec.identity for spec in sources}

    def named() -> list[SourceSpec]:
        return [
            replace(s, identity=known_as.get(s.identity, s.identity) or f"not {s.identity}") for s in sources
        ]

    for spec in sources:
        positions = go_on(read, named())
        if spec.name in positions or not spec.identity:
            continue
        used = {state.folder for state in positions.values()}
        left = [
            (state, text)
            for state in read
            if state.folder not in used and state.connector == spec.connector and state.identity
            for text in _declared_as(state.identity, known_as)
        ]
        alike = [(s, text) for s, text in left if _same(s, text, spec, continues)]
        chosen = [(s, text) for s, text in alike if s.name.lower() == spec.name.lower()] or alike
        if len(chosen) != 1:
            continue
        state, was = chosen[0]
        away = [text for text, kept in known_as.items() if kept == state.identity]
        known_as |= {text: "" for text in (*away, state.identity) if text not in declared}
        known_as[spec.identity] = state.identity
        now = json.loads(spec.identity)["options"]
        respelled[spec.name] = {k: v for k, v in json.loads(was)["options"].items() if v != now.get(k)}
    return replace(moved, known_as=known_as, respelled=respelled)


def _declared_as(identity: str, known_as: Mapping[str, str]) -> Sequence[str]:
    """How the data that a state knows by an identity was declared last; nothing where that is not known."""
    found = [text for text, kept in known_as.items() if kept == identity]
    if not found:
        return () if identity in known_as else (identity,)
    return found if len(found) == 1 else ()


def _same(state: SourceState, was: str, spec: SourceSpec, continues: Continues) -> bool:
    old, new = json.loads(was), json.loads(spec.identity)
    if old.keys() != new.keys() or any(old[name] != new[name] for name in old if name != "options"):
        return False
    closed = state.drained and spec.watermark is not None
    return continues(state, old["options"], new["options"], closed)


def continuing(
    factory_of: Callable[[str], SourceFactory], context_of: Callable[[str], ConnectorContext]
) -> Continues:
    """`Continues` by the connectors' factories; `context_of` gives what the source with a folder may use."""

    def continues(state: SourceState, was: Options, now: Options, closed: bool) -> bool:
        factory = factory_of(state.connector)
        if not isinstance(factory, Continuing):
            return False
        try:
            return factory.continues(was, now, state.position, context_of(state.folder), closed=closed)
        except DamagedFileError:  # the run itself says it better
            return False

    return continues
