"""SQL of which rows of a data file are there, or are among those that files of deletes take away.

Positions are put together in NumPy, file by file, so that a scan is asked for few rows where few are deleted. Rows that are
deleted by values are looked up in DuckDB.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.connectors.filesystem.file_ranges import FileRange
from sqlstream.connectors.filesystem.parts import Part
from sqlstream.connectors.iceberg.source.deletes import DeleteKind
from sqlstream.formats.values import file_list
from sqlstream_operators.errors import InternalError

#: So many positions stand in a query; more of them are a file.
_IN_QUERY = 500
_ROW = "file_row_number"
#: From so many files of deletes with the same columns on they are put together; the column says which it was.
_JOINED, _FILE = 3, "__sqlstream_file"
#: How a deletion vector begins, behind its length.
_MAGIC = b"\xd1\xd3\x39\x64"

Rows = npt.NDArray[np.int64]
#: SQL of a column of a file by its field's id, as this type.
ColumnOf = Callable[[Part, str, int, str], str]


class Deleted:
    """The files of deletes of a split, to read it once: `deletes` are as the split has them.

    `opening` opens the files of their store, `column_of` finds columns in files of Parquet.
    """

    def __init__(self, deletes: Sequence[Mapping[str, Any]], opening: str, column_of: ColumnOf) -> None:
        self._deletes, self._opening, self._column_of = deletes, opening, column_of
        self._copies: dict[int, str] = {}
        self._joined: dict[int, str] = {}

    def condition(
        self, part: Part, path: str, location: str, only: Sequence[int] | None, without: Sequence[int]
    ) -> str:
        """SQL of whether a row of a data file, whose local path is `path`, is one of `only` and none of `without`.

        `location` is the file's path as files of positions have it. Raises InputFileError for a damaged file.
        """
        out = self._positions(part, location, without)
        parts = []
        if only is not None:
            named = self._positions(part, location, only)
            found = [_among(np.setdiff1d(named, out, assume_unique=True), part)]
            equal = self._equal(part, path, only)
            parts.append(f"({' OR '.join([*found, *equal])})" if equal else found[0])
            out = out if equal else out[:0]
        if out.size:
            parts.append(f"NOT {_among(out, part)}")
        parts += [f"NOT {one}" for one in self._equal(part, path, without)]
        return " AND ".join(parts) or "true"

    # ----------------------------------------------------------------------------------------- by their numbers

    def _positions(self, part: Part, location: str, numbers: Sequence[int]) -> Rows:
        """The rows of a file that are deleted by their numbers, each once and in order."""
        found = [self._rows(part, location, number) for number in numbers]
        return np.unique(np.concatenate([np.empty(0, np.int64), *found]))

    def _rows(self, part: Part, location: str, number: int) -> Rows:
        delete = self._deletes[number]
        match DeleteKind(delete["kind"]):
            case DeleteKind.POSITIONS:
                other = self._part(part, delete)
                return _positions_in(other, self._local(number, other), location)
            case DeleteKind.VECTOR:
                offset, length = delete["at"]
                return _of_vector(self._part(part, delete), offset, length)
            case DeleteKind.EQUALITY:
                return np.empty(0, np.int64)
        raise InternalError(f"no kind of deletes: {delete['kind']}")

    def _part(self, part: Part, delete: Mapping[str, Any]) -> Part:
        return part.beside(FileRange.from_json(delete["file"], self._opening).entry)

    # -------------------------------------------------------------------------------------------- by their values

    def _equal(self, part: Part, path: str, numbers: Sequence[int]) -> list[str]:
        """SQL of whether a row has the values of one in files of deletes: those with the same columns are read together.

        NULL is a value, too.
        """
        files: dict[tuple[str, str, str], list[int]] = {}
        for number in numbers:
            delete = self._deletes[number]
            if DeleteKind(delete["kind"]) is not DeleteKind.EQUALITY:
                continue
            other = self._part(part, delete)
            local = self._local(number, other)
            here = self._packed(part, path, delete["columns"])
            there = self._packed(other, local, delete["columns"])
            files.setdefault((here, there, self._together(number, part)), []).append(number)
        return [
            f"{here} IN (SELECT {there} FROM {self._listed(together, listed)})"
            for (here, there, together), listed in files.items()
        ]

    def _listed(self, together: str, numbers: Sequence[int]) -> str:
        """SQL of the rows of files of deletes, of which there is one file, or of each alone."""
        if together:
            return f"read_parquet({file_list([together])}) WHERE {_FILE} IN ({', '.join(map(str, numbers))})"
        paths = [self._copies[number] for number in numbers]
        return f"read_parquet({file_list(paths)}, union_by_name = true, hive_partitioning = false)"

    def _together(self, number: int, part: Part) -> str:
        """A file with the rows of all files of deletes by values that have the same columns; "" if there is none.

        Many data files have the same ones, and would open each of them.
        """
        if number not in self._joined:
            self._join(part)
        return self._joined[number]

    def _join(self, part: Part) -> None:
        alike: dict[str, list[tuple[int, pa.Table]]] = {}
        for number, delete in enumerate(self._deletes):
            self._joined[number] = ""
            # Of a UUID Arrow keeps no more than its bytes.
            if DeleteKind(delete["kind"]) is DeleteKind.EQUALITY and not any(
                type_ == "UUID" for _, type_ in delete["columns"]
            ):
                other = self._part(part, delete)
                table = _read(other, self._local(number, other))
                alike.setdefault(str(table.schema.remove_metadata()), []).append((number, table))
        for tables in alike.values():
            if len(tables) < _JOINED:
                continue
            path = part.new_file(".parquet")
            rows = [
                table.append_column(_FILE, pa.repeat(pa.scalar(number, pa.int64()), len(table)))
                for number, table in tables
            ]
            pq.write_table(pa.concat_tables(one.replace_schema_metadata() for one in rows), path)
            self._joined |= {number: path for number, _ in tables}

    def _local(self, number: int, part: Part) -> str:
        """A local path with a file of deletes: one copy for all data files of the split."""
        if number not in self._copies:
            self._copies[number] = part.local()
        return self._copies[number]

    def _packed(self, part: Part, path: str, columns: Sequence[tuple[int, str]]) -> str:
        values = (f"e{id_} := {self._column_of(part, path, id_, type_)}" for id_, type_ in columns)
        return f"struct_pack({', '.join(values)})"


def _among(rows: Rows, part: Part) -> str:
    """SQL of whether a row's number is one of these, each once and in order."""
    if not rows.size:
        return "false"
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == rows.size:
        return f"({_ROW} BETWEEN {first} AND {last})"
    if rows.size <= _IN_QUERY:
        return f"({_ROW} IN ({', '.join(map(str, rows.tolist()))}))"
    path = part.new_file(".parquet")
    pq.write_table(pa.table({"pos": rows}), path)
    return f"({_ROW} BETWEEN {first} AND {last} AND {_ROW} IN (SELECT pos FROM read_parquet({file_list([path])})))"


