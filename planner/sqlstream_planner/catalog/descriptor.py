"""How a connector describes itself, as plain data: all that the planner and the referee know of it.

The planner has no connector of its own. A descriptor lives with its connector, and `Connectors` is handed in.
Nothing here, and nothing that a descriptor imports, may need Arrow, DuckDB or Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.catalog.lazy import Lazy, checked_names, loaded
from sqlstream_planner.catalog.options import (
    BOTH,
    OptionDef,
    OptionValue,
    Role,
    ValueKind,
    refused_when_written,
)
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.text.masking import SECRET_NAME

if TYPE_CHECKING:
    from sqlstream_operators.plan.spec import SinkSpec, SourceSpec
    from sqlstream_planner.diagnostics import Diagnostic
    from sqlstream_planner.sql.statements import CreateTable

#: The connector of a source with one row, of which VALUES and a SELECT without FROM are computed; no table can name it.
ONE_ROW = "one-row"

#: Options as read, by key as written: those that are set, and the defaults of those that are not.
Settings = Mapping[str, OptionValue]


@dataclass(frozen=True, slots=True)
class ColumnLookup:
    """How a declared column is found in the data: what of the declaration decides its values, or where a sink writes them.

    `by_name` and `by_position`: by which of them (both: it may be either). `any_case`: names of the data are
    compared ignoring case. `alone`: the other columns of the table decide neither this one's values nor which rows
    there are. The default is the safe one: everything counts.
    """

    by_name: bool = True
    by_position: bool = True
    any_case: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class FormatDescriptor:
    """A format of a connector's data; the names of its `options` start with its own name and a dot.

    `changelog`: its messages are changes of rows, not rows. `lookup` may depend on the options. `not_written`: types
    that no column of a sink can have, nor a type inside its own. `metadata` is what its records say beside their rows,
    which METADATA columns can be if the connector passes it on.
    """

    name: str
    roles: tuple[Role, ...] = BOTH
    options: tuple[OptionDef, ...] = ()
    changelog: bool = False
    metadata: Mapping[str, SqlType] = field(default_factory=lambda: MappingProxyType({}))
    lookup: Callable[[Settings], ColumnLookup] = lambda settings: ColumnLookup()
    not_written: frozenset[Kind] = frozenset()

    def __post_init__(self) -> None:
        for option in self.options:
            if not option.name.startswith(f"{self.name}."):
                raise ValueError(f"{option.name} is no option of the format {self.name}")

    def options_with(self, prefix: str) -> tuple[OptionDef, ...]:
        """Its options as they are called behind a prefix."""
        return tuple(replace(o, name=f"{prefix}{o.name}") for o in self.options) if prefix else self.options


class Past(StrEnum):
    """What becomes of rows that a sink was given, once its query is edited."""

    KEPT = "kept"
    SHOWN = "shown"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class SinkAbilities:
    """What a sink can do with changes, and with what it was given before.

    `changes`: rows that were given can be retracted. `keyed`: it is a table that is kept up to date, one row for
    each PRIMARY KEY. `needs_key`: rows are retracted by that key, so that without one they can't be. `checks_keys`: it
    refuses two rows with one key. `widens`: a column can get a wider type while the table's rows stay. `past`: rows are kept
    for later readers, or shown once, or dropped. `records_epochs`: the target says itself which epochs are in it, so that it
    may be moved and found by other options. `place` are the options that say where it is; of them `named_by` is the table's
    name if it is not set. `not_written`: types that no column can have, nor a type inside its own.
    """

    changes: bool = False
    keyed: bool = False
    needs_key: bool = False
    checks_keys: bool = False
    widens: bool = True
    past: Past = Past.KEPT
    records_epochs: bool = False
    place: tuple[str, ...] = ()
    named_by: str = ""
    not_written: frozenset[Kind] = frozenset()


@dataclass(frozen=True, slots=True)
class BatchFiles:
    """The files of a source for DuckDB, in the order in which the runtime reads them.

    `header`: whether CSV files begin with a header line; None lets DuckDB find out.
    """

    paths: tuple[str, ...]
    header: bool | None = None


#: A source in DuckDB's SQL: a SELECT of its physical and metadata columns with their types, and of a changelog the
#: columns KIND_COLUMN and `batch.sources.ORDER_COLUMN`. Without files it names the table's path. Raises DiagnosticError
#: (GLD001) for what DuckDB has no way to give.
BatchForm = Callable[["SourceSpec", BatchFiles | None], str]
#: What is wrong with a declared table beyond its options' names and values.
Validation = Callable[["CreateTable", Settings], Iterable["Diagnostic"]]
#: What is wrong with writing a table, once it is known which changes it gets and what their key is; None: nothing.
SinkValidation = Callable[["SinkSpec"], "Diagnostic | None"]


@dataclass(frozen=True, slots=True)
class ConnectorDescriptor:
    """A connector: what a table on it can be used for, its options besides `connector`, and what it can do.

    `options` are those of every format; `formats` with an option `format` that chooses one. Where a row has several parts,
    `format_prefixes` are what stands before that option and before the format's own: `key.` of `key.format` and
    `key.csv.null-literal`. The first that is set, and is not `key.`, is the format of the row. `metadata` is what
    METADATA columns can be; with `format_metadata` also the metadata of the row's format, with this before its keys.

    As a source: `bounded` whether it ends, `changelog` whether it gives changes whatever its format, or
    `changelog_option` which BOOLEAN option makes it do so, `dimension` whether a
    lookup join can read it whole, `lookup` of a connector without formats, `batch` how DuckDB reads it (None: the referee
    is given its rows as Parquet, read by the connector). As a sink: `sink`, where a format may say more, and `lookup`, too;
    `source_lookup` is how a source finds columns that a sink writes in another way; `writes_instead` what to write in place
    of a connector that only reads.
    """

    name: str
    description: str
    roles: tuple[Role, ...]
    options: tuple[OptionDef, ...] = ()
    formats: tuple[FormatDescriptor, ...] = ()
    format_prefixes: tuple[str, ...] = ("",)
    metadata: Mapping[str, SqlType] = field(default_factory=lambda: MappingProxyType({}))
    format_metadata: str = ""
    bounded: Callable[[Settings], bool] = lambda settings: True
    changelog: bool = False
    changelog_option: str = ""
    dimension: bool = False
    lookup: ColumnLookup = ColumnLookup()
    source_lookup: ColumnLookup | None = None
    sink: SinkAbilities = SinkAbilities()
    batch: BatchForm | None = None
    validate: Validation = lambda table, settings: ()
    validate_sink: SinkValidation = lambda sink: None
    writes_instead: Callable[[Settings], str | None] = lambda settings: None

    def __post_init__(self) -> None:
        choosing = {f"{prefix}format" for prefix in self.format_prefixes if self.formats}
        # One that is no choice among ours is passed on as it is.
        chosen = {o.name for o in self.options if o.name.split(".")[-1] == "format" and o.choices}
        if choosing != chosen:
            raise ValueError(f"{self.name}: formats and the option 'format' belong together")
        for option in self.all_options:
            if SECRET_NAME.search(option.name) and not option.secret:
                raise ValueError(f"{self.name}: {option.name} is called like a secret and is none")

    @property
    def all_options(self) -> tuple[OptionDef, ...]:
        """The connector's options and those of all its formats."""
        of_formats = (f.options_with(p) for p in self.format_prefixes for f in self.formats)
        return (*self.options, *(option for options in of_formats for option in options))

    def format(self, name: OptionValue | None) -> FormatDescriptor | None:
        """The format of this name, ignoring case as the option does; None if there is none."""
        wanted = str(name).strip().lower()
        return next((f for f in self.formats if f.name.lower() == wanted), None)

    def row_format(self, options: Mapping[str, OptionValue]) -> FormatDescriptor | None:
        """The format of rows (of their values, where they have keys, too) that the options choose; None if none does."""
        return self.format(next((options[o] for o in self._row_formats if o in options), None))

    def concerned(self, options: Mapping[str, OptionValue]) -> tuple[OptionDef, ...]:
        """The options that mean something to a table with its formats: `csv.…` says nothing about JSON files."""
        found = list(self.options)
        for prefix in self.format_prefixes:
            chosen = self.format(options.get(f"{prefix}format"))
            found += chosen.options_with(prefix) if chosen is not None else ()
        return tuple(found)

    def metadata_with(self, options: Mapping[str, OptionValue]) -> Mapping[str, SqlType]:
        """What METADATA columns of a table with these options can be."""
        chosen = self.row_format(options) if self.format_metadata else None
        if chosen is None:
            return self.metadata
        return {**self.metadata, **{f"{self.format_metadata}{k}": t for k, t in chosen.metadata.items()}}

    def wrong_sink(self, sink: SinkSpec) -> Diagnostic | None:
        """What is wrong with writing a table, whose changes and key are known; None: nothing is."""
        return refused_when_written(self.concerned(sink.options), sink.options) or self.validate_sink(sink)

    def roles_with(self, options: Mapping[str, OptionValue]) -> tuple[Role, ...]:
        """What a table with these options can be used for."""
        chosen = self.row_format(options)
        return self.roles if chosen is None else tuple(r for r in self.roles if r in chosen.roles)

    def gives_changes(self, options: Mapping[str, OptionValue]) -> bool:
        """Whether a source with these options gives changes of rows."""
        chosen = self.row_format(options)
        if self.changelog_option and str(options.get(self.changelog_option, "")).strip().lower() == "true":
            return True
        return self.changelog or (chosen is not None and chosen.changelog)

    def is_dimension_with(self, options: Mapping[str, OptionValue]) -> bool:
        """Whether a lookup join can read a table with these options."""
        chosen = self.row_format(options)
        reads = chosen is None or Role.SOURCE in chosen.roles
        return self.dimension and reads and not self.gives_changes(options)

    def takes_changes(self, options: Mapping[str, OptionValue]) -> bool:
        """Whether a sink with these options can take back rows."""
        chosen = self.row_format(options)
        return self.sink.changes or (chosen is not None and chosen.changelog and Role.SINK in chosen.roles)

    def source_lookup_with(self, settings: Settings) -> ColumnLookup:
        """How columns are found by a source with these options."""
        return self.lookup_with(settings) if self.source_lookup is None else self.source_lookup

    def lookup_with(self, settings: Settings) -> ColumnLookup:
        """How columns are found in data with these options."""
        option = next((o for o in self._row_formats if o in settings), "format")
        chosen = self.format(settings.get(option))
        if chosen is None:
            return self.lookup
        prefix = option.removesuffix("format")
        return chosen.lookup({key.removeprefix(prefix): value for key, value in settings.items()})

    @property
    def _row_formats(self) -> tuple[str, ...]:
        return tuple(f"{prefix}format" for prefix in self.format_prefixes if prefix != "key.")


