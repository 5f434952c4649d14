"""What the `jdbc` connector is, to the planner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.connectors.jdbc.options import FETCHED, PARTITIONING
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, Settings
from sqlstream_planner.catalog.lookup_options import LOOKUP_OPTIONS, wrong_lookup
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import CreateTable

_SOURCE = (Role.SOURCE,)
_S, _I = ValueKind.STRING, ValueKind.INTEGER
#: A password that nothing would find to be one.
_ORACLE_LOGIN = re.compile(r"jdbc:oracle:\w+:[^@/]+/[^@]*@")
_COLUMN, _NUMBER, _LOWER, _UPPER = PARTITIONING


def _wrong_url(text: str) -> str | None:
    """What to write in place of a `url` that no JDBC driver takes."""
    if _ORACLE_LOGIN.match(text.strip()):
        return "it without 'user/password', and these as 'username' and 'password'"
    scheme, _, rest = text.strip().partition(":")
    return None if scheme == "jdbc" and ":" in rest else "'jdbc:<database>:…', as its driver documents it"


def _wrong(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    yield from wrong_lookup(table, settings)
    written = {option.key: option for option in table.options}
    for option in table.options:
        wrong = _wrong_url(option.value) if option.key == "url" else None
        if wrong is not None:  # the address is not repeated: a password may be anywhere in it
            yield Diagnostic(
                "OPT003", "`url` is no address of JDBC", option.value_span, help=f"write {wrong}"
            )
    given = [key for key in PARTITIONING if key in written]
    missing = [key for key in PARTITIONING if key not in written]
    if given and missing:
        yield Diagnostic(
            "OPT004",
            f"table `{table.name}` has '{given[0]}', and no '{missing[0]}'",
            written[given[0]].key_span,
            help=f"set all of {', '.join(PARTITIONING)}, or none",
        )
    if _COLUMN in written and written[_COLUMN].value not in {column.name for column in table.columns}:
        yield Diagnostic(
            "OPT003",
            f"'{_COLUMN}' names no column of `{table.name}`",
            written[_COLUMN].value_span,
            help="name a column of numbers, dates or times that is declared",
        )


def _instead(settings: Settings) -> str | None:
    """What to write instead of a table that is written."""
    if not str(settings.get("url", "")).strip().lower().startswith("jdbc:postgresql:"):
        return None
    return "write 'connector' = 'postgres': it takes this url, table-name, username and password, and writes exactly once"


DESCRIPTOR = ConnectorDescriptor(
    "jdbc",
    "a table in a database that has a JDBC driver, read once by Spark",
    _SOURCE,
    (
        OptionDef("url", _S, "jdbc:…, as the driver wants it", required=True, roles=_SOURCE),
        OptionDef("table-name", _S, "the table, as the database names it; without it the table's name here"),
        OptionDef("username", _S, "who connects"),
        OptionDef("password", _S, "the password", secret=True, changes_rows=False),
        OptionDef("driver", _S, "the driver's class, if the url does not say it", changes_rows=False),
        OptionDef(_COLUMN, _S, "read ranges of this column at once", changes_rows=False, roles=_SOURCE),
        OptionDef(_NUMBER, _I, "how many ranges", minimum=1, changes_rows=False, roles=_SOURCE),
        OptionDef(_LOWER, _S, "where the first range ends, about", changes_rows=False, roles=_SOURCE),
        OptionDef(_UPPER, _S, "where the last range begins, about", changes_rows=False, roles=_SOURCE),
        OptionDef(
            "scan.fetch-size",
            _I,
            "rows per round trip; 0 leaves it to the driver",
            default=FETCHED,
            minimum=0,
            changes_rows=False,
            roles=_SOURCE,
        ),
        *LOOKUP_OPTIONS,
    ),
    dimension=True,
    lookup=ColumnLookup(by_position=False),
    validate=_wrong,
    writes_instead=_instead,
)
