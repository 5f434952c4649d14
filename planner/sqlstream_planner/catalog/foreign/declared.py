"""The CREATE CATALOGs of a file: which type each is, and what its options say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlstream_planner.catalog.foreign.descriptor import (
    DEFAULT_CATALOG,
    CatalogDef,
    CatalogDescriptor,
    Catalogs,
)
from sqlstream_planner.catalog.options import OptionValue, find_option, unknown_option, wrong_value
from sqlstream_planner.catalog.secrets import hidden
from sqlstream_planner.diagnostics import Diagnostic, did_you_mean
from sqlstream_planner.sql.statements import CreateCatalog, Option, Statement

#: The option that every catalog has.
TYPE = "type"


@dataclass(slots=True)
class DeclaredCatalogs:
    """The catalogs of a file by their names in lower case; `broken` are those that are declared with mistakes.

    `secrets` are what references in their stored options stand for.
    """

    found: dict[str, CatalogDef] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    secrets: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those without mistakes, as they were written."""
        return tuple(one.name for one in self.found.values())


def declared_catalogs(
    statements: Sequence[Statement], catalogs: Catalogs, errors: list[Diagnostic]
) -> DeclaredCatalogs:
    """The catalogs that statements create; adds CAT013 and OPT001 to OPT005 to `errors`."""
    made = DeclaredCatalogs()
    for statement in statements:
        if not isinstance(statement, CreateCatalog):
            continue
        key = statement.name.lower()
        if key == DEFAULT_CATALOG:
            message = f"`{statement.name}` is there already: it has the tables of the file"
            errors.append(
                Diagnostic("CAT013", message, statement.name_span, help="give the catalog another name")
            )
        elif key in made.found or key in made.broken:
            if not statement.if_not_exists:
                message = f"the catalog `{statement.name}` is declared twice"
                errors.append(Diagnostic("CAT013", message, statement.name_span))
        else:
            _declare(statement, catalogs, made, errors)
    return made


def _declare(
    statement: CreateCatalog, catalogs: Catalogs, made: DeclaredCatalogs, errors: list[Diagnostic]
) -> None:
    before = len(errors)
    by_key: dict[str, Option] = {}
    for option in statement.options:
        if option.key in by_key:
            errors.append(Diagnostic("OPT005", f"`{option.key}` is set twice", option.key_span))
        by_key[option.key] = option
    descriptor = _type_of(statement, by_key.get(TYPE), catalogs, errors)
    settings: dict[str, OptionValue] = {}
    if descriptor is not None:
        settings = _settings(statement, descriptor, errors)
    if descriptor is not None and len(errors) == before:
        errors.extend(descriptor.validate(statement, settings))
    if descriptor is None or len(errors) > before:
        made.broken.add(statement.name.lower())
        return
    options = tuple(option for option in statement.options if option.key != TYPE)
    stored, secrets = hidden(statement.name, options, descriptor.options)
    # No table has a reference with a blank.
    made.secrets.update((f"catalog {name}", value) for name, value in secrets.items())
    made.found[statement.name.lower()] = CatalogDef(
        statement.name,
        descriptor,
        options,
        MappingProxyType(stored),
        MappingProxyType(settings),
        statement.name_span,
    )


def _type_of(
    statement: CreateCatalog, option: Option | None, catalogs: Catalogs, errors: list[Diagnostic]
) -> CatalogDescriptor | None:
    if option is None:
        errors.append(
            Diagnostic(
                "OPT004",
                f"the catalog `{statement.name}` has no type",
                statement.options_span,
                notes=(_available(catalogs),),
                help="add 'type' = '…'" if statement.options else "add WITH ('type' = '…')",
            )
        )
        return None
    found = catalogs.get(option.value)
    if found is None:
        known = option.value in catalogs.elsewhere
        near = None if known else did_you_mean(option.value, catalogs.names)
        errors.append(
            Diagnostic(
                "OPT001",
                f"the catalog type '{option.value}' is known from Flink but not available here"
                if known
                else f"there is no catalog type '{option.value}'",
                option.value_span,
                notes=(_available(catalogs),),
                help=f"did you mean '{near}'?" if near else None,
            )
        )
    return found


def _settings(
    statement: CreateCatalog, descriptor: CatalogDescriptor, errors: list[Diagnostic]
) -> dict[str, OptionValue]:
    what = f"a catalog of type '{descriptor.name}'"
    settings: dict[str, OptionValue] = {
        o.name: o.read(o.default) for o in descriptor.options if o.default is not None
    }
    meant: set[str | None] = set()
    for option in statement.options:
        if option.key == TYPE:
            continue
        known = find_option(descriptor.options, option.key)
        if known is None:
            meant.add(did_you_mean(option.key, [o.name for o in descriptor.options]))
            errors.append(unknown_option("OPT002", what, option.key, descriptor.options, option.key_span))
            continue
        try:
            settings[option.key] = known.read(option.value)
            accepted = known.refuse(option.value)
            if accepted is not None:
                raise ValueError(accepted)
        except ValueError as error:
            errors.append(wrong_value("OPT003", option.key, option.value, str(error), option.value_span))
    given = {option.key for option in statement.options}
    for known in descriptor.options:
        if known.required and known.name not in given and known.name not in meant:
            errors.append(
                Diagnostic(
                    "OPT004",
                    f"{what} needs the option `{known.name}`",
                    statement.options_span,
                    notes=(f"{known.name}: {known.description}",),
                    help=f"add '{known.name}' = '{known.choices[0] if known.choices else '…'}'",
                )
            )
    return settings


def _available(catalogs: Catalogs) -> str:
    """All that there are: to name them all imports them all."""
    return "types: " + ", ".join(f"{c.name} ({c.description})" for c in catalogs)
