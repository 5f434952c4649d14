"""The dead-letter table: rows that could not be counted, kept as JSON lines, only from committed epochs.

A file `dead-letter/epoch-000042.jsonl` has one object a line: `kind` (`late` or `malformed`), where the row
came from, why it is here, and the row itself. An epoch's file is staged before the manifest, which names it
with its digest, and put in place after it; both steps may be repeated with the same result.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sqlstream_operators.state.checkpoint_store import CheckpointStore

FOLDER = "dead-letter"
STAGED = "staging/dead-letter"


def visible_name(epoch: int) -> str:
    """The name of an epoch's file once it is committed."""
    return f"{FOLDER}/epoch-{epoch:06d}.jsonl"


def stage(
    store: CheckpointStore, epoch: int, letters: Iterable[Mapping[str, Any]]
) -> tuple[str | None, dict[str, int]]:
    """Write an epoch's dead letters where no reader looks; returns the staged name and the rows by kind.

    No letters: no file, (None, {}).
    """
    lines = []
    kinds: Counter[str] = Counter()
    for letter in letters:
        kinds[str(letter["kind"])] += 1
        lines.append(json.dumps({"epoch": epoch, **letter}, ensure_ascii=False, default=str))
    if not lines:
        return None, {}
    content = ("\n".join(lines) + "\n").encode()
    name = f"{STAGED}/epoch-{epoch:06d}-{hashlib.sha256(content).hexdigest()[:16]}.jsonl"
    store.put(name, content)
    return name, dict(sorted(kinds.items()))


def commit(store: CheckpointStore, epoch: int, staged: str | None) -> None:
    """Put the staged file of a committed epoch in place. Repeatable."""
    if staged is None:
        return
    try:
        content = store.get(staged)
    except FileNotFoundError:
        return  # it is in place: the staged file goes only after that
    store.put(visible_name(epoch), content)
    store.delete(staged)


def abort_uncommitted(store: CheckpointStore, last_epoch: int) -> None:
    """Remove what epochs after `last_epoch` staged."""
    for name in store.list(STAGED):
        number = name.removeprefix(f"{STAGED}/epoch-").split("-")[0]
        if number.isdigit() and int(number) > last_epoch:
            store.delete(name)
