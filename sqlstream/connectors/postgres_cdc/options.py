"""The options of a table whose changes are read, as data and read once; called as in Flink's `postgres-cdc`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.connectors.database.declared import table_in
from sqlstream.connectors.options import bad_option
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_SOURCE = (Role.SOURCE,)
_S = ValueKind.STRING
SLOT, PUBLICATION, SCHEMA, TABLE = "slot.name", "publication.name", "schema-name", "table-name"
_SLOT = re.compile(r"[a-z0-9_]{1,63}")


def wrong_slot(text: str) -> str | None:
    """What to write in place of a name that no slot can have."""
    if _SLOT.fullmatch(text):
        return None
    return "a name of at most 63 lower-case letters, digits and _"


def _wrong_publication(text: str) -> str | None:
    return None if 0 < len(text.encode()) <= 63 else "a name of 1 to 63 bytes"


OPTIONS = (
    OptionDef(
        SLOT,
        _S,
        "the replication slot, which the first run makes; tables of one pipeline may share it",
        required=True,
        roles=_SOURCE,
        refuse=wrong_slot,
    ),
    OptionDef(
        PUBLICATION,
        _S,
        "the publication, which the first run makes if it is not there; without it as the slot",
        roles=_SOURCE,
        changes_rows=False,
        refuse=_wrong_publication,
    ),
    OptionDef(SCHEMA, _S, "the table's schema, if `table-name` has none", roles=_SOURCE),
    OptionDef(
        "decoding.plugin.name",
        ValueKind.ENUM,
        "what decodes the log: PostgreSQL's own",
        default="pgoutput",
        choices=("pgoutput",),
        roles=_SOURCE,
    ),
)


@dataclass(frozen=True, slots=True)
class CdcOptions:
    """What the options of a table say; `schema` None: the connection's."""

    slot: str
    publication: str
    schema: str | None
    table: str

    @classmethod
    def read(cls, options: Mapping[str, str], name: str) -> CdcOptions:
        """The options of the table `name`. Raises DiagnosticError for a value that can't be used."""
        slot = options.get(SLOT, "").strip()
        wrong = wrong_slot(slot)
        if wrong is not None:
            raise bad_option(SLOT, slot, wrong)
        schema, table = table_in(options, name)
        return cls(slot, options.get(PUBLICATION, slot), schema or options.get(SCHEMA), table)
