"""What a script declares: tables after LIKE with their options as read, views, and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, Connectors
from sqlstream_planner.catalog.foreign.descriptor import CatalogDef, LeftOut
from sqlstream_planner.catalog.options import OptionValue, Role
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import Diagnostic, Span, did_you_mean
from sqlstream_planner.sql.statements import Column, CreateView, Option, PrimaryKey, Watermark


@dataclass(frozen=True, slots=True)
class TableDef:
    """A table after LIKE: its columns in order, its options as written and as read.

    `stored` are the options as plans have them: without `connector`, and references for secrets.
    `settings` has a value for every option of the connector that is set or has a default; keys of
    patterns (`fields.#.kind`) are there as written. `left_out` are columns that a table of a catalog has besides.
    """

    name: str
    columns: tuple[Column, ...]
    watermark: Watermark | None
    primary_key: PrimaryKey | None
    partitioned_by: tuple[str, ...]
    descriptor: ConnectorDescriptor
    options: tuple[Option, ...]
    stored: Mapping[str, str]
    settings: Mapping[str, OptionValue]
    as_select: exp.Query | None
    temporary: bool
    span: Span
    options_span: Span
    left_out: tuple[LeftOut, ...] = ()

    @property
    def roles(self) -> tuple[Role, ...]:
        """What the table can be used for."""
        return self.descriptor.roles_with(self.settings)

    @property
    def is_dimension(self) -> bool:
        """Whether lookup joins can read it."""
        return self.descriptor.is_dimension_with(self.settings)

    @property
    def connector(self) -> str:
        """The connector's name."""
        return self.descriptor.name

    def column(self, name: str) -> Column | None:
        """The column of this name, ignoring case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a script declares, with the connectors that there are. Names are looked up ignoring case.

    `secrets` are what references in tables' stored options stand for. `broken` are tables (in lower case) that are declared
    with mistakes, which are reported: what these may cause is not reported where they are used. `moved` says of identities
    of sources as they are declared under which ones state knows their data (`SourceIdentity.known_as`). `catalogs` are those
    that the script creates; the tables of theirs that it names are among `tables`, by their full names.
    """

    tables: Mapping[str, TableDef]
    views: Mapping[str, CreateView]
    settings: Mapping[str, OptionValue]
    connectors: Connectors
    warnings: tuple[Diagnostic, ...] = field(default=())
    secrets: Secrets = field(default_factory=Secrets)
    broken: frozenset[str] = frozenset()
    moved: Mapping[str, str] = field(default_factory=dict)
    catalogs: tuple[CatalogDef, ...] = ()

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

    def meant(self, name: str) -> str | None:
        """The name that an unknown one is likely to mean; a file's tables have no catalog or database in front."""
        bare = name.rpartition(".")[2].lower()
        same = next((known for known in self.names if known.lower() == bare), None)
        return same or did_you_mean(name, self.names)
