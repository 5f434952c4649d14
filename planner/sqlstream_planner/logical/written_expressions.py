"""Where in the user's file an expression of generated SQL stands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from sqlglot import exp
from sqlglot.errors import UnsupportedError

from sqlstream_planner.diagnostics import InternalError, Span
from sqlstream_planner.logical import Node, sql
from sqlstream_planner.logical.tree import walk
from sqlstream_planner.sql.dialect.positions import own_range
from sqlstream_planner.sql.rendered import RenderedSql

#: What DuckDB writes where it leaves out the rest of a line.
_REST = "..."
#: An expression of more nodes is not looked through: each of its parts is written out.
_MOST = 3_000


def place_of_sql(text: str, roots: Sequence[Node], rendered: RenderedSql) -> Span | None:
    """The place of the expression with which generated SQL begins; None if there is none, or several of its words.

    Of expressions that begin alike it is the longest.
    """
    cut = text.endswith(_REST)
    wanted = _in_one_line(text.removesuffix(_REST))
    longest = 0
    found: set[tuple[int, int]] = set()
    for node in walk(roots):
        for expression in node.expressions():
            parts = list(islice(expression.walk(), _MOST + 1))
            for part in parts if len(parts) <= _MOST else ():
                at = own_range(part)
                written = "" if at is None else _in_one_line(_sql(part))
                if at is None or len(written) < 2:
                    continue
                if not (wanted.startswith(written) or (cut and written.startswith(wanted))):
                    continue
                if len(written) > longest:
                    longest, found = len(written), set()
                if len(written) == longest:
                    found.add(at)
    return rendered.span(*found.pop()) if len(found) == 1 else None


def _sql(part: exp.Expr) -> str:
    try:
        return sql(part)
    except (InternalError, UnsupportedError):
        return ""  # it does not stand in SQL by itself


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
