"""How large records are is looked at once for all partitions, and again when one has gone on far; no broker is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pyarrow as pa
import pytest

from sqlstream.connectors.api import Limits
from sqlstream.connectors.kafka.client import client_config
from sqlstream.connectors.kafka.record_sizes import RecordSizes

Part = tuple[str, int]


class Looks:
    """Partitions whose records have a size each; remembers which were looked at together, and what was read of them."""

    def __init__(self, sizes: Mapping[Part, int], first: int | None = None) -> None:
        self._sizes, self._first = sizes, first
        self.together: list[Mapping[Part, int]] = []
        self.read: list[tuple[Part, int, int]] = []

    def __call__(self, begin: Mapping[Part, int]) -> Any:
        self.together.append(dict(begin))
        return _Look(self)

    def records(self, part: Part, begin: int, end: int) -> pa.Table:
        self.read.append((part, begin, end))
        sizes = [
            self._first or self._sizes[part] if at == 0 else self._sizes[part] for at in range(begin, end)
        ]
        values = pa.array([b"x" * size for size in sizes], pa.large_binary())
        return pa.table({"key": pa.nulls(len(sizes), pa.large_binary()), "value": values})


class _Look:
    def __init__(self, looks: Looks) -> None:
        self._looks = looks

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open."""

    def read(self, part: Part, begin: int, end: int) -> pa.Table:
        return self._looks.records(part, begin, end)


A, B = ("t", 0), ("t", 1)
LITTLE = Limits(rows=10_000_000, bytes=1 << 20)


def test_all_partitions_are_looked_at_together_and_each_once() -> None:
    looks = Looks({A: 100, B: 1000})
    sizes = RecordSizes(looks)
    for _ in range(2):
        counts = sizes.counts({A: 5, B: 7}, {A: 1_000_000, B: 1_000_000}, LITTLE)
        assert counts[A] * 100 + counts[B] * 1000 == pytest.approx(1 << 20, rel=0.01)
    assert looks.together == [{A: 5, B: 7}]
    assert sizes.known == {A: 100.0, B: 1000.0}


def test_only_the_partition_that_has_gone_on_far_is_looked_at_again() -> None:
    looks = Looks({A: 100, B: 100})
    sizes = RecordSizes(looks)
    waiting = {A: 9_000_000, B: 9_000_000}
    sizes.counts({A: 0, B: 0}, waiting, LITTLE)
    sizes.counts({A: 999_999, B: 1_000_000}, waiting, LITTLE)
    assert looks.together == [{A: 0, B: 0}, {B: 1_000_000}]
    sizes.counts({A: 999_999, B: 3}, waiting, LITTLE)
    assert looks.together[2:] == [{B: 3}], "an offset before the one that was looked at"


def test_a_large_first_record_is_all_that_is_read() -> None:
    looks = Looks({A: 10}, first=2 << 20)
    counts = RecordSizes(looks).counts({A: 0}, {A: 50}, LITTLE)
    assert looks.read == [(A, 0, 1)]
    assert counts == {A: 1}, "one record is always read"


def test_nothing_is_read_behind_what_waits() -> None:
    looks = Looks({A: 10})
    RecordSizes(looks).counts({A: 40}, {A: 3}, LITTLE)
    assert looks.read == [(A, 40, 41), (A, 41, 43)]


def test_few_records_are_not_looked_at() -> None:
    looks = Looks({})
    assert RecordSizes(looks).counts({A: 0}, {A: 3}, Limits(rows=10, bytes=100 << 20)) == {A: 3}
    assert RecordSizes(looks).counts({A: 0}, {A: 30}, Limits(rows=10)) == {A: 10}
    assert looks.together == []


@pytest.mark.parametrize(
    ("given", "backoff"),
    [
        ({}, "20"),
        ({"reconnect.backoff.ms": "7"}, "7"),
        ({"reconnect.backoff.max.ms": "9"}, None),  # ours may be beyond it, which the client refuses
    ],
)
def test_a_client_tries_again_soon_unless_the_table_says_when(
    given: dict[str, str], backoff: str | None
) -> None:
    assert client_config({"bootstrap.servers": "h:1", **given}).get("reconnect.backoff.ms") == backoff
