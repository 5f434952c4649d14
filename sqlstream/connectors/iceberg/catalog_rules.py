"""What options of a catalog, of a table or of CREATE CATALOG, mean together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.connectors.iceberg.options import GLUE, GLUE_OPTIONS, REST, SQL, TABLE_OPTIONS
from sqlstream_planner.catalog.descriptor import Settings
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import CreateCatalog, CreateTable

#: The types of catalogs that have an option, and what it is there.
_OF_TYPES = {
    "uri": ((REST, SQL), "where a REST catalog or a database is"),
    "credential": ((REST,), "of a REST catalog"),
    "token": ((REST,), "of a REST catalog"),
    **{option.name: ((GLUE,), "of a catalog in AWS Glue") for option in GLUE_OPTIONS},
}
_INSTEAD = {
    REST: "leave it out; a REST catalog is found by `uri`",
    SQL: "leave it out; a database's password is in `uri`",
    GLUE: "leave it out; Glue is found by `client.region`, and credentials as AWS's tools find them "
    "(AWS_PROFILE, AWS_ACCESS_KEY_ID, the machine's role)",
}
_CALLED = {REST: "is a REST catalog", SQL: "is in a database", GLUE: "is AWS Glue"}


def wrong_catalog(statement: CreateTable | CreateCatalog, settings: Settings) -> Iterator[Diagnostic]:
    """What is wrong with the options that say which catalog it is."""
    type_ = str(settings.get("catalog-type"))
    given = {option.key: option for option in statement.options}
    for name, (types, what) in _OF_TYPES.items():
        if name in given and type_ not in types:
            yield Diagnostic(
                "OPT003",
                f"`{name}` is {what}, and this one {_CALLED[type_]}",
                given[name].key_span,
                help=_INSTEAD[type_],
            )
    if "@" in str(settings.get("glue.endpoint") or ""):  # not shown: it may be any part of a password
        yield Diagnostic(
            "OPT003",
            "`glue.endpoint` has a login, which nobody would be given: requests are signed by who asks",
            given["glue.endpoint"].key_span,
            help="write 'http://host:port'; credentials are found as AWS's tools find them",
        )
    if type_ != GLUE and "uri" not in given:
        (uri,) = (option for option in TABLE_OPTIONS if option.name == "uri")
        yield Diagnostic(
            "OPT004",
            f"a catalog of the type '{type_}' needs the option `uri`",
            statement.options_span,
            notes=(f"uri: {uri.description}",),
            help="add 'uri' = '…'",
        )


def wrong_names(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """Names that AWS Glue can't have: it would store others, so that one table had two."""
    if settings.get("catalog-type") != GLUE:
        return
    given = {option.key: option for option in table.options}
    for name, default in (("catalog-database", ""), ("catalog-table", table.name)):
        text = str(settings.get(name) or default).strip()
        there = given.get(name)
        span = table.name_span if there is None else there.value_span
        if text != text.lower():
            yield Diagnostic(
                "OPT003",
                f"AWS Glue has names in lower case only, and '{text}' is not",
                span,
                help=f"write '{name}' = '{text.lower()}'",
            )
        elif name == "catalog-database" and "." in text:
            yield Diagnostic(
                "OPT003",
                f"a database of AWS Glue is in no other, and '{text}' would be",
                span,
                help="name a database without a dot",
            )
