"""How blocks of Avro's container files are compressed: the codecs of the specification of Apache Avro 1.12."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.formats.avro.varints import varint

#: A block of more bytes than this once it is unpacked is taken for damage.
_MOST = 1 << 30
_CHECKSUM = 4


class CodecError(ValueError):
    """A block that can't be unpacked."""


@dataclass(frozen=True, slots=True)
class Codec:
    """What packs and unpacks a block; `unpack` raises CodecError."""

    pack: Callable[[bytes], bytes]
    unpack: Callable[[bytes], bytes]


def codec_of(name: str) -> Codec | None:
    """The codec of this name, None if there is none."""
    return _CODECS.get(name)


def codec_names() -> tuple[str, ...]:
    """The names of all codecs."""
    return tuple(_CODECS)


def _as_it_is(data: bytes) -> bytes:
    return data


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)  # without the header and the checksum of zlib
    return packer.compress(data) + packer.flush()


def _inflate(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=-15)
    try:
        found = unpacker.decompress(data, _MOST)
    except zlib.error as error:
        raise CodecError(str(error)) from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise CodecError("the compressed data has no end")
    return found


def _snap(data: bytes) -> bytes:
    """Behind the data is the CRC32 of what is not packed, the highest byte first."""
    packed: bytes = pa.compress(data, "snappy", asbytes=True)
    return packed + zlib.crc32(data).to_bytes(_CHECKSUM, "big")


def _unsnap(data: bytes) -> bytes:
    packed, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    try:
        size, _ = varint(packed, 0)  # what snappy begins with
        if size > _MOST:
            raise CodecError(f"a block of {size:,} bytes")
        found: bytes = pa.decompress(packed, size, "snappy", asbytes=True)
    except (IndexError, ValueError, OSError) as error:
        raise CodecError(str(error)) from None
    if zlib.crc32(found).to_bytes(_CHECKSUM, "big") != checksum:
        raise CodecError("the checksum is another one")
    return found


def _zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed


def _unzstd(data: bytes) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            found: bytes = stream.read(_MOST)
    except (OSError, pa.ArrowException) as error:
        raise CodecError(str(error)) from None
    return found


def _unbzip2(data: bytes) -> bytes:
    try:
        return bz2.BZ2Decompressor().decompress(data, _MOST)
    except OSError as error:
        raise CodecError(str(error)) from None


def _unxz(data: bytes) -> bytes:
    try:
        return lzma.LZMADecompressor().decompress(data, _MOST)
    except lzma.LZMAError as error:
        raise CodecError(str(error)) from None


_CODECS = {
    "null": Codec(_as_it_is, _as_it_is),
    "deflate": Codec(_deflate, _inflate),
    "snappy": Codec(_snap, _unsnap),
    "zstandard": Codec(_zstd, _unzstd),
    "bzip2": Codec(bz2.compress, _unbzip2),
    "xz": Codec(lzma.compress, _unxz),
}
