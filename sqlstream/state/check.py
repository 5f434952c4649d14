"""Whether every file that committed state needs is what was written."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.runtime.loop.committed_sinks import all_have_it
from sqlstream.state.committed import Committed
from sqlstream.storage.verification import (
    Damage,
    damaged_beside,
    damaged_descriptions,
    damaged_state,
    state_of,
)
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.version import StateFile
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


@dataclass(frozen=True, slots=True)
class Checked:
    """What was compared: the `files` of state; what is damaged, by name, and what is and does no harm (`healing`)."""

    files: tuple[StateFile, ...]
    damaged: tuple[tuple[str, str], ...]
    healing: tuple[Damage, ...]

    def raise_damaged(self, store: CheckpointStore) -> None:
        """Raise DiagnosticError (STA003, exit code 4) if anything is damaged that does harm."""
        if not self.damaged:
            return
        *others, (name, what) = self.damaged
        raise DiagnosticError(
            *(Diagnostic("STA003", f"the file {store.path(other)} {damage}") for other, damage in others),
            Diagnostic(
                "STA003",
                f"the file {store.path(name)} {what}",
                notes=(
                    "a run can go on only on a machine that has this state in its cache, and only as long as it has",
                ),
                help="restore it from a copy of the state directory, or start from a savepoint that does not need it",
            ),
            exit_code=4,
        )


def check_files(committed: Committed) -> Checked:
    """Compare every file with its checksum; reads all of them."""
    store, manifest = committed.store, committed.manifest
    beside = []
    if not committed.savepoint:
        beside = list(damaged_beside(store, manifest, all_have_it=all_have_it(store, manifest)))
    damaged = (
        *damaged_descriptions(store, manifest, committed.prefix),
        *damaged_state(store, manifest),
        *((one.name, one.what) for one in beside if not one.heals),
    )
    return Checked(tuple(state_of(manifest)), damaged, tuple(one for one in beside if one.heals))
