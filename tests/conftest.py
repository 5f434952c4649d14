"""One Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqlstream.runtime.stages import SparkJobRunner


@pytest.fixture(scope="session")
def spark_runner() -> Iterator[SparkJobRunner]:
    """Spark on two cores of this machine."""
    runner = SparkJobRunner.start("local[2]")
    yield runner
    runner.close()
