"""Changes of tables in PostgreSQL, read as a pipeline does: the driver plans, tasks read, and what was read is confirmed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors.api import ConnectorContext, Limits, Position, Split
from sqlstream.connectors.capabilities import FromStore
from sqlstream.connectors.postgres_cdc.source import CdcSource
from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.connectors.harness import source_spec
from tests.connectors.postgres_server import Database

Row = tuple[Any, ...]
SCHEMA = {"k": "BIGINT", "v": "VARCHAR"}
SLOTS = (
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
)


def slot_of(database: Database) -> str:
    """A slot that is called like the database, whose names are different ones in a session."""
    return f"slot_{database.name}"


def cdc_spec(
    database: Database,
    table: str = "t",
    schema: dict[str, str] | None = None,
    key: tuple[str, ...] = (),
    publication: str | None = None,
) -> SourceSpec:
    """A table whose changes are read."""
    more = {} if publication is None else {"publication.name": publication}
    given = {"url": database.url, "table-name": table, "slot.name": slot_of(database)}
    spec = source_spec(schema or SCHEMA, {**given, **more}, connector="postgres-cdc")
    return SourceSpec(table, spec.connector, spec.options, spec.physical, spec.columns, primary_key=key)


@dataclass(frozen=True)
class Epoch:
    """What an epoch has read, and the position behind it."""

    rows: list[Row]
    after: Position
    exhausted: bool
    splits: list[Split]


@dataclass
class Reading:
    """A table that is read epoch by epoch, by one state directory."""

    spec: SourceSpec
    folder: Path
    duck: DuckSession
    ends: bool = False
    runs: bool = True
    told: list[Diagnostic] = field(default_factory=list)
    shared: dict[Hashable, Any] = field(default_factory=dict)
    _source: CdcSource | None = None

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(self.folder / "store", sync=False)

    @property
    def source(self) -> CdcSource:
        if self._source is None:
            context = ConnectorContext(
                self.store,
                str(self.folder),
                ends=self.ends,
                tell=self.told.append,
                runs=self.runs,
                shared=self.shared,
            )
            self._source = CdcSource(self.spec, context)
        return self._source

    def again(self, **changed: Any) -> Reading:
        """As another run has it; the former one is over."""
        self.close()
        given = {"spec": self.spec, "ends": self.ends, "runs": self.runs, **changed}
        return Reading(given.pop("spec"), self.folder, self.duck, **given)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def epoch(self, position: Position, limits: Limits | None = None) -> Epoch:
        plan = self.source.plan(position, limits or Limits())
        written = json.loads(json.dumps(plan.next_position))
        rows = [row for split in plan.splits for row in self.read(split)]
        return Epoch(rows, written, plan.exhausted, list(plan.splits))

    def read(self, split: Split) -> list[Row]:
        """As a task does it: the split comes to it as JSON."""
        names = ", ".join(f'"{name}"' for name in (*self.spec.columns, KIND_COLUMN))
        split = Split(split.source, json.loads(json.dumps(split.payload)), split.rows, split.bytes)
        reader = REGISTERED.reader(self.spec, str(self.folder))
        assert isinstance(reader, FromStore)
        reader.in_store(self.store)
        reader.open_strict(self.duck, "rows", split, queries=1)
        found = self.duck.query(f"SELECT {names} FROM rows")
        self.duck.drop("rows")
        rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        assert split.rows is None or split.rows == len(rows)
        return rows

    def epochs(self, position: Position | None = None, limits: Limits | None = None) -> Iterator[Epoch]:
        """Until nothing more is there; each is confirmed as the next one is asked for."""
        at = self.source.initial_position() if position is None else position
        while True:
            epoch = self.epoch(at, limits)
            if not epoch.splits and self.source.poll_seconds:
                yield epoch
                return
            if epoch.splits:
                at = epoch.after
                yield epoch
                self.source.committed(at)

    def all(
        self, position: Position | None = None, limits: Limits | None = None
    ) -> tuple[list[Row], Position]:
        """All that is there, and the position behind it."""
        rows: list[Row] = []
        at: Position = self.source.initial_position() if position is None else position
        for epoch in self.epochs(at, limits):
            if epoch.splits:
                rows += epoch.rows
                at = epoch.after
        return rows, at

    def refused(self, position: Position | None = None) -> Diagnostic:
        """What is said of a table that can't be read."""
        with pytest.raises(DiagnosticError) as raised:
            self.all(position)
        (diagnostic,) = raised.value.diagnostics
        return diagnostic


def folded(changes: Iterable[Row], before: Counter[Row] | None = None) -> Counter[Row]:
    """What is there after changes with whole old rows; no row goes that is not there."""
    there = Counter(before or {})
    for *row, kind in changes:
        there[tuple(row)] += 1 if kind in ("+I", "+U") else -1
        assert there[tuple(row)] >= 0, (row, kind)
    return +there


def by_key(changes: Iterable[Row], before: Mapping[Any, Row] | None = None) -> dict[Any, Row]:
    """What is there after changes by key, which is the first column."""
    there = dict(before or {})
    for *row, kind in changes:
        if kind in ("+I", "+U"):
            there[row[0]] = tuple(row)
        elif kind == "-D":
            del there[row[0]]
    return there
