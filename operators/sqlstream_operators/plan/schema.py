"""Columns of relations, and the columns that the engine adds to them. Importable without Arrow or DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlstream_operators.plan.types import SqlType

#: Name of the column that carries the kind of a change, as it is read from and written to the world.
KIND_COLUMN = "__kind"
#: Name of the column that carries how many times a row is inserted or retracted, BIGINT; absent in append-only relations.
WEIGHT_COLUMN = "__weight"
#: Name of the column with the end of a row's slice, int64 µs.
SLICE_COLUMN = "__slice_end"
#: What no table's column may be called: these stand beside the columns of sources and sinks, which have users' names.
RESERVED = frozenset({KIND_COLUMN, WEIGHT_COLUMN, "__order", "__row", "__row_number"})


class RowKind(StrEnum):
    """The kind of a change, as Flink writes it."""

    INSERT = "+I"
    UPDATE_BEFORE = "-U"
    UPDATE_AFTER = "+U"
    DELETE = "-D"


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column of a relation."""

    name: str
    type: SqlType
    nullable: bool = True


Schema = tuple[Column, ...]


def column_of(columns: Schema, name: str) -> Column:
    """The column called `name`; KeyError if there is none."""
    for column in columns:
        if column.name == name:
            return column
    raise KeyError(name)
