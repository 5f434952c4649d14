"""The source of one row: it comes in the first epoch that asks, however few rows that may read."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream.connectors.api import BadRow, ConnectorContext, Limits, Position, SourcePlan, Split
from sqlstream.connectors.numbered import publish
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SourceSpec


class OneRow:
    """One row, then nothing. A position is {"row": 0 before it, 1 behind it}."""

    bounded = True

    def __init__(self, name: str) -> None:
        self._name = name

    def initial_position(self) -> Position:
        """Before the row."""
        return {"row": 0}

    def until(self, position: Position) -> OneRow | NoRow:
        """The row again, if it was read."""
        return OneRow(self._name) if position["row"] else NoRow(self._name)

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The row, if it was not read yet."""
        splits = () if position["row"] else (Split(self._name, {}, 1),)
        return SourcePlan(splits, {"row": 1}, exhausted=True, final=True)

    def lag(self, position: Position) -> int:
        """1 before the row, then 0."""
        return 1 - int(position["row"])


class NoRow(OneRow):
    """What was read of the source before its row came."""

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """Nothing."""
        return SourcePlan((), {"row": 0}, exhausted=True, final=True)

    def lag(self, position: Position) -> int:
        """0."""
        return 0


class OneRowReader:
    """Makes the row."""

    def __init__(self, spec: SourceSpec) -> None:
        self._columns = spec.physical

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make the row queryable."""
        publish(duck, relation, pa.table({c.name: [1] for c in self._columns}), self._columns)

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """The same: it is not malformed."""
        self.open_strict(duck, relation, split, queries=1)
        return []


class OneRowFactory:
    """Makes both halves."""

    def source(self, spec: SourceSpec, context: ConnectorContext) -> OneRow:
        """The driver's half."""
        return OneRow(spec.name)

    def reader(self, spec: SourceSpec, base_dir: str) -> OneRowReader:
        """The task's half."""
        return OneRowReader(spec)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> OneRowReader:
        """The same."""
        return OneRowReader(spec)
