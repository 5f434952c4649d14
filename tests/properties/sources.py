"""Tables of different columns, types, formats and options, some over one path, with rows; and what is in them.

A `Source` is a CREATE TABLE of a pipeline; `rows_read(n)` says in Python which rows are there once its first n input
rows were read: the judge of a pipeline reads these, so it takes no part of the planner's for granted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]

#: SQL type -> its Arrow type.
ARROW: dict[str, pa.DataType] = {
    "INT": pa.int32(),
    "SMALLINT": pa.int16(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DECIMAL(10, 1)": pa.decimal128(10, 1),
    "ARRAY<INT>": pa.list_(pa.int32()),
    "TIMESTAMP(3)": pa.timestamp("us"),
}
WHOLE = frozenset({"INT", "SMALLINT", "BIGINT"})


@dataclass(frozen=True)
class Source:
    """A table over the files of a folder: `columns` by SQL type, and what of the files its options let through.

    `matching` is a pattern of whole paths (`source.path.regex-pattern`). A changelog (`changelog-json`) has rows of
    ("+I" | "-U" | "+U" | "-D", row); with `key` the last change of a key decides.
    """

    name: str
    path: str
    columns: Mapping[str, str]
    files: Mapping[str, Sequence[Any]] = field(repr=False)
    matching: str | None = None
    changelog: bool = False
    key: str | None = None
    time: str | None = None

    @property
    def statement(self) -> str:
        """CREATE TABLE."""
        parts = [f"{name} {type_}" for name, type_ in self.columns.items()]
        if self.key is not None:
            parts.append(f"PRIMARY KEY ({self.key}) NOT ENFORCED")
        if self.time is not None:
            parts.append(f"WATERMARK FOR {self.time} AS {self.time} - INTERVAL '1000' SECOND")
        options = {
            "connector": "filesystem",
            "path": self.path,
            "format": "changelog-json" if self.changelog else "json",
        }
        if self.matching is not None:
            options["source.path.regex-pattern"] = self.matching
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        return f"CREATE TABLE {self.name} ({', '.join(parts)}) WITH ({listed});"

    def write(self, folder: Path) -> None:
        """Write its files; several tables over one path write the same ones."""
        (folder / self.path).mkdir(exist_ok=True)
        for name, rows in self.files.items():
            (folder / self.path / name).write_text(lines_of(rows))

    def input_rows(self, folder: Path) -> list[Any]:
        """The input that its options let through, in the order in which it is read."""
        whole = [(str(folder / self.path / name), rows) for name, rows in sorted(self.files.items())]
        return [
            row
            for path, rows in whole
            if self.matching is None or re.fullmatch(self.matching, path)
            for row in rows
        ]

    def table(self, rows: Sequence[Any]) -> pa.Table:
        """What is in the table once `rows` of its input were read."""
        there = _left(rows, self.key) if self.changelog else rows
        columns = {
            name: pa.array([_typed(row.get(name), type_) for row in there], ARROW[type_])
            for name, type_ in self.columns.items()
        }
        return pa.table(columns)

    def of_type(self, *types: str) -> tuple[str, ...]:
        """Its columns of these types."""
        return tuple(name for name, type_ in self.columns.items() if type_ in types)


def lines_of(rows: Sequence[Any]) -> str:
    """Rows or changes as lines of a file."""
    found = [{"op": row[0], "data": row[1]} if isinstance(row, tuple) else row for row in rows]
    return "".join(f"{json.dumps(row)}\n" for row in found)


def _left(changes: Sequence[tuple[str, Row]], key: str | None) -> list[Row]:
    """The rows that are left after changes; with a key the last change of each decides."""
    if key is not None:
        last = {row[key]: (kind, row) for kind, row in changes}
        return [row for kind, row in last.values() if kind in ("+I", "+U")]
    left: list[Row] = []
    for kind, row in changes:
        if kind in ("+I", "+U"):
            left.append(row)
        else:
            left.remove(row)
    return left


def _typed(value: Any, type_: str) -> Any:
    """A JSON value as a column of that type has it."""
    if value is None:
        return None
    if type_ == "STRING":
        return value if isinstance(value, str) else json.dumps(value)
    if type_.startswith("DECIMAL"):
        return Decimal(value)
    if type_.startswith("TIMESTAMP"):
        return pa.scalar(value).cast(pa.timestamp("us")).as_py()
    return value
