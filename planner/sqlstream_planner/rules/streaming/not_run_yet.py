"""The one place that refuses what is bound but has no operator yet: by name, with its place in the file."""

from __future__ import annotations

from sqlstream_planner.diagnostics import not_run_yet, refuse
from sqlstream_planner.logical import (
    Apply,
    OverWindow,
    Sink,
    SubqueryKind,
    Values,
    walk,
)
from sqlstream_planner.logical.parts import RANK_FUNCTIONS


def refuse_what_has_no_operator(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """Give the plan as it is. Raises DiagnosticError for the first node that nothing can run."""
    for node in walk(roots):
        match node:
            case OverWindow():
                _over(node)
            case Apply():
                _apply(node)
            case Values() if not node.fields:
                not_run_yet(node.at, "SELECT without FROM", "read a table, such as SELECT … FROM bid")
            case Values():
                not_run_yet(node.at, "VALUES", "put the rows into a file and read it as a table")
    return roots


def _over(node: OverWindow) -> None:
    name = node.call.name.upper()
    if node.call.name not in RANK_FUNCTIONS:
        not_run_yet(
            node.at,
            f"{name} OVER",
            "ROW_NUMBER, RANK and DENSE_RANK can, with a condition on the rank: WHERE rn <= 3",
        )
    if node.call.frame:
        not_run_yet(node.at, f"a frame in {name} OVER", "leave ROWS or RANGE out")
    refuse(
        node.at,
        "SQL061",
        f"{name} is not bounded by a condition",
        notes=("every row of every partition would have to be kept, and numbered anew at each change",),
        help=f"keep the first few: SELECT … FROM (SELECT …, {name}() OVER (…) AS rn FROM …) WHERE rn <= 3",
    )


def _apply(node: Apply) -> None:
    what = {SubqueryKind.SCALAR: "a sub-query inside an expression"}.get(
        node.kind, f"{node.kind} with a sub-query"
    )
    not_run_yet(node.at, what, "sub-queries can stand in FROM")
