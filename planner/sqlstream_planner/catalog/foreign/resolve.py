"""Names of a file's statements -> the tables that they mean: the file's own, or those of the catalogs that it creates.

Behind this a table of a catalog is one that was declared by CREATE TABLE under its full name, `catalog.database.table`;
nothing else of the planner knows of catalogs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sqlglot import exp

from sqlstream_planner.catalog.foreign.declared import DeclaredCatalogs, declared_catalogs
from sqlstream_planner.catalog.foreign.descriptor import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogDef,
    Catalogs,
    LeftOut,
)
from sqlstream_planner.catalog.foreign.lookup import AmbiguousError, Lookup, NotThereError, ambiguous
from sqlstream_planner.catalog.foreign.queries import named_tables, with_names
from sqlstream_planner.catalog.foreign.tables import as_create_table
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, did_you_mean
from sqlstream_planner.sql.parse import Script, span_of
from sqlstream_planner.sql.qualified import dotted, parts_of, table_parts
from sqlstream_planner.sql.statements import (
    CreateTable,
    CreateView,
    InsertInto,
    Like,
    Select,
    Statement,
    StatementSet,
    UseCatalog,
    UseDatabase,
)


@dataclass(frozen=True, slots=True)
class ForeignTables:
    """The tables of catalogs that a file names, by their full names in lower case, as they would be declared.

    `left_out` are their columns that can't be; `broken` are names, in lower case too, whose mistakes are in `errors`.
    `last` are those of the last statement. `secrets` are what the references in the options of `catalogs` stand for, and
    `in_use` are the catalog and the database that USE has left.
    """

    tables: Mapping[str, CreateTable] = field(default_factory=dict)
    left_out: Mapping[str, tuple[LeftOut, ...]] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    errors: tuple[Diagnostic, ...] = ()
    catalogs: tuple[CatalogDef, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    last: tuple[Diagnostic, ...] = ()
    in_use: tuple[str, str] = (DEFAULT_CATALOG, DEFAULT_DATABASE)


#: Of a file that names none.
NO_TABLES = ForeignTables()


def resolve(
    script: Script, catalogs: Catalogs, own_databases: frozenset[str] = frozenset()
) -> tuple[Script, ForeignTables]:
    """The script with full names for the tables of catalogs, and these tables; each is asked for once.

    `own_databases` are names before the first dot of tables that whoever plans has besides. Nothing is raised: mistakes are
    in what is returned.
    """
    return _Resolver(script, catalogs, own_databases).resolve()


@dataclass(slots=True)
class _Place:
    """Which catalog (None: the file's own) and database are in use."""

    catalog: CatalogDef | None = None
    database: str = DEFAULT_DATABASE
    broken: bool = False


class _Resolver:
    def __init__(self, script: Script, catalogs: Catalogs, own_databases: frozenset[str]) -> None:
        self._script = script
        self._own_databases = own_databases
        self._errors: list[Diagnostic] = []
        self._declared: DeclaredCatalogs = declared_catalogs(script.statements, catalogs, self._errors)
        self._lookup = Lookup(catalogs, Secrets(MappingProxyType(self._declared.secrets)))
        self._place = _Place()
        self._tables: dict[str, CreateTable] = {}
        self._left_out: dict[str, tuple[LeftOut, ...]] = {}
        self._broken: set[str] = set()
        self._own = {
            parts_of(s.name)[-1].lower(): parts_of(s.name)[-1]
            for s in script.statements
            if isinstance(s, CreateTable | CreateView) and s.name
        }

    def resolve(self) -> tuple[Script, ForeignTables]:
        statements: list[Statement] = []
        before = 0
        for statement in self._script.statements:
            before = len(self._errors)
            statements.append(self._statement(statement))
        catalog = self._place.catalog
        return replace(self._script, statements=tuple(statements)), ForeignTables(
            MappingProxyType(self._tables),
            MappingProxyType(self._left_out),
            frozenset(self._broken),
            tuple(self._errors),
            tuple(self._declared.found.values()),
            MappingProxyType(self._declared.secrets),
            tuple(self._errors[before:]),
            (DEFAULT_CATALOG if catalog is None else catalog.name, self._place.database),
        )

    def _statement(self, statement: Statement) -> Statement:
        match statement:
            case UseCatalog():
                self._use_catalog(statement.name, statement.name_span)
            case UseDatabase():
                self._use_database(statement)
            case CreateTable():
                return replace(
                    statement,
                    name=self._own_name(statement.name, statement.name_span),
                    like=None if statement.like is None else self._like(statement.like),
                    as_select=None if statement.as_select is None else self._query(statement.as_select),
                )
            case CreateView():
                return replace(
                    statement,
                    name=self._own_name(statement.name, statement.name_span),
                    query=self._query(statement.query),
                )
            case InsertInto():
                return self._insert(statement)
            case StatementSet():
                return replace(statement, inserts=tuple(map(self._insert, statement.inserts)))
            case Select():
                return replace(statement, query=self._query(statement.query))
        return statement

    def _insert(self, statement: InsertInto) -> InsertInto:
        table = self._table(parts_of(statement.table), statement.table_span)
        return replace(statement, table=dotted(table), query=self._query(statement.query))

    def _like(self, like: Like) -> Like:
        return replace(like, source=dotted(self._table(parts_of(like.source), like.span)))

    def _query(self, query: exp.Query) -> exp.Query:
        named = named_tables(query)
        names = {
            number: self._table(table_parts(table), span_of(table, self._script.rendered))
            for number, table in named.items()
        }
        changed = {number: name for number, name in names.items() if name != table_parts(named[number])}
        if not changed and all(len(table_parts(table)) == 1 for table in named.values()):
            return query
        return with_names(query, changed)

    # --------------------------------------------------------------------------------------------------- USE

    def _use_catalog(self, name: str, at: Span) -> None:
        if name.lower() == DEFAULT_CATALOG:
            self._place = _Place()
            return
        found = self._catalog(name)
        if found is None:
            self._place = _Place(broken=True)
            if name.lower() not in self._declared.broken:
                self._errors.append(self._no_catalog(name, at))
            return
        self._place = _Place(found, found.default_database)

    def _use_database(self, statement: UseDatabase) -> None:
        at, name = statement.name_span, statement.parts[-1]
        if len(statement.parts) == 2:
            self._use_catalog(statement.parts[0], at)
        if self._place.broken:
            return
        catalog = self._place.catalog
        try:
            if catalog is not None:
                self._place = _Place(catalog, self._lookup.database(catalog, name, at))
            elif name.lower() != DEFAULT_DATABASE:
                is_catalog = self._catalog(name) is not None or name.lower() == DEFAULT_CATALOG
                note = f"the file's own tables are in {DEFAULT_CATALOG}.{DEFAULT_DATABASE}"
                help_ = f"write USE CATALOG {name}" if is_catalog else self._catalogs_first()
                raise DiagnosticError(
                    Diagnostic(
                        "CAT014", f"there is no database `{name}` in {DEFAULT_CATALOG}", at, (note,), help_
                    )
                )
        except NotThereError as error:
            help_ = f"write USE CATALOG {name}" if self._catalog(name) is not None else None
            if error.near is not None and help_ is None:
                help_ = f"did you mean `{error.near}`?"
            assert catalog is not None
            message = f"the catalog `{catalog.name}` has no database `{name}`"
            self._errors.append(Diagnostic("CAT014", message, at, (error.note,), help_))
            self._place = _Place(broken=True)
        except AmbiguousError as error:
            self._errors.append(ambiguous(name, error.names, at))
            self._place = _Place(broken=True)
        except DiagnosticError as error:
            self._errors.extend(error.diagnostics)
            self._place = _Place(broken=True)

    def _catalog(self, name: str) -> CatalogDef | None:
        return self._declared.found.get(name.lower())

    def _no_catalog(self, name: str, at: Span) -> Diagnostic:
        near = did_you_mean(name, self._declared.names)
        return Diagnostic(
            "CAT014",
            f"there is no catalog `{name}`",
            at,
            (self._catalogs_note(),),
            f"did you mean `{near}`?"
            if near
            else f"write CREATE CATALOG {name} WITH ('type' = '…', …) before",
        )

    def _catalogs_note(self) -> str:
        names = self._declared.names
        return (
            f"this file creates {', '.join(f'`{n}`' for n in names)}" if names else "this file creates none"
        )

    def _catalogs_first(self) -> str | None:
        names = self._declared.names
        return f"write USE CATALOG {names[0]} before it" if names else None

    # -------------------------------------------------------------------------------------------------- names

    def _own_name(self, name: str, at: Span) -> str:
        """The name of a table or view that the file declares, without what stands before it."""
        *before, last = parts_of(name)
        if self._place.broken and len(before) < 2:
            return dotted((last,))
        in_use = self._place.catalog
        own = before[0].lower() == DEFAULT_CATALOG if len(before) == 2 else in_use is None
        if own and (not before or (len(before) < 3 and before[-1].lower() == DEFAULT_DATABASE)):
            return dotted((last,))
        where = (
            f"`{dotted(before)}`"
            if before or in_use is None
            else f"the catalog `{in_use.name}`, which is in use"
        )
        self._errors.append(
            Diagnostic(
                "CAT009",
                f"`{last}` can't be made in {where}",
                at,
                (f"tables and views that a file declares are in {DEFAULT_CATALOG}.{DEFAULT_DATABASE}",),
                f"write {last}"
                if in_use is None
                else f"write USE CATALOG {DEFAULT_CATALOG} before it, or {DEFAULT_CATALOG}.{DEFAULT_DATABASE}.{last}",
            )
        )
        return dotted((last,))

    def _table(self, parts: tuple[str, ...], at: Span) -> tuple[str, ...]:
        """The parts of the name of the table that is meant: one of the file's own, all three of a catalog's."""
        catalog, database = self._place.catalog, self._place.database
        if self._place.broken and len(parts) < 3:
            return self._given_up(parts)
        if len(parts) > 1 and parts[0].lower() in self._own_databases:
            return parts
        if len(parts) > 3:
            return self._unknown(parts, at, "a name has a catalog, a database and a table", None)
        if len(parts) == 3:
            database = parts[1]
            catalog = self._catalog(parts[0])
            if parts[0].lower() in self._declared.broken:
                return self._given_up(parts)
            if catalog is None and parts[0].lower() != DEFAULT_CATALOG:
                near = did_you_mean(parts[0], self._declared.names)
                meant = dotted((near, *parts[1:])) if near else None
                note = f"there is no catalog `{parts[0]}`; {self._catalogs_note()}"
                return self._unknown(parts, at, note, meant)
        elif len(parts) == 2:
            database = parts[0]
        if catalog is not None:
            return self._foreign(catalog, database, parts, at)
        if len(parts) > 1 and database.lower() != DEFAULT_DATABASE:
            of_catalog = self._catalog(database)
            meant = None
            if len(parts) == 2 and of_catalog is not None:
                meant = dotted((of_catalog.name, of_catalog.default_database, parts[1]))
            return self._unknown(parts, at, f"there is no database `{database}` in {DEFAULT_CATALOG}", meant)
        return parts[-1:]

    def _foreign(
        self, catalog: CatalogDef, database: str, parts: tuple[str, ...], at: Span
    ) -> tuple[str, ...]:
        try:
            found = self._lookup.table(catalog, database, parts[-1], at)
            name = (catalog.name, found.database, found.name)
            key = dotted(name).lower()
            known = self._tables.get(key)
            if known is None:
                self._tables[key], self._left_out[key] = as_create_table(catalog, found, at)
            elif known.name != dotted(name):
                message = f"`{known.name}` and `{dotted(name)}` differ only by case"
                help_ = "use one of them in a file"
                raise DiagnosticError(Diagnostic("CAT015", message, at, help=help_))
        except NotThereError as error:
            note = f"catalog `{catalog.name}`: {error.note}"
            return self._unknown(parts, at, note, self._meant(catalog, parts, error))
        except AmbiguousError as error:
            self._errors.append(ambiguous(dotted(parts), error.names, at))
            return self._given_up(parts)
        except DiagnosticError as error:
            self._errors.extend(d for d in error.diagnostics if d not in self._errors)
            return self._given_up(parts)
        return name

    def _meant(self, catalog: CatalogDef, parts: tuple[str, ...], error: NotThereError) -> str | None:
        """The name, as it can be written, that one of a catalog may be meant for."""
        own = self._own.get(parts[-1].lower())
        if len(parts) == 1 and own is not None:
            return f"{DEFAULT_CATALOG}.{DEFAULT_DATABASE}.{own}"
        if error.near is None:
            return None
        near = (error.near, parts[-1]) if error.database is None else (error.database, error.near)
        return dotted((catalog.name, *near)[-len(parts) :])

    def _unknown(self, parts: tuple[str, ...], at: Span, note: str, meant: str | None) -> tuple[str, ...]:
        own = self._own.get(parts[-1].lower())
        help_ = f"did you mean `{meant}`?" if meant else None
        if help_ is None and own is not None and self._place.catalog is None and len(parts) > 1:
            help_ = f"write {own}"
        if help_ is None and len(parts) == 3 and self._catalog(parts[0]) is None:
            help_ = (
                f"write CREATE CATALOG {parts[0]} WITH ('type' = '…', …), or declare it with "
                f"CREATE TABLE {parts[-1]} (…) WITH (…), and write {parts[-1]}"
            )
        if help_ is None and len(parts) == 2 and self._place.catalog is None:
            help_ = f"declare it with CREATE TABLE {parts[-1]} (…) WITH (…), and write {parts[-1]}"
        self._errors.append(Diagnostic("SQL013", f"unknown table `{dotted(parts)}`", at, (note,), help_))
        return self._given_up(parts)

    def _given_up(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """A name that nothing else has, for a table whose mistake is reported."""
        name = ("?", dotted(parts))
        self._broken.add(dotted(name).lower())
        return name
