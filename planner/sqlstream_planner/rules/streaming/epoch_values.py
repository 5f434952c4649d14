"""What an epoch gives to rows is given once: it can't stand over updating rows."""

from __future__ import annotations

from collections import Counter

from sqlstream_planner.diagnostics import refuse
from sqlstream_planner.logical import (
    EpochValues,
    Filter,
    Node,
    Project,
    Scan,
    SetOperation,
    Sink,
    Values,
    walk,
)
from sqlstream_planner.properties.facts import Facts


def epoch_values(roots: tuple[Sink, ...], facts: Facts) -> tuple[Sink, ...]:
    """Give the plan as it is. Raises DiagnosticError (SQL101) where a row may be retracted in an epoch with other values.

    Random values are given to the rows of sources, which have a number of their own.

    >>> from sqlstream_planner.testing import logical
    >>> print(logical("SELECT a FROM t WHERE ts > LOCALTIMESTAMP - INTERVAL '1' HOUR", rules=(epoch_values,)))
    sink result
      project a = a_2
        project a = a
          project a = a, c = c, ts = ts
            filter ts > TIMEZONE('UTC', CAST(clock_of_epoch AS TIMESTAMPTZ)) - INTERVAL '1' HOUR
              epoch values clock = clock
                scan t (a, c, ts)
    """
    for node in walk(roots):
        if not isinstance(node, EpochValues):
            continue
        if facts.changes(node.input):
            refuse(
                node.at,
                "SQL101",
                f"{node.what} needs append-only rows",
                notes=(
                    "it gives another value in each epoch, so a retraction would not match the row that was inserted",
                ),
                help="compute it where rows are read, in a sub-query: FROM (SELECT *, NOW() AS read_at FROM t), of an "
                "append-only table, or of windows that are emitted once",
            )
        if node.is_random and not _numbered(node.input):
            refuse(
                node.at,
                "SQL101",
                f"{node.what} stands over rows that have no number of their own",
                notes=(
                    "a replay must give each row the same value, which goes by the row's number in its source",
                ),
                help="compute it in a sub-query around the table: FROM (SELECT *, UUID() AS id FROM t)",
            )
    return roots


def _numbered(node: Node) -> bool:
    """Whether each row is one row of a source, and no other one is."""
    found: Counter[str] = Counter()
    stack = [node]
    while stack:
        top = stack.pop()
        match top:
            case Scan():
                found[top.source.name] += 1
            case Values():
                found[""] += 1
            case Project() | Filter() | EpochValues():
                stack.append(top.input)
            case SetOperation() if top.is_union_all:
                stack += top.branches
            case _:
                return False
    return all(count == 1 for count in found.values())
