"""Files that delete rows of a table's data files, and which of them count for one, as Iceberg's specification has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.iceberg.files import plain
from sqlstream.connectors.iceberg.source.manifests import Entry

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import PrimitiveType

#: The field of a file of positions that has the path of the file whose rows it deletes.
_PATH_FIELD = 2147483546


class DeleteKind(StrEnum):
    """How a file says which rows are deleted: by their numbers in a data file, as bits of those, or by their values."""

    POSITIONS = "positions"
    VECTOR = "vector"
    EQUALITY = "equality"


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file that deletes rows: its path as paths are here, and its size in bytes.

    A vector is `length` bytes from `offset` on. `columns` are the ids of the fields by whose values rows are deleted, each
    with its SQL type ("" for one whose values can't be compared here).
    """

    kind: DeleteKind
    path: str
    size: int
    offset: int = 0
    length: int = 0
    columns: tuple[tuple[int, str], ...] = ()
    format: str = "PARQUET"

    @property
    def unreadable(self) -> str:
        """Why it can't be read here, in words; "": it can."""
        wanted = "PUFFIN" if self.kind is DeleteKind.VECTOR else "PARQUET"
        if self.format != wanted:
            return f"it is in {self.format}"
        if any(not type_ for _, type_ in self.columns):
            return "it deletes rows by values of a type that can't be compared here (FLOAT, DOUBLE, or inside of others)"
        return (
            "" if self.kind is not DeleteKind.EQUALITY or self.columns else "it does not say by which columns"
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """A delete file and the data files that it counts for; `columns` are those by whose values it deletes."""

    file: DeleteFile
    content: DataFile
    columns: tuple[tuple[int, PrimitiveType], ...]
    sequence: int
    partition: tuple[Any, ...]
    everywhere: bool
    least: bytes | None
    most: bytes | None
    of: str | None


class Deletes:
    """The files of deletes that a table has at some time."""

    def __init__(self, metadata: TableMetadata, entries: Iterable[Entry]) -> None:
        self._of_file: dict[str, list[_Known]] = {}
        self._of_partition: dict[tuple[Any, ...], list[_Known]] = {}
        self._everywhere: list[_Known] = []
        for entry in entries:
            one = _known(metadata, entry)
            if one.of is not None:
                self._of_file.setdefault(one.of, []).append(one)
            elif one.everywhere:
                self._everywhere.append(one)
            else:
                self._of_partition.setdefault(one.partition, []).append(one)

    def of(self, entry: Entry) -> tuple[DeleteFile, ...]:
        """Those that count for a data file. Where one is a vector, positions do not: it has them all."""
        sequence = entry.sequence
        candidates = (
            *self._of_file.get(entry.file.file_path, ()),
            *self._of_partition.get(_partition(entry), ()),
            *self._everywhere,
        )
        found = [one.file for one in candidates if _counts(one, entry.file, sequence)]
        if any(file.kind is DeleteKind.VECTOR for file in found):
            found = [file for file in found if file.kind is not DeleteKind.POSITIONS]
        return tuple(sorted(found, key=lambda file: (file.path, file.offset)))


def _counts(one: _Known, file: DataFile, sequence: int) -> bool:
    if one.file.kind is DeleteKind.EQUALITY:
        from sqlstream.connectors.iceberg.source.bounds import may_share

        return sequence < one.sequence and may_share(one.columns, one.content, file)
    if sequence > one.sequence:
        return False
    name = file.file_path.encode()
    return (one.least is None or one.least <= name) and (one.most is None or name <= one.most)


def _known(metadata: TableMetadata, entry: Entry) -> _Known:
    from pyiceberg.manifest import DataFileContent
    from pyiceberg.transforms import VoidTransform

    file = entry.file
    if file.content == DataFileContent.EQUALITY_DELETES:
        kind = DeleteKind.EQUALITY
    else:
        kind = DeleteKind.VECTOR if file.file_format.name == "PUFFIN" else DeleteKind.POSITIONS
    least = most = None
    of = entry.referenced
    if kind is not DeleteKind.EQUALITY:
        least = (file.lower_bounds or {}).get(_PATH_FIELD)
        most = (file.upper_bounds or {}).get(_PATH_FIELD)
        if of is None and least is not None and least == most:
            of = least.decode()
    columns = tuple(_columns(metadata, file.equality_ids or ())) if kind is DeleteKind.EQUALITY else ()
    spec = metadata.specs().get(file.spec_id)
    partitioned = spec is not None and any(
        not isinstance(one.transform, VoidTransform) for one in spec.fields
    )
    made = DeleteFile(
        kind,
        plain(file.file_path),
        file.file_size_in_bytes,
        entry.offset if kind is DeleteKind.VECTOR else 0,
        entry.length if kind is DeleteKind.VECTOR else 0,
        tuple((id_, sql) for id_, _, sql in columns),
        file.file_format.name,
    )
    return _Known(
        made,
        file,
        tuple((id_, type_) for id_, type_, _ in columns if type_ is not None),
        entry.sequence,
        _partition(entry),
        kind is DeleteKind.EQUALITY and not partitioned,
        least,
        most,
        of,
    )


def _partition(entry: Entry) -> tuple[Any, ...]:
    """What files of one partition have in common: how the table was partitioned then, and the values as text (NaN too)."""
    record = entry.file.partition
    return entry.file.spec_id, *(repr(record[number]) for number in range(len(record)))


def _columns(metadata: TableMetadata, ids: Sequence[int]) -> Iterator[tuple[int, PrimitiveType | None, str]]:
    """The fields with these ids, as Iceberg's types and in SQL; None and "" for one whose values can't be compared here."""
    from pyiceberg import types as ice

    from sqlstream.connectors.iceberg.types import sql_type

    schemas = (metadata.schema(), *reversed(metadata.schemas))
    for id_ in ids:
        # Only at the top: what is inside of others is not looked for.
        field = next((one for schema in schemas for one in schema.fields if one.field_id == id_), None)
        type_ = None if field is None or field.initial_default is not None else field.field_type
        if isinstance(type_, ice.PrimitiveType) and not isinstance(type_, ice.FloatType | ice.DoubleType):
            known = sql_type(type_)
            yield id_, type_, "" if known is None else str(known)
        else:
            yield id_, None, ""
