from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqlstream_operators.duck.session import DuckSession
from tests.connectors.kafka.broker import Broker, run_broker
from tests.connectors.kafka.topics import Topics
from tests.connectors.postgres_server import database, postgres_server

__all__ = ["database", "postgres_server"]


@pytest.fixture(scope="session")
def _one_duck() -> DuckSession:
    return DuckSession()


@pytest.fixture
def duck(_one_duck: DuckSession) -> Iterator[DuckSession]:
    yield _one_duck
    _one_duck.reset()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The broker of this session; a test that stops or kills one makes its own (`new_broker`)."""
    yield from run_broker()


@pytest.fixture
def topics(broker: Broker) -> Topics:
    return Topics(broker)
