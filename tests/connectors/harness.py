"""What the connector tests share: specs of tables, and reading a source to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlstream.connectors.api import BadRow, ConnectorContext, Limits, Position, Source, Split
from sqlstream.connectors.filesystem.reader import FileReader
from sqlstream.connectors.filesystem.source import FileSource
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import Column, MetadataColumn, SinkSpec, SourceSpec
from sqlstream_operators.plan.types import parse_type
from sqlstream_operators.state.checkpoint_store import CheckpointStore


def source_spec(
    schema: dict[str, str],
    options: Mapping[str, str] | None = None,
    *,
    path: str | None = None,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    metadata: Sequence[tuple[str, str, str]] = (),
    filter_: str | None = None,
    needed_paths: tuple[str, ...] = (),
    connector: str = "filesystem",
    partitioned_by: tuple[str, ...] = (),
    primary_key: tuple[str, ...] = (),
) -> SourceSpec:
    return SourceSpec(
        name="t",
        connector=connector,
        options=_options(options, path, format),
        physical=tuple(Column(name, parse_type(type_)) for name, type_ in schema.items()),
        columns=tuple(schema) if columns is None else tuple(columns),
        metadata=tuple(MetadataColumn(name, key, parse_type(type_)) for name, key, type_ in metadata),
        filter=filter_,
        needed_paths=needed_paths,
        partitioned_by=partitioned_by,
        primary_key=primary_key,
    )


def sink_spec(
    schema: dict[str, str],
    options: Mapping[str, str] | None = None,
    *,
    path: str | None = None,
    format: str | None = None,
    partitioned_by: Sequence[str] = (),
    connector: str = "filesystem",
    name: str = "s",
    changelog: str = "append",
    key: Sequence[str] = (),
) -> SinkSpec:
    return SinkSpec(
        name=name,
        connector=connector,
        options=_options(options, path, format),
        schema=tuple(Column(column, parse_type(type_)) for column, type_ in schema.items()),
        partitioned_by=tuple(partitioned_by),
        changelog=changelog,
        key=tuple(key),
    )


def _options(options: Mapping[str, str] | None, path: str | None, format_: str | None) -> dict[str, str]:
    given = {"path": path, "format": format_}
    return {**(options or {}), **{name: value for name, value in given.items() if value is not None}}


def context(folder: Path, name: str = "state") -> ConnectorContext:
    return ConnectorContext(CheckpointStore(folder / name, sync=False), str(folder))


@dataclass
class Read:
    """What reading a source gave: the rows, the refused rows, and how it was cut."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    splits: list[list[Split]] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    position: Position = field(default_factory=dict)


def read_split(
    duck: DuckSession, spec: SourceSpec, base: str, split: Split, *, queries: int = 1
) -> tuple[pa.Table, list[BadRow]]:
    """As a task does it: strict first, lenient if that fails."""
    reader = FileReader(spec, base)
    try:
        try:
            reader.open_strict(duck, "r", split, queries=queries)
            return duck.query('SELECT * FROM "r"'), []
        except DataError:
            duck.drop("r")
            bad = list(reader.open_lenient(duck, "r", split))
            return duck.query('SELECT * FROM "r"'), bad
    finally:
        duck.drop("r")


def read_all(
    duck: DuckSession,
    spec: SourceSpec,
    where: ConnectorContext,
    limits: Limits | None = None,
    *,
    queries: int = 1,
    position: Position | None = None,
    most_epochs: int = 10_000,
) -> Read:
    """Read a bounded source to its end, epoch by epoch."""
    source = FileSource(spec, where)
    return read_on(duck, spec, where, source, limits, queries=queries, position=position, most=most_epochs)


def read_on(
    duck: DuckSession,
    spec: SourceSpec,
    where: ConnectorContext,
    source: Source,
    limits: Limits | None = None,
    *,
    queries: int = 1,
    position: Position | None = None,
    most: int = 10_000,
) -> Read:
    """Read a source to its end, epoch by epoch."""
    read = Read(position=source.initial_position() if position is None else position)
    for _ in range(most):
        plan = source.plan(read.position, limits or Limits())
        read.splits.append(list(plan.splits))
        read.position = plan.next_position
        for split in plan.splits:
            table, bad = read_split(duck, spec, where.base_dir, split, queries=queries)
            read.tables.append(table)
            read.rows += rows(table)
            read.bad += bad
        if plan.exhausted:
            return read
    raise AssertionError("the source does not end")


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples; maps are lists of pairs."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
