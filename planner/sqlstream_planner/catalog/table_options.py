"""WITH (…) of a table: which connector it names, and what its options say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, Connectors
from sqlstream_planner.catalog.options import (
    OptionDef,
    OptionValue,
    Role,
    find_option,
    unknown_option,
    wrong_value,
)
from sqlstream_planner.catalog.source_options import SOURCE_OPTIONS
from sqlstream_planner.diagnostics import Diagnostic, did_you_mean
from sqlstream_planner.sql.statements import CreateTable, Option, PhysicalColumn

#: The option that every table has.
CONNECTOR = "connector"
#: Options that connectors are not handed.
NO_CONNECTORS = frozenset({CONNECTOR, *(option.name for option in SOURCE_OPTIONS)})


def read_options(
    table: CreateTable, connectors: Connectors, errors: list[Diagnostic]
) -> tuple[ConnectorDescriptor | None, dict[str, OptionValue]]:
    """The connector of a table, and its options as read, with defaults; adds OPT001 to OPT005 to `errors`."""
    by_key: dict[str, Option] = {}
    for option in table.options:
        if option.key in by_key:
            errors.append(Diagnostic("OPT005", f"`{option.key}` is set twice", option.key_span))
        by_key[option.key] = option
    connector = _connector(table, by_key, connectors, errors)
    if connector is None:
        return None, {}
    of_sources = SOURCE_OPTIONS if Role.SOURCE in connector.roles else ()
    concerned = (*connector.concerned({key: option.value for key, option in by_key.items()}), *of_sources)
    settings: dict[str, OptionValue] = {
        o.name: o.read(o.default) for o in concerned if o.default is not None and not o.is_pattern
    }
    columns = {c.name for c in table.columns if isinstance(c, PhysicalColumn)}
    meant: set[str | None] = set()
    for option in table.options:
        if option.key == CONNECTOR:
            continue
        known = find_option((*connector.all_options, *of_sources), option.key)
        if known is None:
            what = f"the connector '{connector.name}'"
            meant.add(did_you_mean(option.key, [o.name for o in concerned]))
            errors.append(unknown_option("OPT002", what, option.key, concerned, option.key_span))
            continue
        if known.is_pattern and known.subject(option.key).split(".")[0] not in columns:
            name = known.subject(option.key)
            near = did_you_mean(name, columns)
            errors.append(
                Diagnostic(
                    "OPT002",
                    f"`{option.key}`: `{table.name}` has no column `{name}`",
                    option.key_span,
                    help=f"did you mean '{known.name.replace('#', near)}'?" if near else None,
                )
            )
            continue
        try:
            settings[option.key] = known.read(option.value)
            accepted = known.refuse(option.value)
            if accepted is not None:
                raise ValueError(accepted)
        except ValueError as error:
            errors.append(wrong_value("OPT003", option.key, option.value, str(error), option.value_span))
    for known in concerned:
        if known.required and known.name not in by_key and known.name not in meant:
            needs = f"the connector '{connector.name}'" if known in connector.options else "the chosen format"
            written = _meant_by(known, table.options, concerned)
            errors.append(
                Diagnostic(
                    "OPT004",
                    f"{needs} needs the option `{known.name}`",
                    table.options_span if written is None else written.key_span,
                    notes=(f"{known.name}: {known.description}",),
                    help=f"add '{known.name}' = '{known.choices[0] if known.choices else '…'}'"
                    if written is None
                    else f"write it instead of '{written.key}'",
                )
            )
    return connector, settings


def _meant_by(missing: OptionDef, given: Sequence[Option], known: Sequence[OptionDef]) -> Option | None:
    """The option that is passed on as it is (`properties.…`), and looks like one that is missing; None: there is none."""
    exact = {option.name for option in known}
    for start in (o.name[:-1] for o in known if o.is_open and missing.name.startswith(o.name[:-1])):
        passed = {
            o.key.removeprefix(start): o for o in given if o.key.startswith(start) and o.key not in exact
        }
        near = did_you_mean(missing.name.removeprefix(start), passed)
        if near is not None:
            return passed[near]
    return None


def _connector(
    table: CreateTable, by_key: Mapping[str, Option], connectors: Connectors, errors: list[Diagnostic]
) -> ConnectorDescriptor | None:
    option = by_key.get(CONNECTOR)
    if option is None:
        errors.append(
            Diagnostic(
                "OPT004",
                f"`{table.name}` has no connector",
                table.options_span,
                notes=(_available(connectors),),
                help="add WITH ('connector' = '…')" if not table.options else "add 'connector' = '…'",
            )
        )
        return None
    connector = connectors.get(option.value)
    if connector is None:
        near = did_you_mean(option.value, connectors.names)
        known = option.value in connectors.elsewhere
        errors.append(
            Diagnostic(
                "OPT001",
                f"the connector '{option.value}' is known from Flink but not available here"
                if known
                else f"there is no connector '{option.value}'",
                option.value_span,
                notes=(_available(connectors),),
                help=f"did you mean '{near}'?" if near and not known else None,
            )
        )
    return connector


def _available(connectors: Connectors) -> str:
    """All that there are: to name them all imports them all."""
    return "connectors: " + ", ".join(f"{c.name} ({c.description})" for c in connectors)
