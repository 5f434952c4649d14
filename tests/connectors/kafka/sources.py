"""Reads topics as a pipeline does: the driver plans, tasks read, and rows are collected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlstream.connectors.api import BadRow, ConnectorContext, Limits, Position, Split
from sqlstream.connectors.kafka.source import KafkaSource
from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import MetadataColumn, SourceSpec
from sqlstream_operators.plan.types import BIGINT, VARCHAR, SqlType
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic

Row = tuple[Any, ...]


@dataclass
class Reading:
    """A table on Kafka that is read epoch by epoch; `accepted` and `told` are the run's."""

    spec: SourceSpec
    folder: Path
    duck: DuckSession
    accepted: tuple[str, ...] = ()
    ends: bool = False
    told: list[Diagnostic] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    _source: KafkaSource | None = None

    @property
    def source(self) -> KafkaSource:
        if self._source is None:
            store = CheckpointStore(str(self.folder / "store"))
            context = ConnectorContext(
                store, str(self.folder), accepted=self.accepted, ends=self.ends, tell=self.told.append
            )
            source = REGISTERED.source(self.spec, context)
            assert isinstance(source, KafkaSource)
            self._source = source
        return self._source

    def again(self, *, accepted: tuple[str, ...] = ()) -> Reading:
        """As another run has it."""
        return Reading(self.spec, self.folder, self.duck, accepted, self.ends)

    def epoch(self, position: Position, limits: Limits | None = None, source: Any = None) -> Epoch:
        plan = (source or self.source).plan(position, limits or Limits())
        read = [self._read(split) for split in plan.splits]
        rows = [row for found, _ in read for row in found]
        bad = [one for _, found in read for one in found]
        if len(read) > 1:  # all at once gives the same, and of which split each row is
            lanes = [(number,) for number, (found, _) in enumerate(read) for _ in found]
            together = [row + lane for row, lane in zip(rows, lanes, strict=True)]
            assert self._read(Split.combined(plan.splits)) == (together, bad)
        self.bad += bad
        return Epoch(rows, plan.next_position, plan.exhausted, [dict(s.payload) for s in plan.splits])

    def _read(self, split: Split) -> tuple[list[Row], list[BadRow]]:
        bad: list[BadRow] = []
        reader = REGISTERED.reader(self.spec, str(self.folder))
        try:
            reader.open_strict(self.duck, "rows", split, queries=1)
            found = self.duck.query("SELECT * FROM rows")
        except DataError:
            lenient = REGISTERED.lenient_reader(self.spec, str(self.folder))
            bad += lenient.open_lenient(self.duck, "rows", split)
            found = self.duck.query("SELECT * FROM rows")
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True)), bad

    def epochs(self, position: Position | None = None, limits: Limits | None = None) -> Iterator[Epoch]:
        """Until there is nothing more."""
        at = self.source.initial_position() if position is None else position
        while True:
            epoch = self.epoch(at, limits)
            if not epoch.splits:
                return
            yield epoch
            at = epoch.after

    def rows(self, position: Position | None = None, limits: Limits | None = None) -> list[Row]:
        return [row for epoch in self.epochs(position, limits) for row in epoch.rows]


@dataclass(frozen=True)
class Epoch:
    rows: list[Row]
    after: Position
    exhausted: bool
    splits: Sequence[Mapping[str, Any]]


COLUMNS = (Column("k", VARCHAR), Column("v", BIGINT))


def table(
    bootstrap: str,
    options: Mapping[str, str],
    columns: Sequence[Column] = COLUMNS,
    metadata: Mapping[str, SqlType] | None = None,
    *,
    connector: str = "kafka",
    primary_key: tuple[str, ...] = (),
) -> SourceSpec:
    formats = {} if any(name.endswith("format") for name in options) else {"format": "json"}
    given = {
        "properties.bootstrap.servers": bootstrap,
        # Who begins elsewhere waits until the broker has answered what was asked at the end of the log: half a second.
        "properties.fetch.max.wait.ms": "10",
        **formats,
        **options,
    }
    if connector == "kafka" and "scan.startup.mode" not in given:
        given["scan.startup.mode"] = "earliest-offset"
    return SourceSpec(
        "t",
        connector,
        given,
        tuple(columns),
        tuple(c.name for c in columns),
        tuple(
            MetadataColumn(f"m_{key.replace('-', '_')}", key, type_)
            for key, type_ in (metadata or {}).items()
        ),
        primary_key=primary_key,
    )
