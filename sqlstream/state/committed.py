"""Which state is looked at: that after the last epoch, after another one that is retained, or of a savepoint."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.runtime.loop.recovery import physical_plan
from sqlstream.storage.journal import Journal, manifest_name
from sqlstream.storage.manifest import Manifest
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean
from sqlstream_planner.text.masking import without_password


@dataclass(frozen=True, slots=True)
class Committed:
    """The state that a manifest names, in `store`, and the plan that it belongs to.

    `savepoint` is the requested name, "" for an epoch; `prefix` is the folder of what its sources have listed.
    """

    store: CheckpointStore
    manifest: Manifest
    plan: PhysicalPlan
    savepoint: str = ""
    prefix: str = ""

    @property
    def title(self) -> str:
        """What it is, in words."""
        epoch = f"epoch {self.manifest.epoch:,} of {without_password(self.store.uri)}"
        return f"savepoint {self.savepoint}: {epoch}" if self.savepoint else epoch

    @property
    def is_there(self) -> bool:
        """Whether its files are still kept: a collector deletes an epoch's manifest before anything that it names."""
        if self.savepoint:
            return self.savepoint in Savepoints(self.store).names()
        return self.store.exists(manifest_name(self.manifest.epoch))


def find_committed(store: CheckpointStore, at: str | None = None) -> Committed:
    """The state after the last epoch, or `at`: the number of an epoch, or the name of a savepoint.

    Nothing is written, and no lease is taken. Raises DiagnosticError: STA001 for a damaged file, STA020 if there is no
    state, STA021 if there is nothing of this number or name.
    """
    journal = Journal(store)
    while True:
        _, epochs = journal.epochs()
        if at is not None and not (at.isascii() and at.isdigit() and int(at) in epochs):
            return _of_savepoint(journal, at, epochs)
        if not epochs:
            raise DiagnosticError(
                Diagnostic(
                    "STA020",
                    f"there is no state in {store.uri}: no epoch was committed",
                    help="run the pipeline first, or give its --state-dir",
                )
            )
        try:
            manifest = journal.manifest(epochs[-1] if at is None else int(at))
            return Committed(store, manifest, physical_plan(journal, manifest))
        except (FileNotFoundError, DiagnosticError):
            # Collected since it was listed, as the plan may be when a run has ended with another one.
            _, now = journal.epochs()
            if now == epochs:
                raise


def _of_savepoint(journal: Journal, name: str, epochs: list[int]) -> Committed:
    savepoints = Savepoints(journal.store)
    names = sorted(savepoints.names())
    if name not in names:
        near = did_you_mean(name, names)
        raise DiagnosticError(
            Diagnostic(
                "STA021",
                f"there is neither an epoch nor a savepoint `{name}` in {journal.store.uri}",
                notes=(
                    f"epochs that are kept: {', '.join(map(str, epochs)) or 'none'}",
                    f"savepoints: {', '.join(names) or 'none'}",
                ),
                help=f"did you mean `{near}`?"
                if near
                else "a savepoint keeps an epoch for as long as you want",
            ),
            exit_code=2,
        )
    found = savepoints.find(name)
    return Committed(
        journal.store, found.manifest, physical_plan(journal, found.manifest), name, found.prefix
    )
