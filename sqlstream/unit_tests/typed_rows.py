"""Rows of a test file as Arrow tables with the types of a table's columns; what doesn't fit is reported cell by cell."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.unit_tests.lossless import BOOLEANS, losses, lost, parsed
from sqlstream.unit_tests.model import WrittenRows
from sqlstream.unit_tests.row_forms import LocatedRow, located_rows, twice
from sqlstream.unit_tests.yaml_nodes import Items, Mapping, Node, Scalar
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import KIND_COLUMN, Column, RowKind
from sqlstream_operators.plan.types import NESTED, Kind, SqlType, quote_identifier
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, suggestion

_TEXTS = "__unit_test_texts"
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Shape:
    """What rows of a table may have: its `columns`, and names of others that must not be written, each with why.

    `what` it is, in words. In `given` rows a column that is not nullable must have a value.
    """

    what: str
    columns: tuple[Column, ...]
    others: tuple[tuple[str, str], ...] = ()
    given: bool = True

    def column(self, name: str) -> Column | None:
        """The column of this name, ignoring case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Rows with the types of their columns, in the order in which they are written; `kinds` of changes, one per row.

    `columns` are those of the table; where rows are expected, those that any of them names.
    """

    columns: tuple[Column, ...]
    table: pa.Table
    kinds: tuple[str, ...] | None = None

    @property
    def with_kinds(self) -> pa.Table:
        """The rows with KIND_COLUMN behind them; rows that are no changes are inserted."""
        kinds = self.kinds or (RowKind.INSERT.value,) * self.table.num_rows
        return self.table.append_column(KIND_COLUMN, pa.array(kinds, pa.string()))


def typed_rows(rows: WrittenRows, shape: Shape, duck: DuckSession) -> TypedRows:
    """The rows of a table. Raises DiagnosticError (TST004, TST005, TST006) with every mistake in them."""
    located = located_rows(rows, [c.name for c in shape.columns])
    mistakes: list[Diagnostic] = []
    named = _named(located, shape, mistakes)
    if mistakes:
        raise DiagnosticError(*mistakes)
    columns = (
        shape.columns if shape.given or not located else tuple(c for c in shape.columns if c.name in named)
    )
    texts = [[_text(row, c, shape, mistakes) for row in located] for c in columns]
    if mistakes:
        raise DiagnosticError(*mistakes)
    table = _cast(columns, texts, located, shape, duck)
    kinds = tuple(row.kind for row in located) if rows.changes else None
    return TypedRows(columns, table, kinds)


def _named(located: Sequence[LocatedRow], shape: Shape, mistakes: list[Diagnostic]) -> Collection[str]:
    """The columns that rows name, as the table spells them."""
    named: dict[str, None] = {}
    reported: set[str] = set()
    for row in located:
        mistakes += twice([key for key, _ in row.cells])
        for key, _ in row.cells:
            found = shape.column(key.text)
            if found is not None:
                named.setdefault(found.name)
            elif key.text not in reported:
                reported.add(key.text)
                mistakes.append(_unknown(key, shape))
    return named


def _unknown(key: Scalar, shape: Shape) -> Diagnostic:
    why = next((why for name, why in shape.others if name.lower() == key.text.lower()), None)
    if why is not None:
        return Diagnostic("TST004", f"`{key.text}` of {shape.what} {why}", key.span, help="leave it out")
    names = [c.name for c in shape.columns]
    return Diagnostic(
        "TST004",
        f"{shape.what} has no column `{key.text}`",
        key.span,
        (f"it has {', '.join(names)}",),
        suggestion(key.text, names),
    )


def _text(row: LocatedRow, column: Column, shape: Shape, mistakes: list[Diagnostic]) -> str | None:
    """A cell as text that DuckDB can cast: JSON for nested values; None is NULL."""
    key, node = row.cell(column.name)
    if node is None or (isinstance(node, Scalar) and node.is_null):
        if shape.given and not column.nullable and row.kind != RowKind.DELETE:
            at = row.span if key is None else key.span
            what = "has no value" if node is None else "is NULL"
            mistakes.append(
                Diagnostic(
                    "TST005",
                    f"`{column.name}` of {shape.what} is NOT NULL, and {what} here",
                    at,
                    help=f"write a value of the type {column.type}",
                )
            )
        return None
    if column.type.kind in NESTED or column.type.kind is Kind.JSON:
        return _nested(node, column, mistakes)
    if not isinstance(node, Scalar):
        mistakes.append(_unfit(column, node.span, "a list" if isinstance(node, Items) else "keys and values"))
        return None
    wrong = (column.type.is_integer and not _INTEGER.fullmatch(node.text.replace("_", ""))) or (
        column.type.kind is Kind.BOOLEAN and node.text.lower() not in BOOLEANS
    )
    why = lost(node.text, column.type)
    if wrong or why is not None:
        mistakes.append(_unfit(column, node.span, f"'{node.text}'", None if wrong else why))
    return node.text.replace("_", "") if column.type.is_integer else node.text


def _nested(node: Node, column: Column, mistakes: list[Diagnostic]) -> str:
    """A value of a nested type or JSON as the text of JSON; a text is JSON already."""
    try:
        within = parsed(node) if isinstance(node, Scalar) else node
    except DiagnosticError as error:
        mistakes += error.diagnostics
        within = None
    if within is not None:
        _check_fields(within, column.type, column.name, mistakes)
        mistakes += losses(within, column.type, column.name)
    return node.text if isinstance(node, Scalar) else _json(node, column.type)


def _unfit(column: Column, span: Span, value: str, why: str | None = None) -> Diagnostic:
    return Diagnostic(
        "TST005",
        f"`{column.name}` is {column.type}, and {value} is none",
        span,
        () if why is None else (why,),
    )


def _check_fields(node: Node, type_: SqlType, what: str, mistakes: list[Diagnostic]) -> None:
    """Report the fields that a row inside a value does not have."""
    if isinstance(node, Items) and type_.element is not None:
        for item in node.items:
            _check_fields(item, type_.element, what, mistakes)
    if not isinstance(node, Mapping) or not type_.fields:
        return
    known = {name.lower(): inner for name, inner in type_.fields}
    mistakes += twice([key for key, _ in node])
    for key, value in node:
        inner = known.get(key.text.lower())
        if inner is not None:
            _check_fields(value, inner, f"{what}.{key.text}", mistakes)
            continue
        names = [name for name, _ in type_.fields]
        mistakes.append(
            Diagnostic(
                "TST004",
                f"`{what}` has no field `{key.text}`",
                key.span,
                (f"it has {', '.join(names)}",),
                suggestion(key.text, names),
            )
        )


def _json(node: Node, type_: SqlType | None) -> str:
    """A value as JSON text: what stands without quotes is a number, true, false or null where it can be.

    Fields of a row that are not written are NULL.
    """
    if isinstance(node, Mapping):
        pairs = [(k.text, _json(v, _inside(type_, k.text))) for k, v in node]
        if type_ is not None and type_.fields:
            written = {name.lower(): text for name, text in pairs}
            pairs = [(name, written.get(name.lower(), "null")) for name, _ in type_.fields]
        return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in pairs) + "}"
    if isinstance(node, Items):
        element = None if type_ is None else type_.element
        return "[" + ", ".join(_json(item, element) for item in node.items) + "]"
    if node.is_null:
        return "null"
    if type_ is not None and type_.kind is Kind.VARCHAR:
        return json.dumps(node.text)
    if node.plain and node.text.lower() in BOOLEANS:
        return node.text.lower()
    return node.text if node.plain and _NUMBER.fullmatch(node.text) else json.dumps(node.text)


def _inside(type_: SqlType | None, name: str) -> SqlType | None:
    """The type of a field, or of the values of a map."""
    if type_ is None:
        return None
    return next((inner for field, inner in type_.fields if field.lower() == name.lower()), type_.value)


def _cast(
    columns: Sequence[Column],
    texts: Sequence[Sequence[str | None]],
    located: Sequence[LocatedRow],
    shape: Shape,
    duck: DuckSession,
) -> pa.Table:
    given = pa.table(
        {f"c{i}": pa.array(cells, pa.string()) for i, cells in enumerate(texts)}
        or {"c": [None] * len(located)}
    )
    items = [
        f"{_typed(f'c{i}', column.type)} AS {quote_identifier(column.name)}"
        for i, column in enumerate(columns)
    ]
    duck.register(_TEXTS, given)
    try:
        return duck.query(f"SELECT {', '.join(items) or '1 AS one'} FROM {_TEXTS}")
    except DataError:
        mistakes = []
        for i, column in enumerate(columns):
            for number, row in enumerate(located):
                text = texts[i][number]
                if text is None:
                    continue
                why = _refused(duck, text, column.type)
                node = row.cell(column.name)[1]
                if why is not None and node is not None:
                    value = f"'{text}'" if isinstance(node, Scalar) else "this"
                    mistakes.append(_unfit(column, node.span, value, why))
        if not mistakes:
            raise
        raise DiagnosticError(*mistakes) from None
    finally:
        duck.drop(_TEXTS)


def _typed(text: str, type_: SqlType) -> str:
    if type_.kind in NESTED or type_.kind is Kind.JSON:
        return f"CAST(CAST({text} AS JSON) AS {type_})"
    return f"CAST({text} AS {type_})"


def _refused(duck: DuckSession, text: str, type_: SqlType) -> str | None:
    """Why DuckDB can't make a value of a text; None if it can."""
    try:
        duck.query(f"SELECT {_typed('x', type_)} AS x FROM one", {"one": pa.table({"x": [text]})})
    except DataError as error:
        return error.message.strip().splitlines()[0]
    return None
