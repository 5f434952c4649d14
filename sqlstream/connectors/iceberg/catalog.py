"""The tables of an Iceberg catalog, as a catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sqlstream.connectors.catalog_reading import away, location_of
from sqlstream.connectors.iceberg.library import catalog_of, failures, in_short, open_table, pyiceberg
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream_planner.catalog.foreign.descriptor import CatalogDef, FoundColumn, FoundTable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_T = TypeVar("_T")
_NOT_OF_TABLES = "default-database"


class IcebergCatalog:
    """Namespaces are databases, with dots between their parts."""

    def __init__(self, catalog: CatalogDef, base_dir: str) -> None:
        self._options = {key: value for key, value in catalog.given.items() if key != _NOT_OF_TABLES}
        self._place = TablePlace.read({**self._options, "catalog-table": "?"}, "", base_dir)
        self._location = location_of(catalog.name, self._place.shown_catalog)

    def databases(self) -> list[str]:
        """All namespaces; see `CatalogReader`."""
        return self._asked(lambda: sorted(".".join(one) for one in _namespaces(self._catalog(), ())))

    def tables(self, database: str) -> list[str]:
        """The tables of a namespace; see `CatalogReader`."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        def listed() -> list[str]:
            try:
                return sorted(one[-1] for one in self._catalog().list_tables(tuple(database.split("."))))
            except NoSuchNamespaceError:
                return []

        return self._asked(listed)

    def describe(self, database: str, table: str) -> FoundTable | None:
        """See `CatalogReader`."""
        there = self._asked(lambda: open_table(replace(self._place, database=database, table=table)))
        return None if there is None else self._described(database, table, there)

    def _described(self, database: str, table: str, there: Table) -> FoundTable:
        from pyiceberg.transforms import IdentityTransform

        from sqlstream.connectors.iceberg.types import sql_type

        schema = there.schema()
        partitions = there.spec().fields
        plain = all(isinstance(field.transform, IdentityTransform) for field in partitions)
        return FoundTable(
            database,
            table,
            "iceberg",
            {**self._options, "catalog-database": database, "catalog-table": table},
            tuple(
                FoundColumn(one.name, sql_type(one.field_type), not one.required, str(one.field_type))
                for one in schema.fields
            ),
            partitioned_by=tuple(schema.find_column_name(field.source_id) or "" for field in partitions)
            if plain
            else (),
        )

    def _catalog(self) -> Catalog:
        found = catalog_of(self._place)
        if found is None:
            raise away(self._location, "there is no such file")
        return found

    def _asked(self, ask: Callable[[], _T]) -> _T:
        """Raises DiagnosticError: ENV006 for a catalog that can't be asked, ENV009 without the library."""
        pyiceberg(self._place)
        try:
            if self._place.sqlite_file is not None:
                self._catalog()
            return ask()
        except failures(self._place) as error:
            raise away(self._location, in_short(error, self._place)) from error


def _namespaces(catalog: Catalog, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        inside = catalog.list_namespaces(above)
    except NoSuchNamespaceError:
        return
    for one in inside:
        name = tuple(one)
        yield name
        if len(name) > len(above):
            yield from _namespaces(catalog, name)
