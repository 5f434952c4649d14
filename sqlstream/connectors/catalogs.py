"""The types of catalogs by the name that CREATE CATALOG … WITH ('type' = '…') gives them: one line each.

A descriptor is plain data, so that a file can be checked at once; it is imported when a file names it, and what reads a
catalog when one is asked.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlstream_planner.catalog.foreign.descriptor import (
    CatalogDef,
    CatalogDescriptor,
    CatalogReader,
    Catalogs,
)
from sqlstream_planner.catalog.lazy import Lazy
from sqlstream_planner.text.name_lists import names_in

#: Makes what reads a catalog; relative paths of its options are relative to the folder.
ReaderFactory = Callable[[CatalogDef, str], CatalogReader]


@dataclass(frozen=True, slots=True)
class CatalogType:
    """A type of catalog: its descriptor or what imports it, and what reads one, as `module:name` or as it is."""

    described: CatalogDescriptor | Lazy[CatalogDescriptor]
    reader: str | ReaderFactory


class CatalogRegistry:
    """Types of catalogs by name."""

    def __init__(self, *types: CatalogType, elsewhere: frozenset[str] = frozenset()) -> None:
        self._by_name = {one.described.name: one for one in types}
        self._elsewhere = elsewhere

    def with_type(self, type_: CatalogType) -> CatalogRegistry:
        """The same with one more, or with another of its name."""
        others = [one for name, one in self._by_name.items() if name != type_.described.name]
        return CatalogRegistry(*others, type_, elsewhere=self._elsewhere)

    def catalogs(self, base_dir: str) -> Catalogs:
        """What the planner is handed; paths of catalogs are relative to the folder of the pipeline's file."""

        def opened(catalog: CatalogDef) -> CatalogReader:
            reader = self._by_name[catalog.descriptor.name].reader
            factory: ReaderFactory = _loaded(reader) if isinstance(reader, str) else reader
            return factory(catalog, base_dir)

        return Catalogs(tuple(one.described for one in self._by_name.values()), opened, self._elsewhere)


def _loaded(place: str) -> Any:
    return pkgutil.resolve_name(f"sqlstream.connectors.{place}")


def _lazy(name: str) -> Lazy[CatalogDescriptor]:
    """The descriptor in the folder that is called as the type is."""
    return Lazy(name, partial(_loaded, f"{name}.catalog_descriptor:DESCRIPTOR"))


CATALOG_TYPES = CatalogRegistry(
    CatalogType(_lazy("postgres"), "postgres.catalog:PostgresCatalog"),
    CatalogType(_lazy("iceberg"), "iceberg.catalog:IcebergCatalog"),
    CatalogType(_lazy("delta"), "delta.catalog:DeltaCatalog"),
    CatalogType(_lazy("duckdb"), "duckdb.catalog:DuckDbCatalog"),
    # Known to users of Flink, and not here.
    elsewhere=frozenset(
        names_in("jdbc hive generic_in_memory paimon hudi delta-catalog glue dynamodb mysql")
    ),
)
