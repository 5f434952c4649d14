"""What `--accept` names must be there: a word that means nothing would be read as consent by its user."""

from __future__ import annotations

from collections.abc import Iterable

import click

from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.diagnostics import did_you_mean

_WAYS = ("fresh", "alter", "lost")


def check_accepted(accepted: Iterable[str], plan: PhysicalPlan) -> None:
    """Raise UsageError for a word of `--accept` that is of no operator or sink of the plan."""
    sinks = [sink.name for sink in plan.sinks]
    steps = [step.name for step in plan.operators]
    for word in accepted:
        way, _, name = word.partition(":")
        if way not in _WAYS or not name:
            raise click.UsageError(
                f"--accept {word!r} is not fresh:NAME, alter:NAME or lost:NAME: `sqlstream plan` says what to accept"
            )
        sources = [source.name for source in plan.sources]
        known = ["all", *(sources if way == "lost" else sinks), *(steps if way == "fresh" else ())]
        if name not in known:
            near = did_you_mean(name, known)
            what = {"fresh": "operator or sink", "alter": "sink", "lost": "source"}[way]
            raise click.UsageError(
                f"--accept {word}: the pipeline has no {what} {name!r}; "
                + (f"did you mean {near!r}?" if near else f"there are {', '.join(known[1:])}, and all")
            )
