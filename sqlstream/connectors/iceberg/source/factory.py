"""Both halves of the `iceberg` source, as the registry wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext, Position
from sqlstream.connectors.iceberg.library import pyiceberg
from sqlstream.connectors.iceberg.options import GLUE, PLACE, TablePlace
from sqlstream.connectors.iceberg.same_table import same_table
from sqlstream.connectors.iceberg.source.options import AS_OF, SKIP_DELETES, SKIP_OVERWRITES
from sqlstream.connectors.iceberg.source.positions import IcebergPosition
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec

if TYPE_CHECKING:
    from sqlstream.connectors.iceberg.source.reader import IcebergReader
    from sqlstream.connectors.iceberg.source.source import IcebergSource
    from sqlstream_planner.catalog.options import OptionValue


class IcebergSourceFactory:
    """Iceberg tables as sources."""

    def place_of(self, position: Position) -> str:
        """The snapshot, and the place in it; see `Placing`."""
        return IcebergPosition.from_json(position).in_words

    def source(self, spec: SourceSpec, context: ConnectorContext) -> IcebergSource:
        """The driver's half. Raises DiagnosticError (ENV009) without Iceberg's library."""
        pyiceberg(TablePlace.of(spec, context.base_dir))
        from sqlstream.connectors.iceberg.source.source import IcebergSource

        return IcebergSource(spec, context)

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

        The start is written in the position. Snapshots that change rows may be left out from now on, or no more as long as
        none was. Of a table that was read as it was once, later snapshots may be read while nothing was closed for good.
        """
        at = IcebergPosition.from_json(position)
        free = set(PLACE)
        if not at.skipped:
            free |= {SKIP_OVERWRITES, SKIP_DELETES}
        if not closed and any(name in was for name in AS_OF):
            free |= {name for name in AS_OF if name not in now}
        places = {_identity(one, context.base_dir) for one in (was, now)}
        kept = [{key: value for key, value in one.items() if key not in free} for one in (was, now)]
        return len(places) == 1 and kept[0] == kept[1]

    def feeds_on(self, source: SourceSpec, sink: SinkSpec, base_dir: str) -> str | None:
        """Whether a sink writes the same table, by whatever catalog; see `Feeding`."""
        if sink.connector != "iceberg":
            return None
        found = same_table(TablePlace.of(source, base_dir), TablePlace.of(sink, base_dir))
        return f"sink `{sink.name}` writes the same table{found}" if found is not None else None

    def reader(self, spec: SourceSpec, base_dir: str) -> IcebergReader:
        """The task's half."""
        from sqlstream.connectors.iceberg.source.reader import IcebergReader

        return IcebergReader(spec, base_dir)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> IcebergReader:
        """The task's half for whole rows; the columns that `spec` does not read are taken as they are, as text."""
        from sqlstream.connectors.filesystem.columns import unread_as_text
        from sqlstream.connectors.iceberg.source.reader import IcebergReader

        return IcebergReader(unread_as_text(spec), base_dir)


def _identity(options: Mapping[str, OptionValue], base_dir: str) -> tuple[str, ...]:
    """Which table options mean, however it is said."""
    texts = {key: str(value) for key, value in options.items()}
    place = TablePlace.read(texts, "", base_dir)
    found = (place.type, place.uri, place.catalog, place.warehouse, place.database, place.table)
    return found if place.type != GLUE else (*found, place.region, place.account, place.endpoint)
