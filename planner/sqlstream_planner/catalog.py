"""The tables and views that a script declares: LIKE resolved, options read, columns and times checked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlglot import exp

from sqlstream_operators.types import VARCHAR, Kind, SqlType, quote_identifier
from sqlstream_planner.connector_options import CONNECTOR, CONNECTORS, ELSEWHERE, FORMATS, ConnectorDef
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, did_you_mean
from sqlstream_planner.job_options import JOB_OPTIONS, REFUSED, is_harmless
from sqlstream_planner.like import merge_like
from sqlstream_planner.options import (
    OptionDef,
    OptionValue,
    Role,
    find_option,
    unknown_option,
    wrong_value,
)
from sqlstream_planner.parse import Script
from sqlstream_planner.statements import (
    Column,
    ComputedColumn,
    CreateTable,
    CreateView,
    InsertInto,
    Like,
    MetadataColumn,
    Option,
    PhysicalColumn,
    PrimaryKey,
    SetOption,
    StatementSet,
    Unsupported,
    Watermark,
)

METADATA_KEYS: dict[str, SqlType] = {
    "file.path": VARCHAR,
    "file.name": VARCHAR,
    "file.size": SqlType(Kind.BIGINT),
    "file.modification-time": SqlType(Kind.TIMESTAMPTZ),
}
"""What METADATA columns of a filesystem source can be."""


@dataclass(frozen=True, slots=True)
class TableDef:
    """A table after LIKE: its columns in order, its options as written and as read.

    `settings` has a value for every option of the connector that is set or has a default; keys of
    patterns (`fields.#.kind`) are there as written.
    """

    name: str
    columns: tuple[Column, ...]
    watermark: Watermark | None
    primary_key: PrimaryKey | None
    partitioned_by: tuple[str, ...]
    connector: str
    options: tuple[Option, ...]
    settings: Mapping[str, OptionValue]
    as_select: exp.Query | None
    temporary: bool
    span: Span
    options_span: Span

    @property
    def roles(self) -> tuple[Role, ...]:
        """What the table can be used for."""
        roles = CONNECTORS[self.connector].roles
        format_ = self.settings.get("format")
        return roles if format_ is None else tuple(r for r in roles if r in FORMATS[str(format_)])

    def column(self, name: str) -> Column | None:
        """The column of this name, ignoring case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a script declares. Names are looked up ignoring case."""

    tables: Mapping[str, TableDef]
    views: Mapping[str, CreateView]
    settings: Mapping[str, OptionValue]
    warnings: tuple[Diagnostic, ...] = field(default=())

    @staticmethod
    def from_script(script: Script) -> Catalog:
        """The catalog of `script`.

        Raises DiagnosticError with every mistake: CAT… about declarations, OPT… about options, SET… about
        settings, SQL009 for statements that can't be run.

        >>> from sqlstream_planner.parse import parse_file
        >>> text = "CREATE TABLE t (a INT) WITH ('connector' = 'datagen')"
        >>> Catalog.from_script(parse_file(text)).table("T").settings["rows-per-second"]
        10000
        """
        return _Builder(script).build()

    def table(self, name: str) -> TableDef | None:
        """The table of this name, or None."""
        return self.tables.get(name.lower())

    def view(self, name: str) -> CreateView | None:
        """The view of this name, or None."""
        return self.views.get(name.lower())

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tables and views as they were written, for messages."""
        return (*(t.name for t in self.tables.values()), *(v.name for v in self.views.values()))


