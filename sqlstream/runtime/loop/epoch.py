"""The facts of an epoch, as one value that is handed on from the tasks to the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.runtime.tasks.job import EpochOutcome
from sqlstream.storage.manifest import EpochPlan, Manifest
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN


@dataclass(frozen=True, slots=True)
class Epoch:
    """An epoch that is committed: what it was to read, what its tasks made of that, and the manifest that says so."""

    plan: EpochPlan
    outcome: EpochOutcome
    manifest: Manifest

    @property
    def number(self) -> int:
        """Its number, the first being 1."""
        return self.manifest.epoch

    @property
    def rows_read(self) -> Mapping[str, int]:
        """The rows that were read, by source."""
        return self.manifest.rows

    @property
    def rows_written(self) -> dict[str, int]:
        """The rows, or changes, that it has for each sink."""
        return {name: sum(part.rows for part in parts) for name, parts in self.manifest.sinks.items()}

    @property
    def watermarks(self) -> dict[str, int | str | None]:
        """The close watermark by source, µs (None: nothing was read yet; "end": the input is complete)."""
        return {source.name: shown_watermark(source.applied) for source in self.manifest.sources}

    @property
    def ahead(self) -> dict[str, int]:
        """Rows that are too far ahead of the clock to move the watermark, by source, where there are any."""
        return {name: source.ahead for name, source in self.outcome.sources.items() if source.ahead}


def shown_watermark(value: int) -> int | str | None:
    """A watermark for a report: µs, None before the first row, "end" when the input is complete."""
    if value <= WATERMARK_MIN:
        return None
    return "end" if value >= WATERMARK_MAX else value
