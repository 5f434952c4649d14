"""A script's declarations, collected into its catalog in the order in which they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlstream_planner.catalog.columns import check_columns, check_metadata, check_watermark
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, Connectors
from sqlstream_planner.catalog.foreign.descriptor import LeftOut
from sqlstream_planner.catalog.foreign.resolve import NO_TABLES, ForeignTables
from sqlstream_planner.catalog.like import merge_like
from sqlstream_planner.catalog.options import Role, find_option
from sqlstream_planner.catalog.secrets import Secrets, hidden
from sqlstream_planner.catalog.settings import default_settings, read_setting
from sqlstream_planner.catalog.source_options import SOURCE_OPTIONS
from sqlstream_planner.catalog.table_options import CONNECTOR, NO_CONNECTORS, read_options
from sqlstream_planner.catalog.tables import Catalog, TableDef
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, did_you_mean
from sqlstream_planner.sql.parse import Script
from sqlstream_planner.sql.qualified import parts_of
from sqlstream_planner.sql.statements import (
    CreateTable,
    CreateView,
    DropIfExists,
    InsertInto,
    Like,
    SetOption,
    StatementSet,
    Unsupported,
)


def read_catalog(script: Script, connectors: Connectors) -> Catalog:
    """The catalog of `script`, whose tables are on `connectors`.

    Raises DiagnosticError with every mistake: CAT… about declarations, OPT… about options, SET… about
    settings, SQL009 for statements that can't be run.

    >>> from sqlstream_planner.sql.parse import parse_file
    >>> from sqlstream_planner.testing import CONNECTORS
    >>> text = "CREATE TABLE t (a INT) WITH ('connector' = 'rows', 'count' = '3')"
    >>> read_catalog(parse_file(text), CONNECTORS).table("T").settings["count"]
    3
    """
    found = declared(script, connectors)
    if found.errors:
        raise DiagnosticError(*found.errors)
    return found.catalog


@dataclass(frozen=True, slots=True)
class Declarations:
    """What a script declares without mistakes, and all mistakes.

    `with_columns` are the tables whose columns are right and whose options are not: queries can be checked against them,
    and nothing can be read or written with them.
    """

    catalog: Catalog
    errors: tuple[Diagnostic, ...]
    with_columns: Mapping[str, TableDef]

    def for_checks(self) -> Catalog:
        """A catalog to check the script's queries with, not to run them."""
        return replace(self.catalog, tables=MappingProxyType({**self.catalog.tables, **self.with_columns}))


#: Stands in for the connector of a table whose options are wrong: as it may be any, all that reads the table is allowed.
_ANY_USE = ConnectorDescriptor("?", "any", (Role.SOURCE,), dimension=True)


def declared(script: Script, connectors: Connectors, foreign: ForeignTables = NO_TABLES) -> Declarations:
    """What is declared, beside the tables of catalogs that the script names, and all mistakes; see `read_catalog`."""
    return _Builder(script, connectors, foreign).build()