class _Builder:
    """Collects a script's declarations and everything that is wrong with them."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []
        self.declared: dict[str, Span] = {}
        self.merged: dict[str, CreateTable] = {}
        self.tables: dict[str, TableDef] = {}
        self.views: dict[str, CreateView] = {}
        self.settings: dict[str, OptionValue] = {
            o.name: o.read(o.default) for o in JOB_OPTIONS if o.default is not None
        }

    def build(self) -> Catalog:
        for statement in self.script.statements:
            match statement:
                case Unsupported():
                    self.errors.append(statement.diagnostic)
                case SetOption():
                    self._set(statement)
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
        if self.errors:
            raise DiagnosticError(*self.errors)
        return Catalog(
            MappingProxyType(self.tables),
            MappingProxyType(self.views),
            MappingProxyType(self.settings),
            tuple(self.warnings),
        )

    def _error(
        self, code: str, message: str, span: Span, *, notes: tuple[str, ...] = (), help: str | None = None
    ) -> None:
        self.errors.append(Diagnostic(code, message, span, notes, help))

    # ---- settings ----------------------------------------------------------------------------------------

    def _set(self, statement: SetOption) -> None:
        key = statement.key
        option = find_option(JOB_OPTIONS, key)
        if option is not None:
            try:
                self.settings[key] = option.read(statement.value)
            except ValueError as error:
                self.errors.append(
                    wrong_value("SET002", key, statement.value, str(error), statement.value_span)
                )
        elif key in REFUSED:
            self._error("SET003", f"`{key}` can't be set: {REFUSED[key]}", statement.key_span)
        elif is_harmless(key) and not _nearly_ours(key):
            self.warnings.append(
                Diagnostic(
                    "SET004",
                    f"`{key}` is a setting of Flink's that does nothing here",
                    statement.key_span,
                    help="remove the line",
                    severity="warning",
                )
            )
        else:
            names = [o.name for o in JOB_OPTIONS]
            near = did_you_mean(key, names)
            self._error(
                "SET001",
                f"there is no setting `{key}`",
                statement.key_span,
                notes=("settings: " + ", ".join(names),),
                help=f"did you mean '{near}'?" if near else None,
            )

    # ---- names -------------------------------------------------------------------------------------------

    def _declare(self, name: str, span: Span, if_not_exists: bool) -> bool:
        if "." in name:
            self._error(
                "CAT009",
                f"`{name}`: there are no catalogs or databases",
                span,
                help=f"write {name.rsplit('.', 1)[1]}",
            )
            return False
        first = self.declared.get(name.lower())
        if first is not None:
            if not if_not_exists:
                self._error(
                    "CAT001",
                    f"`{name}` is declared twice",
                    span,
                    notes=(f"first on line {first.line} of {first.file}",),
                )
            return False
        self.declared[name.lower()] = span
        return True

    def _insert(self, statement: InsertInto) -> None:
        table = self.tables.get(statement.table.lower())
        if table is not None and Role.SINK not in table.roles:
            sinks = [c.name for c in CONNECTORS.values() if Role.SINK in c.roles]
            what = f"the connector '{table.connector}'"
            if Role.SINK in CONNECTORS[table.connector].roles:
                what = f"the format '{table.settings['format']}'"
            self._error(
                "OPT006",
                f"`{table.name}` can't be written: {what} only reads",
                statement.table_span,
                notes=("connectors that write: " + ", ".join(sinks),),
            )

    # ---- tables ------------------------------------------------------------------------------------------

    def _table(self, statement: CreateTable) -> None:
        if not self._declare(statement.name, statement.name_span, statement.if_not_exists):
            return
        before = len(self.errors)
        if statement.like is not None:
            merged = self._like(statement, statement.like)
            if merged is None:
                return
            statement = merged
        self.merged[statement.name.lower()] = statement
        self._check_columns(statement)
        self._check_watermark(statement)
        connector, settings = self._options(statement)
        if connector is not None:
            self._check_metadata(statement, connector)
        if connector is None or len(self.errors) > before:
            return
        self.tables[statement.name.lower()] = TableDef(
            statement.name,
            statement.columns,
            statement.watermark,
            statement.primary_key,
            statement.partitioned_by,
            connector.name,
            statement.options,
            MappingProxyType(settings),
            statement.as_select,
            statement.temporary,
            statement.name_span,
            statement.options_span,
        )

    def _check_columns(self, table: CreateTable) -> None:
        seen: set[str] = set()
        for column in table.columns:
            if column.name.lower() in seen:
                self._error("CAT003", f"the column `{column.name}` is there twice", column.span)
            seen.add(column.name.lower())
        if not table.columns and table.as_select is None:
            self._error(
                "CAT010",
                f"`{table.name}` has no columns",
                table.name_span,
                help="write them in parentheses behind its name, or LIKE another table",
            )
        if table.as_select is not None and not table.columns:
            return  # The query's columns are not known yet.
        if table.primary_key is not None:
            for name in table.primary_key.columns:
                self._column_of(table, name, "CAT006", "the primary key", table.primary_key.span)
        for name in table.partitioned_by:
            found = self._column_of(
                table, name, "CAT007", "PARTITIONED BY", table.partition_span or table.name_span
            )
            if found is not None and not isinstance(found, PhysicalColumn):
                self._error(
                    "CAT007",
                    f"`{name}` can't partition files: it is not stored",
                    table.partition_span or table.name_span,
                )

    def _column_of(self, table: CreateTable, name: str, code: str, what: str, span: Span) -> Column | None:
        found = next((c for c in table.columns if c.name.lower() == name.lower()), None)
        if found is None:
            names = [c.name for c in table.columns]
            near = did_you_mean(name, names)
            self._error(
                code,
                f"{what} names `{name}`, which is no column of `{table.name}`",
                span,
                notes=("columns: " + ", ".join(names),),
                help=f"did you mean `{near}`?" if near else None,
            )
        return found

    def _check_watermark(self, table: CreateTable) -> None:
        watermark = table.watermark
        if watermark is None:
            return
        if table.as_select is not None and not table.columns:
            return
        name = watermark.column[0]
        column = self._column_of(table, name, "CAT004", "WATERMARK FOR", watermark.column_span)
        if column is None or isinstance(column, ComputedColumn):
            return  # The binder knows a computed column's type.
        type_ = column.type
        for part in watermark.column[1:]:
            fields = {n.lower(): t for n, t in type_.fields}
            if part.lower() not in fields:
                self._error(
                    "CAT004",
                    f"`{name}` has no field `{part}`",
                    watermark.column_span,
                    notes=("fields: " + ", ".join(n for n, _ in type_.fields),) if type_.fields else (),
                )
                return
            type_ = fields[part.lower()]
        if not type_.is_timestamp:
            self._error(
                "CAT005",
                f"`{'.'.join(watermark.column)}` is {type_}: a watermark needs a timestamp",
                watermark.column_span,
                help=_time_column_help(watermark.column, type_),
            )

    def _check_metadata(self, table: CreateTable, connector: ConnectorDef) -> None:
        for column in table.columns:
            if not isinstance(column, MetadataColumn):
                continue
            keys = METADATA_KEYS if connector.name == "filesystem" else {}
            if column.key not in keys:
                near = did_you_mean(column.key, keys)
                self._error(
                    "CAT008",
                    f"the connector '{connector.name}' has no metadata `{column.key}`",
                    column.span,
                    notes=("metadata: " + ", ".join(keys),) if keys else (),
                    help=f"write METADATA FROM '{near}'" if near else None,
                )

    # ---- options -----------------------------------------------------------------------------------------

    def _options(self, table: CreateTable) -> tuple[ConnectorDef | None, dict[str, OptionValue]]:
        by_key: dict[str, Option] = {}
        for option in table.options:
            if option.key in by_key:
                self._error("OPT005", f"`{option.key}` is set twice", option.key_span)
            by_key[option.key] = option
        connector = self._connector(table, by_key)
        if connector is None:
            return None, {}
        settings: dict[str, OptionValue] = {
            o.name: o.read(o.default)
            for o in connector.options
            if o.default is not None and not o.is_pattern and _concerns(o, by_key)
        }
        columns = {c.name for c in table.columns if isinstance(c, PhysicalColumn)}
        for option in table.options:
            if option.key == CONNECTOR.name:
                continue
            known = find_option(connector.options, option.key)
            if known is None:
                what = f"the connector '{connector.name}'"
                concerned = [o for o in connector.options if _concerns(o, by_key)]
                self.errors.append(unknown_option("OPT002", what, option.key, concerned, option.key_span))
                continue
            if known.is_pattern and known.subject(option.key).split(".")[0] not in columns:
                name = known.subject(option.key)
                near = did_you_mean(name, columns)
                self._error(
                    "OPT002",
                    f"`{option.key}`: `{table.name}` has no column `{name}`",
                    option.key_span,
                    help=f"did you mean '{known.name.replace('#', near)}'?" if near else None,
                )
                continue
            try:
                settings[option.key] = known.read(option.value)
            except ValueError as error:
                self.errors.append(
                    wrong_value("OPT003", option.key, option.value, str(error), option.value_span)
                )
        for known in connector.options:
            if known.required and known.name not in by_key:
                self._error(
                    "OPT004",
                    f"the connector '{connector.name}' needs the option `{known.name}`",
                    table.options_span,
                    notes=(f"{known.name}: {known.description}",),
                    help=f"add '{known.name}' = '{known.choices[0] if known.choices else '…'}'",
                )
        return connector, settings

    def _connector(self, table: CreateTable, by_key: Mapping[str, Option]) -> ConnectorDef | None:
        available = "connectors: " + ", ".join(f"{c.name} ({c.description})" for c in CONNECTORS.values())
        option = by_key.get(CONNECTOR.name)
        if option is None:
            self._error(
                "OPT004",
                f"`{table.name}` has no connector",
                table.options_span,
                notes=(available,),
                help="add WITH ('connector' = '…')" if not table.options else "add 'connector' = '…'",
            )
            return None
        connector = CONNECTORS.get(option.value)
        if connector is None:
            near = did_you_mean(option.value, CONNECTORS)
            known = option.value in ELSEWHERE
            self._error(
                "OPT001",
                f"the connector '{option.value}' is known from Flink but not available here"
                if known
                else f"there is no connector '{option.value}'",
                option.value_span,
                notes=(available,),
                help=f"did you mean '{near}'?" if near and not known else None,
            )
        return connector

    # ---- LIKE --------------------------------------------------------------------------------------------

    def _like(self, table: CreateTable, like: Like) -> CreateTable | None:
        source = self.merged.get(like.source.lower())
        if source is None:
            if like.source.lower() in self.declared and like.source.lower() not in self.views:
                return None  # The source has errors of its own.
            near = did_you_mean(like.source, [t.name for t in self.merged.values()])
            problem = "is a view" if like.source.lower() in self.views else "is not declared before"
            self._error(
                "CAT002",
                f"LIKE: `{like.source}` {problem}",
                like.span,
                help=f"did you mean `{near}`?" if near else "LIKE needs a table that is declared further up",
            )
            return None
        return merge_like(table, source, like, self.errors)


def _nearly_ours(key: str) -> bool:
    """Whether `key` is a setting of ours with a slip of the finger, though Flink has others like it."""
    return bool(difflib.get_close_matches(key, [o.name for o in JOB_OPTIONS], n=1, cutoff=0.93))


def _concerns(option: OptionDef, by_key: Mapping[str, Option]) -> bool:
    """Whether an option belongs to the format that is set (`csv.…` says nothing about JSON files)."""
    prefix = option.name.split(".")[0]
    return prefix not in FORMATS or ("format" in by_key and by_key["format"].value == prefix)


def _time_column_help(path: Iterable[str], type_: SqlType) -> str:
    column = ".".join(quote_identifier(p) if not p.isidentifier() else p for p in path)
    new = f"{column.split('.')[-1]}_time"
    if type_.is_integer:
        made = f"TO_TIMESTAMP_LTZ({column}, 3)"
    elif type_.kind is Kind.VARCHAR:
        made = f"TO_TIMESTAMP({column})"
    else:
        made = f"CAST({column} AS TIMESTAMP(3))"
    return f"add a column `{new} AS {made}` and write WATERMARK FOR {new} AS {new} - INTERVAL '5' SECOND"
