"""Data files as tasks report them: all that a commit says of a file, as JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.api import SinkPart
from sqlstream_operators.errors import InternalError

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


def to_json(file: DataFile) -> dict[str, Any]:
    """Plain JSON data; `from_json` reads it back."""
    partition = file.partition
    return {
        "path": file.file_path,
        "spec": file.spec_id,
        "partition": [_value(partition[i]) for i in range(len(partition))],
        "rows": file.record_count,
        "size": file.file_size_in_bytes,
        **{name: _by_id(getattr(file, name)) for name in _COUNTS},
        **{name: _by_id(getattr(file, name), _text) for name in _BOUNDS},
        "splits": file.split_offsets,
    }


def from_json(data: Mapping[str, Any]) -> DataFile:
    """The inverse of `to_json`."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    counts: dict[str, Any] = {name: _ids(data[name]) for name in _COUNTS}
    bounds: dict[str, Any] = {name: _ids(data[name], base64.b64decode) for name in _BOUNDS}
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=data["path"],
        file_format=FileFormat.PARQUET,
        partition=Record(*(_read(value) for value in data["partition"])),
        record_count=data["rows"],
        file_size_in_bytes=data["size"],
        sort_order_id=None,
        spec_id=data["spec"],
        equality_ids=None,
        key_metadata=None,
        split_offsets=data["splits"],
        **counts,
        **bounds,
    )
    file.spec_id = data["spec"]
    return file


def files_of(parts: Sequence[SinkPart]) -> Iterator[Mapping[str, Any]]:
    """The files of an epoch."""
    for part in parts:
        yield from part.payload.get("files", ())


def _by_id(values: Mapping[int, Any] | None, made: Any = lambda value: value) -> dict[str, Any] | None:
    return None if values is None else {str(key): made(value) for key, value in values.items()}


def _ids(values: Mapping[str, Any] | None, made: Any = lambda value: value) -> dict[int, Any] | None:
    return None if values is None else {int(key): made(value) for key, value in values.items()}


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _value(value: Any) -> Any:
    """A partition value, as the library has it in a file: a number, a text, or what JSON has no form for."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"bytes": _text(value)}
    raise InternalError(f"a partition value of type {type(value).__name__} has no form in JSON")


def _read(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return Decimal(value["decimal"]) if "decimal" in value else base64.b64decode(value["bytes"])
