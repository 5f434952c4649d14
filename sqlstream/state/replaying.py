"""Dead-letter rows that a user has mended: checked, and kept for the sources to read once. The only part that writes.

An edit of the query looks at the mended rows when it reads history again: rows that it can read now are not to be counted
beside the mended ones. So none is kept while a run may be at that: nobody runs meanwhile, or a run that has committed.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlstream.connectors.api import Source
from sqlstream.connectors.capabilities import Mended, Mending, NotMendedError
from sqlstream.runtime.coordination.lease import Lease, is_gone, read_lease
from sqlstream.runtime.loop.recovery import last_manifest
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.state.dead_letters import DeadLetterRow, find_dead_letters
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import RunInfo, SourceState
from sqlstream.storage.mended_rows import MendedRow, keep_mended, mended_rows
from sqlstream.storage.run_status import RUNNING, read_status
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted

_NAMED = 5
_NO_ROWS = {
    "late": (
        "it came late: the windows that it would be in are closed, and their results are given",
        "begin a new state directory with a savepoint from before; or read all anew with another watermark",
    ),
    "no-time": (
        "it was read, and only operators that need its time left it out",
        "correct the file, and begin a new state directory with a savepoint from before",
    ),
    "failed": (
        "an operator made it of several rows",
        "edit the expression: what can be computed of the state is computed anew",
    ),
}


@dataclass(frozen=True, slots=True)
class Replayed:
    """What was made of mended rows: those `kept` for the next epochs, `before` were kept by an earlier command, `unchanged`
    are as they were.
    """

    kept: Sequence[MendedRow]
    before: int
    unchanged: int

    def to_json(self) -> dict[str, Any]:
        """One JSON object for `--json`."""
        ids = [row.letter for row in self.kept]
        return {"replayed": ids, "replayed_before": self.before, "unchanged": self.unchanged}


def no_state(state_dir: str) -> DiagnosticError:
    """The error for a pipeline that was never run."""
    return DiagnosticError(
        Diagnostic(
            "STA020",
            f"there is no state in {state_dir}: no epoch was committed",
            help="run the pipeline first, or give its --state-dir",
        ),
        exit_code=4,
    )


def read_mended(name: str, lines: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Rows as `dead-letters show --json` prints them, by their ids. Raises DiagnosticError (DAT017)."""
    found: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise _unreadable(name, number, f"no JSON: {error}") from None
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise _unreadable(name, number, "no row of `dead-letters show --json`: it has no id")
        if row["id"] in found:
            raise _unreadable(name, number, f"the row {row['id']} once more")
        found[row["id"]] = row
    return found


def _unreadable(name: str, number: int, what: str) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            "DAT017",
            f"{name}, line {number} is {what}",
            notes=("nothing was replayed",),
            help='write the rows with `sqlstream dead-letters show FILE --limit 0 --json`, and change their "row" only',
        )
    )


def replay(
    store: CheckpointStore,
    given: Mapping[str, Mapping[str, Any]],
    specs: Sequence[SourceSpec],
    source_of: Callable[[SourceSpec, str], Source],
    *,
    after_each: Callable[[int], None] = lambda kept: None,
) -> Replayed:
    """Keep those of the rows `given` by their ids whose text was changed, for the sources to read once.

    `specs` are the sources of the pipeline, `source_of` makes one that has a folder of the store for itself. A command that
    was killed has kept some of them: they are passed over by the next. `after_each` is called with how many are kept.
    Raises DiagnosticError: DAT017 if one can't be replayed, and then none is, STA002 while a run begins.
    """
    with _nobody_begins(store):
        last = last_manifest(Journal(store))
        if last is None:
            raise no_state(store.uri)
        known = go_on(last.positions, specs)
        sources: dict[str, Source] = {}
        there = {name: mended_rows(store, state.folder) for name, state in known.items() if state.folder}
        kept_before = {row.letter for rows in there.values() for row in rows}
        found = find_dead_letters(store, given)
        wrong: list[tuple[str, NotMendedError]] = []
        ready: list[tuple[DeadLetterRow, SourceState, Mended]] = []
        before = unchanged = 0
        for id_, row in given.items():
            now = found.get(id_)
            if id_ in kept_before or (now is not None and now.mended is not None):
                before += 1
                continue
            try:
                letter = _there(now)
                text = _changed(letter, row)
                if text is None:
                    unchanged += 1
                    continue
                state = _state(letter, known)
                if state.name not in sources:
                    spec = next(spec for spec in specs if spec.name == state.name)
                    sources[state.name] = source_of(spec, state.folder)
                ready.append((letter, state, _mended(sources[state.name], letter, text)))
            except NotMendedError as error:
                wrong.append((id_, error))
        if wrong:
            raise _refused(wrong)
        kept = []
        for letter, state, mended in ready:
            row_as_it_was = {
                name: letter.fields[name] for name in ("line", "row", "row_base64") if name in letter.fields
            }
            one = MendedRow(
                "", letter.id, letter.source, mended.origin, row_as_it_was, "", 0, int(time.time() * 1e6)
            )
            made = keep_mended(store, state.folder, one, there[state.name], mended.content, mended.ending)
            if made is None:
                before += 1
                continue
            there[state.name].append(made)
            kept.append(made)
            after_each(len(kept))
        return Replayed(kept, before, unchanged)


