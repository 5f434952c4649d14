"""Both halves of `postgres-cdc`, as the registry wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext, Position
from sqlstream.connectors.database.declared import table_in
from sqlstream.connectors.database.postgres_connection import parameters
from sqlstream.connectors.postgres_cdc.options import CdcOptions
from sqlstream.connectors.postgres_cdc.positions import CdcPosition
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec

if TYPE_CHECKING:
    from sqlstream.connectors.postgres_cdc.reader import CdcReader
    from sqlstream.connectors.postgres_cdc.source import CdcSource
    from sqlstream_planner.catalog.options import OptionValue

#: The schema that PostgreSQL means without one, unless its search path says otherwise.
_PUBLIC = "public"


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

    def feeds_on(self, source: SourceSpec, sink: SinkSpec, base_dir: str) -> str | None:
        """Whether a sink writes the same table of the same server; see `Feeding`."""
        if sink.connector != "postgres":
            return None
        options = CdcOptions.read(source.options, source.name)
        schema, table = table_in(sink.options, sink.name)
        read = (*_database(source), options.schema or _PUBLIC, options.table)
        if (*_database(sink), schema or _PUBLIC, table) != read:
            return None
        return f"sink `{sink.name}` writes the same table, and each row that it writes is a change of it"

    def reader(self, spec: SourceSpec, base_dir: str) -> CdcReader:
        """The task's half."""
        from sqlstream.connectors.postgres_cdc.reader import CdcReader

        return CdcReader(spec)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> CdcReader:
        """The task's half for whole rows."""
        from sqlstream.connectors.postgres_cdc.reader import CdcReader

        return CdcReader(spec)


def _database(spec: SourceSpec | SinkSpec) -> tuple[str, str, str]:
    """The server's address as it is written, and the database."""
    given = parameters(spec.options)
    return given.get("host", ""), given.get("port", "5432"), given.get("dbname", given.get("user", ""))
