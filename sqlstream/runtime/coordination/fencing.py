"""Other drivers on the same state directory: how a plan or a manifest shows that there is one."""

from __future__ import annotations

from sqlstream.runtime.coordination.lease import another_driver
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import RunInfo
from sqlstream_planner.diagnostics import DiagnosticError


def check_head(journal: Journal, epoch: int) -> None:
    """Raise DiagnosticError (STA002) if there is a manifest after `epoch`.

    A driver that was paused for long may create a name again that has been collected meanwhile, since only
    the last manifests are kept. So creating one is not enough: it must be the last as well, and until that
    is known nothing of the epoch is made visible. An old manifest that is left behind harms nobody.
    """
    _, manifests = journal.listed()
    if manifests and manifests[-1] > epoch:
        raise lost_manifest(journal, manifests[-1])


def check_whose(journal: Journal, epoch: int, run: RunInfo) -> None:
    """Raise DiagnosticError (STA002) if another run has gone on behind `epoch`; not if the journal can't be read."""
    try:
        _, manifests = journal.epochs()
        other = journal.manifest(manifests[-1]).run if manifests and manifests[-1] > epoch else run
    except (OSError, DiagnosticError):
        return
    if other.run_id != run.run_id:
        raise another_driver(str(other), journal.store)


def lost_plan(journal: Journal, epoch: int) -> Exception:
    """The message for a plan that another driver has written first."""
    try:
        plan = journal.plan(epoch)
    except FileNotFoundError:
        plan = None
    other = "it has gone already" if plan is None else str(plan.run)
    return another_driver(other, journal.store)


def lost_manifest(journal: Journal, epoch: int) -> Exception:
    """The message for a manifest that another driver has published first."""
    return another_driver(str(journal.manifest(epoch).run), journal.store)
