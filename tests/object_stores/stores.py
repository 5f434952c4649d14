"""The servers of object stores that tests run against: each of a kind is started once a file of tests, or the test skips."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.object_stores.azure_server import run_azure
from tests.object_stores.s3_server import run_server
from tests.object_stores.store_server import StoreServer

_STORES = {"s3": run_server, "azure": run_azure}
#: To parametrize fixtures with.
KINDS = sorted(_STORES)


def running(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    """The server that a fixture's parameter names."""
    yield from _STORES[request.param]()
