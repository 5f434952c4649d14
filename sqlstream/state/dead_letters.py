"""The dead-letter rows of a state directory, as its last committed epoch left them: for commands and the dashboard.

Nothing is written, and a run that goes on meanwhile is not disturbed. Files are read line by line, so that what is kept in
memory does not grow with how many rows there are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from sqlstream.storage import dead_letter
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.state.checkpoint_store import CheckpointStore

#: So many different reasons of a group are counted, the others together.
MOST_REASONS = 100
_QUOTED = re.compile(r"""(?<![\w])(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\d[\d.,:\- ]*\d|\d""")


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A dead-letter row: `fields` as docs/running/dead-letters.md describes them, `id` what stands for it.

    The id is the same as long as the row is there. `withdrawn_in` is the epoch that withdrew it, since its source was read
    again (None: it is there).
    """

    id: str
    fields: Mapping[str, Any]
    withdrawn_in: int | None = None

    @property
    def epoch(self) -> int:
        """The epoch that could not use it."""
        return int(self.fields["epoch"])

    @property
    def kind(self) -> str:
        """`late`, `no-time`, `malformed` or `failed`."""
        return str(self.fields["kind"])

    @property
    def source(self) -> str:
        """The table that it is a row of; "" for a row of an operator."""
        return str(self.fields.get("source", ""))

    @property
    def operator(self) -> str:
        """The operator that could not use it, or made it; "" for a row that could not be read."""
        return str(self.fields.get("operator", ""))

    @property
    def reason(self) -> str:
        """Why it is here."""
        return str(self.fields["reason"])

    @property
    def place(self) -> str:
        """Where it comes from, as far as that is known.

        >>> at = {"origin": "topic clicks", "position": {"partition": 3, "offset": 17}}
        >>> DeadLetterRow("", {"source": "t", **at}).place
        'topic clicks, partition 3, offset 17'
        """
        found = [str(self.fields.get("origin", ""))]
        if "line" in self.fields:
            found.append(f"line {self.fields['line']}")
        found += [f"{name} {value}" for name, value in self.fields.get("position", {}).items()]
        return ", ".join(filter(None, found))

    @property
    def text(self) -> str:
        """The row as it is written, or its columns as JSON; bytes that are no UTF-8 are escapes."""
        row = self.fields.get("row", "")
        return row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)

    def to_json(self) -> dict[str, Any]:
        """The row as it is kept, with its id."""
        gone = {} if self.withdrawn_in is None else {"withdrawn_in": self.withdrawn_in}
        return {"id": self.id, **self.fields, **gone}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead-letter rows are asked for; what is "" or None is not asked about.

    `reason` is a part of the reason, in any case of letters; or what `reason_in_general` makes of it. `withdrawn` asks for
    those that were withdrawn, instead of those that are there.
    """

    source: str = ""
    kind: str = ""
    operator: str = ""
    reason: str = ""
    epoch: int | None = None
    withdrawn: bool = False

    def takes(self, row: DeadLetterRow) -> bool:
        """Whether a row is asked for."""
        if (self.source and row.source != self.source) or (self.kind and row.kind != self.kind):
            return False
        if (self.operator and row.operator != self.operator) or self.epoch not in (None, row.epoch):
            return False
        reason = self.reason.lower()
        return reason in row.reason.lower() or reason == reason_in_general(row.reason).lower()


@dataclass(slots=True)
class DeadLetterGroup:
    """The dead-letter rows of one source, kind and operator: how many, in which epochs, and why.

    `withdrawn` of them are there no more, since the source was read again. `reasons` counts `reason_in_general` of those
    that are there, `other_reasons` those that have yet another reason.
    """

    source: str
    kind: str
    operator: str
    rows: int = 0
    withdrawn: int = 0
    first_epoch: int | None = None
    last_epoch: int | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    other_reasons: int = 0

    def add(self, row: DeadLetterRow) -> None:
        """Count a row."""
        if row.withdrawn_in is not None:
            self.withdrawn += 1
            return
        self.rows += 1
        self.first_epoch = row.epoch if self.first_epoch is None else min(self.first_epoch, row.epoch)
        self.last_epoch = row.epoch if self.last_epoch is None else max(self.last_epoch, row.epoch)
        reason = reason_in_general(row.reason)
        if reason in self.reasons or len(self.reasons) < MOST_REASONS:
            self.reasons[reason] += 1
        else:
            self.other_reasons += 1

    def to_json(self) -> dict[str, Any]:
        """One JSON object for `--json`, the most frequent reasons first."""
        return {
            "source": self.source or None,
            "kind": self.kind,
            "operator": self.operator or None,
            "rows": self.rows,
            "withdrawn": self.withdrawn,
            "first_epoch": self.first_epoch,
            "last_epoch": self.last_epoch,
            "reasons": [{"reason": reason, "rows": rows} for reason, rows in self.reasons.most_common()],
            "other_reasons": self.other_reasons,
        }


def reason_in_general(reason: str) -> str:
    """A reason without the values that it names, so that rows with one mistake have one reason.

    >>> reason_in_general('Could not convert string "1O.00" to \\'DECIMAL\\' in column "amount"')
    'Could not convert string … to … in column …'
    >>> reason_in_general("the window was closed: the watermark is 1704103375000000 µs")
    'the window was closed: the watermark is … µs'
    """
    return _QUOTED.sub("…", reason)


def count_dead_letters(store: CheckpointStore) -> list[DeadLetterGroup]:
    """How many dead-letter rows there are of which source, kind and operator, in this order; reads all of them.

    Raises DiagnosticError (STA001) if the last manifest is damaged.
    """
    groups: dict[tuple[str, str, str], DeadLetterGroup] = {}
    for row in chain(_rows(store), _rows(store, withdrawn=True)):
        key = (row.source, row.kind, row.operator)
        groups.setdefault(key, DeadLetterGroup(*key)).add(row)
    return [groups[key] for key in sorted(groups)]


def read_dead_letters(
    store: CheckpointStore, wanted: Wanted | None = None, *, limit: int | None = None, offset: int = 0
) -> Iterator[DeadLetterRow]:
    """The dead-letter rows that are `wanted` (None: all), in the order of their epochs: `limit` of them behind `offset`.

    Raises DiagnosticError (STA001) if the last manifest is damaged.
    """
    asked = wanted or Wanted()
    found = (row for row in _rows(store, withdrawn=asked.withdrawn) if asked.takes(row))
    return islice(found, offset, None if limit is None else offset + limit)


def _rows(store: CheckpointStore, *, withdrawn: bool = False) -> Iterator[DeadLetterRow]:
    """The rows that are there, or those that were withdrawn, once the last epoch is committed wholly."""
    journal = Journal(store)
    _, epochs = journal.epochs()
    last = journal.manifest(epochs[-1]) if epochs else None
    if not withdrawn:
        for name, content in _files(store, last):
            yield from (row for row in _of_file(name, content) if not _is_withdrawn(row, last))
        return
    for name in store.list(dead_letter.WITHDRAWN):
        yield from _of_file(name, dead_letter.lines(store, name))
    if last is None or not last.withdrawn:
        return
    for name, content in _files(store, last):  # what its run has not withdrawn yet: it broke off, or is at it
        if not store.exists(dead_letter.withdrawn_name(name, last.epoch)):
            gone = (row for row in _of_file(name, content) if _is_withdrawn(row, last))
            yield from (replace(row, withdrawn_in=last.epoch) for row in gone)


def _is_withdrawn(row: DeadLetterRow, last: Manifest | None) -> bool:
    return last is not None and row.epoch < last.epoch and dead_letter.is_of(row.fields, last.withdrawn)


def _files(store: CheckpointStore, last: Manifest | None) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The lines of each file, by the name that it has once the last epoch is committed wholly."""
    names = {name: name for name in store.list(dead_letter.FOLDER)}
    staged = () if last is None else last.dead_letter_files
    names = {dead_letter.visible_name(name): name for name in staged} | names
    for name, place in sorted(names.items()):
        for found in dict.fromkeys((place, name)):
            content = dead_letter.lines(store, found)
            try:
                first = next(content, None)
            except FileNotFoundError:  # it was put in place meanwhile, or all of it was withdrawn
                continue
            yield name, chain(() if first is None else (first,), content)
            break


def _of_file(name: str, content: Iterable[bytes]) -> Iterator[DeadLetterRow]:
    """The rows of a file; of rows that are equal, which one it is counts for its id."""
    task = name.rpartition("/")[2]
    seen: Counter[bytes] = Counter()
    for line in content:
        fields = json.loads(line)
        gone = fields.pop("withdrawn_in", None)
        text = json.dumps([task, fields], sort_keys=True)
        digest = hashlib.sha256(text.encode()).digest()[:8]
        seen[digest] += 1
        number = f"-{seen[digest]}" if seen[digest] > 1 else ""
        yield DeadLetterRow(digest.hex() + number, fields, gone)
