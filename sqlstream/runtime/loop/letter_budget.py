"""How many dead letters there may be: an epoch that has more is not committed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlstream.storage.manifest import LetterTally
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_SHOWN = 3
_READ = 64 << 10
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class LetterBudget:
    """The most dead letters of a state directory, and the most for each row that was read lately; None: any number."""

    rows: int | None = None
    share: float | None = None

    def check(
        self,
        epoch: int,
        tally: LetterTally,
        letters: Mapping[str, int],
        store: CheckpointStore,
        files: Sequence[str],
    ) -> None:
        """Raise DiagnosticError (DAT005) if `tally`, with what `epoch` has, is more than there may be.

        `letters` are the epoch's by kind, which are staged in `files` of the store.
        """
        if not any(letters.values()):
            return
        if self.rows is not None and tally.total > self.rows:
            option, most = "execution.max-dead-letters", f"{self.rows:,}"
            found = f"these are {tally.total:,} since the state directory began"
        elif self.share is not None and tally.letters > self.share * tally.rows:
            option, most = "execution.max-dead-letter-share", f"{self.share:g}"
            found = f"these are {tally.letters:,} for the last {tally.rows:,} rows"
        else:
            return
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(letters.items()) if count)
        raise DiagnosticError(
            Diagnostic(
                "DAT005",
                f"too many dead letters: epoch {epoch} has {kinds}; {found}, and '{option}' is {most}",
                notes=("nothing of this epoch was committed", *_samples(store, files)),
                help=f"mend these rows, or allow more: SET '{option}' = '…'; then run again: "
                "the run goes on where it stopped",
            )
        )


def _samples(store: CheckpointStore, files: Sequence[str]) -> Iterator[str]:
    """The first letters of an epoch, a line each."""
    shown = 0
    for name in files:
        with store.open(name) as content:
            lines = content.read(_READ).split(b"\n")
        for line in lines[:-1]:
            letter = json.loads(line)
            place = f"{letter['origin']}, line {letter['line']}" if "line" in letter else letter["source"]
            text = " ".join(f"{place}: {letter['reason']}: {letter['row']}".split())
            yield text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
            shown += 1
            if shown == _SHOWN:
                return
