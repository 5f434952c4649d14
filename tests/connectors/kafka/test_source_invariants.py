"""However records are produced to partitions, and however reading is cut into epochs, splits and runs: each is read once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import Limits
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.types import BIGINT, INTEGER
from tests.connectors.kafka.sources import Reading, table
from tests.connectors.kafka.topics import Topics
from tests.examples import examples

_Produced = Sequence[tuple[int, int]]
_STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 2), st.integers(-9, 9)), max_size=12),
        st.integers(1, 7),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(4), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_STEPS)
def test_each_record_is_read_once(
    topics: Topics, duck: DuckSession, steps: Sequence[tuple[_Produced, int, bool]]
) -> None:
    topic = topics.create(3)
    spec = table(topics.bootstrap, {"topic": topic}, metadata={"partition": INTEGER, "offset": BIGINT})
    with tempfile.TemporaryDirectory() as folder:
        reading = Reading(spec, Path(folder), duck)
        at = reading.source.initial_position()
        rows, written, n = [], [], 0
        for produced, most, another_run in steps:
            for partition in sorted({p for p, _ in produced}):
                values = [value for p, value in produced if p == partition]
                new = [(str(n + place), value, partition) for place, value in enumerate(values)]
                topics.produce(topic, [json.dumps({"k": k, "v": v}) for k, v, _ in new], partition=partition)
                written += new
                n += len(new)
            if another_run:
                reading = reading.again()
            for number, epoch in enumerate(reading.epochs(at, Limits(rows=most))):
                if number == 0:  # what a run that dies reads once more: the same
                    assert reading.again().epoch(at, Limits(rows=most)).rows == epoch.rows
                rows += epoch.rows
                at = epoch.after
            assert sorted(row[:3] for row in rows) == sorted(written), "all that is there, once"
        history, anew = reading.source.until(at), []
        begin = history.initial_position()
        while not (epoch := reading.epoch(begin, Limits(rows=5), source=history)).exhausted:
            anew += epoch.rows
            begin = epoch.after
        assert sorted(anew + epoch.rows) == sorted(rows), "and its history is the same"
    for partition in range(3):
        offsets = [row[3] for row in rows if row[2] == partition]
        assert offsets == list(range(len(offsets))), "in the order of each partition"
    if written:
        [expected] = duckdb.sql(
            f"SELECT count(*), sum(v) FROM (VALUES {', '.join(map(repr, written))}) t(k, v, p)"
        ).fetchall()
        assert (len(rows), sum(row[1] for row in rows)) == expected
