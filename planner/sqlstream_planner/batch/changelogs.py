"""What is left of a changelog when all its changes have been applied."""

from __future__ import annotations

from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.batch.select import names
from sqlstream_planner.batch.sources import ORDER_COLUMN
from sqlstream_planner.logical import Scan

_KIND = quote_identifier(KIND_COLUMN)
_ORDER = quote_identifier(ORDER_COLUMN)


def remaining(node: Scan) -> str:
    """The rows of a table that is read as changes.

    With a key it is the last row of each, unless it went last (also by a '-U' whose '+U' has another key, or is still
    to come). Without one it is as many of each row as came less those that went.
    """
    listed = ", ".join(f"{quote_identifier(f.name)} AS {quote_identifier(f.id)}" for f in node.fields)
    ids = names(f.id for f in node.fields)
    source = quote_identifier(node.source.name)
    if node.primary_key:
        last = f"row_number() OVER (PARTITION BY {names(node.primary_key)} ORDER BY {_ORDER} DESC) = 1"
        # By their ids before anything reads them: an id may be what another column of the table is called.
        given = f"(SELECT {listed}, {_KIND}, {_ORDER} FROM {source})"
        rows = f"SELECT {ids}, {_KIND}\n  FROM {given}\n  QUALIFY {last}"
        return f"SELECT {ids} FROM (\n  {rows}\n) WHERE {_KIND} IN ('+I', '+U')"
    came = f"sum(CASE WHEN {_KIND} IN ('+I', '+U') THEN 1 ELSE -1 END)"
    rows = f"SELECT {ids}, {came} AS __copies\n  FROM (SELECT {listed}, {_KIND} FROM {source})"
    return f"SELECT {ids} FROM (\n  {rows}\n  GROUP BY {ids}\n), range(__copies::BIGINT)"
