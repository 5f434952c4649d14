"""A state directory that begins with a savepoint of another one, or of a copy: how it starts."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoints import Savepoint
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


@dataclass(frozen=True, slots=True)
class Origin:
    """A savepoint, and the store that has its files.

    One that was put together of several (`merging`) is in a store of its own, but for the files of the states: `parts` have
    those. `notes` say what did not go together, and `apart` of which data (connector and identity): not all of them have
    given on what the others have.
    """

    store: CheckpointStore
    savepoint: Savepoint
    parts: tuple[Origin, ...] = ()
    notes: tuple[str, ...] = ()
    apart: frozenset[tuple[str, str]] = frozenset()

    @property
    def where(self) -> str:
        """The state directories that it is in."""
        return ", ".join(dict.fromkeys(part.store.uri for part in self.parts or (self,)))

    @property
    def stores(self) -> tuple[CheckpointStore, ...]:
        """Where its files are."""
        return (self.store, *(part.store for part in self.parts))


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
