"""UNION, INTERSECT and EXCEPT as DuckDB's own, and VALUES."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream_planner.batch.select import Select, cast, names
from sqlstream_planner.logical import Field, SetOperation, Values, sql


def combined(node: SetOperation, branches: Sequence[Select]) -> str:
    """The branches, each cast to the types of the result, put together."""
    operator = node.operator.value + (" ALL" if node.all_ else "")
    return f"\n{operator}\n".join(
        _branch(node, branch.fields, select) for branch, select in zip(node.branches, branches, strict=True)
    )


def _branch(node: SetOperation, fields: Sequence[Field], select: Select) -> str:
    return select.text(
        (
            sql(select.columns[f.id])
            if f.type == wanted.type
            else cast(sql(select.columns[f.id]), wanted.type),
            wanted.id,
        )
        for f, wanted in zip(fields, node.fields, strict=True)
    )


def values(node: Values) -> str:
    """Rows that are written out."""
    rows = ",\n  ".join(f"({', '.join(sql(e) for e in row)})" for row in node.rows)
    places = [f"__{n}" for n in range(1, len(node.fields) + 1)]
    listed = ",\n  ".join(
        f"{cast(names([place]), f.type)} AS {names([f.id])}"
        for place, f in zip(places, node.fields, strict=True)
    )
    return f"SELECT\n  {listed}\nFROM (VALUES\n  {rows}\n) AS __values({names(places)})"
