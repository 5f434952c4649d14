"""Catalogs in memory, which note what they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlstream_operators.plan.types import SqlType, parse_type
from sqlstream_planner.catalog.foreign.descriptor import (
    CatalogDef,
    CatalogDescriptor,
    CatalogReader,
    Catalogs,
    FoundColumn,
    FoundTable,
)
from sqlstream_planner.catalog.options import OptionDef, ValueKind
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

FAKE = CatalogDescriptor(
    "fake",
    "tables in memory",
    (
        OptionDef("url", ValueKind.STRING, "where it is", default="here"),
        OptionDef("mode", ValueKind.ENUM, "one of two", choices=("a", "b")),
        OptionDef("password", ValueKind.STRING, "the password", secret=True),
    ),
    default_database=lambda settings: "public",
    databases="schemas",
)
#: Columns by databases and tables; a type of "" is one that can't be read, a `!` behind it is NOT NULL, a `#` the key.
Tables = Mapping[str, Mapping[str, Mapping[str, str]]]
TABLES: Tables = {
    "public": {
        "orders": {"id": "BIGINT#", "amount": "DECIMAL(10,2)!", "at": "TIMESTAMP", "place": ""},
        "Rates": {"id": "BIGINT", "rate": "INTEGER"},
        "a.b": {"x": "INTEGER"},
        "Twice": {"x": "INTEGER"},
        "twice": {"x": "INTEGER"},
        "blind": {"place": ""},
        "cases": {"Id": "INTEGER", "id": "INTEGER", "y": "INTEGER", "__kind": "INTEGER"},
    },
    "ledger": {"orders": {"id": "BIGINT"}, "lines": {"id": "BIGINT"}},
}


@dataclass(slots=True)
class Fakes:
    """Each catalog has the same tables; `asked` are its questions, `away` are catalogs that can't be asked."""

    tables: Tables = field(default_factory=lambda: TABLES)
    away: frozenset[str] = frozenset()
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def catalogs(self) -> Catalogs:
        """What the planner is handed."""
        return Catalogs((FAKE,), self._open, frozenset({"jdbc"}))

    def _open(self, catalog: CatalogDef) -> CatalogReader:
        return _Reader(self, catalog)


class _Reader:
    def __init__(self, fakes: Fakes, catalog: CatalogDef) -> None:
        self._fakes, self._catalog = fakes, catalog

    def databases(self) -> list[str]:
        self._note("databases")
        return list(self._fakes.tables)

    def tables(self, database: str) -> list[str]:
        self._note("tables", database)
        return list(self._fakes.tables.get(database, ()))

    def describe(self, database: str, table: str) -> FoundTable | None:
        self._note("describe", database, table)
        found = self._fakes.tables.get(database, {}).get(table)
        if found is None:
            return None
        return FoundTable(
            database,
            table,
            "rows",
            {"count": "3"},
            tuple(
                FoundColumn(name, _type(text), not text.endswith(("!", "#")), "point")
                for name, text in found.items()
            ),
            tuple(name for name, text in found.items() if text.endswith("#")),
        )

    def _note(self, *question: str) -> None:
        self._fakes.asked.append((self._catalog.name, *question))
        if self._catalog.name in self._fakes.away:
            password = self._catalog.given.get("password", "")
            raise DiagnosticError(Diagnostic("ENV006", f"{self._catalog.name} is away, said {password}"))


def _type(text: str) -> SqlType | None:
    return parse_type(text.rstrip("!#")) if text else None
