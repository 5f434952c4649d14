"""Jobs of sinks that are closed at the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connectors.sink_job import SinkJob


@pytest.fixture
def made() -> Any:
    jobs: list[SinkJob] = []
    yield jobs
    for job in jobs:
        for sink in job.sinks:
            sink.close()
