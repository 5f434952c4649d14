"""What a catalog of the type `postgres` is, to the planner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.connectors.database.postgres_url import wrong_url
from sqlstream_planner.catalog.foreign.descriptor import CatalogDescriptor
from sqlstream_planner.catalog.options import OptionDef, ValueKind
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.catalog.descriptor import Settings
    from sqlstream_planner.sql.statements import CreateCatalog

_S = ValueKind.STRING


def _wrong(catalog: CreateCatalog, settings: Settings) -> Iterator[Diagnostic]:
    for option in catalog.options:
        wrong = wrong_url(option.value) if option.key == "url" else None
        if wrong is not None:  # the address is not repeated: a password may be anywhere in it
            yield Diagnostic(
                "OPT003",
                "`url` is no address of a PostgreSQL database",
                option.value_span,
                help=f"write {wrong}",
            )


DESCRIPTOR = CatalogDescriptor(
    "postgres",
    "the tables of a PostgreSQL database",
    (
        OptionDef(
            "url",
            _S,
            "postgresql://host:port/database, or the same with jdbc: before it",
            required=True,
        ),
        OptionDef("username", _S, "who connects; without it as in `url` or PGUSER"),
        OptionDef("password", _S, "the password; without it as PGPASSWORD or ~/.pgpass say", secret=True),
        OptionDef("default-database", _S, "the schema that USE CATALOG begins with", default="public"),
    ),
    default_database=lambda settings: str(settings["default-database"]),
    databases="schemas",
    validate=_wrong,
)
