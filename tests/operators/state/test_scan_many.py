"""`SortedBytes.scan_many` gives what `scan` gives range by range, in RocksDB and in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import SliceTransform

from sqlstream_operators.state.memory import MemoryBytes
from sqlstream_operators.state.overlay import Overlay, SortedBytes
from sqlstream_operators.state.range_reads import are_apart, read_ranges
from sqlstream_operators.state.rocks import (
    PREFIX_BYTES,
    STEPS_BEFORE_SEEK,
    WEIGHED_ROWS,
    RocksBytes,
    _options,
)
from tests.examples import examples

numbers = st.integers(0, 60)


def key(number: int) -> bytes:
    return b"\x00" + bytes([number])


def check(store: SortedBytes, ranges: list[tuple[bytes, bytes]], most: list[int] | None) -> None:
    keys, values, sizes = store.scan_many(ranges, most)
    found = [store.scan(*r, None if most is None else most[n]) for n, r in enumerate(ranges)]
    assert sizes == [len(part) for part, _ in found]
    assert keys == [k for part, _ in found for k in part]
    assert values == [v for _, part in found for v in part]


@settings(max_examples=examples(20), deadline=None)
@given(
    st.sets(numbers),
    st.lists(numbers, unique=True, max_size=20),
    st.lists(st.integers(0, 4), min_size=20, max_size=20),
)
def test_many_ranges_are_read_as_one_by_one(there: set[int], bounds: list[int], most: list[int]) -> None:
    rows = {key(n): str(n).encode() for n in there}
    bounds.sort()
    ranges = [(key(first), key(last)) for first, last in zip(bounds[::2], bounds[1::2], strict=False)]
    memory = MemoryBytes()
    memory.add(rows)
    with tempfile.TemporaryDirectory() as folder:
        rocks = RocksBytes(Path(folder) / "db")
        rocks.apply((), sorted(rows), [rows[k] for k in sorted(rows)], "marker")
        for store in (memory, rocks):
            for limits in (None, most[: len(ranges)]):
                check(store, ranges, limits)
        rocks.close()


def test_ranges_far_from_each_other(tmp_path: Path) -> None:
    keys = [b"\x00%04d" % n for n in range(1000)]
    rocks = RocksBytes(tmp_path / "db")
    rocks.apply((), keys, keys, "marker")
    steps = (1, STEPS_BEFORE_SEEK, STEPS_BEFORE_SEEK + 1, 10 * STEPS_BEFORE_SEEK)
    for step in steps:
        check(rocks, [(k, k + b"\xff") for k in keys[::step]], None)
    check(rocks, [(b"\x00%04d~" % n, b"\x00%04d\xff" % n) for n in range(0, 1000, 3)], None)
    rocks.close()


def test_rows_are_counted_as_far_as_is_asked(tmp_path: Path) -> None:
    keys = [b"\x00%04d" % n for n in range(2 * WEIGHED_ROWS)]
    rocks = RocksBytes(tmp_path / "db")
    rocks.apply((), keys, keys, "marker")
    memory = MemoryBytes()
    memory.add(dict(zip(keys, keys, strict=True)))
    for first, last in ((keys[0], keys[-1]), (keys[5], keys[9]), (keys[9], keys[9])):
        for most in (None, 0, 3, WEIGHED_ROWS, WEIGHED_ROWS + 1):
            rows = len(rocks.scan(first, last, most)[0])
            assert rocks.measure(first, last, most) == memory.measure(first, last, most) == (rows, 10 * rows)
    rocks.close()


def test_keys_far_from_each_other_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of one prefix are looked for by filters; a file that was written with others is read all the same."""
    keys = [n.to_bytes(PREFIX_BYTES, "big") + row for n in range(5000) for row in (b"a", b"b", b"cc")]
    memory = MemoryBytes()
    others = _options()
    others.set_prefix_extractor(SliceTransform.create_noop())
    for part in range(3):
        with monkeypatch.context() as patched:
            if part == 0:
                patched.setattr("sqlstream_operators.state.rocks._options", lambda: others)
            rocks = RocksBytes(tmp_path / "db")
        rocks.apply((), keys[part::3], keys[part::3], "marker")
        if part < 2:
            rocks.flush()
            rocks.close()  # the last ones are in memory
    memory.add(dict(zip(keys, keys, strict=True)))
    gone = (1000).to_bytes(PREFIX_BYTES, "big"), (2000).to_bytes(PREFIX_BYTES, "big")
    rocks.apply([gone], [keys[-1]], [None], "marker")
    memory.rows = {key: row for key, row in memory.rows.items() if not gone[0] <= key < gone[1]}
    memory.rows.pop(keys[-1])
    memory.add({})
    for step in (7, 50):
        starts = [n.to_bytes(PREFIX_BYTES, "big") for n in range(0, 6000, step)]
        for ranges in (
            [(start, start + b"\xff") for start in starts],
            [(start + b"b", start + b"\xff") for start in starts],
            [(start[:-1], start[:-1] + b"\xff\xff") for start in starts[::200]],
            [(start, start[:-1] + b"\xff\xff") for start in starts[::200]],
        ):
            for most in (None, [1] * len(ranges)):
                assert rocks.scan_many(ranges, most) == memory.scan_many(ranges, most)
    assert rocks.scan(b"", b"\xff") == memory.scan(b"", b"\xff")
    assert rocks.scan_back(b"", keys[99], 500) == memory.scan_back(b"", keys[99], 500)
    rocks.close()


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sets(numbers),
    st.lists(st.tuples(numbers, st.one_of(st.none(), st.binary(max_size=2))), max_size=8),
    st.lists(st.tuples(numbers, numbers), max_size=2),
    st.lists(numbers, unique=True, max_size=20),
    st.lists(st.integers(0, 4), min_size=20, max_size=20),
)
def test_an_epochs_writes_are_on_top(
    there: set[int],
    written: list[tuple[int, bytes | None]],
    deleted: list[tuple[int, int]],
    bounds: list[int],
    most: list[int],
) -> None:
    below = MemoryBytes()
    below.add({key(n): str(n).encode() for n in there})
    rows = {key(n): str(n).encode() for n in there}
    overlay = Overlay()
    for first, last in deleted:
        overlay.delete_range(key(first), key(last))
        rows = {k: v for k, v in rows.items() if not key(first) <= k < key(last)}
    for number, value in written:
        overlay.write([key(number)], [value])
        rows.pop(key(number), None)
        rows |= {key(number): value} if value is not None else {}
    bounds.sort()
    ranges = [(key(first), key(last)) for first, last in zip(bounds[::2], bounds[1::2], strict=False)]
    assert are_apart(ranges)
    for limits in (None, most[: len(ranges)]):
        keys, values, sizes = read_ranges(below, overlay, ranges, limits)
        found = [sorted(k for k in rows if first <= k < last) for first, last in ranges]
        found = [ks[: None if limits is None else limits[n]] for n, ks in enumerate(found)]
        assert sizes == [len(ks) for ks in found]
        assert keys == [k for ks in found for k in ks]
        assert values == [rows[k] for ks in found for k in ks]


def test_ranges_with_a_common_key_are_not_apart() -> None:
    assert not are_apart([(b"a", b"c"), (b"b", b"d")])
    assert not are_apart([(b"c", b"d"), (b"a", b"b")])
