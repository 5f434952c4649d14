"""Both halves of the `delta` source, as the registry wants them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext, Position
from sqlstream.connectors.delta.source.options import AS_OF
from sqlstream.connectors.delta.source.positions import DeltaPosition
from sqlstream.connectors.filesystem.paths import is_local, resolve, split_location, without_credentials
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec

if TYPE_CHECKING:
    from sqlstream.connectors.delta.source.reader import DeltaReader
    from sqlstream.connectors.delta.source.source import DeltaSource
    from sqlstream_planner.catalog.options import OptionValue


class DeltaSourceFactory:
    """Delta tables as sources."""

    def place_of(self, position: Position) -> str:
        """The version, and the place in it; see `Placing`."""
        return DeltaPosition.from_json(position).in_words

    def source(self, spec: SourceSpec, context: ConnectorContext) -> DeltaSource:
        """The driver's half. Raises DiagnosticError (ENV009) without Delta's library."""
        from sqlstream.connectors.delta.library import deltalake
        from sqlstream.connectors.delta.source.source import DeltaSource

        deltalake()
        return DeltaSource(spec, context)

    def continues(
        self,
        was: Mapping[str, OptionValue],
        now: Mapping[str, OptionValue],
        position: Position,
        context: ConnectorContext,
        *,
        closed: bool,
    ) -> bool:
        """Whether other options mean the same rows so far; see `Continuing`.

        The start is written in the position. Versions that change rows may be passed over from now on, or no more as long as
        none was. Of a table that was read as it was once, later versions may be read while nothing was closed for good.
        """
        at = DeltaPosition.from_json(position)
        free = {"table-path"}
        if not at.skipped:
            free.add("skipChangeCommits")
        if not closed and at.last is not None:
            free |= {name for name in AS_OF if name not in now}
        places = {
            without_credentials(resolve(str(one.get("table-path", "")), context.base_dir))[0]
            for one in (was, now)
        }
        kept = [{key: value for key, value in one.items() if key not in free} for one in (was, now)]
        return len(places) == 1 and kept[0] == kept[1]

    def feeds_on(self, source: SourceSpec, sink: SinkSpec, base_dir: str) -> str | None:
        """Whether a sink writes the same table; see `Feeding`."""
        same = sink.connector == "delta" and _folder(sink, base_dir) == _folder(source, base_dir)
        return f"sink `{sink.name}` writes the same table" if same else None

    def reader(self, spec: SourceSpec, base_dir: str) -> DeltaReader:
        """The task's half."""
        from sqlstream.connectors.delta.source.reader import DeltaReader

        return DeltaReader(spec, base_dir)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> DeltaReader:
        """The task's half for whole rows; the columns that `spec` does not read are taken as they are, as text."""
        from sqlstream.connectors.delta.source.reader import DeltaReader
        from sqlstream.connectors.filesystem.columns import unread_as_text

        return DeltaReader(unread_as_text(spec), base_dir)


def _folder(spec: SourceSpec | SinkSpec, base_dir: str) -> str:
    """The folder of a table, whatever it is called."""
    place = split_location(resolve(spec.options.get("table-path", ""), base_dir))[0]
    return os.path.realpath(place) if is_local(place) else place
