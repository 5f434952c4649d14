"""What the `nexmark` connector is, to the planner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.connectors.generators.nexmark_columns import unknown_columns
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

if TYPE_CHECKING:
    from sqlstream_planner.diagnostics import Diagnostic
    from sqlstream_planner.sql.statements import CreateTable

_SOURCE = (Role.SOURCE,)
_I = ValueKind.INTEGER


def _columns(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    from sqlstream_planner.sql.statements import (
        PhysicalColumn,  # not in tasks, where this module is loaded, too
    )

    return unknown_columns((c.name, c.type, c.span) for c in table.columns if isinstance(c, PhysicalColumn))


DESCRIPTOR = ConnectorDescriptor(
    "nexmark",
    "the Nexmark auction: persons, auctions and bids (ours)",
    _SOURCE,
    (
        OptionDef(
            "events",
            _I,
            "how many events are made; without it the source never ends",
            roles=_SOURCE,
            minimum=0,
            ends=True,
        ),
        OptionDef("rate", _I, "events per second of event time", default="10000", roles=_SOURCE, minimum=1),
        OptionDef(
            "rows-per-second",
            _I,
            "at most this many events per second",
            roles=_SOURCE,
            minimum=1,
            changes_rows=False,
            paces=True,
        ),
        OptionDef(
            "out-of-order",
            ValueKind.DURATION,
            "how much later than its time an event may come",
            default="0 ms",
            roles=_SOURCE,
        ),
        OptionDef("seed", _I, "events depend on it and on nothing else", default="0", roles=_SOURCE),
        OptionDef(
            "base-time",
            ValueKind.TIMESTAMP,
            "the time of the first event",
            default="2024-01-01 00:00:00",
            roles=_SOURCE,
        ),
        OptionDef("first-event", _I, "the number of the first event", default="0", roles=_SOURCE, minimum=0),
    ),
    bounded=lambda settings: "events" in settings,
    lookup=ColumnLookup(by_position=False, any_case=True, alone=True),
    validate=_columns,
)
