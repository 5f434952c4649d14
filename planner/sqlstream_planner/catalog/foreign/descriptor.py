"""How a type of catalog describes itself, as plain data, and what is asked of one: the planner itself reads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.catalog.lazy import Lazy, checked_names, loaded
from sqlstream_planner.catalog.options import OptionDef, OptionValue
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.text.masking import SECRET_NAME

if TYPE_CHECKING:
    from sqlstream_planner.diagnostics import Diagnostic, Span
    from sqlstream_planner.sql.statements import CreateCatalog, Option

#: The catalog of a file's own tables and views, and its only database, as Flink calls them.
DEFAULT_CATALOG, DEFAULT_DATABASE = "default_catalog", "default_database"

#: What is wrong with a catalog beyond its options' names and values.
CatalogValidation = Callable[["CreateCatalog", Mapping[str, OptionValue]], Iterable["Diagnostic"]]


@dataclass(frozen=True, slots=True)
class CatalogDescriptor:
    """A type of catalog: its options besides `type`, and the database that is used where none is named.

    `databases` says what it calls a database.
    """

    name: str
    description: str
    options: tuple[OptionDef, ...]
    default_database: Callable[[Mapping[str, OptionValue]], str]
    databases: str
    validate: CatalogValidation = lambda catalog, settings: ()

    def __post_init__(self) -> None:
        for option in self.options:
            if option.is_pattern or option.is_open:
                raise ValueError(f"{self.name}: {option.name} is no option of a catalog")
            if SECRET_NAME.search(option.name) and not option.secret:
                raise ValueError(f"{self.name}: {option.name} is called like a secret and is none")


@dataclass(frozen=True, slots=True)
class CatalogDef:
    """A catalog as it is declared; `options` are those beside `type`, as written, `settings` as read, with defaults.

    `stored` are the options with references for secrets. Secrets are in no `repr`.
    """

    name: str
    descriptor: CatalogDescriptor
    options: tuple[Option, ...] = field(repr=False)
    stored: Mapping[str, str]
    settings: Mapping[str, OptionValue] = field(repr=False)
    span: Span

    @property
    def given(self) -> dict[str, str]:
        """The options by their names, with passwords: for whoever connects."""
        return {option.key: option.value for option in self.options}

    @property
    def default_database(self) -> str:
        """The database that is used where none is named."""
        return self.descriptor.default_database(self.settings)


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column of a table; `type` None: it can't be declared, and `there` says what it is in the store."""

    name: str
    type: SqlType | None
    nullable: bool = True
    there: str = ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A column of a table that can't be declared, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table as its catalog has it: its names as they are spelled there, and the CREATE TABLE that it is the same as.

    `options` are all that the connector needs, with passwords.
    """

    database: str
    name: str
    connector: str
    options: Mapping[str, str] = field(repr=False)
    columns: tuple[FoundColumn, ...]
    primary_key: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()


class CatalogReader(Protocol):
    """What is there in one catalog. All raise DiagnosticError: ENV… if the store can't be reached."""

    def databases(self) -> Sequence[str]:
        """The names of all databases."""

    def tables(self, database: str) -> Sequence[str]:
        """The names of the tables (and views) of a database; none if there is no such database."""

    def describe(self, database: str, table: str) -> FoundTable | None:
        """A table by its names as they are spelled in the store; None if there is none."""


@dataclass(frozen=True, slots=True)
class Catalogs:
    """The types of catalogs that there are, and how one that is declared is asked.

    `elsewhere` are types that users know from Flink and that are not here. Raises ValueError if two have one name.
    """

    descriptors: tuple[CatalogDescriptor | Lazy[CatalogDescriptor], ...] = ()
    open: Callable[[CatalogDef], CatalogReader] = field(default=lambda catalog: _nothing(catalog), repr=False)
    elsewhere: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        checked_names(self.descriptors, "types of catalogs")

    def __iter__(self) -> Iterator[CatalogDescriptor]:
        return (loaded(d) for d in self.descriptors)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all types."""
        return tuple(d.name for d in self.descriptors)

    def get(self, name: str) -> CatalogDescriptor | None:
        """The type of this name, None if there is none."""
        return next((loaded(d) for d in self.descriptors if d.name == name), None)


def _nothing(catalog: CatalogDef) -> CatalogReader:
    raise InternalError(f"nothing was handed to the planner that reads the catalog {catalog.name}")


#: For who plans without any.
NO_CATALOGS = Catalogs()
