"""Random files over several tables with several sinks: every sink is what DuckDB gives for its query."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties.file_generator import generated_file
from tests.properties.files import check_file


@settings(
    max_examples=examples(8),
    # A seed has nothing to shrink.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 1 << 32), st.none() | st.integers(1, 8), st.integers(1, 2), st.integers(0, 3))
def test_every_sink_of_a_file_is_what_duckdb_gives(
    drawn: int, rows_per_epoch: int | None, parallelism: int, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_file(
            Path(folder),
            generated_file(drawn),
            rows_per_epoch=rows_per_epoch,
            parallelism=parallelism,
            seed=seed,
        )
