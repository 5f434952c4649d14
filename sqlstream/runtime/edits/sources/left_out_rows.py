"""Rows that a file's expressions left out (`execution.failing-rows`), when what was read is read again.

Such a row is in no state and no sink of its source, because one expression over it failed. What is read again for a part
of a file is without the expressions of the rest, so that rows of the part are there which a run of the whole leaves out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import FragmentStep, PhysicalPlan, SinkOutput, SourceInput
from sqlstream_planner.diagnostics import Diagnostic


def leaves_out(plan: PhysicalPlan) -> bool:
    """Whether a row over which an expression fails is left out."""
    return plan.options.failing_rows == "dead-letter"


def computed_as_read(plan: PhysicalPlan, source: str) -> tuple[str, ...]:
    """What a plan computes of the rows of a source as they are read: any of it may fail."""
    return tuple(
        sorted(
            step.sql
            for stage in plan.stages
            if any(isinstance(i, SourceInput) and i.source == source for i in stage.inputs)
            for step in stage.steps
            if isinstance(step, FragmentStep)
        )
    )


def failed_later_problems(old: PhysicalPlan, new: PhysicalPlan) -> Iterable[Diagnostic]:
    """What is wrong with `new` going on from what `old` left (STA032) where rows that operators gave were set aside."""
    if leaves_out(old) and (not leaves_out(new) or _computed_later(old) != _computed_later(new)):
        yield Diagnostic(
            "STA032",
            "results may have been left out that this file can compute",
            notes=(
                "'execution.failing-rows' was 'dead-letter': a row of an aggregate or a join over which an expression "
                "failed is in nothing that is computed of it",
            ),
            help="begin again: sqlstream run FILE --state-dir NEW, with the tables that are written emptied",
        )


def _computed_later(plan: PhysicalPlan) -> list[str]:
    """What is computed of the rows that operators give."""
    return sorted(
        step.sql
        for stage in plan.stages
        if stage.level
        for step in stage.steps
        if isinstance(step, FragmentStep)
    )


def read_in_part(
    now: PhysicalPlan, states: Collection[str], sinks: Collection[str], unread: Collection[str]
) -> frozenset[str]:
    """Those of the sources `unread`, which have dead letters, whose history would give these states and sinks other rows.

    That is where not all is read again that the whole plan makes of their rows.
    """
    if not leaves_out(now) or not (states or sinks):
        return frozenset()
    part = cut_down(now, states, sinks)
    read = [spec.name for spec in part.sources if spec.name in unread]
    return frozenset(name for name in read if _given(part, name) != _given(now, name))


def left_out_problems(
    now: PhysicalPlan, sinks: Collection[str], sources: Collection[str]
) -> Iterable[Diagnostic]:
    """Why not all that `sources` feed can be read again (STA032): sinks but `sinks` keep what they were given."""
    for name in sorted(sources):
        kept = sorted({sink for sink, _ in _given(now, name)[1]} - set(sinks))
        which = " and ".join(f"`{sink}`" for sink in kept) or "not all of the tables"
        yield Diagnostic(
            "STA032",
            f"rows of `{name}` that this file leaves out can't be distinguished from the others",
            notes=(
                "'execution.failing-rows' is 'dead-letter': a row over which one expression fails is in no table",
                f"{which} would not get its rows again, so that its expressions are not tried",
            ),
            help="begin again: sqlstream run FILE --state-dir NEW, with the tables that are written emptied",
        )


def _given(plan: PhysicalPlan, source: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """What is computed of a source's rows, and the sinks that are given it at once, which may refuse a row."""
    read = [
        s for s in plan.stages if any(isinstance(i, SourceInput) and i.source == source for i in s.inputs)
    ]
    sinks = sorted((o.sink, s.id) for s in read for o in s.outputs if isinstance(o, SinkOutput))
    return computed_as_read(plan, source), tuple(sinks)
