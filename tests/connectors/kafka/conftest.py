"""Jobs of sinks that are closed at the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connectors.kafka.sink_job import Job


@pytest.fixture
def made() -> Any:
    jobs: list[Job] = []
    yield jobs
    for job in jobs:
        for sink in job.sinks:
            sink.close()
