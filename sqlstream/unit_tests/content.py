"""What a sink was given, as rows of text cells: the changes of some epochs, and the rows that it has after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.connectors.api import TargetEdit
from sqlstream.connectors.registry import REGISTERED
from sqlstream.golden.rows import Row, rows_of
from sqlstream.unit_tests.connectors import conformed
from sqlstream.unit_tests.memory import Content, Written
from sqlstream_operators.duck.row_kinds import to_kinds
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import consolidated, with_weight
from sqlstream_operators.plan.schema import KIND_COLUMN, WEIGHT_COLUMN, Column, RowKind
from sqlstream_operators.plan.spec import Schema, SinkSpec
from sqlstream_operators.plan.types import VARCHAR, quote_identifier
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_CAUGHT = "__unit_test_rows"
_GOES = (RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a row."""

    kind: str
    row: Row


def changes(content: Content, spec: SinkSpec, epochs: Collection[int], duck: DuckSession) -> list[Change]:
    """What the sink was given in some epochs, in their order; of each first what goes, where no key is known."""
    return [
        change
        for epoch in sorted(epochs)
        if epoch in content.epochs
        for change in _of(content.epochs[epoch], spec, duck)
    ]


def rows(content: Content, spec: SinkSpec, duck: DuckSession) -> list[Row]:
    """The rows that the sink has, in the order in which they came.

    Raises DiagnosticError (DAT002) if rows were retracted that had not been given.
    """
    keyed = spec.primary_key and REGISTERED.descriptors[spec.connector].sink.keyed
    names = {name.lower() for name in spec.primary_key} if keyed else set()
    key = [i for i, column in enumerate(spec.schema) if column.name.lower() in names]
    kept: list[Row] = []
    for epoch in sorted(content.epochs):
        written = content.epochs[epoch]
        if written.edit in (TargetEdit.REPLACE, TargetEdit.REWRITE):
            kept = []
        kept = (
            _keyed(kept, _of(written, spec, duck), key)
            if key
            else _folded(kept, _of(written, spec, duck), spec)
        )
    return kept


def _keyed(kept: list[Row], given: Sequence[Change], key: Sequence[int]) -> list[Row]:
    """The rows of a table with one row for each key."""
    found = {tuple(row[i] for i in key): row for row in kept}
    for change in given:
        values = tuple(change.row[i] for i in key)
        if change.kind in _GOES:
            found.pop(values, None)
        else:
            found[values] = change.row
    return list(found.values())


def _folded(kept: list[Row], given: Sequence[Change], spec: SinkSpec) -> list[Row]:
    """The rows that are left when those that go are taken from those that are there or come."""
    go = Counter(change.row for change in given if change.kind in _GOES)
    found = []
    for row in (*kept, *(change.row for change in given if change.kind not in _GOES)):
        if go[row]:
            go[row] -= 1
        else:
            found.append(row)
    for row, left in go.items():
        if left:
            shown = ", ".join(
                f"{c.name} = {'NULL' if v is None else v}" for c, v in zip(spec.schema, row, strict=True)
            )
            raise DiagnosticError(
                Diagnostic(
                    "DAT002",
                    f"sink {spec.name}: a row goes that never came: {shown}",
                    help="does the test delete or repeat rows of its source? Declare its PRIMARY KEY, so that its changes "
                    "are made consistent",
                )
            )
    return found


def _of(written: Written, spec: SinkSpec, duck: DuckSession) -> list[Change]:
    """What one epoch gave to a sink."""
    if not written.tables:
        return []
    weighted = any(WEIGHT_COLUMN in table.column_names for table in written.tables)
    schema: Schema = with_weight(spec.schema) if weighted else spec.schema
    given = conformed(written.tables, schema)
    if weighted and len(written.tables) > 1:
        given = consolidated(duck, given, spec.schema)
    return _in_text(to_kinds(given, spec.key, spec.schema), spec.schema, duck)


def _in_text(given: pa.Table, schema: Schema, duck: DuckSession) -> list[Change]:
    kinded = (*schema, Column(KIND_COLUMN, VARCHAR))
    return [Change(str(kind), tuple(cells)) for *cells, kind in cells_of(given, kinded, duck)]


def cells_of(table: pa.Table, schema: Schema, duck: DuckSession) -> Sequence[Row]:
    """The rows of a table as text cells, in its order."""
    duck.register(_CAUGHT, table, schema)
    names = ", ".join(quote_identifier(column.name) for column in schema)
    try:
        return rows_of(duck, f"SELECT {names} FROM {_CAUGHT}", schema, as_given=True).rows
    finally:
        duck.drop(_CAUGHT)
