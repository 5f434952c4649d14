"""Where sinks are, and which sink of an edited file goes on with what a former one has: by its place, not by its name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlstream.connectors.api import EditableSink, Sink, TargetEdit
from sqlstream.connectors.capabilities import close
from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.errors import TargetError
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.identity.sink import SinkIdentity

_CREDENTIALS = re.compile(r"(?<=//)[^/@]*@")
#: Makes the driver's half of a sink that its target knows by this name.
SinkOf = Callable[[SinkSpec, str], Sink]
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Looks:
    """What is seen at the place of a sink that its target knows by a name; without looking, a new place is empty.

    `epoch`: the last epoch of this state directory that it says it has. `is_vacant`: it is empty, or not there. `refusal`:
    why it could not go on from one of these epochs (0: it begins), with what is done to it first, if anything. `base_dir` is
    what relative paths refer to; without it, only paths in the same words are one.
    """

    epoch: Callable[[SinkSpec, str], int | None] = lambda spec, known_as: None
    is_vacant: Callable[[SinkSpec, str], bool] = lambda spec, known_as: True
    refusal: Callable[[SinkSpec, str, Collection[int], TargetEdit | None], Diagnostic | None] = (
        lambda spec, known_as, epochs, edit: None
    )
    base_dir: str | None = None


def looking(
    sink_of: SinkOf, away: Callable[[Diagnostic], None] | None = None, *, base_dir: str | None = None
) -> Looks:
    """Looks at the targets themselves; `base_dir` is what relative paths refer to.

    A target that can't be reached: `away` takes the diagnostic, and it is as if nobody had looked; without that,
    DiagnosticError (ENV006) is raised.
    """

    def seen(spec: SinkSpec, known_as: str, ask: Callable[[EditableSink], Seen], otherwise: Seen) -> Seen:
        sink = sink_of(spec, known_as)
        try:
            return ask(sink) if isinstance(sink, EditableSink) else otherwise
        except DiagnosticError as error:
            if away is None or any(d.code != "ENV006" for d in error.diagnostics):
                raise
            for diagnostic in error.diagnostics:
                away(diagnostic)
            return otherwise
        finally:
            close(sink)

    def refusal(
        spec: SinkSpec, known_as: str, epochs: Collection[int], edit: TargetEdit | None
    ) -> Diagnostic | None:
        def look(sink: EditableSink) -> Diagnostic | None:
            if edit is not None:
                sink.begin_with(edit)
            try:
                sink.look(epochs)
            except TargetError as error:
                return target_refused(error)
            return None

        return seen(spec, known_as, look, None)

    return Looks(
        lambda spec, known_as: seen(spec, known_as, lambda sink: sink.epoch_there(), None),
        lambda spec, known_as: seen(spec, known_as, lambda sink: sink.is_vacant(), True),
        refusal,
        base_dir,
    )


def target_refused(error: TargetError) -> Diagnostic:
    """What is reported of a target that is not as its state directory left it, or is another's."""
    return Diagnostic("STA030", error.message, notes=error.notes, help=error.help)


def descriptor_of(spec: SinkSpec) -> ConnectorDescriptor | None:
    """The descriptor of a sink's connector; None for one that is not registered."""
    return next((c.descriptor for c in REGISTERED if c.name == spec.connector), None)


def place_of(spec: SinkSpec, base_dir: str | None = None) -> tuple[str, ...] | None:
    """The connector and where a sink is in its words, without credentials; None if its connector does not know.

    `base_dir` is what relative paths refer to.

    >>> place_of(SinkSpec("o", "duckdb", {"path": "./x.db"}, ()))
    ('duckdb', 'x.db', 'o')
    >>> place_of(SinkSpec("o", "duckdb", {"path": "x.db"}, ()), "/none/such")
    ('duckdb', '/none/such/x.db', 'o')
    >>> place_of(SinkSpec("o", "print", {}, ()))
    ('print',)
    """
    descriptor = descriptor_of(spec)
    if descriptor is None:
        return None
    found = [spec.connector]
    for option in descriptor.sink.place:
        text = spec.options.get(option, "")
        if option == descriptor.sink.named_by:
            name = text.strip() or spec.name
            found.append(name.lower() if descriptor.lookup.any_case else name)
        elif "://" in text and not text.startswith("file://"):
            found.append(_CREDENTIALS.sub("", text).removeprefix("jdbc:").rstrip("/"))
        else:
            found.append(_local(text.removeprefix("file://"), base_dir))
    return tuple(found)


