"""Avro's container files as tables, and tables as such files. A file range counts rows; large files are cut at blocks."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa

from sqlstream.formats.avro import pieces
from sqlstream.formats.avro.borders import BorderError, Borders
from sqlstream.formats.avro.codecs import Codec, CodecError, codec_names, codec_of
from sqlstream.formats.avro.container import (
    MARKER,
    Block,
    ContainerError,
    Header,
    block_bytes,
    blocks,
    ends_whole,
    header_bytes,
    read_header,
)
from sqlstream.formats.avro.encoders import record_encoder
from sqlstream.formats.avro.options import given_schema, not_of_schema, table_schema
from sqlstream.formats.avro.plain import columns_of
from sqlstream.formats.avro.records import Decoded, decode, table_of, whole
from sqlstream.formats.avro.resolve import record_decoder
from sqlstream.formats.avro.schema import SchemaError, to_json
from sqlstream.formats.file_parts import RAW_BYTES, BadText, FilePart, FileShape, FileTable
from sqlstream.formats.file_writing import as_declared
from sqlstream.formats.scratch import Scratch
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import quote_identifier

if TYPE_CHECKING:
    from pyarrow import fs

    from sqlstream.formats.avro.lanes import Longs

_ROWS = "avro_file"
#: Blocks are read together until they have so many records, or bytes.
_TOGETHER = 16_384
_MOST_BYTES = 64 << 20
#: Bytes of records in a block that is written, before it is packed.
_BLOCK = 64 << 10
#: Files elsewhere are gone through in pieces of so many bytes.
_WINDOW = 1 << 20


class AvroFileReader:
    """Columns are found by name, as in the records of a schema registry."""

    def __init__(self, table: FileTable) -> None:
        self._table = table
        self._wanted = given_schema("avro", table.options)

    @property
    def parses(self) -> bool:
        """See `FileReader`."""
        return False

    def strict(self, duck: DuckSession, parts: Sequence[FilePart], work: Scratch) -> str | pa.Table:
        """See `FileReader`."""
        tables = []
        for part in parts:
            decoded = self._decoded(part)
            if decoded.bad:
                row = min(decoded.bad)
                raise DataError(f"{part.path}, row {row + 1:,}: {decoded.bad[row]}")
            tables.append(self._given(duck, part, decoded))
        return pa.concat_tables(tables)

    def lenient(self, duck: DuckSession, part: FilePart, work: Scratch) -> tuple[pa.Table, list[BadText]]:
        """See `FileReader`; the text of a bad record is its bytes in hexadecimal."""
        bytes_: dict[int, str] = {}
        decoded = self._decoded(part, bytes_)
        bad = [BadText(row + 1, bytes_[row], reason) for row, reason in sorted(decoded.bad.items())]
        return self._given(duck, part, decoded), bad

    def _decoded(self, part: FilePart, bytes_: dict[int, str] | None = None) -> Decoded:
        """The rows of a part; `bytes_` takes what bad records are."""
        with Path(part.local()).open("rb") as file:
            try:
                header = read_header(file)
                codec = _codec(header)
                borders = Borders(header.schema)
                decoder = record_decoder(self._table.columns, header.schema, self._wanted)
                found = []
                for first, records in _together(_records(file, header, codec, borders, part)):
                    one = decode(decoder, records, np.arange(first, first + len(records)))
                    if bytes_ is not None:
                        for row in one.bad:
                            bytes_[row] = records[row - first].as_py()[: RAW_BYTES // 2].hex()
                    found.append(one)
            except ContainerError as error:
                raise broken(part, error) from error
            except SchemaError as error:
                raise part.unlike(f"its schema is not the table's: {error}") from error
        chunks = [chunk for one in found for chunk in one.rows.chunks]
        ids = np.concatenate([one.ids for one in found]) if found else np.zeros(0, np.int64)
        bad = {row: reason for one in found for row, reason in one.bad.items()}
        return Decoded(pa.chunked_array(chunks, decoder.type), ids, bad)

    def _given(self, duck: DuckSession, part: FilePart, decoded: Decoded) -> pa.Table:
        """The rows with the columns beside them."""
        names = [column.name for column in self._table.columns]
        items = [quote_identifier(name) for name in names]
        items += self._table.beside([part]).items
        return duck.query(
            f"SELECT {', '.join(items) or '1 AS one'} FROM {_ROWS}", {_ROWS: table_of(decoded, names)}
        )


def shape(part: FilePart) -> FileShape:
    """How many rows a file has, and where its blocks begin. Raises DataError if it is not the Avro file that was listed."""
    with part.open() as raw:
        file: BinaryIO = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw, _WINDOW)  # type: ignore[arg-type, type-var, assignment, unused-ignore]
        try:
            counts = [block.records for block in blocks(file, read_header(file), part.size)]
        except ContainerError as error:
            raise broken(part, error) from error
    begins = tuple(itertools.accumulate(counts, initial=0))
    return FileShape(begins[-1], begins[:-1])


def is_whole(path: Path) -> bool:
    """Whether a file ends as one that nobody writes any more."""
    with path.open("rb") as file:
        return ends_whole(file, path.stat().st_size)


def broken(part: FilePart, error: Exception) -> InputFileError:
    """The error for a file that is not Avro, or damaged."""
    return part.damaged(f"not a readable Avro file: {error}")


def _codec(header: Header) -> Codec:
    found = codec_of(header.codec)
    if found is None:
        raise ContainerError(f"it is compressed as {header.codec!r}, not as {', '.join(codec_names())}")
    return found


def _records(
    file: BinaryIO, header: Header, codec: Codec, borders: Borders, part: FilePart
) -> Iterator[tuple[int, bytes, Longs]]:
    """Of each block the number of its first row that the part has, the data, and where rows of it begin and end."""
    row = 0
    for block in blocks(file, header, part.size):
        first, behind = row, row + block.records
        if part.end is not None and first >= part.end:
            return
        row = behind
        if behind <= part.start or not block.records:
            continue
        data, found = _unpacked(file, block, codec, borders)
        low = max(part.start - first, 0)
        high = block.records if part.end is None else min(part.end - first, block.records)
        yield first + low, data, found[low : high + 1]


def _unpacked(file: BinaryIO, block: Block, codec: Codec, borders: Borders) -> tuple[bytes, Longs]:
    file.seek(block.start)
    try:
        data = codec.unpack(file.read(block.size))
        return data, borders.of(data, block.records)
    except (CodecError, BorderError) as error:
        raise ContainerError(f"the block at byte {block.start:,} is damaged: {error}") from None


def _together(found: Iterator[tuple[int, bytes, Longs]]) -> Iterator[tuple[int, pa.Array]]:
    """Records (large_binary) of blocks that follow one another, with the number of the first."""
    parts: list[bytes] = []
    begins: list[Longs] = []
    first = count = size = 0
    for row, data, borders in found:
        if not count:
            first = row
        parts.append(data[borders[0] : borders[-1]])
        begins.append(borders[:-1] - borders[0] + size)
        size += len(parts[-1])
        count += len(borders) - 1
        if count >= _TOGETHER or size >= _MOST_BYTES:
            yield first, _array(parts, begins, size)
            parts, begins, count, size = [], [], 0, 0
    if count:
        yield first, _array(parts, begins, size)


def _array(parts: list[bytes], begins: list[Longs], size: int) -> pa.Array:
    offsets = np.concatenate([*begins, np.array([size], np.int64)])
    return pieces.of_offsets(pa.py_buffer(b"".join(parts)), offsets)


def write(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    """Write rows by the table's schema, in blocks of about 64 KiB. Raises DataError for a row that can't be written."""
    schema = table_schema("avro", options, tuple(columns))
    try:
        encode = record_encoder(tuple(columns), schema)
    except SchemaError as error:
        raise not_of_schema("avro", error) from None
    table = as_declared(table, columns)
    name = options.get("avro.codec", "snappy").strip().lower()
    codec = codec_of(name)
    if codec is None:
        raise DataError(f"there is no codec {name}")
    marker = os.urandom(MARKER)
    with filesystem.open_output_stream(path, compression=None) as out:
        out.write(header_bytes(to_json(schema), name, marker))
        for batch in table.to_batches():
            records = encode(columns_of(pa.Table.from_batches([batch]), [c.name for c in columns]))
            for count, data in _cut(records):
                out.write(block_bytes(count, codec.pack(data), marker))


def _cut(records: pa.Array) -> Iterator[tuple[int, bytes]]:
    """Records in blocks: how many, and their bytes."""
    if isinstance(records, pa.ChunkedArray):
        records = records.combine_chunks()
    offsets, data = whole(records)
    first, end = 0, len(records)
    while first < end:
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK, "left"))
        last = min(max(last, first + 1), end)
        yield last - first, data[offsets[first] : offsets[last]].tobytes()
        first = last
