"""What the log of a table says of a file, so that readers can pass over it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: Of how many columns the log says the least and the greatest value, as other writers do.
_WITH_BOUNDS = 32


class FileStatistics:
    """Counts the rows of a file and the NULLs of its columns, and finds the least and the greatest of some."""

    def __init__(self, columns: Sequence[pa.Field]) -> None:
        self._rows = 0
        # The log has those of nested columns by their fields.
        first = [column for column in columns[:_WITH_BOUNDS] if not pa.types.is_nested(column.type)]
        self._nulls = dict.fromkeys([column.name for column in first], 0)
        self._bounded = [column.name for column in first if _is_bounded(column.type)]
        self._bounds: dict[str, tuple[Any, Any]] = {}

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """More rows of the file."""
        self._rows += rows.num_rows
        for name in self._nulls:
            values = rows.column(name)
            self._nulls[name] += values.null_count
            if name in self._bounded and values.null_count < len(values):
                found = pc.min_max(values)
                least, greatest = found["min"].as_py(), found["max"].as_py()
                before = self._bounds.get(name, (least, greatest))
                self._bounds[name] = min(before[0], least), max(before[1], greatest)

    def text(self) -> str:
        """As the log has it."""
        return json.dumps(
            {
                "numRecords": self._rows,
                "minValues": {name: _plain(least) for name, (least, _) in self._bounds.items()},
                "maxValues": {name: _plain(greatest) for name, (_, greatest) in self._bounds.items()},
                "nullCount": self._nulls,
            }
        )


def _is_bounded(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_) or pa.types.is_date32(type_))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int) else str(value)
