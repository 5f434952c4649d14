"""Looking for tables in catalogs: each is asked for once, and a store that is away is reported once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlstream_planner.catalog.foreign.descriptor import CatalogDef, CatalogReader, Catalogs, FoundTable
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, did_you_mean

_T = TypeVar("_T")
_MOST_NAMED = 20


class NotThereError(Exception):
    """There is no such table in `database`, or (None) no such database.

    `note` says what there is, `near` is the name that may be meant.
    """

    def __init__(self, note: str, near: str | None, database: str | None = None) -> None:
        super().__init__(note)
        self.note = note
        self.near = near
        self.database = database


class AmbiguousError(Exception):
    """Several names differ from the one that is written only by case."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = tuple(names)


@dataclass(slots=True)
class Lookup:
    """What was found so far in the catalogs of a file, by their names in lower case."""

    catalogs: Catalogs
    secrets: Secrets
    _readers: dict[str, CatalogReader] = field(default_factory=dict)
    _found: dict[tuple[str, str, str], FoundTable] = field(default_factory=dict)
    _away: set[str] = field(default_factory=set)

    def table(self, catalog: CatalogDef, database: str, name: str, at: Span) -> FoundTable:
        """A table, whose names are written as in the store or in another case.

        Raises NotThereError, AmbiguousError, and DiagnosticError at `at`: without a diagnostic if it was raised before.
        """
        key = (catalog.name.lower(), database, name)
        if key not in self._found:
            self._found[key] = self._asked(catalog, lambda reader: _table(reader, database, name), at)
        return self._found[key]

    def database(self, catalog: CatalogDef, name: str, at: Span) -> str:
        """A database as it is spelled in the store. Raises what `table` raises."""
        return self._asked(catalog, lambda reader: _database(reader, name), at)

    def _asked(self, catalog: CatalogDef, ask: Callable[[CatalogReader], _T], at: Span) -> _T:
        key = catalog.name.lower()
        if key in self._away:
            raise DiagnosticError
        try:
            if key not in self._readers:
                self._readers[key] = self.catalogs.open(catalog)
            return ask(self._readers[key])
        except DiagnosticError as error:
            if all(d.code.startswith("ENV") for d in error.diagnostics):
                self._away.add(key)
            shown = self.secrets.hidden_in(error)
            raise DiagnosticError(
                *(d if d.span is not None else replace(d, span=at) for d in shown.diagnostics),
                exit_code=shown.exit_code,
            ) from None


def _table(reader: CatalogReader, database: str, name: str) -> FoundTable:
    found = reader.describe(database, name)
    if found is not None:
        return found
    there = _database(reader, database)
    tables = reader.tables(there)
    spelled = _spelled(name, tables)
    if spelled is not None and (there, spelled) != (database, name):
        found = reader.describe(there, spelled)
    if found is None:
        note = f"`{there}` has {_listed(tables)}" if tables else f"`{there}` has no tables that can be seen"
        raise NotThereError(note, did_you_mean(name, tables), there)
    return found


def _database(reader: CatalogReader, name: str) -> str:
    databases = reader.databases()
    spelled = _spelled(name, databases)
    if spelled is None:
        note = f"there is no database `{name}`: there is {_listed(databases)}"
        raise NotThereError(
            note if databases else f"there is no database `{name}`", did_you_mean(name, databases)
        )
    return spelled


def _spelled(name: str, known: Sequence[str]) -> str | None:
    """The name of these that is written in the same way, or else the only one that is in another case."""
    if name in known:
        return name
    same = [one for one in known if one.lower() == name.lower()]
    if len(same) > 1:
        raise AmbiguousError(same)
    return same[0] if same else None


def same_name(name: str, known: Sequence[str]) -> str:
    """The name as it is spelled there. Raises NotThereError, AmbiguousError."""
    found = _spelled(name, known)
    if found is None:
        raise NotThereError(f"there is {_listed(known)}", did_you_mean(name, known))
    return found


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_MOST_NAMED])
    return f"{shown} …" if len(names) > _MOST_NAMED else shown


def ambiguous(written: str, names: Sequence[str], at: Span) -> Diagnostic:
    """CAT015 for a name that is there in several cases."""
    return Diagnostic(
        "CAT015",
        f"`{written}` could be any of {', '.join(f'`{name}`' for name in names)}",
        at,
        help="write it in the case of the one that is meant",
    )
