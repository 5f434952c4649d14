"""Avro's variable-length numbers one at a time, where there are few: 7 bits a byte, the lowest first."""

from __future__ import annotations

from sqlstream_operators.codec import rows

#: The longest number, in bytes.
_LONGEST = 10


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it. Raises ValueError if it is too long, IndexError if it has no end.

    >>> varint(bytes([0xAC, 0x02, 0x05]), 0)
    (300, 2)
    """
    value = shift = 0
    for place in range(at, at + _LONGEST):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise ValueError("a number of more than 64 bits")


def long(data: bytes, at: int) -> tuple[int, int]:
    """The same with a sign, as Avro's int and long have it."""
    value, behind = varint(data, at)
    return (value >> 1) ^ -(value & 1), behind


def long_bytes(value: int) -> bytes:
    """A number with a sign as bytes.

    >>> [long(long_bytes(n), 0)[0] for n in (0, -1, 64, -(2**63))]
    [0, -1, 64, -9223372036854775808]
    """
    return rows.varint((value << 1) ^ (value >> 63))