@dataclass(frozen=True, slots=True)
class Connectors:
    """The connectors that there are, in the order in which messages name them.

    `printing` is the sink of a SELECT by itself. `elsewhere` are names that users know from Flink and that are not
    here. Raises ValueError if two have one name.
    """

    descriptors: tuple[ConnectorDescriptor | Lazy[ConnectorDescriptor], ...] = ()
    printing: str = "print"
    elsewhere: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        checked_names(self.descriptors, "connectors")

    def __iter__(self) -> Iterator[ConnectorDescriptor]:
        return (loaded(d) for d in self.descriptors)

    def __getitem__(self, name: str) -> ConnectorDescriptor:
        found = self.get(name)
        if found is None:
            raise InternalError(f"no connector {name!r} was handed to the planner")
        return found

    def get(self, name: str) -> ConnectorDescriptor | None:
        """The connector of this name, None if there is none."""
        return next((loaded(d) for d in self.descriptors if d.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all."""
        return tuple(d.name for d in self.descriptors)

    def sinks(self, able: Callable[[ConnectorDescriptor], bool] = lambda descriptor: True) -> tuple[str, ...]:
        """The names of those that are sinks and `able`."""
        return tuple(d.name for d in self if Role.SINK in d.roles and able(d))


def format_option(formats: Sequence[FormatDescriptor]) -> OptionDef:
    """The option that chooses one of the formats."""
    return OptionDef(
        "format",
        ValueKind.ENUM,
        "the files' format",
        required=True,
        choices=tuple(f.name for f in formats),
    )
