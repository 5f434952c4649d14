"""Counter-based randomness: every random value is a pure function of (key, counter), vectorised.

There is no generator object and so no state to carry: row 7 is the same whether it is made alone, after row
6, or on another machine. A key comes from `stream_key(seed, tag, …)`, one for each thing that is drawn;
counters are row or event numbers. The words are SplitMix64's: its finaliser over key + (counter + 1) * the
golden gamma (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014). All
arithmetic is on integers, or one correctly rounded float operation at a time, so results do not depend on
the CPU or on how a range is cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW_32 = np.uint64(0xFFFFFFFF)
_TWO_64 = 1 << 64

#: Words that are made at a time when characters are drawn: keeps the work in the CPU's cache.
_BLOCK_WORDS = 1 << 16


def stream_key(seed: int, *tags: str | int) -> int:
    """The 64-bit key of one stream of random values: a hash of the seed and of what is drawn.

    >>> hex(stream_key(0, "bid", "price"))
    '0x75bdb5fd309402f8'
    """
    text = "\x1f".join([str(seed), *(f"{type(tag).__name__}:{tag}" for tag in tags)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def numbers(first: int, count: int) -> U64:
    """The counters first, first + 1, …: `count` of them. Raises ValueError outside 0 … 2^63."""
    if first < 0 or count < 0 or first + count > 1 << 63:
        raise ValueError(f"row numbers {first} … {first + count} are outside 0 … 2^63")
    return np.arange(first, first + count, dtype=np.uint64)


def words(key: int, counters: U64) -> U64:
    """One uniform 64-bit word for each counter."""
    return _mix((counters + np.uint64(1)) * _GAMMA + np.uint64(key))


def uniform_ints(key: int, counters: U64, low: int | I64, high: int | I64) -> I64:
    """Integers uniform in [low, high], both included; the bounds are scalars or arrays as long as `counters`.

    Array bounds are within int64. Scalars may be any within 2^64 of each other, and values above int64 come
    out with their bits (`.view(np.uint64)` restores them). Raises ValueError if a low is above its high.
    """
    drawn = words(key, counters)
    if isinstance(low, int) and isinstance(high, int):
        if low > high:
            raise ValueError(f"no integers between {low} and {high}")
        span = high - low + 1
        if span == _TWO_64:
            return drawn.view(np.int64)
        offsets = _scale_small(drawn, np.uint64(span)) if span <= 1 << 16 else _scale(drawn, np.uint64(span))
        # Wraps around in unsigned arithmetic where high - low does not fit into int64, and comes out right.
        return (offsets + np.uint64(low % _TWO_64)).view(np.int64)
    lows = np.broadcast_to(np.asarray(low, dtype=np.int64), counters.shape)
    highs = np.broadcast_to(np.asarray(high, dtype=np.int64), counters.shape)
    if bool((lows > highs).any()):
        raise ValueError("no integers between a low and a high that is below it")
    spans = highs.astype(np.uint64) - lows.astype(np.uint64) + np.uint64(1)
    return (_scale(drawn, spans) + lows.astype(np.uint64)).view(np.int64)


def uniform_doubles(key: int, counters: U64) -> F64:
    """Doubles uniform in [0, 1): multiples of 2^-53."""
    return (words(key, counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def happens(key: int, counters: U64, probability: float) -> Bool:
    """Whether an event of this probability (0 … 1) happens, for each counter."""
    return uniform_doubles(key, counters) < probability


def big_ints(key: int, counters: U64, low: int, high: int) -> list[int]:
    """Integers uniform in [low, high], both included, for spans up to 2^128. About 1 µs per value."""
    if low > high:
        raise ValueError(f"no integers between {low} and {high}")
    span = high - low + 1
    top = words(stream_key(key, "top"), counters).tolist()
    bottom = words(stream_key(key, "bottom"), counters).tolist()
    return [low + ((((t << 64) | b) * span) >> 128) for t, b in zip(top, bottom, strict=True)]


def characters(key: int, counters: U64, lengths: int | I64, alphabet: Sequence[int] | bytes) -> Bytes:
    """The characters of one string for each counter, one after the other, as bytes (uint8).

    `lengths` is how many characters a string has (a scalar or an array), `alphabet` the byte values to draw
    from; a value that is listed twice is drawn twice as often. Four characters are cut out of each word, so
    for an alphabet whose size is no power of two some characters are up to len(alphabet) / 65536 more
    frequent than others.
    """
    if not 1 <= len(alphabet) <= 1 << 12:
        raise ValueError(f"an alphabet has 1 to 4096 characters, not {len(alphabet)}")
    sizes = np.broadcast_to(np.asarray(lengths, dtype=np.int64), counters.shape)
    longest = int(sizes.max(initial=0))
    if longest == 0:
        return np.empty(0, dtype=np.uint8)
    letters = np.frombuffer(bytes(alphabet), dtype=np.uint8)
    table = letters[(np.arange(1 << 16, dtype=np.int64) * len(letters)) >> 16]
    per_string = -(-longest // 4)
    steps = np.arange(1, per_string + 1, dtype=np.uint64) * _GAMMA
    position = np.arange(per_string * 4)
    roots = words(key, counters)
    rows = max(1, _BLOCK_WORDS // per_string)
    pieces = []
    for start in range(0, len(roots), rows):
        drawn = _mix(roots[start : start + rows, np.newaxis] + steps).astype("<u8", copy=False)
        block = table[drawn.view("<u2")]
        pieces.append(block[position < sizes[start : start + rows, np.newaxis]])
    return np.concatenate(pieces)


def _mix(x: U64) -> U64:
    """SplitMix64's finaliser: a bijection of 64-bit words in which every input bit moves every output bit."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def _scale_small(drawn: U64, span: np.uint64) -> U64:
    """Words scaled to [0, span) for spans up to 2^16: bias below 2^-32."""
    return ((drawn >> np.uint64(16)) * span) >> np.uint64(48)


def _scale(drawn: U64, span: np.uint64 | U64) -> U64:
    """The upper 64 bits of word * span: words scaled to [0, span). Bias below span / 2^64."""
    shift = np.uint64(32)
    word_high, word_low = drawn >> shift, drawn & _LOW_32
    span_high, span_low = span >> shift, span & _LOW_32
    middle = word_high * span_low + ((word_low * span_low) >> shift)
    other = word_low * span_high + (middle & _LOW_32)
    scaled: U64 = word_high * span_high + (middle >> shift) + (other >> shift)
    return scaled
