"""Rows that a task could not use, as lines of JSON: collected in a file of the task's machine, staged at its end.

What a task keeps of them in memory does not grow with their number, and the driver gets the name of the file and how
many there are of each kind. A line is an object: `epoch`, `kind`, where the row comes from, why it is here, the row.

- `late`: `operator`, `reason`, `window_start` of the first window that the row missed, `window_end` of the last, `windows`:
  how many there are from the first to the last, `event_time`, `row` (an object)
- `no-time`: `operator`, `reason`, `row` (an object)
- `malformed`: `origin`, `line` or `position` (an object), `key` (text), `reason`, `row` (text), `expression`: the SQL that
  can't be computed of a row that was read. Bytes that are no UTF-8 have escapes in `key` and `row`, and are whole in
  `key_base64` and `row_base64`.
- `failed`: `operator` that gave the row, `reason`, `expression`, `row` (an object)
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sqlstream_operators.duck.relations import Relations
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import LateStep, SourceSpec
from sqlstream_operators.plan.types import TIMESTAMP, VARCHAR, quote_identifier, quote_literal
from sqlstream_operators.plan.watermarks import WATERMARK_MIN
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.private_folder import make_private

from .epoch import EpochContext
from .io import BadRow, NotComputed, PlacedRow

STAGED = "staging/dead-letter"
"""Where a task's file is until its epoch is committed."""

FOLDER_PREFIX = "letters-"
"""The prefix of folders in which tasks collect dead-letter rows."""


_OF_WINDOW = ("window_start", "window_end", "windows", "event_time")
#: The kinds of dead letters that there are.
KINDS = ("late", "no-time", "malformed", "failed")
#: The relation with the rows that an operator found to be late.
_LATE_ROWS = "__late_rows"


@dataclass(frozen=True, slots=True)
class StagedDeadLetters:
    """A task's file of dead letters in the checkpoint store, and how many there are of each kind."""

    file: str
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _DeadLetters:
    """Of rows of `table` that `operator` could not use: SQL over `inputs` as of a `LateStep`."""

    table: str
    operator: str
    late_sql: str
    inputs: tuple[str, ...]


