"""The package `pyiceberg`, a catalog by it, and a table of that."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from sqlstream.connectors.exactly_once.sink import ATTEMPTS, PAUSE_S
from sqlstream.connectors.exactly_once.target import unusable
from sqlstream.connectors.extras import installed
from sqlstream.connectors.iceberg.options import GLUE, REST, SQL, TablePlace
from sqlstream_operators.errors import InternalError
from sqlstream_planner.text.masking import HIDDEN, masked_message, secrets_in_url

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_T = TypeVar("_T")
#: How many lines of an error of the libraries are reported: behind them is what their developers need.
_LINES = 2
_MARKS = re.compile(r"[@/?#:]")
#: What is shorter may stand anywhere, as a part of other words.
_SHORTEST = 3
#: Catalogs that answer within bounds, for those of PyIceberg that may not.
_BOUNDED = {
    REST: "sqlstream.connectors.iceberg.rest_catalog.BoundedRestCatalog",
    GLUE: "sqlstream.connectors.iceberg.glue_catalog.BoundedGlueCatalog",
}
#: A catalog and its connection, of a process and a file: one that is forked has others, and so has a copy that is restored.
_Key = tuple[int, int, TablePlace, bool]


def pyiceberg(place: TablePlace | None = None) -> ModuleType:
    """The package, with what the catalog needs. Raises DiagnosticError (ENV009) if it is not installed."""
    if place is not None and place.type == SQL:
        installed("sqlalchemy", "SQLAlchemy, which has Iceberg's SQL catalogs", "iceberg")
    if place is not None and place.type == GLUE:
        installed("boto3", "AWS's library, which asks Glue", "glue")
    return installed("pyiceberg", "Iceberg's library", "iceberg")


def catalog_of(place: TablePlace, *, create: bool = False) -> Catalog | None:
    """The table's catalog; None if it is a file that is not there. `create` makes it, in a database.

    Raises what `pyiceberg` does.
    """
    file = place.sqlite_file
    if file is not None and not Path(file).exists():
        if not create:
            return None
        Path(file).parent.mkdir(parents=True, exist_ok=True)
    inode = Path(file).stat().st_ino if file is not None and Path(file).exists() else 0
    return _opened((os.getpid(), inode, place, create))


@functools.lru_cache(maxsize=16)
def _opened(key: _Key) -> Catalog:
    from pyiceberg.catalog import load_catalog

    from sqlstream.connectors.iceberg.files import OPENING

    _, _, place, create = key
    bounded = _BOUNDED.get(place.type)
    kind = {"type": place.type} if bounded is None else {"py-catalog-impl": bounded}
    given = {
        **kind,
        "uri": place.uri,
        "py-io-impl": "sqlstream.connectors.iceberg.files.StoreFiles",
        OPENING: place.opening,
        "warehouse": place.warehouse,
        "credential": place.credential,
        "token": place.token,
    }
    if place.type == SQL:
        given["init_catalog_tables"] = str(create).lower()
    if place.type == GLUE:
        from sqlstream.connectors.iceberg.glue_catalog import ACCOUNT, ENDPOINT, REGION

        given |= {REGION: place.region, ACCOUNT: place.account, ENDPOINT: place.endpoint}
    return load_catalog(place.catalog, **{name: value for name, value in given.items() if value})


def open_table(place: TablePlace) -> Table | None:
    """The table as it is now, None if there is none.

    Raises what `pyiceberg` does, and DiagnosticError (ENV006) for a table that is no Iceberg table.
    """
    from pyiceberg.exceptions import (
        NoSuchIcebergTableError,
        NoSuchNamespaceError,
        NoSuchPropertyException,
        NoSuchTableError,
    )

    catalog = catalog_of(place)
    if catalog is None:
        return None
    try:
        return catalog.load_table(place.identifier)
    except (NoSuchIcebergTableError, NoSuchPropertyException):  # Glue has tables of Hive beside them
        raise unusable(
            f"the table {place.shown}",
            "it is there, and it is no Iceberg table",
            "choose another 'catalog-table'",
            done="used",
        ) from None
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:
        if place.type == SQL and "iceberg_tables" in str(error) and _says_absent(str(error)):
            return None  # a database without a catalog
        raise


def _says_absent(text: str) -> bool:
    return "no such table" in text or "does not exist" in text or "UndefinedTable" in text


def failures(place: TablePlace) -> tuple[type[Exception], ...]:
    """What is raised if the catalog or the store fails."""
    from pyiceberg.exceptions import RESTError

    if place.type == GLUE:
        from sqlstream.connectors.iceberg.glue_catalog import FAILURES

        return OSError, RESTError, *FAILURES
    if place.type != SQL:
        return OSError, RESTError
    from sqlalchemy.exc import SQLAlchemyError

    return OSError, RESTError, SQLAlchemyError


def attempt(place: TablePlace, work: Callable[[], _T], *, done: str) -> _T:
    """Do something that may be done twice, again after the catalog or the store has failed.

    `done` is what it does to the table. Raises DiagnosticError (ENV006) if it goes on failing, or can't be done.
    """
    pyiceberg(place)
    from pyiceberg.exceptions import BadRequestError, CommitFailedException, ForbiddenError, OAuthError

    trouble: tuple[type[Exception], ...] = (*failures(place), CommitFailedException)
    for number in range(ATTEMPTS):
        try:
            return work()
        except trouble as error:
            final = isinstance(error, BadRequestError | ForbiddenError | OAuthError) or _refused(error, place)
            if number + 1 < ATTEMPTS and not final:
                time.sleep(PAUSE_S * (1 + number))
                continue
            raise unusable(f"the table {place.shown}", in_short(error, place), done=done) from error
    raise InternalError("a last attempt neither succeeds nor fails")


def _refused(error: Exception, place: TablePlace) -> bool:
    if place.type != GLUE:
        return False
    from sqlstream.connectors.iceberg.glue_catalog import is_final

    return is_final(error)


def in_short(error: Exception, place: TablePlace) -> str:
    """What an error of the libraries says, without passwords and what only their developers need.

    Of a password with a bare @ they take a part for the host, and say it.
    """
    told = str(error)
    if place.type == GLUE:
        from sqlstream.connectors.iceberg.glue_catalog import said

        told = said(error) or told
    lines = [line.strip() for line in told.strip().splitlines()]
    shown = [line for line in lines if line and not line.startswith(("[SQL", "[parameters", "(Background"))]
    text = masked_message(", ".join(shown[:_LINES])) or type(error).__name__
    for begin, end in secrets_in_url(place.uri):
        for part in _MARKS.split(place.uri[begin:end]):
            text = text.replace(part, HIDDEN) if len(part) > _SHORTEST else text
    return text
