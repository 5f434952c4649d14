"""A damaged block is an error wherever it is read: rows behind it are never left out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlstream_operators.state.rocks import RocksBytes

KEYS = [b"\x00%06d" % number for number in range(20_000)]
ALL = (b"\x00", b"\xff")


@pytest.fixture
def damaged(tmp_path: Path) -> RocksBytes:
    rocks = RocksBytes(tmp_path / "db")
    rocks.apply((), KEYS, [os.urandom(40) for _ in KEYS], "marker")
    rocks.flush()
    rocks.close()
    [file] = (tmp_path / "db").glob("*.sst")
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 50] = bytes(50)
    file.write_bytes(content)
    return RocksBytes(tmp_path / "db")


@pytest.mark.parametrize(
    "read",
    [
        lambda rocks: rocks.scan(*ALL),
        lambda rocks: list(rocks.chunks(*ALL, 1000)),
        lambda rocks: rocks.get_many(KEYS),
        lambda rocks: rocks.edges([(key, key + b"\xff") for key in KEYS], backwards=False),
        lambda rocks: rocks.scan_many([(key, key + b"\xff") for key in KEYS]),
        lambda rocks: [rocks.seek(key, key + b"\xff") for key in KEYS],
    ],
    ids=["scan", "chunks", "get", "edges", "scan_many", "seek"],
)
def test_reading_over_a_damaged_block_raises(
    read: Callable[[RocksBytes], object], damaged: RocksBytes
) -> None:
    with pytest.raises(Exception, match="Corruption"):
        read(damaged)


def test_what_is_before_it_can_be_read(damaged: RocksBytes) -> None:
    keys, values = damaged.scan(*ALL, 5)
    assert (keys, len(values)) == (KEYS[:5], 5)
    assert damaged.scan(KEYS[0], KEYS[3])[0] == KEYS[:3]
    assert damaged.seek(*ALL) == KEYS[0]
