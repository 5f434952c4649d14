"""What is left of a changelog when all its changes have been applied, and of rows that claim one key."""

from __future__ import annotations

from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.batch.select import Select, indented, names
from sqlstream_planner.batch.sources import ORDER_COLUMN
from sqlstream_planner.logical import ConflictAction, Scan, Sink

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


def chosen(root: Sink, below: Select, *, changing: bool) -> str | None:
    """One row of each key of the sink; None if its conflicts are not settled here.

    Of append-only rows it is the first or the last in the order of the files; of rows that change the least of
    those that are there at the end.
    """
    if root.conflict not in (ConflictAction.NOTHING, ConflictAction.DEDUPLICATE):
        return None
    ids = [f.id for f in root.fields]
    by_name = {c.name.lower(): id_ for id_, c in zip(ids, root.sink.schema, strict=True)}
    keys = names(by_name[name.lower()] for name in root.sink.primary_key)
    rows = below.as_item("__rows", ids)
    if root.conflict is ConflictAction.DEDUPLICATE and changing:
        order = ", ".join(f"{names([id_])} ASC NULLS FIRST" for id_ in ids)
    else:
        order = "__place" + (" DESC" if root.conflict is ConflictAction.DEDUPLICATE else "")
        numbered = f"SELECT {names(ids)}, row_number() OVER () AS __place FROM {rows}"
        rows = f"(\n{indented(numbered)}\n) AS __placed"
    first = f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order}) = 1"
    return f"SELECT {names(ids)}\nFROM {rows}\n{first}"
