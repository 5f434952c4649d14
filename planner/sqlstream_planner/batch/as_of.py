"""Versions as rows of a table's changes, AsOfJoin as DuckDB's ASOF JOIN."""

from __future__ import annotations

from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.batch.select import Select, indented, names
from sqlstream_planner.batch.sources import ORDER_COLUMN
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import AsOfJoin, JoinKind, Scan, Versions, sql

_KIND = quote_identifier(KIND_COLUMN)
_ORDER = quote_identifier(ORDER_COLUMN)
_THERE = "__there"


def versions(node: Versions) -> str:
    """The rows that a table has had: of each key and time the last that came."""
    scan = node.input
    if not isinstance(scan, Scan):
        raise InternalError(f"versions of a {type(scan).__name__}")
    listed = [f"{quote_identifier(f.name)} AS {quote_identifier(f.id)}" for f in scan.fields]
    source = quote_identifier(scan.source.name)
    if node.gone is None:
        listed.append(f"row_number() OVER () AS {_ORDER}")
        where = ""
    else:
        listed += [f"{_KIND} = '-D' AS {quote_identifier(node.gone.id)}", _ORDER]
        where = f"\nWHERE {_KIND} <> '-U'"
    rows = f"SELECT {', '.join(listed)}\nFROM {source}{where}"
    last = f"row_number() OVER (PARTITION BY {names(node.keys)}, {sql(node.time)} ORDER BY {_ORDER} DESC) = 1"
    return f"SELECT {names(f.id for f in node.fields)} FROM (\n{indented(rows)}\n)\nQUALIFY {last}"


def joined(node: AsOfJoin, left: Select, right: Select) -> str:
    """The rows of the left that have a time, each beside the newest row of the right at its time."""
    left_time, right_time = quote_identifier(node.left_time), quote_identifier(node.right_time)
    mine, theirs = [f.id for f in node.left.fields], [f.id for f in node.right.fields]
    listed = f"SELECT {names(theirs)}, TRUE AS {_THERE}\nFROM {right.as_item('__r', theirs)}"
    if not node.latest:
        # Which of several rows with one key and time it takes, DuckDB leaves open.
        within = ", ".join([*(sql(key.right) for key in node.keys), right_time])
        order = ", ".join(f"{quote_identifier(id_)} ASC NULLS FIRST" for id_ in node.ties or ())
        listed += (
            f"\nQUALIFY row_number() OVER (PARTITION BY {within}{f' ORDER BY {order}' if order else ''}) = 1"
        )
    on = [f"{sql(key.left)} = {sql(key.right)}" for key in node.keys]
    sign = ("<" if node.forward else ">") + ("" if node.strict else "=")
    on.append(f"{left_time} {sign} {right_time}")
    holds = [_THERE]
    if node.gone is not None:
        holds.append(f"NOT {quote_identifier(node.gone)}")
    if node.condition is not None:
        holds.append(f"({sql(node.condition)})")
    valid = f"coalesce({' AND '.join(holds)}, FALSE)"
    pairs = (
        f"SELECT {names([*mine, *theirs])}, {valid} AS __valid\n"
        f"FROM (SELECT * FROM {left.as_item('__l', mine)} WHERE {left_time} IS NOT NULL) AS __left\n"
        f"ASOF LEFT JOIN (\n{indented(listed)}\n) AS __right ON {' AND '.join(on)}"
    )
    shown = [quote_identifier(id_) for id_ in mine]
    shown += [
        f"CASE WHEN __valid THEN {quote_identifier(id_)} END AS {quote_identifier(id_)}" for id_ in theirs
    ]
    where = "" if node.kind is JoinKind.LEFT else "\nWHERE __valid"
    return f"SELECT {', '.join(shown)}\nFROM (\n{indented(pairs)}\n){where}"
