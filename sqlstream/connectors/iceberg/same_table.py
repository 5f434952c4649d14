"""Whether two tables of a file are one: by its name in one catalog, or in two catalogs that both lead to it."""

from __future__ import annotations

import os
import re

from sqlstream.connectors.iceberg.library import failures, open_table, pyiceberg
from sqlstream.connectors.iceberg.options import GLUE, REST, SQL, TablePlace
from sqlstream_planner.diagnostics import DiagnosticError

#: AWS gives a Glue catalog the REST interface, too.
_GLUE_AS_REST = re.compile(
    r"https://glue\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)/iceberg(?:/.*)?"
)


def same_table(one: TablePlace, other: TablePlace) -> str | None:
    """How two places are one table, for the end of a message; None: they are two, as far as can be told.

    Of a Glue catalog what is not said may be what the other one says, so that the two count as one. Of other catalogs the
    tables' own ids tell, if both can be opened: a table that can't be is reported where it is read or written.
    """
    glue = [_glue(place) for place in (one, other)]
    if glue[0] is not None and glue[1] is not None:
        if one.identifier != other.identifier:
            return None
        if all(not a or not b or a == b for a, b in zip(glue[0], glue[1], strict=True)):
            return ""
    elif _catalog(one) == _catalog(other):
        return "" if one.identifier == other.identifier else None
    ids = [_id(place) for place in (one, other)]
    return ", by another catalog" if ids[0] is not None and ids[0] == ids[1] else None


def _glue(place: TablePlace) -> tuple[str, str, str] | None:
    """Region, account and endpoint, "" for what is not said; None: it is not in Glue."""
    if place.type == GLUE:
        return place.region, place.account, place.endpoint
    found = _GLUE_AS_REST.fullmatch(place.uri) if place.type == REST else None
    return None if found is None else (found[1], place.warehouse.partition(":")[0], "")


def _catalog(place: TablePlace) -> tuple[str, str, str]:
    """A catalog: the warehouse only says where new tables go, and a catalog in SQLite is a file."""
    file = place.sqlite_file
    uri = place.uri.rstrip("/") if file is None else os.path.realpath(file)
    return ("" if place.type != GLUE else GLUE, uri, place.catalog if place.type == SQL else "")


def _id(place: TablePlace) -> str | None:
    """What the table itself is known by, in whatever catalog; None if it is not there, or can't be opened."""
    try:
        pyiceberg(place)
    except DiagnosticError:
        return None
    trouble: tuple[type[Exception], ...] = (DiagnosticError, *failures(place))
    try:
        table = open_table(place)
    except trouble:
        return None
    return None if table is None else str(table.metadata.table_uuid)
