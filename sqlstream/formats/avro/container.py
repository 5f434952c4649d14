"""Avro's object container files: a header with the schema, and blocks of records, each behind its number and size.

After the specification of Apache Avro 1.12. Between blocks is a marker of 16 bytes, which is the file's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from sqlstream.formats.avro.schema import AvroSchema, SchemaError, parse_schema
from sqlstream.formats.avro.varints import long, long_bytes

MAGIC = b"Obj\x01"
MARKER = 16
#: A longer header is taken for damage.
_LONGEST_HEADER = 64 << 20
_SCHEMA, _CODEC = "avro.schema", "avro.codec"


class ContainerError(ValueError):
    """Bytes that are no container file, or a damaged one; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of its blocks: their schema, codec and marker; `size` is the header's, in bytes."""

    schema: AvroSchema
    codec: str
    marker: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Block:
    """A block: where its data is in the file, how many bytes that has, and the records in it."""

    start: int
    size: int
    records: int


def read_header(file: BinaryIO) -> Header:
    """The header of a file that stands at its beginning. Raises ContainerError."""
    if file.read(len(MAGIC)) != MAGIC:
        raise ContainerError("it does not begin as one does")
    found: dict[str, bytes] = {}
    while count := _read_long(file):
        if count < 0:  # behind it is the size, which is of no use here
            count = -count
            _read_long(file)
        for _ in range(count):
            key = _read_bytes(file)
            found[key.decode(errors="replace")] = _read_bytes(file)
    marker = _read(file, MARKER)
    if _SCHEMA not in found:
        raise ContainerError("its header has no schema")
    try:
        schema = parse_schema(found[_SCHEMA].decode(errors="replace"))
    except SchemaError as error:
        raise ContainerError(f"its schema can't be read: {error}") from None
    return Header(schema, found.get(_CODEC, b"null").decode(errors="replace"), marker, file.tell())


def header_bytes(schema: str, codec: str, marker: bytes) -> bytes:
    """The header of a file with blocks of this schema (JSON)."""
    parts = [MAGIC, long_bytes(2)]
    for key, value in ((_SCHEMA, schema), (_CODEC, codec)):
        parts += [_with_size(key.encode()), _with_size(value.encode())]
    return b"".join((*parts, long_bytes(0), marker))


def block_bytes(records: int, data: bytes, marker: bytes) -> bytes:
    """A block of packed records."""
    return b"".join((long_bytes(records), _with_size(data), marker))


def blocks(file: BinaryIO, header: Header, size: int) -> Iterator[Block]:
    """The blocks of a file of `size` bytes, whose data is passed over. Raises ContainerError where it is damaged.

    The file may be read in between.
    """
    at = header.size
    while at < size:
        begin = at
        file.seek(at)
        records, bytes_ = _read_long(file), _read_long(file)
        at = file.tell()
        if records < 0 or not 0 <= bytes_ <= size - at - MARKER:
            raise ContainerError(f"the block at byte {begin:,} ends behind the file")
        file.seek(at + bytes_)
        if file.read(MARKER) != header.marker:
            raise ContainerError(f"the block at byte {begin:,} does not end with the file's marker")
        yield Block(at, bytes_, records)
        at += bytes_ + MARKER


def ends_whole(file: BinaryIO, size: int) -> bool:
    """Whether a file of `size` bytes ends with its marker, as each block and the header do."""
    try:
        header = read_header(file)
    except ContainerError:
        return False
    file.seek(max(size - MARKER, 0))
    return file.read(MARKER) == header.marker


def _with_size(data: bytes) -> bytes:
    return long_bytes(len(data)) + data


def _read(file: BinaryIO, size: int) -> bytes:
    found = file.read(size)
    if len(found) < size:
        raise ContainerError("it ends in the middle of its header or of a block")
    return found


def _read_bytes(file: BinaryIO) -> bytes:
    size = _read_long(file)
    if not 0 <= size <= _LONGEST_HEADER:
        raise ContainerError("its header is damaged")
    return _read(file, size)


def _read_long(file: BinaryIO) -> int:
    found = bytearray()
    while not found or found[-1] >= 0x80:
        found += _read(file, 1)
        if len(found) > 10:
            raise ContainerError("it has a number of more than 64 bits")
    return long(bytes(found), 0)[0]
