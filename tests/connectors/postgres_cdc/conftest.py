from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.postgres_cdc.reading import SLOTS
from tests.connectors.postgres_server import Database, Server
from tests.connectors.postgres_server import database as plain


@pytest.fixture
def cdc(database: Database) -> Iterator[Database]:
    """A database whose slots are dropped before it is."""
    yield database
    database.rows(SLOTS)


__all__ = ["Server", "plain"]
