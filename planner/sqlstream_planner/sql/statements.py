"""The statements of a pipeline file as plain data. Syntax trees are never changed after parsing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.diagnostics import Diagnostic, Span


@dataclass(frozen=True, slots=True)
class Option:
    """One `'key' = 'value'` of a WITH clause."""

    key: str
    value: str
    key_span: Span
    value_span: Span


@dataclass(frozen=True, slots=True)
class SetOption:
    """`SET 'key' = 'value'`."""

    key: str
    value: str
    span: Span
    key_span: Span
    value_span: Span


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """`name type [NOT NULL]`: read from, or written to, the connector.

    `precision` is what a timestamp was declared with (digits of a second), else None. `exact` is the type that DuckDB
    checks values by, where `type` leaves out the size of an array, else None.
    """

    name: str
    type: SqlType
    nullable: bool
    precision: int | None
    span: Span
    exact: str | None = None


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """`name AS expression`."""

    name: str
    expression: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """`name type METADATA [FROM 'key'] [VIRTUAL]`; `key` is the name when FROM is missing."""

    name: str
    type: SqlType
    nullable: bool
    precision: int | None
    key: str
    virtual: bool
    span: Span


Column = PhysicalColumn | ComputedColumn | MetadataColumn


@dataclass(frozen=True, slots=True)
class Watermark:
    """`WATERMARK FOR column AS expression`; the column may be nested (`a.b`)."""

    column: tuple[str, ...]
    expression: exp.Expr
    span: Span
    column_span: Span


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """`PRIMARY KEY (columns) NOT ENFORCED`."""

    columns: tuple[str, ...]
    span: Span


class LikeFeature(StrEnum):
    """What LIKE can take over from the source table."""

    ALL = "ALL"
    CONSTRAINTS = "CONSTRAINTS"
    DISTRIBUTION = "DISTRIBUTION"
    GENERATED = "GENERATED"
    METADATA = "METADATA"
    OPTIONS = "OPTIONS"
    PARTITIONS = "PARTITIONS"
    WATERMARKS = "WATERMARKS"


class LikeStrategy(StrEnum):
    """How LIKE merges a feature."""

    INCLUDING = "INCLUDING"
    EXCLUDING = "EXCLUDING"
    OVERWRITING = "OVERWRITING"


@dataclass(frozen=True, slots=True)
class Like:
    """`LIKE source (INCLUDING ALL …)`: the rules in the order in which they were written."""

    source: str
    rules: tuple[tuple[LikeStrategy, LikeFeature], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`CREATE TABLE`; `options_span` is the WITH clause, or the name where there is none."""

    name: str
    columns: tuple[Column, ...]
    watermark: Watermark | None
    primary_key: PrimaryKey | None
    partitioned_by: tuple[str, ...]
    options: tuple[Option, ...]
    like: Like | None
    as_select: exp.Query | None
    if_not_exists: bool
    temporary: bool
    span: Span
    name_span: Span
    options_span: Span
    partition_span: Span | None = None


@dataclass(frozen=True, slots=True)
class CreateCatalog:
    """`CREATE CATALOG name WITH (…)`; `options_span` is the WITH clause, or the name where there is none."""

    name: str
    options: tuple[Option, ...]
    if_not_exists: bool
    span: Span
    name_span: Span
    options_span: Span


@dataclass(frozen=True, slots=True)
class UseCatalog:
    """`USE CATALOG name`."""

    name: str
    span: Span
    name_span: Span


@dataclass(frozen=True, slots=True)
class UseDatabase:
    """`USE [catalog.]database`; `parts` has one name or both."""

    parts: tuple[str, ...]
    span: Span
    name_span: Span


@dataclass(frozen=True, slots=True)
class CreateView:
    """`CREATE [TEMPORARY] VIEW name [(columns)] AS query`."""

    name: str
    columns: tuple[str, ...]
    query: exp.Query
    if_not_exists: bool
    temporary: bool
    span: Span
    name_span: Span


@dataclass(frozen=True, slots=True)
class CreateType:
    """`CREATE TYPE name AS type`: from there on the name stands for the type, which is put in its place as it is read."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class InsertInto:
    """`INSERT INTO | OVERWRITE table [(columns)] query [ON CONFLICT DO …]`; `hint` is the `/*+ … */` after the table.

    `conflict` is NOTHING, ERROR or DEDUPLICATE.
    """

    table: str
    columns: tuple[str, ...]
    query: exp.Query
    overwrite: bool
    hint: exp.Hint | None
    span: Span
    table_span: Span
    conflict: str | None = None
    conflict_span: Span | None = None


@dataclass(frozen=True, slots=True)
class StatementSet:
    """Several INSERTs that run as one job."""

    inserts: tuple[InsertInto, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Select:
    """A query by itself: its result is printed."""

    query: exp.Query
    span: Span


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A statement that is recognised but can't be run; `diagnostic` says so."""

    kind: str
    diagnostic: Diagnostic
    span: Span


@dataclass(frozen=True, slots=True)
class DropIfExists:
    """DROP TABLE or VIEW IF EXISTS: nothing to do where the file has not declared it before, else `diagnostic`."""

    name: str
    diagnostic: Diagnostic
    span: Span


Statement = (
    SetOption
    | CreateTable
    | CreateView
    | CreateType
    | CreateCatalog
    | UseCatalog
    | UseDatabase
    | InsertInto
    | StatementSet
    | Select
    | DropIfExists
    | Unsupported
)
