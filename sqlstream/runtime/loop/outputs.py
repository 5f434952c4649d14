"""What an epoch makes visible: rows of the sinks and dead letters, in two phases around its manifest; and how far it read,
where a source publishes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sqlstream.connectors.api import EditableSink, Sink, SinkPart, TargetEdit
from sqlstream.connectors.capabilities import Checked, Deferring, WrittenBehind, close
from sqlstream.runtime.loop.acknowledgements import Acknowledgements
from sqlstream.runtime.loop.background_commit import BackgroundCommit
from sqlstream.runtime.loop.epoch import Epoch
from sqlstream.runtime.loop.program import Program
from sqlstream.runtime.tasks.job import EpochOutcome
from sqlstream.storage import dead_letter
from sqlstream.storage.manifest import EpochPlan, Manifest
from sqlstream_operators.errors import DataError
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


class Outputs:
    """The sinks of a program, those of the program before it, and the dead letters in the store."""

    def __init__(self, program: Program, store: CheckpointStore, tell: Callable[[Diagnostic], None]) -> None:
        self._sinks = program.sinks
        self._former = program.former_sinks
        self._targets = program.transition.targets
        self._store = store
        self._acknowledgements = Acknowledgements(program, tell)
        self._behind: BackgroundCommit | None = None

    def check(self, previous: int, new: Collection[str] = (), edits: Mapping[str, str] | None = None) -> None:
        """Whether the sinks would take rows, before any are computed.

        `previous` as for `prepare`, 0 for all `new` sinks; `edits` says what the epoch does to their targets first.
        """
        _begin(self._sinks, edits or {})
        for name, sink in self._sinks.items():
            if isinstance(sink, Checked):
                sink.check(previous=0 if name in new else previous)

    def prepare(self, plan: EpochPlan, outcome: EpochOutcome, previous: int) -> None:
        """Make all that an epoch wrote ready; what may fail, fails here.

        `previous` is the last epoch that was committed, 0 if there is none, as for all sinks that the plan calls new.
        """
        _begin(self._sinks, plan.sink_edits)
        for name, sink in self._sinks.items():
            before = 0 if name in plan.new_sinks else previous
            sink.prepare(plan.epoch, outcome.parts.get(name, ()), previous=before)

    @property
    def is_behind(self) -> bool:
        """Whether sinks go on with the epoch that was committed last."""
        return self._behind is not None

    def commit(self, facts: Epoch) -> None:
        """Make an epoch visible whose manifest is published; sinks may go on with it behind until `complete`."""
        manifest, parts = facts.manifest, facts.outcome.parts

        def commit(name: str, sink: Sink) -> None:
            sink.commit(manifest.epoch, parts.get(name, ()), previous=manifest.before(name))

        behind: dict[str, Sink] = {}
        for name, sink in self._sinks.items():
            if isinstance(sink, WrittenBehind) and sink.is_behind:
                behind[name] = sink
            else:
                commit(name, sink)
        self.flush(due=True)
        self._behind = BackgroundCommit(behind, commit) if behind else None

    def flush(self, *, due: bool = False) -> None:
        """Give targets what waits for a commit of several epochs: all, or what is `due`."""
        for sink in self._sinks.values():
            if isinstance(sink, Deferring) and (sink.is_due or not due):
                sink.flush()

    def wait(self) -> float:
        """Wait for the sinks that go on with an epoch behind; the seconds that they took. Raises what they raise."""
        seconds = 0.0 if self._behind is None else self._behind.wait()
        self._behind = None  # a signal may have ended the wait before: then `close` must know of them
        return seconds

    def complete(self, facts: Epoch) -> None:
        """Once all sinks have an epoch: its dead letters, and how far it read."""
        dead_letter.commit(self._store, facts.manifest.dead_letter_files)
        dead_letter.withdraw(self._store, facts.manifest.withdrawn, facts.number)
        self._acknowledgements.give(facts.manifest)

    def commit_again(self, last: Manifest | None) -> None:
        """Make the last epoch visible: the run that published it may have broken off before it did.

        Raises DiagnosticError with exit code 4 (STA015) if a sink with another target now is not there.
        """
        if last is None:
            return
        self._commit_sinks_again(last)
        if not last.void:
            dead_letter.commit(self._store, last.dead_letter_files, after_a_crash=True)
            dead_letter.withdraw(self._store, last.withdrawn, last.epoch)
        self._acknowledgements.give(last)

    def _commit_sinks_again(self, last: Manifest) -> None:
        """Also what waits for a commit of several epochs, so that nothing does when an edit is carried out."""
        former = {name: one for name, one in self._former.items() if not one.emptied}
        _begin({name: one.sink for name, one in former.items()}, last.sink_edits)
        for name, one in former.items():
            parts = [
                SinkPart(part.rows, part.payload, staged=part.staged) for part in last.sinks.get(name, ())
            ]
            try:
                if not last.void:
                    one.sink.commit(last.epoch, parts, previous=last.before(name))
                if isinstance(one.sink, Deferring):
                    one.sink.flush()
            except DataError as error:
                if one.left:
                    continue  # the user may have taken away what is written elsewhere by now
                if one.not_there is None:
                    raise
                diagnostic = replace(one.not_there, notes=(str(error), *one.not_there.notes))
                raise DiagnosticError(diagnostic, exit_code=4) from error

    def abort_after(self, epoch: int) -> None:
        """Take back what later epochs prepared."""
        _begin(
            self._sinks, {name: edit for name, edit in self._targets.items() if edit is TargetEdit.REWRITE}
        )
        for former in self._former.values():
            if not (former.left or former.emptied):
                former.sink.abort_uncommitted(epoch)
        for sink in self._sinks.values():
            sink.abort_uncommitted(epoch)
        dead_letter.abort_uncommitted(self._store, epoch)

    def close(self) -> None:
        """Let go of connections, of sources too; a transaction that a sink prepared and did not commit is rolled back.

        A sink that is at work behind is left to it: the process ends, and the next run takes over.
        """
        self._acknowledgements.close()
        at_work = frozenset() if self._behind is None else self._behind.at_work
        kept = [sink for name, sink in self._sinks.items() if name not in at_work]
        for sink in (*(former.sink for former in self._former.values()), *kept):
            close(sink)


def _begin(sinks: Mapping[str, Sink], edits: Mapping[str, str]) -> None:
    """Tell sinks what their next epoch does to their targets."""
    for name, edit in edits.items():
        sink = sinks.get(name)
        if isinstance(sink, EditableSink):
            sink.begin_with(TargetEdit(edit))
