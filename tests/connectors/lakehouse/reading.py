"""Reading tables of lakes as a pipeline does: the driver plans, tasks read."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from sqlstream.connectors.api import ConnectorContext, Limits, Position, Split
from sqlstream.connectors.filesystem.orders import FileOrders
from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Epoch:
    """What an epoch has read, and the position behind it."""

    rows: list[Row]
    after: Position
    exhausted: bool
    splits: list[Split]


@dataclass
class LakeReading(ABC):
    """A table that is read epoch by epoch; `accepted` and `told` are the run's."""

    spec: SourceSpec
    folder: Path
    duck: DuckSession
    accepted: tuple[str, ...] = ()
    ends: bool = False
    orders: FileOrders | None = None
    told: list[Diagnostic] = field(default_factory=list)
    now: float = 0.0
    _source: Any = None

    @property
    def source(self) -> Any:
        if self._source is None:
            context = ConnectorContext(
                CheckpointStore(self.folder / "store", sync=False),
                str(self.folder),
                accepted=self.accepted,
                ends=self.ends,
                tell=self.told.append,
                orders=self.orders,
            )
            self._source = self.made(context)
        return self._source

    @abstractmethod
    def made(self, context: ConnectorContext) -> Any:
        """The driver's half, whose clock is `now`."""

    @property
    @abstractmethod
    def kinds(self) -> bool:
        """Whether the table's changes are read."""

    def again(self, **changed: Any) -> Self:
        """As another run has it."""
        given = {"accepted": self.accepted, "ends": self.ends, **changed}
        return type(self)(given.pop("spec", self.spec), self.folder, self.duck, **given)

    def epoch(self, position: Position, limits: Limits | None = None, source: Any = None) -> Epoch:
        self.now += 2.0  # the table is looked at again
        plan = (source or self.source).plan(position, limits or Limits())
        position_written = json.loads(json.dumps(plan.next_position))
        rows = [row for split in plan.splits for row in self.read(split)]
        return Epoch(rows, position_written, plan.exhausted, list(plan.splits))

    def read(self, split: Split) -> list[Row]:
        """As a task does it: the split comes to it as JSON."""
        kind = [KIND_COLUMN] if self.kinds else []
        read = (*self.spec.columns, *(m.name for m in self.spec.metadata), *kind)
        names = ", ".join(f'"{name}"' for name in read)
        split = Split(split.source, json.loads(json.dumps(split.payload)), split.rows, split.bytes)
        reader = REGISTERED.reader(self.spec, str(self.folder))
        try:
            reader.open_strict(self.duck, "rows", split, queries=1)
            found = self.duck.query(f"SELECT {names} FROM rows")
        except DataError:
            self.duck.drop("rows")
            lenient = REGISTERED.lenient_reader(self.spec, str(self.folder))
            assert not lenient.open_lenient(self.duck, "rows", split)
            found = self.duck.query(f"SELECT {names} FROM rows")
        self.duck.drop("rows")
        rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        assert split.rows is None or split.rows == len(rows)
        return rows

    def epochs(
        self, position: Position | None = None, limits: Limits | None = None, source: Any = None
    ) -> Iterator[Epoch]:
        """Until nothing more is read."""
        at = (source or self.source).initial_position() if position is None else position
        while True:
            epoch = self.epoch(at, limits, source)
            yield epoch
            if epoch.exhausted or not epoch.splits:
                return
            at = epoch.after

    def all(
        self, position: Position | None = None, limits: Limits | None = None
    ) -> tuple[list[Row], Position]:
        """All rows that are there, and the position behind them."""
        rows: list[Row] = []
        at: Position = {}
        for epoch in self.epochs(position, limits):
            rows += epoch.rows
            at = epoch.after
        return rows, at

    def history(self, position: Position, limits: Limits | None = None) -> list[Row]:
        """What was read up to a position, read again; it ends there."""
        source = self.again().source.until(position)
        rows: list[Row] = []
        at = source.initial_position()
        for epoch in self.epochs(at, limits, source):
            rows += epoch.rows
            at = epoch.after
            assert epoch.splits or epoch.exhausted, "a history goes on to its end"
        assert at == position
        return rows

    def refused(self, position: Position | None = None) -> Diagnostic:
        """What is said of a table that can't be read."""
        with pytest.raises(DiagnosticError) as raised:
            self.all(position)
        (diagnostic,) = raised.value.diagnostics
        return diagnostic