def _local(path: str, base_dir: str | None) -> str:
    """A path on this machine: the same text for the same place, links included, where `base_dir` is what it refers to."""
    return posixpath.normpath(path) if base_dir is None else str(Path(base_dir, path).resolve())


def same_place(one: SinkSpec, other: SinkSpec, base_dir: str | None) -> bool:
    """Whether two sinks are at one place, as far as their options show; `base_dir` is what relative paths refer to."""
    place = place_of(one, base_dir)
    return place == place_of(other, base_dir) if place is not None else one.connector == other.connector


def in_its_place(new: SinkIdentity, old: SinkIdentity, spec: SinkSpec) -> SinkIdentity:
    """The identity of `spec`, which is where the sink with the identity `old` was: with the place in the words of that."""
    descriptor = descriptor_of(spec)
    was, now = (dict(identity.destination.get("options", {})) for identity in (old, new))
    if descriptor is None or not was:
        return new
    spelled = {name: was[name] for name in descriptor.sink.place if name in was and name in now}
    return replace(new, destination={**new.destination, "options": {**now, **spelled}})


def former_sinks(
    before: PhysicalPlan,
    now: PhysicalPlan,
    names: Mapping[str, str],
    looks: Looks,
    epochs: Collection[int] = (),
) -> dict[str, SinkSpec]:
    """The former sinks that those of `now` go on from, by their names now; one that is missing begins anew.

    A sink is known by its place. What a database was moved to with all that it has is the same place. `names` are those by
    which targets know the tables of `before`, where they are others; `epochs` those that a table may be at which was moved.
    """
    left = {spec.name: spec for spec in before.sinks}
    found: dict[str, SinkSpec] = {}
    for spec in now.sinks:
        if spec.name in left and same_place(spec, left[spec.name], looks.base_dir):
            found[spec.name] = left.pop(spec.name)
    for spec in now.sinks:
        if spec.name in found:
            continue
        alike = [other for other in left.values() if same_place(spec, other, looks.base_dir)]
        others = [
            s for s in now.sinks if s.name not in found and alike and same_place(s, alike[0], looks.base_dir)
        ]
        if len(alike) == len(others) == 1:
            found[spec.name] = left.pop(alike[0].name)
    for spec in now.sinks:
        former = left.get(spec.name)
        if spec.name in found or former is None or former.connector != spec.connector:
            continue
        descriptor = descriptor_of(spec)
        records_epochs = descriptor is not None and descriptor.sink.records_epochs
        if descriptor is None or (
            records_epochs and looks.epoch(spec, names.get(spec.name, spec.name)) in epochs
        ):
            found[spec.name] = left.pop(spec.name)
    return found


def target_names(
    now: Iterable[SinkSpec], former: Mapping[str, SinkSpec], names: Mapping[str, str]
) -> dict[str, str]:
    """The names by which targets know the tables of `now`: what each was called when it was first written.

    >>> a, b = SinkSpec("a", "print", {}, ()), SinkSpec("b", "print", {}, ())
    >>> target_names([b, a], {"b": a}, {})
    {'b': 'a', 'a': 'a.2'}
    """
    found = {name: names.get(spec.name, spec.name) for name, spec in former.items()}
    for spec in now:
        known_as, number = spec.name, 1
        while spec.name not in found and known_as in found.values():
            number += 1
            known_as = f"{spec.name}.{number}"
        found.setdefault(spec.name, known_as)
    return found