class _Builder:
    """Collects a script's declarations and everything that is wrong with them."""

    def __init__(self, script: Script, connectors: Connectors, foreign: ForeignTables) -> None:
        self.script = script
        self.connectors = connectors
        self.foreign = foreign
        self.errors: list[Diagnostic] = list(foreign.errors)
        self.warnings: list[Diagnostic] = []
        self.declared: dict[str, Span] = {}
        self.merged: dict[str, CreateTable] = {}
        self.tables: dict[str, TableDef] = {}
        self.with_columns: dict[str, TableDef] = {}
        self.views: dict[str, CreateView] = {}
        self.settings = default_settings()
        self.secrets: dict[str, str] = dict(foreign.secrets)

    def build(self) -> Declarations:
        for table in self.foreign.tables.values():
            self._read(table, self.foreign.left_out.get(table.name.lower(), ()))
        for statement in self.script.statements:
            match statement:
                case Unsupported():
                    self.errors.append(statement.diagnostic)
                case DropIfExists() if statement.name.lower() in self.declared:
                    self.errors.append(statement.diagnostic)
                case SetOption():
                    read_setting(statement, self.settings, self.errors, self.warnings)
                case CreateTable():
                    self._table(statement)
                case CreateView():
                    if self._declare(statement.name, statement.name_span, statement.if_not_exists):
                        self.views[statement.name.lower()] = statement
                case InsertInto():
                    self._insert(statement)
                case StatementSet():
                    for insert in statement.inserts:
                        self._insert(insert)
        catalog = Catalog(
            MappingProxyType(self.tables),
            MappingProxyType(self.views),
            MappingProxyType(self.settings),
            self.connectors,
            tuple(self.warnings),
            Secrets(MappingProxyType(self.secrets)),
            frozenset(self.declared.keys() - self.tables.keys() - self.views.keys())
            | self.foreign.broken
            | (self.foreign.tables.keys() - self.tables.keys()),
            catalogs=self.foreign.catalogs,
        )
        return Declarations(catalog, tuple(self.errors), MappingProxyType(self.with_columns))

    def _declare(self, name: str, span: Span, if_not_exists: bool) -> bool:
        if "." in name:
            self.errors.append(
                Diagnostic(
                    "CAT009",
                    f"`{name}`: the name of a table or view that a file declares has no dot",
                    span,
                    help=f"write {parts_of(name)[-1].replace('.', '_')}",
                )
            )
            return False
        first = self.declared.get(name.lower())
        if first is not None:
            if not if_not_exists:
                self.errors.append(
                    Diagnostic(
                        "CAT001",
                        f"`{name}` is declared twice",
                        span,
                        notes=(f"first on line {first.line} of {first.file}",),
                    )
                )
            return False
        self.declared[name.lower()] = span
        return True

    def _insert(self, statement: InsertInto) -> None:
        table = self.tables.get(statement.table.lower())
        if table is not None and Role.SINK not in table.roles:
            what = f"the connector '{table.connector}'"
            if Role.SINK in table.descriptor.roles:
                what = f"the format '{table.settings['format']}'"
            self.errors.append(
                Diagnostic(
                    "OPT006",
                    f"`{table.name}` can't be written: {what} only reads",
                    statement.table_span,
                    notes=("connectors that write: " + ", ".join(self.connectors.sinks()),),
                    help=table.descriptor.writes_instead(table.settings),
                )
            )

    def _table(self, statement: CreateTable) -> None:
        if not self._declare(statement.name, statement.name_span, statement.if_not_exists):
            return
        out: tuple[LeftOut, ...] = ()
        before = len(self.errors)
        if statement.like is not None:
            merged = self._like(statement, statement.like)
            if merged is None:
                return
            out = self.foreign.left_out.get(statement.like.source.lower(), ())
            statement = merged
        self._read(statement, out, before)

    def _read(self, statement: CreateTable, out: tuple[LeftOut, ...], before: int | None = None) -> None:
        """Read a declaration after LIKE; `before` is how many mistakes there were before it, `out` are columns left out."""
        before = len(self.errors) if before is None else before
        self.merged[statement.name.lower()] = statement
        check_columns(statement, self.errors)
        check_watermark(statement, self.errors)
        right_columns = len(self.errors) == before
        connector, settings = read_options(statement, self.connectors, self.errors)
        if connector is not None:
            check_metadata(statement, connector, self.errors)
        if connector is not None and len(self.errors) == before:
            self.errors.extend(connector.validate(statement, settings))
        if connector is None or len(self.errors) > before:
            if right_columns and statement.as_select is None:
                self.with_columns[statement.name.lower()] = _defined(statement, _ANY_USE, out)
            return
        options = [option for option in statement.options if option.key not in NO_CONNECTORS]
        stored, secrets = hidden(statement.name, options, connector.all_options)
        self.secrets.update(secrets)
        self.tables[statement.name.lower()] = replace(
            _defined(statement, connector, out),
            options=statement.options,
            stored=MappingProxyType(stored),
            settings=MappingProxyType(settings),
        )

    def _like(self, table: CreateTable, like: Like) -> CreateTable | None:
        key = like.source.lower()
        source = self.merged.get(key)
        if source is None:
            if key in self.foreign.broken or (key in self.declared and key not in self.views):
                return None  # The source has errors of its own.
            near = did_you_mean(like.source, [t.name for t in self.merged.values()])
            problem = "is a view" if like.source.lower() in self.views else "is not declared before"
            self.errors.append(
                Diagnostic(
                    "CAT002",
                    f"LIKE: `{like.source}` {problem}",
                    like.span,
                    help=f"did you mean `{near}`?"
                    if near
                    else "LIKE needs a table that is declared further up",
                )
            )
            return None
        merged = merge_like(table, source, like, self.errors)
        if merged is None or key not in self.foreign.tables:
            return merged
        return self._of_another_connector(table, source, merged, like)

    def _of_another_connector(
        self, table: CreateTable, source: CreateTable, merged: CreateTable, like: Like
    ) -> CreateTable:
        """What is like a table of a catalog, on another connector: nobody wrote the options that this may not have."""
        own = {option.key: option.value for option in table.options}
        connector = self.connectors.get(own.get(CONNECTOR, ""))
        taken = [o for o in merged.options if o in source.options and o.key != CONNECTOR]
        if connector is None or not taken:
            return merged
        known = (*connector.all_options, *SOURCE_OPTIONS)
        strange = [o.key for o in taken if find_option(known, o.key) is None]
        if not strange:
            return merged
        self.errors.append(
            Diagnostic(
                "CAT011",
                f"LIKE: the connector '{connector.name}' has no option {', '.join(f'`{k}`' for k in strange)}",
                like.span,
                (f"`{source.name}` is a table of the connector '{source.options[0].value}'",),
                f"write LIKE {like.source} (EXCLUDING OPTIONS)",
            )
        )
        return replace(merged, options=tuple(o for o in merged.options if o.key not in strange))


def _defined(table: CreateTable, connector: ConnectorDescriptor, out: tuple[LeftOut, ...]) -> TableDef:
    """A table as it is declared, without options."""
    return TableDef(
        table.name,
        table.columns,
        table.watermark,
        table.primary_key,
        table.partitioned_by,
        connector,
        (),
        MappingProxyType({}),
        MappingProxyType({}),
        table.as_select,
        table.temporary,
        table.name_span,
        table.options_span,
        out,
    )
