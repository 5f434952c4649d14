"""The tables of catalogs as the plan that runs has them: the dashboard asks no store, whose passwords it has not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlstream.connectors.catalogs import CATALOG_TYPES
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec, SourceSpec
from sqlstream_planner.catalog.foreign.descriptor import Catalogs, FoundColumn, FoundTable
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.sql.qualified import parts_of

_CREATED = re.compile(r"\bcreate\s+catalog\b", re.IGNORECASE)


def names_catalogs(text: str) -> bool:
    """Whether a text may create a catalog."""
    return _CREATED.search(text) is not None


@dataclass(frozen=True, slots=True)
class PlannedTables:
    """What a plan reads and writes of catalogs: the catalog's name with the table."""

    tables: tuple[tuple[str, FoundTable], ...] = ()

    @classmethod
    def of(cls, plan: PhysicalPlan | None) -> PlannedTables:
        """Those of a plan; none where nothing has run."""
        return cls() if plan is None else cls(tuple(_tables(plan)))

    def catalogs(self) -> Catalogs:
        """What is handed to the planner."""
        types = CATALOG_TYPES.catalogs("").descriptors
        return Catalogs(types, lambda catalog: _Reader(catalog.name, self.tables))


class _Reader:
    def __init__(self, catalog: str, tables: Iterable[tuple[str, FoundTable]]) -> None:
        self._catalog = catalog
        self._tables = [found for name, found in tables if name.lower() == catalog.lower()]

    def databases(self) -> list[str]:
        """See `CatalogReader`."""
        return list(dict.fromkeys(found.database for found in self._tables))

    def tables(self, database: str) -> list[str]:
        """See `CatalogReader`."""
        return [found.name for found in self._tables if found.database == database]

    def describe(self, database: str, table: str) -> FoundTable | None:
        """The table as the plan has it. Raises DiagnosticError (ENV024) for one that it has not."""
        wanted = (database.lower(), table.lower())
        for found in self._tables:
            if (found.database.lower(), found.name.lower()) == wanted:
                return found
        raise DiagnosticError(
            Diagnostic(
                "ENV024",
                f"the dashboard asks no catalog, and the plan that runs has no `{table}` of `{self._catalog}`",
                help="run `sqlstream plan` with the edited file",
            )
        )


def _tables(plan: PhysicalPlan) -> Iterator[tuple[str, FoundTable]]:
    specs: list[SourceSpec | SinkSpec] = [*plan.sources, *plan.sinks]
    specs += [one.source for one in plan.dimensions]
    for spec in specs:
        parts = parts_of(spec.name)
        if len(parts) == 3:
            yield parts[0], _found(spec, parts)


def _found(spec: SourceSpec | SinkSpec, parts: tuple[str, ...]) -> FoundTable:
    columns = spec.physical if isinstance(spec, SourceSpec) else spec.schema
    return FoundTable(
        parts[1],
        parts[2],
        spec.connector,
        dict(spec.options),
        tuple(FoundColumn(column.name, column.type, column.nullable) for column in columns),
        spec.primary_key,
        spec.partitioned_by,
    )
