"""How many dead letters there may be: an epoch that has more is not committed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlstream.storage.manifest import DeadLetterTally
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: So many rows are no accident if none of them can be used.
ALL_BAD = 100
_SHOWN = 3
_READ = 64 << 10
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class DeadLetterBudget:
    """The most dead letters of a state directory, and the most for each row that was read lately; None: any number."""

    rows: int | None = None
    share: float | None = None

    def check(
        self,
        epoch: int,
        tally: DeadLetterTally,
        letters: Mapping[str, int],
        store: CheckpointStore,
        files: Sequence[str],
        rows: int,
    ) -> None:
        """Raise DiagnosticError (DAT005) if `tally`, with what `epoch` has, is more than there may be.

        `letters` are the epoch's by kind, which are staged in `files` of the store; it has read `rows`. Without a budget
        the run stops where all rows that were read, and at least `ALL_BAD`, can't be used.
        """
        if not any(letters.values()):
            return
        unusable = letters.get("malformed", 0) + letters.get("no-time", 0)
        if (
            self.rows is None
            and self.share is None
            and ALL_BAD <= rows <= unusable
            and tally.letters >= tally.rows
        ):
            raise DiagnosticError(
                Diagnostic(
                    "DAT005",
                    f"none of the {rows:,} rows of epoch {epoch} can be used: all of them are dead letters",
                    notes=("nothing of this epoch was committed", *_samples(store, files)),
                    help="fix the table's columns or its format; or allow it: "
                    "SET 'execution.max-dead-letter-share' = '1'; then run again",
                )
            )
        if self.rows is not None and tally.total > self.rows:
            option, most = "execution.max-dead-letters", f"{self.rows:,}"
            found = f"there are {tally.total:,} since the state directory began"
        elif self.share is not None and tally.letters > self.share * tally.rows:
            option, most = "execution.max-dead-letter-share", f"{self.share:g}"
            found = f"there are {tally.letters:,} in the last {tally.rows:,} rows"
        else:
            return
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(letters.items()) if count)
        raise DiagnosticError(
            Diagnostic(
                "DAT005",
                f"too many dead letters: epoch {epoch} has {kinds}",
                notes=(
                    f"{found}, and '{option}' is {most}; nothing of this epoch was committed",
                    *_samples(store, files),
                ),
                help=f"fix these rows, or allow more: SET '{option}' = '…'; then run again: "
                "the run goes on where it stopped",
            )
        )


def _place(letter: Mapping[str, Any]) -> str:
    """Where the row of a dead letter is.

    >>> _place({"source": "t", "origin": "topic clicks", "position": {"partition": 3, "offset": 17}})
    'topic clicks, partition 3, offset 17'
    """
    if "line" in letter:
        return f"{letter['origin']}, line {letter['line']}"
    if "position" in letter:
        at = [f"{name} {value}" for name, value in letter["position"].items()]
        return ", ".join([letter["origin"], *at])
    return str(letter["source"])


def _samples(store: CheckpointStore, files: Sequence[str]) -> Iterator[str]:
    """The first dead letters of an epoch, one per line."""
    shown = 0
    for name in files:
        with store.open(name) as content:
            lines = content.read(_READ).split(b"\n")
        for line in lines[:-1]:
            letter = json.loads(line)
            text = " ".join(f"{_place(letter)}: {letter['reason']}: {letter['row']}".split())
            yield text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
            shown += 1
            if shown == _SHOWN:
                return
