"""Key groups (which shard a key belongs to) and order-preserving key bytes (where it lies in a shard's
state).

The hash is part of the stored format: it decides which file a key is in, so it must never change. All
arithmetic is on unsigned 64-bit integers, modulo 2**64::

    mix(z)   = z ^= z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27; z *= 0x94D049BB133111EB; z ^= z >> 31
    tag(t)   = mix(t * 0x9E3779B97F4A7C15)
    hash of a row: h = 0x5371_6C73_7472_6561; for each column: h = mix(h ^ value)
    key group: h mod max_parallelism

    value of NULL                            tag(1)
    value of an exact number                 the decimal u / 10**s with the least s >= 0:
        -2**63 <= u < 2**63                  mix(u ^ tag(2 + 256 * s))          (u as two's complement)
        otherwise                            mix(mix(low ^ tag(3 + 256 * s)) ^ high)  (two's complement)
    value of a FLOAT or DOUBLE               mix(bits ^ tag(4)): bits of the double, -0.0 as 0.0, one NaN
    value of a BOOLEAN                       mix(bit ^ tag(5))
    value of a VARCHAR, BLOB, UUID, JSON     mix(sum over i of mix(word[i] + (i + 1) * 0x9E3779B97F4A7C15)
                                                 ^ tag(6 + 256 * length)): words are 8 bytes, little-endian,
                                                 zero-padded
    value of a DATE                          mix(days ^ tag(7))
    value of a TIME                          mix(µs ^ tag(8))
    value of a TIMESTAMP (with zone or not)  mix(µs ^ tag(9))
    value of an INTERVAL                     mix(µs ^ tag(10)): months of 30 days of 24 hours
    value of a STRUCT                        as the row of its fields, then mix(h ^ tag(11))
    value of an ARRAY or MAP (of structs)    mix(sum over i of mix(value[i] + (i + 1) * 0x9E3779B97F4A7C15)
                                                 ^ tag(12 + 256 * length))

So values that SQL calls equal hash equally, whatever the width of their type: 5 as TINYINT, as BIGINT and as
DECIMAL(10,2) are in one key group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrow_types import conform
from .binary import as_list, fixed, interval_micros, list_lengths, parts, ragged, valid
from .key_bytes import decode_keys, encode_keys

__all__ = [
    "MAX_PARALLELISM",
    "decode_keys",
    "encode_keys",
    "group_range",
    "hash_rows",
    "key_groups",
    "shard_of",
]

U64 = npt.NDArray[np.uint64]
Column: TypeAlias = pa.Array | pa.ChunkedArray

MAX_PARALLELISM = 1 << 15
"""More key groups than this can't be had: a group takes two bytes of a key, and a sign is not needed."""

_SEED = np.uint64(0x53716C7374726561)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1
_BLOCK = 1 << 15


def _mix_in_place(z: U64) -> U64:
    # In blocks that stay in the cache: twice as fast as whole columns.
    scratch = np.empty(min(_BLOCK, len(z)), np.uint64)
    for start in range(0, len(z), _BLOCK):
        block = z[start : start + _BLOCK]
        shifted = scratch[: len(block)]
        np.right_shift(block, np.uint64(30), out=shifted)
        np.bitwise_xor(block, shifted, out=block)
        np.multiply(block, _M1, out=block)
        np.right_shift(block, np.uint64(27), out=shifted)
        np.bitwise_xor(block, shifted, out=block)
        np.multiply(block, _M2, out=block)
        np.right_shift(block, np.uint64(31), out=shifted)
        np.bitwise_xor(block, shifted, out=block)
    return z


def _mix_int(z: int) -> int:
    z &= _MASK
    z = ((z ^ (z >> 30)) * int(_M1)) & _MASK
    z = ((z ^ (z >> 27)) * int(_M2)) & _MASK
    return z ^ (z >> 31)


def _tag(tag: int) -> np.uint64:
    return np.uint64(_mix_int(tag * int(_GOLDEN)))


def _tags(tag: int, numbers: npt.NDArray[np.int64]) -> U64:
    return _mix_in_place((numbers.astype(np.uint64) * np.uint64(256) + np.uint64(tag)) * _GOLDEN)