def _read(part: Part, path: str) -> pa.Table:
    """All of a file of deletes by values, whose local path is `path`."""
    try:
        return pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the file system, and not of what is in the file
        raise part.damaged(f"not a readable file of deletes: {str(error).splitlines()[0]}") from error


def _positions_in(part: Part, path: str, location: str) -> Rows:
    """The positions that a file of deletes, whose local path is `path`, has of a data file."""
    try:
        table = pq.read_table(
            path, columns=["pos"], filters=[("file_path", "=", location)], partitioning=None
        )
        column = table.column("pos").cast(pa.int64())
    except (pa.ArrowException, OSError, KeyError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the file system, and not of what is in the file
        raise part.damaged(f"not a readable file of deletes: {str(error).splitlines()[0]}") from error
    if column.null_count:
        raise part.damaged("not a readable file of deletes: a position is NULL")
    found: Rows = column.to_numpy()
    return found


def _of_vector(part: Part, offset: int, length: int) -> Rows:
    """The positions in a deletion vector."""
    from pyroaring import BitMap

    with part.open() as file:
        file.seek(offset)
        blob = file.read(length)
    size = int.from_bytes(blob[:4], "big")
    content, check = blob[4 : 4 + size], blob[4 + size : 8 + size]
    if len(blob) != size + 8 or content[:4] != _MAGIC or zlib.crc32(content) != int.from_bytes(check, "big"):
        raise part.damaged("not a readable deletion vector")
    rest = content[12:]
    found = [np.empty(0, np.int64)]
    for _ in range(int.from_bytes(content[4:12], "little")):
        high, rest = int.from_bytes(rest[:4], "little"), rest[4:]
        bits = BitMap.deserialize(rest)
        rest = rest[len(bits.serialize()) :]
        found.append(np.frombuffer(bits.to_array(), np.uint32).astype(np.int64) + (high << 32))
    return np.concatenate(found)
