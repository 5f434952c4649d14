"""One Spark session for all tests that need one, and how hypothesis draws."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from sqlstream.runtime.stages import SparkJobRunner

# The tests draw the same examples each time, so that CI says the same twice; `make search` draws new ones.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("search" if os.environ.get("SQLSTREAM_SEARCH") == "long" else "fixed")


@pytest.fixture(scope="session")
def spark_runner() -> Iterator[SparkJobRunner]:
    """Spark on two cores of this machine."""
    runner = SparkJobRunner.start("local[2]")
    yield runner
    runner.close()