def key_groups(
    columns: Sequence[Column], max_parallelism: int, *, rows: int | None = None
) -> npt.NDArray[np.int32]:
    """The key group, 0 <= group < max_parallelism, of each row of the key columns.

    `rows` is the number of rows where there are no columns (a global aggregate: one group).

    >>> key_groups([pa.array([1, 2, 3, None])], 128).tolist()
    [23, 78, 20, 26]
    """
    if not 1 <= max_parallelism <= MAX_PARALLELISM:
        raise ValueError(f"max_parallelism must be 1 to {MAX_PARALLELISM}, not {max_parallelism}")
    hashes = hash_rows(columns, rows=rows)
    if max_parallelism & (max_parallelism - 1) == 0:
        return (hashes & np.uint64(max_parallelism - 1)).astype(np.int32)
    return (hashes % np.uint64(max_parallelism)).astype(np.int32)


def hash_rows(columns: Sequence[Column], *, rows: int | None = None) -> U64:
    """The 64-bit hash of each row, as the module says."""
    if not columns:
        if rows is None:
            raise ValueError("a key without columns needs the number of rows")
        return np.full(rows, _SEED, np.uint64)
    arrays = [conform(column, _plain_type(column.type)) for column in columns]
    return _hash_fields(arrays, len(arrays[0]))


def _plain_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _hash_fields(arrays: Sequence[pa.Array], n: int) -> U64:
    h = np.full(n, _SEED, np.uint64)
    for array in arrays:
        np.bitwise_xor(h, _hash_values(array), out=h)
        _mix_in_place(h)
    return h


def _hash_values(array: pa.Array) -> U64:
    hashes = _hash_non_null(array)
    present = valid(array)
    if present is not None:
        hashes[~present] = _tag(1)
    return hashes


def _words(values: npt.NDArray[Any], tag: int) -> U64:
    words = values.astype(np.int64).view(np.uint64)
    np.bitwise_xor(words, _tag(tag), out=words)
    return _mix_in_place(words)


