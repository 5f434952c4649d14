"""An Iceberg table that is kept up to date by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream_operators.plan.spec import SinkSpec
from tests.connectors.lakehouse.keyed import columns_of


def spec_of(
    schema: Mapping[str, str],
    key: Sequence[str] = ("k",),
    *,
    partitions: Sequence[str] = (),
    changelog: str = "retract",
    name: str = "o",
) -> SinkSpec:
    options = {
        "catalog-type": "sql",
        "uri": "sqlite:///lake/catalog.db",
        "warehouse": "lake",
        "catalog-database": "db",
        "catalog-table": "table",
    }
    return SinkSpec(name, "iceberg", options, columns_of(schema), tuple(key), tuple(partitions), changelog)
