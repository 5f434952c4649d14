"""Changes as DuckDB batch SQL: what is left of a source's changes when all have been applied."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.batch.sources import ORDER_COLUMN
from sqlstream_planner.block import Block
from sqlstream_planner.logical import Normalize, Scan, column, sql

_KIND = quote_identifier(KIND_COLUMN)
_ORDER = quote_identifier(ORDER_COLUMN)


def remaining(node: Scan, block: Block) -> Block:
    """What is left of a changelog without a key: as many of each row as came less those that went."""
    ids = [f.id for f in node.fields]
    listed = ", ".join(f"{sql(block.columns[id_])} AS {quote_identifier(id_)}" for id_ in ids)
    names = ", ".join(quote_identifier(id_) for id_ in ids)
    came = f"sum(CASE WHEN {_KIND} IN ('+I', '+U') THEN 1 ELSE -1 END)"
    text = (
        f"SELECT {names} FROM (\n  SELECT {names}, {came} AS copies\n"
        f"  FROM (SELECT {listed}, {_KIND} FROM {block.source})\n  GROUP BY {names}\n), range(copies::BIGINT)"
    )
    return _block(text, ids)


def normalized(node: Normalize, block: Block) -> Block:
    """What is left of a changelog with a key: the last row of each key, unless it went last (also by a '-U' whose
    '+U' has another key, or is still to come).
    """
    ids = [f.id for f in node.fields]
    listed = ", ".join(f"{sql(block.columns[id_])} AS {quote_identifier(id_)}" for id_ in ids)
    names = ", ".join(quote_identifier(id_) for id_ in ids)
    by = ", ".join(quote_identifier(id_) for id_ in node.keys)
    text = (
        f"SELECT {names} FROM (\n  SELECT {listed}, {_KIND}, {_ORDER} FROM {block.source}\n"
        f"  QUALIFY row_number() OVER (PARTITION BY {by} ORDER BY {_ORDER} DESC) = 1\n) WHERE {_KIND} IN ('+I', '+U')"
    )
    return _block(text, ids)


def _block(text: str, ids: list[str]) -> Block:
    columns: dict[str, exp.Expr] = {id_: column(id_) for id_ in ids}
    return Block("batch", f"(\n{text}\n) AS changed", (), columns)