def _hash_non_null(array: pa.Array) -> U64:
    type_, n = array.type, len(array)
    if pa.types.is_null(type_):
        return np.full(n, _tag(1), np.uint64)
    if pa.types.is_uint64(type_):
        values = fixed(array, np.uint64)
        hashes = _words(values.view(np.int64), 2)
        big = values >> np.uint64(63) != 0
        if big.any():
            wide = _mix_in_place(values[big] ^ _tag(3))
            hashes[big] = _mix_in_place(wide)
        return hashes
    if pa.types.is_integer(type_):
        return _words(fixed(array, type_.to_pandas_dtype()), 2)
    if pa.types.is_decimal(type_):
        return _hash_decimals(
            array if pa.types.is_decimal128(type_) else array.cast(pa.decimal128(38, type_.scale))
        )
    if pa.types.is_floating(type_):
        doubles = fixed(array.cast(pa.float64()), np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        doubles[np.isnan(doubles)] = np.nan
        return _words(doubles.view(np.int64), 4)
    if pa.types.is_boolean(type_):
        return _words(fixed(array.cast(pa.uint8()), np.uint8), 5)
    if pa.types.is_date(type_):
        return _words(fixed(array.cast(pa.date32()), np.int32), 7)
    if pa.types.is_time(type_):
        return _words(fixed(array.cast(pa.time64("us")), np.int64), 8)
    if pa.types.is_timestamp(type_):
        # What TIMESTAMP_NS has behind the µs decides between few values.
        micros = array.cast(pa.timestamp("us", tz=type_.tz), safe=type_.unit != "ns")
        return _words(fixed(micros, np.int64), 9)
    if pa.types.is_interval(type_):
        return _words(interval_micros(array), 10)
    if pa.types.is_struct(type_):
        hashes = _hash_fields(array.flatten(), n)
        np.bitwise_xor(hashes, _tag(11), out=hashes)
        return _mix_in_place(hashes)
    if pa.types.is_nested(type_):
        array = as_list(array)
        return _hash_sequences(_hash_values(array.flatten()), list_lengths(array), 12)
    if pa.types.is_string_view(type_):
        return _hash_non_null(array.cast(pa.large_string()))
    if pa.types.is_binary_view(type_) or pa.types.is_fixed_size_binary(type_):
        return _hash_non_null(array.cast(pa.large_binary()))
    return _hash_strings(array)


def _hash_decimals(array: pa.Array) -> U64:
    pairs = fixed(array, np.dtype([("low", "<u8"), ("high", "<i8")]))
    low, high = pairs["low"], pairs["high"]
    values = low.view(np.int64) if low.flags.c_contiguous else np.ascontiguousarray(low).view(np.int64)
    values = values.copy()
    small = high == (values >> 63)
    scales = np.full(len(values), array.type.scale, np.int64)
    for _ in range(array.type.scale):
        shorter = (scales > 0) & (values % 10 == 0)
        if not shorter.any():
            break
        values[shorter] //= 10
        scales[shorter] -= 1
    hashes = _mix_in_place(values.view(np.uint64) ^ _tags(2, scales))
    for i in np.flatnonzero(~small).tolist():
        hashes[i] = _hash_wide_decimal((int(high[i]) << 64) | int(low[i]), array.type.scale)
    return hashes


def _hash_wide_decimal(unscaled: int, scale: int) -> int:
    while scale > 0 and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    if -(1 << 63) <= unscaled < 1 << 63:
        return _mix_int(unscaled ^ int(_tag(2 + 256 * scale)))
    low, high = unscaled & _MASK, (unscaled >> 64) & _MASK
    return _mix_int(_mix_int(low ^ int(_tag(3 + 256 * scale))) ^ high)


def _hash_strings(array: pa.Array) -> U64:
    offsets, data = parts(array)
    present = valid(array)
    lengths = np.diff(offsets)
    if present is not None:
        lengths[~present] = 0
    starts = offsets[:-1]
    counts = (lengths + 7) >> 3
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    # One 8-byte window at every byte: gathering from it reads each word where it lies, unaligned.
    windows: U64 = np.ndarray(shape=(len(padded) - 7,), dtype="<u8", buffer=padded.data, strides=(1,))
    sums = np.zeros(len(array), np.uint64)
    longest = int(counts.max(initial=0))
    if longest <= 4:
        for i in range(longest):
            if i == 0 and int(counts.min(initial=1)) > 0:
                sums += _string_words(windows, starts, lengths, 0)
            else:
                rows = np.flatnonzero(counts > i)
                sums[rows] += _string_words(windows, starts[rows], lengths[rows], i)
    else:
        first = np.cumsum(counts) - counts
        index = ragged(np.zeros(len(counts), np.int64), counts)
        words = _string_words(windows, np.repeat(starts, counts), np.repeat(lengths, counts), index)
        rows = np.flatnonzero(counts)
        sums[rows] = np.add.reduceat(words, first[rows])
    return _mix_in_place(sums ^ _tags(6, lengths))


def _string_words(
    windows: U64,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    i: int | npt.NDArray[np.int64],
) -> U64:
    words = windows[starts + 8 * i]
    left = lengths - 8 * i
    drop = (np.maximum(8 - left, 0) << 3).astype(np.uint64)
    words <<= drop
    words >>= drop
    position = np.uint64(i + 1) if isinstance(i, int) else (i + 1).astype(np.uint64)
    words += position * _GOLDEN if not isinstance(i, int) else np.uint64(((i + 1) * int(_GOLDEN)) & _MASK)
    return _mix_in_place(words)


def _hash_sequences(values: U64, lengths: npt.NDArray[np.int64], tag: int) -> U64:
    index = ragged(np.zeros(len(lengths), np.int64), lengths)
    terms = _mix_in_place(values + (index + 1).astype(np.uint64) * _GOLDEN)
    sums = np.zeros(len(lengths), np.uint64)
    rows = np.flatnonzero(lengths)
    if len(rows):
        sums[rows] = np.add.reduceat(terms, (np.cumsum(lengths) - lengths)[rows])
    return _mix_in_place(sums ^ _tags(tag, lengths))


def shard_of(groups: npt.NDArray[np.int32], shards: int, max_parallelism: int) -> npt.NDArray[np.int32]:
    """The shard of each key group by Flink's formula: group * shards // max_parallelism."""
    _check_shards(shards, max_parallelism)
    return (groups.astype(np.int64) * shards // max_parallelism).astype(np.int32)


def group_range(shard: int, shards: int, max_parallelism: int) -> tuple[int, int]:
    """The half-open range of key groups that `shard` of `shards` owns.

    >>> [group_range(shard, 3, 128) for shard in range(3)]
    [(0, 43), (43, 86), (86, 128)]
    """
    _check_shards(shards, max_parallelism)
    if not 0 <= shard < shards:
        raise ValueError(f"no shard {shard} of {shards}")
    first = -(-shard * max_parallelism // shards)
    return first, -(-(shard + 1) * max_parallelism // shards)


def _check_shards(shards: int, max_parallelism: int) -> None:
    if not 1 <= shards <= max_parallelism <= MAX_PARALLELISM:
        raise ValueError(
            f"need 1 <= shards <= max_parallelism <= {MAX_PARALLELISM}: {shards}, {max_parallelism}"
        )
