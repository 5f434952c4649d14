"""Kills at random moments while rows come and the pipeline is rescaled and edited: each result is there once.

A few in CI, in the driver's mode; SQLSTREAM_SEARCH=long takes Spark's, too, and other seeds each time, and
SQLSTREAM_EXAMPLES says how many.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.kafka.trials import trial
from tests.examples import is_long, seeds

KILLS = 9 if is_long() else 2


@pytest.mark.kill
@pytest.mark.search
@pytest.mark.parametrize("seed", seeds(1))
def test_a_trial_in_the_driver(tmp_path: Path, seed: int) -> None:
    trial(tmp_path, seed, spark=False, kills=KILLS)


@pytest.mark.skipif(not is_long(), reason="takes five minutes and more: in the long searches (make search)")
@pytest.mark.kill
@pytest.mark.spark
@pytest.mark.search
@pytest.mark.parametrize("seed", seeds(1))
def test_a_trial_on_spark(tmp_path: Path, seed: int) -> None:
    trial(tmp_path, seed, spark=True, kills=KILLS)