def _there(row: DeadLetterRow | None) -> DeadLetterRow:
    if row is None:
        raise NotMendedError(
            "there is no such dead-letter row", "see which there are: sqlstream dead-letters show"
        )
    if row.withdrawn_in is not None:
        raise NotMendedError(
            f"it was withdrawn by epoch {row.withdrawn_in}, which has read its source again",
            "see which there are: sqlstream dead-letters show",
        )
    return row


def _changed(letter: DeadLetterRow, given: Mapping[str, Any]) -> bytes | None:
    """The text of a row that was mended; None: it is as it was. Raises NotMendedError."""
    for name in ("row_base64", "row"):
        if name not in given or given[name] == letter.fields.get(name):
            continue
        if letter.kind in _NO_ROWS:
            raise NotMendedError(*_NO_ROWS[letter.kind])
        if not isinstance(given[name], str):
            raise NotMendedError(
                f'its "{name}" is no text', "give the row as it should be in its file, as a text"
            )
        try:
            return (
                base64.b64decode(given[name], validate=True) if name == "row_base64" else given[name].encode()
            )
        except ValueError:
            raise NotMendedError(f'its "{name}" is wrong', 'give the row as a text in "row"') from None
    return None


def _state(letter: DeadLetterRow, known: Mapping[str, SourceState]) -> SourceState:
    state = known.get(letter.source)
    if state is None:
        raise NotMendedError(
            f"the pipeline does not read the table `{letter.source}`, or it has other data now",
            "replay it with the file that has read it",
        )
    return state


def _mended(source: Source, letter: DeadLetterRow, text: bytes) -> Mended:
    if not isinstance(source, Mending):
        raise NotMendedError(
            f"rows of `{letter.source}` are not in files",
            "write the mended row to where the table is read from (the topic, the table): it is read once, as any other",
        )
    return source.mend(letter.fields, text)


def _refused(wrong: Sequence[tuple[str, NotMendedError]]) -> DiagnosticError:
    notes = [f"{id_}: {error.why}" for id_, error in wrong[:_NAMED]]
    if len(wrong) > _NAMED:
        notes.append(f"and {counted(len(wrong) - _NAMED, 'row')} more")
    notes.append("nothing was replayed")
    ways = dict.fromkeys(error.instead for _, error in wrong)
    return DiagnosticError(
        Diagnostic(
            "DAT017",
            f"{counted(len(wrong), 'row')} can't be replayed",
            notes=tuple(notes),
            help="; or ".join(ways),
        )
    )


@contextmanager
def _nobody_begins(store: CheckpointStore) -> Iterator[None]:
    """Keeps runs from beginning, but for one that has committed: it decides no edit any more.

    Raises DiagnosticError (STA002).
    """
    held = read_lease(store)
    if held is not None and not is_gone(held[0]):
        status = read_status(store)
        if status is None or status.run.run_id != held[0].run_id or status.state != RUNNING:
            raise DiagnosticError(
                Diagnostic(
                    "STA002",
                    f"a run is beginning on the state directory {store.uri}: {held[0]}",
                    notes=("it may read rows again that are to be replayed",),
                    help="replay when `sqlstream status` says that it is running, or after `sqlstream stop`",
                ),
                exit_code=4,
            )
        yield
        return
    lease = Lease(store, RunInfo.here())
    lease.acquire()
    try:
        yield
    finally:
        lease.release()
