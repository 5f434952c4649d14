"""The one function that decides what an edit means: `plan` shows what it says, `run` carries it out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlstream.runtime.edits.history.readings import SourceOf
from sqlstream.runtime.edits.plan.edit_plan import edit_plan, first_plan
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.runtime.edits.sinks.sink_edit import NOWHERE
from sqlstream.runtime.edits.sinks.sink_edits import check_rewrite
from sqlstream.runtime.edits.sinks.sink_places import Looks
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.diagnostics import Written
from sqlstream_planner.physical.state_node import NO_NODES, StateNodes


@dataclass(frozen=True, slots=True)
class EditedProgram:
    """What is to go on with a state: the plan, the text that it was made of, and what was consented to.

    `sql` is rendered and without secrets (None: not known), `written` says where in the user's file the sinks stand,
    `nodes` what the plan's states were made of: without them, no state is derived from another. `accept` is what was
    consented to.
    """

    plan: PhysicalPlan
    sql: str | None = None
    written: Mapping[str, Written] = field(default_factory=lambda: NOWHERE)
    nodes: StateNodes = field(default_factory=lambda: NO_NODES)
    accept: Collection[str] = ()


def decide(
    program: EditedProgram,
    journal: Journal,
    last: Manifest | None,
    *,
    looks: Looks,
    rewrite: Collection[str] = (),
    origin: Origin | None = None,
    source_of: SourceOf | None = None,
    other_rows: Collection[str] = (),
) -> EditPlan:
    """What it means that a program goes on from `last` (None: from nothing).

    `origin`: a new state directory begins with that savepoint, whose manifest `last` is. `rewrite` are sinks that are begun
    anew; `looks` and `source_of` see what is there; for `other_rows` see `edit_plan`. Raises DiagnosticError as that does.
    """
    if last is None:
        check_rewrite(rewrite, program.plan)
        return first_plan(program.plan, looks)
    return edit_plan(
        journal,
        last,
        program.plan,
        sql=program.sql,
        written=program.written,
        nodes=program.nodes,
        accept=program.accept,
        rewrite=rewrite,
        savepoint=None if origin is None else origin.savepoint,
        apart=() if origin is None else origin.apart,
        source_of=source_of,
        looks=looks,
        other_rows=other_rows,
    )
