"""Reading Iceberg tables as a pipeline does: the driver plans, tasks read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.iceberg.source.source import IcebergSource
from sqlstream_operators.plan.spec import SourceSpec
from tests.connectors.harness import source_spec
from tests.connectors.lakehouse.reading import LakeReading

SCHEMA = {"k": "BIGINT", "v": "VARCHAR"}


def table_spec(
    options: Mapping[str, str] | None = None,
    schema: Mapping[str, str] | None = None,
    metadata: Sequence[tuple[str, str, str]] = (),
) -> SourceSpec:
    """The table `db.table`, which is read; without a schema it has `k` and `v`."""
    given = {
        "catalog-type": "sql",
        "uri": "sqlite:///lake/catalog.db",
        "warehouse": "lake",
        "catalog-database": "db",
        "catalog-table": "table",
        **(options or {}),
    }
    return source_spec(dict(schema or SCHEMA), given, connector="iceberg", metadata=metadata)


class Reading(LakeReading):
    """An Iceberg table that is read epoch by epoch."""

    def made(self, context: ConnectorContext) -> IcebergSource:
        return IcebergSource(self.spec, context, clock=lambda: self.now)

    @property
    def kinds(self) -> bool:
        return self.spec.options.get("read-change-feed") == "true"
