from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqlstream_operators.duck.session import DuckSession
from tests.connectors.kafka.schema_registry import SchemaRegistry, running


@pytest.fixture
def schema_registry() -> Iterator[SchemaRegistry]:
    with running() as registry:
        yield registry


@pytest.fixture(scope="session")
def _one_duck() -> DuckSession:
    return DuckSession()


@pytest.fixture
def duck(_one_duck: DuckSession) -> Iterator[DuckSession]:
    yield _one_duck
    _one_duck.reset()
