"""Tables whose rows are deleted in every way that Iceberg has, written as its specification says it; and what is left.

PyIceberg writes no files of deletes, so snapshots are made here, entry by entry.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    _inherit_from_manifest,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from pyroaring import BitMap

from tests.connectors.iceberg.tables import Row, create, table

SCHEMA = Schema(
    NestedField(1, "k", LongType(), required=False),
    NestedField(2, "v", StringType(), required=False),
    NestedField(3, "p", IntegerType(), required=False),
)
SHAPE = SCHEMA.as_arrow()
BY_P = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "p"))
_PATH, _POS = 2147483546, 2147483545


class _Writer(ManifestWriterV2):
    """Writes what version 3 has more, too; `deletes`: of files of deletes."""

    deletes = False

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES if self.deletes else ManifestContent.DATA

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(3)
        return AvroOutputFile(self._output_file, schema, "manifest_entry", schema, self._meta)


def _entries(io: Any, manifest: ManifestFile) -> list[ManifestEntry]:
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        return [_inherit_from_manifest(entry, manifest) for entry in reader]


class _Writing(Transaction):
    """A transaction that works out once what the table is like after its updates: the library does so at each look."""

    _known: tuple[TableMetadata, object, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        before, updates = self._table.metadata, self._updates
        if self._known is None or self._known[0] is not before or self._known[1] is not updates:
            self._known = (before, updates, super().table_metadata)
        return self._known[2]


def commit(folder: Path, **what: Any) -> int:
    """As `commit_to`, to the table in a folder."""
    return commit_to(table(folder), **what)


def commit_to(
    there: Table,
    *,
    add: Sequence[pa.Table] = (),
    remove: Iterable[str] = (),
    deletes: Sequence[DataFile] = (),
    of_added: Callable[[Sequence[str]], Sequence[DataFile]] = lambda paths: (),
    operation: str = "overwrite",
) -> int:
    """A snapshot that adds rows and files of deletes, and removes files of both by their paths; its number.

    `of_added` gives files of deletes for the paths of the files that rows are added in.
    """
    gone = {*remove}
    with _Writing(there) as transaction:
        producer: Any = transaction.update_snapshot().fast_append()
        producer._summary = lambda properties: Summary(Operation(operation))
        files = [one for rows in add for one in _dataframe_to_data_files(there.metadata, rows, there.io)]
        made = [DataFile(*one._data, None, None, None, None) for one in files]
        more = [*deletes, *of_added([one.file_path for one in made])]

        def write(of: str, entries: Sequence[ManifestEntry], spec_id: int) -> ManifestFile:
            given = (there.specs()[spec_id], there.schema(), producer.new_manifest_output())
            writer = _Writer(*given, producer.snapshot_id, "null")
            writer.deletes = of == "deletes"
            with writer:
                for entry in entries:
                    writer.add_entry(entry)
            return writer.to_manifest_file()

        def new_entry(
            file: DataFile, status: ManifestEntryStatus = ManifestEntryStatus.ADDED
        ) -> ManifestEntry:
            return ManifestEntry.from_args(status=status, snapshot_id=producer.snapshot_id, data_file=file)

        def manifests() -> list[ManifestFile]:
            found = []
            spec = there.spec().spec_id
            if made:
                found.append(write("data", [new_entry(one) for one in made], spec))
            if more:
                found.append(write("deletes", [new_entry(one) for one in more], spec))
            current = there.current_snapshot()
            for manifest in () if current is None else current.manifests(there.io):
                live = [
                    one for one in _entries(there.io, manifest) if one.status != ManifestEntryStatus.DELETED
                ]
                if not any(one.data_file.file_path in gone for one in live):
                    if live:
                        found.append(manifest)
                    continue
                for one in live:
                    one.status = ManifestEntryStatus.EXISTING
                    if one.data_file.file_path in gone:
                        one.status, one.snapshot_id = ManifestEntryStatus.DELETED, producer.snapshot_id
                of = "deletes" if manifest.content == ManifestContent.DELETES else "data"
                found.append(write(of, live, manifest.partition_spec_id))
            return found

        producer._manifests = manifests
        with producer:
            pass
        return int(producer.snapshot_id)


def _file(path: Path, content: DataFileContent, rows: int, partition: Sequence[Any], **more: Any) -> DataFile:
    made = DataFile.from_args(
        3,
        content=content,
        file_path=f"file://{path}",
        file_format=more.pop("file_format", FileFormat.PARQUET),
        partition=Record(*partition),
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
        **more,
    )
    made._spec_id = 0
    return made


def positions(
    folder: Path, rows: Mapping[str, Sequence[int]], partition: Sequence[Any] = (), *, bounds: bool = True
) -> DataFile:
    """A file that deletes rows of data files by their numbers; with `bounds` the log says of which files."""
    path = folder / "lake" / f"positions-{uuid.uuid4()}.parquet"
    listed = sorted((name, pos) for name, numbers in rows.items() for pos in numbers)
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(_PATH)}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(_POS)}),
        ]
    )
    pq.write_table(pa.table([[n for n, _ in listed], [p for _, p in listed]], schema=schema), path)
    ends = (min(rows).encode(), max(rows).encode())
    more = {"lower_bounds": {_PATH: ends[0]}, "upper_bounds": {_PATH: ends[1]}} if bounds else {}
    return _file(path, DataFileContent.POSITION_DELETES, len(listed), partition, **more)


def vectors(
    folder: Path, rows: Mapping[str, tuple[Sequence[int], Sequence[Any]]], high: int = 0
) -> list[DataFile]:
    """A file with a deletion vector for each of the data files: the rows, and its partition. `high` are far rows more."""
    path = folder / "lake" / f"vectors-{uuid.uuid4()}.puffin"
    content, blobs, places = b"PFA1", [], {}
    for name, (numbers, _) in rows.items():
        maps = [BitMap(numbers), *([BitMap([high])] if high else [])]
        bits = len(maps).to_bytes(8, "little")
        for key, one in enumerate(maps):
            bits += key.to_bytes(4, "little") + one.serialize()
        framed = b"\xd1\xd3\x39\x64" + bits
        blob = len(framed).to_bytes(4, "big") + framed + zlib.crc32(framed).to_bytes(4, "big")
        places[name] = (len(content), len(blob))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(blob),
                "properties": {"referenced-data-file": name, "cardinality": str(len(numbers))},
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs}).encode()
    path.write_bytes(content + b"PFA1" + footer + len(footer).to_bytes(4, "little") + b"\0\0\0\0PFA1")
    return [
        _file(
            path,
            DataFileContent.POSITION_DELETES,
            len(numbers),
            partition,
            file_format=FileFormat.PUFFIN,
            referenced_data_file=name,
            content_offset=places[name][0],
            content_size_in_bytes=places[name][1],
        )
        for name, (numbers, partition) in rows.items()
    ]


def equals(
    folder: Path,
    rows: pa.Table,
    ids: Sequence[int] = (1,),
    partition: Sequence[Any] = (),
    *,
    schema: Schema = SCHEMA,
    bounds: bool = True,
) -> DataFile:
    """A file that deletes the rows which have the values of one of these in the columns of these ids.

    With `bounds` the log says of each column the least and the greatest value, and how many are NULL.
    """
    path = folder / "lake" / f"equals-{uuid.uuid4()}.parquet"
    names = [schema.find_column_name(id_) for id_ in ids]
    picked = rows.select(names).cast(pa.schema([schema.as_arrow().field(name) for name in names]))
    pq.write_table(picked, path)
    more = (
        {} if not bounds else _bounds({i: picked.column(n) for i, n in zip(ids, names, strict=True)}, schema)
    )
    return _file(path, DataFileContent.EQUALITY_DELETES, len(rows), partition, equality_ids=[*ids], **more)


def _bounds(columns: Mapping[int, pa.ChunkedArray], schema: Schema) -> dict[str, dict[int, Any]]:
    """What a log says of whole numbers and texts; of others no more than how many are NULL."""
    said: dict[str, dict[int, Any]] = {"lower_bounds": {}, "upper_bounds": {}, "null_value_counts": {}}
    for id_, column in columns.items():
        said["null_value_counts"][id_] = column.null_count
        type_ = schema.find_type(id_)
        values = [value for value in column.to_pylist() if value is not None]
        if values and isinstance(type_, LongType | StringType):
            said["lower_bounds"][id_] = to_bytes(type_, min(values))
            said["upper_bounds"][id_] = to_bytes(type_, max(values))
    return said


@dataclass
class Placed:
    """A row, where it is, and the files that delete it."""

    row: Row
    path: str
    pos: int
    sequence: int
    partition: tuple[Any, ...]
    dead: set[str] = field(default_factory=set)


class Lake:
    """A table of `k`, `v` and `p` in a catalog, what is done to it, and the rows that it then has by our own count."""

    def __init__(self, folder: Path, *, partitioned: bool = False) -> None:
        self.folder, self.partitioned = folder, partitioned
        create(folder, SCHEMA, partitions=BY_P if partitioned else UNPARTITIONED_PARTITION_SPEC)
        self.rows: list[Placed] = []
        self.next = 0
        self.unlinkable: list[str] = []
        self.vectored: set[str] = set()

    @property
    def there(self) -> Counter[Row]:
        """The rows of the table: `k` and `v`."""
        return Counter(one.row[:2] for one in self.rows if not one.dead)

    def made(self, count: int, word: str = "v", first: int | None = None) -> pa.Table:
        """Rows with new keys, or with keys from `first` on."""
        begin = self.next if first is None else first
        self.next = max(self.next, begin + count)
        keys = range(begin, begin + count)
        values = ([*keys], [f"{word}{k % 3}" for k in keys], [k % 2 for k in keys])
        return pa.table([pa.array(one, f.type) for one, f in zip(values, SHAPE, strict=True)], schema=SHAPE)

    def commit(
        self,
        *,
        add: Sequence[pa.Table] = (),
        remove: Iterable[str] = (),
        deletes: Sequence[DataFile] = (),
        operation: str = "overwrite",
    ) -> None:
        """As `commit`; the model follows."""
        gone = {*remove}
        number = commit(self.folder, add=add, remove=gone, deletes=deletes, operation=operation)
        there = table(self.folder)
        io, snapshot = there.io, there.snapshot_by_id(number)
        assert snapshot is not None
        sequence = snapshot.sequence_number or 0
        self.rows = [one for one in self.rows if one.path not in gone]
        for one in self.rows:
            one.dead -= gone
        self.unlinkable = [path for path in self.unlinkable if path not in gone]
        new: list[Placed] = []
        for manifest in snapshot.manifests(io):
            if manifest.added_snapshot_id != number:
                continue  # it was there before
            for entry in _entries(io, manifest):
                file = entry.data_file
                added = entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == number
                if added and file.content == DataFileContent.DATA:
                    new += self._placed(file, entry.sequence_number or 0)
        for file in deletes:
            self._delete(file, sequence)
        self.rows += new

    def _placed(self, file: DataFile, sequence: int) -> list[Placed]:
        rows = pq.read_table(file.file_path.removeprefix("file://")).to_pylist()
        partition = tuple(file.partition[i] for i in range(len(file.partition)))
        return [
            Placed((row["k"], row["v"], row["p"]), file.file_path, pos, sequence, partition)
            for pos, row in enumerate(rows)
        ]

    def _delete(self, file: DataFile, sequence: int) -> None:
        """What a file of deletes that is new does to the rows that there are (none of which came with it)."""
        local = file.file_path.removeprefix("file://")
        partition = tuple(file.partition[i] for i in range(len(file.partition)))
        name = file.file_path
        if file.content == DataFileContent.EQUALITY_DELETES:
            values = {tuple(row.values()) for row in pq.read_table(local).to_pylist()}
            columns = [id_ - 1 for id_ in file.equality_ids or ()]
            for one in self.rows:
                same = tuple(one.row[number] for number in columns) in values
                if same and one.partition == partition and one.sequence < sequence:
                    one.dead.add(name)
            self.unlinkable.append(name)
        elif file.file_format == FileFormat.PARQUET:
            for row in pq.read_table(local).to_pylist():
                for one in self.rows:
                    if (one.path, one.pos) == (row["file_path"], row["pos"]):
                        one.dead.add(name)
            self.unlinkable.append(name)

    # ------------------------------------------------------------------------------------------------ what is done

    def by_partition(self, rows: Iterable[Placed]) -> dict[tuple[Any, ...], list[Placed]]:
        """Rows by the partition that they are in."""
        found: dict[tuple[Any, ...], list[Placed]] = {}
        for one in rows:
            found.setdefault(one.partition, []).append(one)
        return found

    def some(self, part: int, of: int) -> list[Placed]:
        """Some rows, dead ones among them."""
        return [one for number, one in enumerate(self.rows) if number % of == part % of]

    def positions(self, rows: Sequence[Placed], *, bounds: bool = True) -> list[DataFile]:
        """Files of deletes by positions, one for each partition; not of files that have a vector."""
        found = []
        for partition, placed in self.by_partition(
            one for one in rows if one.path not in self.vectored
        ).items():
            numbers: dict[str, list[int]] = {}
            for one in placed:
                numbers.setdefault(one.path, []).append(one.pos)
            found.append(positions(self.folder, numbers, partition, bounds=bounds))
        return found

    def delete_by_vectors(self, rows: Sequence[Placed]) -> None:
        """Vectors of the files of these rows, with all positions that were deleted in them before, whose vectors go."""
        wanted = {(one.path, one.pos) for one in rows}
        given: dict[str, tuple[list[int], tuple[Any, ...]]] = {}
        former: set[str] = set()
        for one in self.rows:
            if one.path not in {path for path, _ in wanted}:
                continue
            named = {name for name in one.dead if "positions-" in name or "vectors-" in name}
            former |= {name for name in named if "vectors-" in name}
            numbers, _ = given.setdefault(one.path, ([], one.partition))
            if named or (one.path, one.pos) in wanted:
                numbers.append(one.pos)
        # A file of vectors goes as a whole here, so all that have one in it get a new one.
        for one in self.rows:
            if one.dead & former and one.path not in given:
                given[one.path] = ([], one.partition)
        for one in self.rows:
            if one.path in given and one.dead & former and one.pos not in given[one.path][0]:
                given[one.path][0].append(one.pos)
        if not given:
            return
        files = vectors(self.folder, given)
        self.commit(deletes=files, remove=former)
        (name,) = {file.file_path for file in files}
        for one in self.rows:
            if one.path in given:
                self.vectored.add(one.path)
                one.dead = {other for other in one.dead if "positions-" not in other}
                if one.pos in given[one.path][0]:
                    one.dead.add(name)

    def equals(self, rows: Sequence[Placed], *, bounds: bool = True) -> list[DataFile]:
        """Files of deletes by the keys of rows, one for each partition."""
        return [
            equals(
                self.folder,
                pa.table({"k": pa.array(sorted({one.row[0] for one in placed}), pa.int64())}),
                partition=partition,
                bounds=bounds,
            )
            for partition, placed in self.by_partition(rows).items()
        ]

    def rewrite(self, paths: Iterable[str], leaves_out: Iterable[Placed] = (), *, operation: str) -> None:
        """Write the rows of files anew that are there, but those that are left out (copy-on-write, or a compaction)."""
        gone, out = {*paths}, {id(one) for one in leaves_out}
        kept = [one for one in self.rows if one.path in gone and not one.dead and id(one) not in out]
        add = (
            [pa.table([[*c] for c in zip(*(one.row for one in kept), strict=True)], schema=SHAPE)]
            if kept
            else []
        )
        self.commit(add=add, remove=gone, operation=operation)

    def do(self, what: tuple[str, int]) -> None:
        """Do something to the table."""
        name, n = what
        paths = list(dict.fromkeys(one.path for one in self.rows))
        some = self.some(n, 3)
        match name:
            case "append":
                self.commit(add=[self.made(n + 1)], operation="append")
            case "positions" | "positions of many":
                self.commit(deletes=self.positions(some, bounds=name == "positions"))
            case "vectors":
                self.delete_by_vectors(some)
            case "equals":
                self.commit(deletes=self.equals(some, bounds=n % 2 == 0))
            case "upsert":  # as Flink does it: rows with these keys go, whichever there are, and come anew
                keys = sorted({one.row[0] for one in some})
                rows = [self.made(1, f"u{n}", first=key) for key in keys]
                self.commit(
                    add=[pa.concat_tables(rows)] if rows else [], deletes=self.equals(some, bounds=n % 2 == 0)
                )
            case "copy-on-write":
                self.rewrite(
                    [path for i, path in enumerate(paths) if i % 2 == n % 2], some, operation="overwrite"
                )
            case "compact":
                self.rewrite(paths[: n + 1], operation="replace")
            case "overwrite":
                self.commit(add=[self.made(n, "w")] if n else [], remove=paths, operation="overwrite")
            case "delete all":
                self.commit(remove=paths, operation="delete")
            case "undo":  # what a file of deletes took away is there again
                self.commit(remove=self.unlinkable[n : n + 1])
            case "empty":
                self.commit(operation="delete")
            case "column":
                with table(self.folder).update_schema() as schema:
                    schema.add_column(f"c{len(table(self.folder).schema().fields)}", StringType())
            case _:
                raise AssertionError(name)


OPERATIONS = [
    "append",
    "positions",
    "positions of many",
    "vectors",
    "equals",
    "upsert",
    "copy-on-write",
    "compact",
    "overwrite",
    "delete all",
    "undo",
    "empty",
    "column",
]
