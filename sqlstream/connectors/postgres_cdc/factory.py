"""Both halves of `postgres-cdc`, as the registry wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext, Position
from sqlstream.connectors.postgres_cdc.positions import CdcPosition
from sqlstream_operators.plan.spec import SourceSpec

if TYPE_CHECKING:
    from sqlstream.connectors.postgres_cdc.reader import CdcReader
    from sqlstream.connectors.postgres_cdc.source import CdcSource
    from sqlstream_planner.catalog.options import OptionValue


class CdcFactory:
    """Changes of tables in PostgreSQL as sources."""

    def place_of(self, position: Position) -> str:
        """The place in the log, or in the copy; see `Placing`."""
        at = CdcPosition.from_json(position)
        return "the beginning" if at is None else at.in_words

    def source(self, spec: SourceSpec, context: ConnectorContext) -> CdcSource:
        """The driver's half."""
        from sqlstream.connectors.postgres_cdc.source import CdcSource

        return CdcSource(spec, context)

    def continues(
        self,
        was: Mapping[str, OptionValue],
        now: Mapping[str, OptionValue],
        position: Position,
        context: ConnectorContext,
        *,
        closed: bool,
    ) -> bool:
        """Whether only the address differs: the position has the server's identifier, which each plan compares; see
        `Continuing`.
        """
        kept = [{key: value for key, value in one.items() if key != "url"} for one in (was, now)]
        return CdcPosition.from_json(position) is not None and kept[0] == kept[1]

    def reader(self, spec: SourceSpec, base_dir: str) -> CdcReader:
        """The task's half."""
        from sqlstream.connectors.postgres_cdc.reader import CdcReader

        return CdcReader(spec)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> CdcReader:
        """The task's half for whole rows."""
        from sqlstream.connectors.postgres_cdc.reader import CdcReader

        return CdcReader(spec)
