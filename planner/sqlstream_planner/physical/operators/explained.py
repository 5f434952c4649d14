"""What the explanations of operators have in common."""

from __future__ import annotations

from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.top_n_spec import Ordering


def one_line(what: str, text: str) -> str:
    """SQL that an operator runs, in one line."""
    return f"    {what}: {' '.join(text.split())}"


def order_text(order: tuple[Ordering, ...]) -> str:
    """An ORDER BY for people."""
    return ", ".join(
        f"{o.column}{' desc' if o.descending else ''}{' nulls first' if o.nulls_first else ''}" for o in order
    )


def columns_text(schema: Schema) -> str:
    """Columns with their types."""
    return ", ".join(f"{c.name} {c.type}" for c in schema)
