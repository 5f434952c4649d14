"""Acknowledging to sources up to where published epochs have read them: for others to see, the manifest is the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlstream.connectors.api import Source
from sqlstream.connectors.capabilities import Acknowledging, close
from sqlstream.runtime.loop.program import Program
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage.manifest import Manifest
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


class Acknowledgements:
    """Acknowledges offsets to the sources of a program; one that reads its history again has done all of it before."""

    def __init__(self, program: Program, tell: Callable[[Diagnostic], None]) -> None:
        self._specs = program.plan.sources
        self._sources: Mapping[str, Source] = program.sources
        self._of_history = program.of_history
        self._tell = tell
        self._given: dict[str, Mapping[str, Any]] = {}
        self._failed: set[str] = set()

    def give(self, published: Manifest) -> None:
        """Acknowledge each source's position in a manifest, once. What fails is a warning, one per source."""
        if self._of_history:
            return
        for name, state in go_on(published.positions, self._specs).items():
            source = self._sources[name]
            if not isinstance(source, Acknowledging) or self._given.get(name) == state.position:
                continue
            try:
                source.committed(state.position)
                self._given[name] = state.position
            except Exception as error:
                if name not in self._failed:
                    self._failed.add(name)
                    self._tell(_not_acknowledged(name, published.epoch, error))

    def close(self) -> None:
        """Let the sources go."""
        for source in self._sources.values():
            close(source)


def _not_acknowledged(source: str, epoch: int, error: Exception) -> Diagnostic:
    why = error.diagnostics[0].message if isinstance(error, DiagnosticError) else str(error)
    return Diagnostic(
        "DAT014",
        f"the source of `{source}` does not take the offsets that were read",
        notes=(
            f"after epoch {epoch}: {why or type(error).__name__}",
            "results are not affected: a run goes on from the state directory, and tries again after each epoch",
        ),
        severity="warning",
    )
