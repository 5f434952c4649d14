"""Rewrites of the logical plan, one a file, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import Fields, Sink
from sqlstream_planner.rules.merge_projects import merge_projects
from sqlstream_planner.rules.prune_columns import prune_columns
from sqlstream_planner.rules.share_slices import share_slices

Rule = Callable[[tuple[Sink, ...]], tuple[Sink, ...]]

#: Filters need no rule: a stateless chain over a scan is one fragment, and DuckDB pushes its WHERE into the
#: reader. The watermark is taken over all rows that were read, so a reader must not be handed a filter.
#: Every rule keeps the meaning and the schema of each root.
RULES: tuple[Rule, ...] = (merge_projects, share_slices, prune_columns)


def optimize(roots: tuple[Sink, ...], rules: tuple[Rule, ...] = RULES) -> tuple[Sink, ...]:
    """Run the rules in order. Raises InternalError naming the rule that changed what a sink receives."""
    for rule in rules:
        before = [_schema(r.fields) for r in roots]
        roots = rule(roots)
        if [_schema(r.fields) for r in roots] != before:
            raise InternalError(f"rule {rule.__name__} changed the columns of a sink")
    return roots


def _schema(fields: Fields) -> list[tuple[str, str]]:
    return [(f.name, str(f.type)) for f in fields]
