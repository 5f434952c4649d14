"""An exchange loses nothing, keeps the order inside a shard, and puts equal keys together."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.codec.exchange import COMPRESS_FROM, decode, encode, partition
from sqlstream_operators.codec.keys import group_range, key_groups

ROWS = st.lists(
    st.tuples(st.none() | st.integers(-5, 5), st.none() | st.text(max_size=3), st.integers()), max_size=40
)


def table_of(rows: list[tuple[int | None, str | None, int]]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([row[0] for row in rows], pa.int64()),
            "s": pa.array([row[1] for row in rows], pa.string()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )


@settings(max_examples=100, deadline=None)
@given(ROWS, st.sampled_from([(), ("k",), ("k", "s")]), st.integers(1, 7))
def test_partition_is_a_stable_partition_by_key_group(
    rows: list[tuple[int | None, str | None, int]], keys: tuple[str, ...], shards: int
) -> None:
    table = table_of(rows)
    parts = partition(table, keys, 16, shards)
    assert [shard for shard, _ in parts] == sorted({shard for shard, _ in parts})
    seen = []
    for shard, part in parts:
        assert part.num_rows > 0
        low, high = group_range(shard, shards, 16)
        groups = key_groups([part.column(key) for key in keys], 16, rows=part.num_rows)
        assert low <= groups.min()
        assert groups.max() < high
        numbers = part.column("n").to_pylist()
        assert numbers == sorted(numbers)
        seen += part.to_pylist()
    assert sorted(seen, key=lambda row: row["n"]) == table.to_pylist()


@settings(max_examples=50, deadline=None)
@given(ROWS, st.integers(1, 5), st.sampled_from([None, True, False]))
def test_blobs_come_back_in_the_order_of_their_producers(
    rows: list[tuple[int | None, str | None, int]], pieces: int, compress: bool | None
) -> None:
    table = table_of(rows)
    step = max(1, -(-len(rows) // pieces))
    blobs = [encode(table.slice(at, step), compress=compress) for at in range(0, len(rows) or 1, step)]
    assert decode(blobs).equals(table)


def test_a_slice_ships_only_its_own_rows() -> None:
    table = pa.table({"s": ["x" * 1000] * 1000})
    assert len(encode(table.slice(5, 1))) < 3_000


def test_only_large_tables_are_compressed() -> None:
    large = pa.table({"n": pa.array([7] * (COMPRESS_FROM // 8))})
    assert len(encode(large)) < COMPRESS_FROM // 10
    small = large.slice(0, 100)
    assert len(encode(small)) > 800


def test_one_shard_costs_no_copy() -> None:
    table = pa.table({"k": pa.array([1, 2, 3])})
    [(shard, part)] = partition(table, ["k"], 16, 1)
    assert shard == 0
    assert part is table


def test_decoding_does_not_copy() -> None:
    blob = encode(pa.table({"k": pa.array(range(1000))}), compress=False)
    before = pa.total_allocated_bytes()
    table = decode([blob])
    assert table.num_rows == 1000
    assert pa.total_allocated_bytes() - before < 1000


def test_decode_needs_a_blob() -> None:
    with pytest.raises(pa.ArrowInvalid):
        decode([])