@dataclass(slots=True)
class DeadLetters:
    """The dead letters of the task `task` of an epoch. Close it: its files are on the disk of this machine."""

    epoch: EpochContext
    task: str
    counts: Counter[str] = field(default_factory=Counter)
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def late(self, step: LateStep, rows: Relations, watermark: int) -> int:
        """Keep the rows that `step` finds late at `watermark` (µs); how many there are."""
        if step.instant:
            return self._rows_of(step, rows, watermark, "late", _gone(watermark), ("event_time",))
        return self._rows_of(step, rows, watermark, "late", _closed(watermark), _OF_WINDOW)

    def timeless(self, step: LateStep, rows: Relations, watermark: int) -> int:
        """Keep the rows that `step` can't put into a window, having no time; how many there are."""
        return self._rows_of(step, rows, watermark, "no-time", "the event time is NULL", ())

    def outside(self, source: SourceSpec, columns: Iterable[str], sql: str, duck: DuckSession) -> int:
        """Keep rows of a source, given by `sql`, whose event time is none to compute with; how many there are."""
        relations = Relations(duck)
        relations.add_sql(_LATE_ROWS, sql, ())
        packed = ", ".join(f"{quote_identifier(name)} := {quote_identifier(name)}" for name in columns)
        rows = f'SELECT NULL AS window_end, to_json(struct_pack({packed})) AS "row" FROM {_LATE_ROWS}'
        far = _DeadLetters(source.name, f"source {source.name}", rows, (_LATE_ROWS,))
        column = "" if source.watermark is None else source.watermark.column
        reason = f"the event time {column} is not within the years 0 to 9999"
        return self._rows_of(far, relations, WATERMARK_MIN, "no-time", reason, ())

    def decided(self, operator: str, source: str, rows: pa.Table, duck: DuckSession, watermark: int) -> int:
        """Keep the rows of `source` that an operator found to be late at `watermark` (µs); how many there are."""
        relations = Relations(duck)
        columns = ("window_start", "window_end", "event_time", "row")
        types = (TIMESTAMP, TIMESTAMP, TIMESTAMP, VARCHAR)
        relations.add_table(
            _LATE_ROWS, rows, [Column(name, type_) for name, type_ in zip(columns, types, strict=True)]
        )
        sql = f'SELECT window_start, window_end, 1 AS windows, event_time, "row" FROM {_LATE_ROWS}'
        late = _DeadLetters(source, operator, sql, (_LATE_ROWS,))
        return self._rows_of(late, relations, watermark, "late", _closed(watermark), _OF_WINDOW)

    def malformed(self, source: str, rows: Iterable[BadRow]) -> int:
        """Keep what could not be read; how many rows these are."""
        constant = {"epoch": self.epoch.epoch, "kind": "malformed", "source": source}
        number = 0
        with self._file().open("a", encoding="utf-8") as out:
            for row in rows:
                own: dict[str, Any] = {"origin": row.origin, "line": row.line}
                if isinstance(row, PlacedRow):
                    own |= {"position": row.position, **_text("key", row.key)}
                own |= {"reason": row.reason, **_text("row", row.raw)}
                own["expression"] = row.expression if isinstance(row, NotComputed) else None
                out.write(json.dumps(constant | _present(own), ensure_ascii=False) + "\n")
                number += 1
        if number:
            self.counts["malformed"] += number
        return number

    def failed(self, rows: Iterable[tuple[str, str, str | None, Mapping[str, str]]]) -> None:
        """Keep rows of an operator over which an expression fails: its name, why, the expression, the values as text."""
        with self._file().open("a", encoding="utf-8") as out:
            for operator, reason, expression, row in rows:
                head = {"epoch": self.epoch.epoch, "kind": "failed", "operator": operator, "reason": reason}
                out.write(
                    json.dumps(_present({**head, "expression": expression, "row": row}), ensure_ascii=False)
                    + "\n"
                )
                self.counts["failed"] += 1

    def stage(self) -> StagedDeadLetters | None:
        """Put the file into the checkpoint store, under a name that its content decides; None: there is none."""
        if not self.counts:
            return None
        file = self._file()
        with file.open("rb") as content:
            name = f"{STAGED}/epoch-{self.epoch.epoch:06d}-{self.task}-{digest(content)}.jsonl"
        CheckpointStore(self.epoch.checkpoint).put(name, file)
        return StagedDeadLetters(name, dict(sorted(self.counts.items())))

    def clear(self) -> None:
        """Forget all of them."""
        self.counts.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    close = clear

    def _rows_of(
        self,
        step: LateStep | _DeadLetters,
        rows: Relations,
        watermark: int,
        kind: str,
        reason: str,
        fields: Iterable[str],
    ) -> int:
        head = {"kind": kind, "source": step.table, "operator": step.operator, "reason": reason}
        items = [f"{self.epoch.epoch} AS epoch"]
        items += [f"{quote_literal(text)} AS {name}" for name, text in head.items()]
        items += [*fields, 'CAST("row" AS JSON) AS "row"']
        timed = "IS NOT NULL" if kind == "late" else "IS NULL"
        sql = f"SELECT {', '.join(items)}\nFROM (\n{step.late_sql}\n) AS letters\nWHERE window_end {timed}"
        found = self._file().with_name("more")
        parameters = {"late_watermark": watermark} if isinstance(step, LateStep) else None
        number = rows.write_json(sql, step.inputs, found, parameters)
        with self._file().open("ab") as out, found.open("rb") as more:
            shutil.copyfileobj(more, out)
        found.unlink()
        if number:
            self.counts[kind] += number
        return number

    def _file(self) -> Path:
        if self._folder is None:
            parent = make_private(Path(self.epoch.local_dir)) if self.epoch.local_dir else None
            self._folder = tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, dir=parent)
        return Path(self._folder.name) / "letters"


def _gone(watermark: int) -> str:
    return f"the rows that it could be joined with may be gone: the watermark is {watermark} µs"


def _closed(watermark: int) -> str:
    return f"the window was closed: the watermark is {watermark} µs"


def digest(content: BinaryIO) -> str:
    """What stands for the content of a file in its name."""
    made = hashlib.sha256()
    while block := content.read(1 << 20):
        made.update(block)
    return made.hexdigest()[:16]


def _text(name: str, value: str | bytes | None) -> dict[str, Any]:
    r"""A value as text; bytes that are not UTF-8 are also given as base64.

    >>> _text("row", b"caf\xc3\xa9"), _text("row", b"a\xff")
    ({'row': 'café'}, {'row': 'a\\xff', 'row_base64': 'Yf8='})
    """
    if not isinstance(value, bytes):
        return {name: value}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        escaped = value.decode(errors="backslashreplace")
        return {name: escaped, f"{name}_base64": base64.b64encode(value).decode()}


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
