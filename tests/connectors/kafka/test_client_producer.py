"""What is handed to librdkafka as addresses is what readers get: every field, NULL and empty, any slice, any partition."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.kafka.failures import Failures
from sqlstream.connectors.kafka.librdkafka.consumer import HEADERS
from sqlstream.connectors.kafka.producing import Producing
from sqlstream.connectors.kafka.records import Records
from sqlstream_operators.errors import InternalError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.kafka.topics import Topics
from tests.examples import examples

_PARTITIONS = 3
_TEXT = st.none() | st.binary(max_size=6)
_HEADERS = st.none() | st.lists(st.tuples(st.text("aé", max_size=3), _TEXT), max_size=3)
_RECORDS = st.lists(
    st.tuples(
        _TEXT,
        _TEXT,
        st.integers(0, _PARTITIONS - 1),
        st.none() | st.integers(1, 1 << 41),
        _HEADERS,
    ),
    min_size=1,
    max_size=12,
)


def _array(values: list[Any], type_: pa.DataType, skip: int) -> pa.Array:
    """An array that does not begin where its memory does."""
    return pa.array([None] * skip + values, type_).slice(skip)


@given(
    rows=_RECORDS,
    skip=st.integers(0, 2),
    fields=st.sets(st.sampled_from(["keys", "partitions", "timestamps", "headers"])),
)
@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_readers_get_what_was_sent(
    topics: Topics, rows: list[tuple[Any, ...]], skip: int, fields: set[str]
) -> None:
    topic = topics.create(_PARTITIONS)
    types = {
        "keys": pa.large_binary(),
        "partitions": pa.int32(),
        "timestamps": pa.int64(),
        "headers": HEADERS,
    }
    values, *others = zip(*rows, strict=True)
    columns = dict(zip(types, others, strict=True))
    given_columns = {name: _array(list(columns[name]), types[name], skip) for name in fields}
    producing = Producing(
        {"bootstrap.servers": topics.bootstrap},
        topic,
        Failures("t", topic, f"t-{topic}", "g"),
        transactions=f"t-{topic}",
    )
    producing.open()
    records = Records(_array(list(values), pa.large_binary(), skip), **given_columns)
    producing.send(records, partition=None if "partitions" in fields else 0, partitions=_PARTITIONS)
    producing.drain()
    assert topics.records(topic, settled=False) == [], "nothing is committed"
    producing.commit()
    producing.close()

    def there(name: str, row: int) -> Any:
        return columns[name][row] if name in fields else None

    wanted = defaultdict(list)
    for number, value in enumerate(values):
        headers = tuple(there("headers", number) or ())
        wanted[there("partitions", number) or 0].append(
            (value, there("keys", number), there("timestamps", number), headers)
        )
    found = defaultdict(list)
    for one in topics.records(topic):
        found[one.partition].append((one.value, one.key, one.timestamp, one.headers))
    assert {n: [(v, k, h) for v, k, _, h in part] for n, part in found.items()} == {
        n: [(v, k, h) for v, k, _, h in part] for n, part in wanted.items()
    }
    times = [
        (seen[2], meant[2])
        for number, part in found.items()
        for seen, meant in zip(part, wanted[number], strict=True)
    ]
    assert all(seen == meant for seen, meant in times if meant is not None)


def test_a_small_buffer_is_waited_for(topics: Topics) -> None:
    topic = topics.create()
    producing = Producing(
        {"bootstrap.servers": topics.bootstrap, "queue.buffering.max.kbytes": "64"},
        topic,
        Failures("t", topic, "t", "g"),
        transactions=None,
    )
    producing.open()
    values = [b"%06d" % n + bytes(1000) for n in range(10_000)]
    producing.send(Records(pa.array(values, pa.large_binary())), partition=None, partitions=1)
    producing.drain()
    producing.close()
    assert topics.values(topic) == values


def test_other_types_than_bytes_are_no_records(topics: Topics) -> None:
    producing = Producing(
        {"bootstrap.servers": topics.bootstrap}, "t", Failures("t", "t", "t", "g"), transactions=None
    )
    producing.open()
    with pytest.raises(InternalError, match="string where the bytes"):
        producing.send(Records(pa.array(["a"])), partition=None, partitions=1)


def test_a_property_that_the_client_refuses(topics: Topics) -> None:
    producing = Producing(
        {"bootstrap.servers": topics.bootstrap, "linger.ms": "soon"},
        "t",
        Failures("t", "t", "t", "g"),
        transactions=None,
    )
    with pytest.raises(DiagnosticError, match=r"properties\.linger\.ms"):
        producing.open()
