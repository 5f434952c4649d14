"""Rows as text cells: how every value of a golden file is written, made by DuckDB on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream_operators.plan.spec import Schema
from sqlstream_operators.plan.types import NESTED, SqlType, quote_identifier

if TYPE_CHECKING:
    from sqlstream_operators.duck.session import DuckSession

Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a sink: `schema` as declared, one text (None: NULL) a cell, sorted by all columns."""

    schema: Schema
    rows: Sequence[Row]


def is_nested(type_: SqlType) -> bool:
    """Whether values of the type are written as JSON."""
    return type_.kind in NESTED


def rows_of(duck: DuckSession, query: str, schema: Schema, *, as_given: bool = False) -> Rows:
    """The result of a SELECT, columns by position, as sorted text cells; a value is cast to its declared type.

    With `as_given` the rows stay in the query's order. Numbers, times and text are as DuckDB writes them, nested values
    are JSON. Raises DataError when DuckDB refuses.
    """
    given = [quote_identifier(f"c{i}") for i in range(len(schema))]
    typed = [f"CAST({g} AS {c.type}) AS {g}" for g, c in zip(given, schema, strict=True)]
    texts = [
        f"CAST(to_json({g}) AS VARCHAR)" if is_nested(c.type) else f"CAST({g} AS VARCHAR)"
        for g, c in zip(given, schema, strict=True)
    ]
    # A nested NULL is NULL, not the JSON text `null`.
    texts = [f"CASE WHEN {g} IS NOT NULL THEN {t} END" for g, t in zip(given, texts, strict=True)]
    names = ", ".join(given)
    table = duck.query(
        f"WITH result({names}) AS (\n{query}\n), typed AS (SELECT {', '.join(typed)} FROM result)\n"
        f"SELECT {', '.join(f'{t} AS t{i}' for i, t in enumerate(texts))} FROM typed "
        + ("" if as_given else f"ORDER BY {', '.join(f'{g} ASC NULLS FIRST' for g in given)}")
    )
    columns = [column.to_pylist() for column in table.columns]
    return Rows(schema, list(zip(*columns, strict=True)))
