"""What is read again to compute a state anew: from which sources, how much, and whether it is still there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream.connectors.api import Rereadable, Source
from sqlstream.connectors.capabilities import Measured, close
from sqlstream.storage.manifest import Manifest, SourceState
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.spec import DimensionSpec, EpochInput, PhysicalPlan, SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: An epoch of fewer rows says little about how long more of them take.
_TELLING = 10_000
#: Makes the driver's half of a source, whose own folder in the state directory is given.
SourceOf = Callable[[SourceSpec, str], Source]


@dataclass(frozen=True, slots=True)
class Reading:
    """A source that is read again from its beginning up to where it stands.

    Rows, bytes and about how many seconds that takes are None where they are not known.
    """

    source: str
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"source": self.source, "rows": self.rows, "bytes": self.bytes, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class History:
    """What there is of the sources' history: the readings by source, and what is wrong with those that are not whole.

    `missing` has tables that were looked up, too, as `needs_of` calls them.
    """

    readings: Mapping[str, Reading]
    missing: Mapping[str, Diagnostic]

    def gone(self, sources: Iterable[str]) -> Diagnostic | None:
        """What is wrong with the first of some sources that is not whole; None if all are."""
        return next((self.missing[name] for name in sources if name in self.missing), None)


def speed_of(manifest: Manifest) -> float | None:
    """Rows per second of an epoch, from its plan to its manifest; None for one that is too small to measure."""
    rows, us = sum(manifest.rows.values()), manifest.metrics.get("epoch_us", 0)
    return rows * 1e6 / us if rows >= _TELLING and us else None


def sources_of(plan: PhysicalPlan, state_id: str) -> tuple[str, ...]:
    """The sources whose rows a state of `plan` is made of, by their names."""
    return tuple(source.name for source in cut_down(plan, {state_id}).sources)


def needs_of(plan: PhysicalPlan, states: Collection[str], sinks: Collection[str] = ()) -> tuple[str, ...]:
    """What these states and sinks are made of: sources by their names, tables that rows are looked up in, the clock."""
    cut = cut_down(plan, states, sinks)
    epoch = (EPOCH_RELATION,) if reads_epoch(cut) else ()
    return (*(s.name for s in cut.sources), *(_looked_up(d.name) for d in cut.dimensions), *epoch)


def reads_epoch(plan: PhysicalPlan) -> bool:
    """Whether SQL of a plan reads the epoch's clock or its random numbers."""
    return any(
        isinstance(read, EpochInput) and read.gives_once for stage in plan.stages for read in stage.inputs
    )


def _looked_up(table: str) -> str:
    return f"{table} (looked up)"


def history(
    specs: Iterable[SourceSpec],
    known: Mapping[str, SourceState],
    source_of: SourceOf | None,
    rows_per_second: float | None = None,
    looked_up: Iterable[DimensionSpec] = (),
    *,
    of_epochs: bool = False,
) -> History:
    """What can be read again of these sources, which stand at `known`; one that is not known has not been read.

    What rows of them found in the tables that were `looked_up` is not known any more, nor, `of_epochs`, what their
    epochs' clocks and random numbers were.

    `rows_per_second` is how fast rows were read before, if that is known.
    Without `source_of` nobody looks, and what can't be read again is not found.
    """
    readings: dict[str, Reading] = {}
    missing: dict[str, Diagnostic] = {_looked_up(spec.name): _as_it_was(spec) for spec in looked_up}
    if of_epochs:
        missing[EPOCH_RELATION] = _as_the_clock_was()
    for spec in specs:
        state = known.get(spec.name)
        if state is None:
            readings[spec.name] = Reading(spec.name, 0)
            continue
        size = None
        if source_of is not None:
            try:
                source = source_of(spec, state.folder)
                try:
                    if isinstance(source, Rereadable):
                        size = _bytes_of(source.until(state.position))
                    else:
                        missing[spec.name] = _unrepeatable(spec)
                finally:
                    close(source)
            except DiagnosticError as error:
                missing[spec.name] = error.diagnostics[0]
            except DataError as error:
                missing[spec.name] = _unreadable(spec, error)
        seconds = None
        if state.rows is not None and rows_per_second is not None:
            seconds = round(state.rows / rows_per_second, 1)
        readings[spec.name] = Reading(spec.name, state.rows, size, seconds)
    return History(readings, missing)


def _bytes_of(source: Source) -> int | None:
    """How much there is to read of a source, if it knows; it is let go."""
    try:
        return source.bytes if isinstance(source, Measured) else None
    finally:
        close(source)


def _unrepeatable(spec: SourceSpec) -> Diagnostic:
    return Diagnostic(
        "DAT008",
        f"source `{spec.name}` can't be read again from its beginning: '{spec.connector}' gives a row once",
    )


def _as_it_was(spec: DimensionSpec) -> Diagnostic:
    return Diagnostic(
        "DAT008",
        f"rows that lookups found in the table `{spec.name}` are not known any more",
        notes=("a lookup join keeps nothing, and the table may have other rows today",),
    )


def _as_the_clock_was() -> Diagnostic:
    return Diagnostic(
        "DAT008",
        "the clock times at which rows were read are not known any more",
        notes=("NOW() is the clock of the epoch that reads a row, and RANDOM() is of that epoch, too",),
    )


def _unreadable(spec: SourceSpec, error: DataError) -> Diagnostic:
    return Diagnostic(
        "DAT008",
        f"source `{spec.name}` can't be read again from its beginning",
        notes=(error.message,),
    )
