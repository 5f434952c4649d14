"""Sinks of a former query that the present file does not write: whether they are needed once more, and can be reached.

The last epoch is committed again at a start, since the run that published it may have broken off before all sinks had it.
That needs the password of a sink, which is kept nowhere. Where the run ended well, all have it, and none is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlstream.runtime.loop.committed_sinks import all_have_it
from sqlstream.runtime.loop.recovery import physical_plan
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def check_passwords(
    journal: Journal, last: Manifest, going_on: Mapping[str, object], secrets: Secrets
) -> Iterable[Diagnostic]:
    """What keeps a run from starting: sinks without a successor that may lack the last epoch, out of reach."""
    if all_have_it(journal.store, last):
        return
    for spec in physical_plan(journal, last).sinks:
        if spec.name not in going_on and not can_be_reached(spec, secrets):
            yield Diagnostic(
                "OPT007",
                f"the password of `{spec.name}` is needed once more, and this file does not have it",
                notes=(
                    f"the last run broke off before it was known that `{spec.name}` has epoch {last.epoch}",
                    "passwords are stored nowhere; they come from the present file",
                ),
                help=f"run the file once as it was, or keep the CREATE TABLE of `{spec.name}` in it for one more run",
            )


def can_be_reached(spec: SinkSpec, secrets: Secrets) -> bool:
    """Whether all passwords of a sink are known."""
    try:
        secrets.resolved(spec)
    except DiagnosticError:
        return False
    return True
