"""A state directory that begins with a savepoint of another one, or of a copy: what may go on from it, and how it starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlstream.runtime.loop.forgetting import forgotten_at
from sqlstream.runtime.loop.recovery import check_compatible
from sqlstream.runtime.loop.sink_edits import Forgotten
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import RunInfo
from sqlstream.storage.savepoint_copies import begin_from
from sqlstream.storage.savepoints import Savepoint
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


@dataclass(frozen=True, slots=True)
class Origin:
    """A savepoint, and the store that has its files."""

    store: CheckpointStore
    savepoint: Savepoint


def begin(origin: Origin, target: CheckpointStore, plan: PhysicalPlan, run: RunInfo) -> None:
    """Make a savepoint the beginning of `target`, unless it is that already; `plan` goes on from it.

    Raises DiagnosticError with exit code 4: SAV006 if `target` has another state, SAV007 if a sink's answer is not in the
    state, SAV005 if a file is missing, and as `check_compatible`.
    """
    if has_begun(origin, target):
        return
    journal = Journal(origin.store)
    forgotten = forgotten_at(origin.savepoint.manifest, (), plan)
    check_compatible(journal, origin.savepoint.manifest, plan, new_sinks=True)
    problems = [problem for _, problem in without_answer(plan, forgotten)]
    if problems:
        raise DiagnosticError(*problems, exit_code=4)
    begin_from(origin.store, origin.savepoint, target, run)


def has_begun(origin: Origin, target: CheckpointStore) -> bool:
    """Whether `target` began with this savepoint. Raises DiagnosticError (SAV006) if it has another state."""
    journal = Journal(target)
    plans, manifests = journal.epochs()
    if manifests and journal.manifest(manifests[-1]).origin == str(origin.savepoint):
        return True
    if plans or manifests:
        raise DiagnosticError(
            Diagnostic(
                "SAV006",
                f"the state directory {target.uri} has a state of its own, which a savepoint would replace",
                help="give a new --state-dir; to go on with the state that is there, run without --from",
            ),
            exit_code=4,
        )
    return False


def without_answer(plan: PhysicalPlan, forgotten: Forgotten) -> Iterable[tuple[str, Diagnostic]]:
    """The sinks, by name, whose answer up to a savepoint can't be given to them, with what is said of that (SAV007)."""
    for sink in plan.sinks:
        missing = (
            missing_answers(plan, sink.name, forgetful=forgotten.now) if sink.changelog == "retract" else ()
        )
        if missing:
            yield (
                sink.name,
                Diagnostic(
                    "SAV007",
                    f"the table `{sink.name}` would have only what changes from the savepoint on",
                    notes=(f"its answer up to there is not in the state: {', '.join(missing)}",),
                    help="run the file from the beginning with another --state-dir, or leave this table out",
                ),
            )
