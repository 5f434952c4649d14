"""What the `datagen` connector is, to the planner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream_operators.plan.types import NESTED, Kind
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

if TYPE_CHECKING:
    from sqlstream_planner.diagnostics import Diagnostic
    from sqlstream_planner.sql.statements import CreateTable

_SOURCE = (Role.SOURCE,)
_I, _N = ValueKind.INTEGER, ValueKind.NUMBER

# A column's values follow from the seed, its name, its options and the row's number, and from no other column.
_LOOKUP = ColumnLookup(by_position=False, alone=True)


def bounded(settings: Settings) -> bool:
    """Whether there is a last row: a number of rows, or a sequence, which has an end."""
    return "number-of-rows" in settings or any(
        key.startswith("fields.") and key.endswith(".kind") and value == "sequence"
        for key, value in settings.items()
    )


#: Columns that every value can be made for, whatever the options say.
_PLAIN = frozenset(Kind) - NESTED - {Kind.NULL, Kind.UNKNOWN}


def _refused(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """What the generator can't make: values of a type, or with such options (OPT020 to OPT022)."""
    from sqlstream_planner.sql.statements import (
        PhysicalColumn,  # not in tasks, where this module is loaded, too
    )

    columns = [c for c in table.columns if isinstance(c, PhysicalColumn)]
    if all(c.type.kind in _PLAIN for c in columns) and not any("." in o.key for o in table.options):
        return  # the generator takes 0.15 s to load
    from sqlstream.connectors.generators.datagen import DatagenGenerator
    from sqlstream_planner.diagnostics import DiagnosticError

    options = {option.key: option.value for option in table.options}
    try:
        DatagenGenerator(tuple((c.name, c.type) for c in columns), options)
    except DiagnosticError as error:
        for found in error.diagnostics:
            # The generator knows no places; its messages name the option, or the column.
            at = [o.value_span for o in table.options if f"`{o.key}`" in found.message]
            at += [
                c.span for c in columns if f"`{c.name}`" in found.message or f"`{c.name}." in found.message
            ]
            yield replace(found, span=(*at, table.options_span)[0])


DESCRIPTOR = ConnectorDescriptor(
    "datagen",
    "made-up rows",
    _SOURCE,
    (
        # A row's time is its number divided by this, so it changes the rows.
        OptionDef(
            "rows-per-second",
            _I,
            "how fast rows are made",
            default="10000",
            roles=_SOURCE,
            minimum=1,
            paces=True,
        ),
        OptionDef(
            "number-of-rows",
            _I,
            "how many rows are made; without it the source never ends",
            roles=_SOURCE,
            minimum=0,
            ends=True,
        ),
        OptionDef("seed", _I, "rows depend on it and on nothing else (ours)", default="0", roles=_SOURCE),
        OptionDef(
            "base-time",
            ValueKind.TIMESTAMP,
            "the time of the first row (ours)",
            default="2024-01-01 00:00:00",
            roles=_SOURCE,
        ),
        OptionDef(
            "fields.#.kind",
            ValueKind.ENUM,
            "how the column's values are made",
            default="random",
            choices=("random", "sequence"),
            roles=_SOURCE,
        ),
        OptionDef("fields.#.min", _N, "the least random value", roles=_SOURCE),
        OptionDef("fields.#.max", _N, "the greatest random value", roles=_SOURCE),
        OptionDef(
            "fields.#.max-past", ValueKind.DURATION, "how far a random time lies back at most", roles=_SOURCE
        ),
        OptionDef("fields.#.length", _I, "the length of text, arrays and maps", roles=_SOURCE, minimum=0),
        OptionDef(
            "fields.#.var-len",
            ValueKind.BOOLEAN,
            "lengths vary up to `length`",
            default="false",
            roles=_SOURCE,
        ),
        OptionDef(
            "fields.#.null-rate",
            _N,
            "the share of NULLs",
            default="0",
            roles=_SOURCE,
            minimum=0,
            maximum=1,
        ),
        OptionDef("fields.#.start", _I, "the first value of a sequence", roles=_SOURCE),
        OptionDef("fields.#.end", _I, "the last value of a sequence; the source ends with it", roles=_SOURCE),
        OptionDef(
            "scan.parallelism",
            _I,
            "how many tasks make rows",
            roles=_SOURCE,
            minimum=1,
            changes_rows=False,
        ),
    ),
    bounded=bounded,
    lookup=_LOOKUP,
    validate=_refused,
)
