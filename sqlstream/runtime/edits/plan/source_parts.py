"""What becomes of each source when a pipeline goes on with another file: it reads on, begins, is left out, or is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlstream.runtime.edits.plan.plan_parts import SourceChange, SourcePart
from sqlstream.runtime.loop import watermarks
from sqlstream.runtime.loop.progress import instant
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.spec import PhysicalPlan, SourceSpec, WatermarkSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.catalog.descriptor import ONE_ROW
from sqlstream_planner.diagnostics import Diagnostic

_OTHER_NAME = (
    "give other data another table name: it is read from its beginning then; or run the file that wrote this state, or "
    "give another --state-dir to start over"
)
_WAY_OUT = "run the file that wrote this state, or give another --state-dir to start over"


def source_parts(
    read: Sequence[SourceState],
    detached: Sequence[SourceState],
    now: PhysicalPlan,
    known: Mapping[str, SourceState],
) -> Iterable[SourcePart]:
    """What is read of each source: those of `now`, which go on at `known`, then those that are `read` no longer.

    `detached` are sources that an older plan read.
    """
    names = {(state.identity, state.folder): state.name for state in reversed((*read, *detached))}
    used = {(state.identity, state.folder) for state in known.values()}
    left = {s.name: s for s in read if (s.identity, s.folder) not in used}
    before = {s.name for s in detached if (s.identity, s.folder) not in used}
    for spec in now.sources:
        state = known.get(spec.name)
        if state is None:
            change = SourceChange.OTHER if spec.name in {*left, *before} else SourceChange.NEW
            yield SourcePart(spec.name, spec.connector, change)
            continue
        was = names[state.identity, state.folder]
        yield SourcePart(
            spec.name,
            spec.connector,
            SourceChange.READS_ON,
            "" if was == spec.name else was,
            state.position,
            state.rows,
        )
    unknown = {spec.name for spec in now.sources if spec.name not in known}
    for name, state in left.items():
        if name not in unknown:
            yield SourcePart(name, state.connector, SourceChange.GONE, "", state.position, state.rows)


def watermark_notes(
    before: PhysicalPlan,
    positions: Sequence[SourceState],
    now: PhysicalPlan,
    known: Mapping[str, SourceState],
) -> Iterable[str]:
    """Notes about sources that go on with a watermark that is computed in another way."""
    names = {(state.identity, state.folder): state.name for state in reversed(positions)}
    was = {spec.name: spec for spec in before.sources}
    for spec in now.sources:
        state = known.get(spec.name)
        old = None if state is None else was.get(names.get((state.identity, state.folder), ""))
        if old is None or old.watermark is None or spec.watermark is None:
            continue
        if _computed(old.watermark) != _computed(spec.watermark):
            yield (
                f"the watermark of {spec.name} is computed in another way: it never goes back, emitted windows stay"
            )


def drained_remarks(now: PhysicalPlan, known: Mapping[str, SourceState]) -> Iterable[str]:
    """Notes about sources that were drained, whatever was edited: their new rows may be late."""
    timed = frozenset[str]().union(*watermarks.source_groups(now))
    for name, state in known.items():
        if name in timed and state.drained:
            yield f"{name} was drained: its new rows are late for windows up to {instant(state.resume)}"


def _computed(watermark: WatermarkSpec) -> str:
    """How a watermark is computed, whatever its column is called."""
    # Former versions wrote a field as "a"."b".
    expression = re.sub(r'\(("(?:[^"]|"")+")\)\.', r"\1.", watermark.expression)
    return expression.replace(quote_identifier(watermark.rises_with or watermark.column), "$")


def source_problems(
    read: Sequence[SourceState], plan: Callable[[], PhysicalPlan], program: PhysicalPlan
) -> Iterable[Diagnostic]:
    """What is wrong with `program` going on from the positions of the sources that `plan` has `read` (STA011).

    Sources may go, and their positions are kept. New ones may come, but not into windows with others.
    """
    known = go_on(read, program.sources)
    yield from _unidentified(plan, [s for s in program.sources if s.name in known and not s.identity])
    used = {(state.identity, state.folder) for state in known.values()}
    before = {state.name: state for state in reversed(read) if (state.identity, state.folder) not in used}
    new = {spec.name: spec for spec in program.sources if spec.name not in known}
    # That both write rows out does not make one pipeline of two.
    shared = [state for state in known.values() if state.connector != ONE_ROW]
    if before and not shared and not before.keys() & new.keys():
        yield from _another_pipeline(plan(), program)
    for name in before.keys() & new.keys():
        state = before[name]
        if new[name].connector != state.connector:
            yield Diagnostic(
                "STA011",
                f"the table `{name}` was read by the connector '{state.connector}' and is now '{new[name].connector}'",
                notes=(f"a source offset of '{state.connector}' means nothing to '{new[name].connector}'",),
                help=_OTHER_NAME,
            )
        else:
            yield Diagnostic(
                "STA011",
                f"the table `{name}` has other data than before",
                notes=(
                    *_identity_changes(state.identity, new[name].identity),
                    "a source offset in the one means nothing in the other",
                ),
                help=f"if it is the same data at another location, add --source-moved {name}; if not, {_OTHER_NAME}",
            )
    for group in watermarks.source_groups(program):
        for name in sorted(group & new.keys()):
            others = sorted(group & known.keys())
            if others:
                yield Diagnostic(
                    "STA011",
                    f"the query reads a new table, `{name}`, into the windows of `{others[0]}`",
                    notes=(
                        f"windows closed by `{others[0]}` were emitted already, and would be emitted again with its rows",
                    ),
                    help=_WAY_OUT,
                )


def _another_pipeline(before: PhysicalPlan, now: PhysicalPlan) -> Iterable[Diagnostic]:
    """A file that reads nothing and writes nothing of what was read and written: it was given another one's state."""
    if {sink.name for sink in before.sinks} & {sink.name for sink in now.sinks}:
        return
    read, written = ([one.name for one in ones] for ones in (before.sources, before.sinks))
    yield Diagnostic(
        "STA011",
        "the state is of another pipeline: none of its tables is in the file",
        notes=(f"it reads {', '.join(sorted(read))} and writes {', '.join(sorted(written))}",),
        help="give the --state-dir of this file, or a new one",
    )


def _unidentified(plan: Callable[[], PhysicalPlan], specs: Sequence[SourceSpec]) -> Iterable[Diagnostic]:
    """Sources without an identity of their data: they go on with the options that they had."""
    before = {spec.name: spec for spec in plan().sources} if specs else {}
    for spec in specs:
        old = before.get(spec.name)
        if old is not None and old.options != spec.options:
            yield Diagnostic(
                "STA011",
                f"the table `{spec.name}` may have other data than before",
                notes=(
                    *_changes(old.options, spec.options),
                    "which of its options decide that is not known, so they must stay",
                ),
                help=_WAY_OUT,
            )


def _identity_changes(before: str, now: str) -> Iterable[str]:
    """What differs between two identities of sources, in words."""
    old, new = (json.loads(text) if text else {} for text in (before, now))
    yield from _changes({**old.pop("options", {}), **old}, {**new.pop("options", {}), **new})


def _changes(old: Mapping[str, object], new: Mapping[str, object]) -> Iterable[str]:
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield f"{key} was {_shown(old.get(key))} and is {_shown(new.get(key))}"


def _shown(value: object) -> str:
    return "not set" if value is None else f"'{value}'"
