"""Rows that a file's expressions left out (`execution.failing-rows`), when another file goes on with its states.

Such a row is in no state and no sink of its source, because one expression over it failed. Under other expressions it may be
a row, also for what is computed in the same words as before, so that nothing follows from what there is.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream_operators.plan.spec import FragmentStep, PhysicalPlan, SourceInput
from sqlstream_planner.diagnostics import Diagnostic


def left_out_problems(old: PhysicalPlan, new: PhysicalPlan, *, letters: bool) -> Iterable[Diagnostic]:
    """What is wrong with `new` going on from what `old` left (STA032); `letters`: there may be dead letters."""
    if not letters or old.options.failing_rows != "dead-letter":
        return
    goes_on = new.options.failing_rows == "dead-letter"
    known = {spec.name: spec.identity for spec in old.sources}
    for spec in new.sources:
        if known.get(spec.name) != spec.identity:
            continue  # another table, which begins anew
        if not goes_on or _computed(old, spec.name) != _computed(new, spec.name):
            yield Diagnostic(
                "STA032",
                f"rows of `{spec.name}` may have been left out that this file can compute",
                notes=(
                    "'execution.failing-rows' was 'dead-letter': a row over which one expression failed is in no state",
                ),
                help="begin again: sqlstream run FILE --state-dir NEW, with the tables that are written emptied",
            )


def _computed(plan: PhysicalPlan, source: str) -> tuple[str, ...]:
    """What is computed of the rows of a source as they are read."""
    return tuple(
        sorted(
            step.sql
            for stage in plan.stages
            if any(isinstance(i, SourceInput) and i.source == source for i in stage.inputs)
            for step in stage.steps
            if isinstance(step, FragmentStep)
        )
    )
