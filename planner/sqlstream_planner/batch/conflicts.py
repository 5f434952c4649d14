"""ON CONFLICT: which of the rows that claim one row of a sink is shown."""

from __future__ import annotations

from sqlstream_planner.batch.select import Select, indented, names
from sqlstream_planner.logical import ConflictAction, Sink


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
