"""How large an expression becomes for DuckDB: some calls write an argument more than once, and calls in calls multiply."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from sqlstream_planner.diagnostics import SHALLOWER
from sqlstream_planner.sql.problems import TypeProblem
from sqlstream_planner.sql.written_calls import written_call

#: How many parts an expression may have that is so much larger than it was written.
LARGEST = 30_000
_TIMES = 20

#: Macros of DuckDB: how many times each argument stands in what the call is replaced by. NULLIF is not bound as it is
#: counted: twenty of them in each other take minutes, ten a moment.
_MACROS: Mapping[str, int] = MappingProxyType(
    {
        "nullif": 3,
        "split_part": 2,
        "fmod": 2,
        "array_to_string": 2,
        "array_to_string_comma_default": 2,
        "array_pop_back": 2,
    }
)


def refuse_growth(node: exp.Expr, size: int, written: int) -> None:
    """Raise TypeProblem (SQL107) if `node`, of so many parts as it is written, has become too large."""
    if size > max(LARGEST, _TIMES * written):
        raise TypeProblem(
            node,
            "SQL107",
            f"nested calls grow here to more than {LARGEST:,} expressions for DuckDB",
            help=SHALLOWER,
        )


def size(node: exp.Expr) -> int:
    """How many parts an expression has."""
    return sum(1 for _ in node.walk())


def check_growth(expression: exp.Expr) -> None:
    """Raise TypeProblem (SQL107) where DuckDB's own rewriting would make an expression too large.

    >>> import sqlglot
    >>> check_growth(sqlglot.parse_one("NULLIF(NULLIF(a, 1), 2)"))
    """
    if not any(_repeats(node) for node in expression.walk()):
        return
    # From the leaves upwards: how many parts as they are written, and as DuckDB has them.
    sizes: dict[int, tuple[int, int]] = {}
    for node in reversed(list(expression.walk(bfs=True))):
        inside = [(child, *sizes[id(child)]) for child in node.iter_expressions()]
        written = 1 + sum(as_written for _, as_written, _ in inside)
        times = _repeats(node)
        # A simple CASE compares its operand with every WHEN.
        first = node.this if isinstance(node, exp.Case) else None
        grown = 1 + sum(
            become * (times if times and (first is None or child is first) else 1)
            for child, _, become in inside
        )
        refuse_growth(node, grown, written)
        sizes[id(node)] = (written, grown)


def _repeats(node: exp.Expr) -> int:
    """How many times DuckDB writes what is in a call, 0 for one that is no macro."""
    if isinstance(node, exp.Case):
        return len(node.args["ifs"]) if node.this is not None else 0
    call = written_call(node)
    return _MACROS.get(call.name, 0) if call is not None else 0
