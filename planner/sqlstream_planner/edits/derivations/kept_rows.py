"""The columns of new rows from those of rows that a state keeps whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.state_schema import StateField
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.plan.widening import widens
from sqlstream_planner.edits.derivations.rewritten import Rewriter
from sqlstream_planner.edits.derivations.rule import Wanted
from sqlstream_planner.identity.form import Form


def items_of_rows(
    wanted: Wanted, columns: Sequence[Column], stored: Mapping[Form, StateField], rewriter: Rewriter
) -> list[str] | None:
    """The `columns` of the new rows as items of a SELECT over the old ones; None where one can't be had.

    `stored` are all columns of the old rows, by what they mean; `rewriter` writes expressions over them.
    """
    new, node = wanted.state, wanted.node.node
    table = new.spec.state.tables[0]
    expressions = wanted.node.values[table.name]
    called = {f.name: new.meaning(f) for f in (*table.key, *table.value)}
    items = []
    for column in columns:
        meaning = called[column.name]
        same = stored.get(meaning) if meaning is not None else None
        if same is not None:
            text = quote_identifier(same.name) if widens(same.type, column.type) else None
        else:
            text = rewriter.sql(expressions[column.name], node.inputs[0])
        if text is None:
            return None
        items.append(f"CAST({text} AS {column.type}) AS {quote_identifier(column.name)}")
    return items
