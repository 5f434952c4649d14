"""A state directory that begins with a savepoint of another one, or of a copy: how it starts."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoints import Savepoint
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


@dataclass(frozen=True, slots=True)
class Origin:
    """A savepoint, and the store that has its files."""

    store: CheckpointStore
    savepoint: Savepoint


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
