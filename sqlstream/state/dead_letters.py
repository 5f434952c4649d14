"""The dead-letter rows of a state directory, as its last committed epoch left them: for commands and the dashboard.

Nothing is written, and a run that goes on meanwhile is not disturbed. Files are read line by line, so that what is kept in
memory does not grow with how many rows there are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from sqlstream.runtime.loop.recovery import last_manifest
from sqlstream.storage import dead_letter
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest
from sqlstream.storage.mended_rows import MendedRow, all_mended_rows, row_of
from sqlstream_operators.state.checkpoint_store import CheckpointStore

#: So many different reasons of a group are counted, the others together.
MOST_REASONS = 100
#: The names of types that end in a number, which stay, and values: what is quoted, and numbers, those of times as well.
_VALUES = re.compile(
    r"""\b(U?INT(?:8|16|32|64|128))\b|(?<![\w])(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\d[\d.,:\- ]*\d|\d"""
)


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A dead-letter row: `fields` as docs/running/dead-letters.md describes them, `id` what stands for it.

    The id is the same as long as the row is there. `withdrawn_in` is the epoch that withdrew it, since its source was read
    again (None: it is there). `mended` is what is read instead of it (None: nothing).
    """

    id: str
    fields: Mapping[str, Any]
    withdrawn_in: int | None = None
    mended: MendedRow | None = None

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
        more: dict[str, Any] = {} if self.withdrawn_in is None else {"withdrawn_in": self.withdrawn_in}
        if self.mended is not None:
            more["replayed_us"] = self.mended.mended_us
        return {"id": self.id, **self.fields, **more}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead-letter rows are asked for; what is "" or None is not asked about.

    `reason` is a part of the reason, in any case of letters; or what `reason_in_general` makes of it. `withdrawn` asks for
    those that were withdrawn, `replayed` for those that were mended and replayed, instead of those that are neither.
    """

    source: str = ""
    kind: str = ""
    operator: str = ""
    reason: str = ""
    epoch: int | None = None
    withdrawn: bool = False
    replayed: bool = False

    def takes(self, row: DeadLetterRow) -> bool:
        """Whether a row is asked for."""
        if self.replayed != (row.mended is not None) or self.withdrawn != (row.withdrawn_in is not None):
            return False
        if (self.source and row.source != self.source) or (self.kind and row.kind != self.kind):
            return False
        if (self.operator and row.operator != self.operator) or self.epoch not in (None, row.epoch):
            return False
        reason = self.reason.lower()
        return reason in row.reason.lower() or reason == reason_in_general(row.reason).lower()


@dataclass(slots=True)
class DeadLetterGroup:
    """The dead-letter rows of one source, kind and operator: how many, in which epochs, and why.

    `withdrawn` more are there no longer, since the source was read again; in the place of `replayed` more, others are read,
    which were mended. `reasons` counts `reason_in_general` of the `rows`, `other_reasons` those that have another one.
    """

    source: str
    kind: str
    operator: str
    rows: int = 0
    withdrawn: int = 0
    replayed: int = 0
    first_epoch: int | None = None
    last_epoch: int | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    other_reasons: int = 0

    def add(self, row: DeadLetterRow) -> None:
        """Count a row."""
        if row.withdrawn_in is not None:
            self.withdrawn += 1
            return
        if row.mended is not None:
            self.replayed += 1
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
            "replayed": self.replayed,
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
    >>> reason_in_general("Could not convert string 'a' to INT32")
    'Could not convert string … to INT32'
    >>> reason_in_general("2026-01-01T10:30:00Z is no time")
    '…T…Z is no time'
    """
    return _VALUES.sub(lambda found: found[1] or "…", reason)


def count_dead_letters(store: CheckpointStore) -> list[DeadLetterGroup]:
    """How many dead-letter rows there are of which source, kind and operator, in this order; reads all of them.

    Raises DiagnosticError (STA001) if the last manifest is damaged.
    """
    groups: dict[tuple[str, str, str], DeadLetterGroup] = {}
    for row in chain(_rows(store), _rows(store, withdrawn=True)):
        key = (row.source, row.kind, row.operator)
        groups.setdefault(key, DeadLetterGroup(*key)).add(row)
    return [groups[key] for key in sorted(groups)]


def find_dead_letters(store: CheckpointStore, ids: Collection[str]) -> dict[str, DeadLetterRow]:
    """The dead-letter rows of these ids that there are or were: also those that were withdrawn or replayed."""
    found = {row.id: row for row in _rows(store, withdrawn=True) if row.id in ids}
    return found | {row.id: row for row in _rows(store) if row.id in ids}


def read_dead_letters(
    store: CheckpointStore,
    wanted: Wanted | None = None,
    *,
    limit: int | None = None,
    offset: int = 0,
    newest: bool = False,
) -> Iterator[DeadLetterRow]:
    """The dead-letter rows that are `wanted` (None: all), in the order of their epochs: `limit` of them behind `offset`.

    With `newest` the last epoch's come first, and no more files are read than these need.

    Raises DiagnosticError (STA001) if the last manifest is damaged.
    """
    asked = wanted or Wanted()
    rows = _rows(store, withdrawn=asked.withdrawn, newest=newest)
    found = (row for row in rows if asked.takes(row))
    return islice(found, offset, None if limit is None else offset + limit)


def _rows(
    store: CheckpointStore, *, withdrawn: bool = False, newest: bool = False
) -> Iterator[DeadLetterRow]:
    """The rows that are there, or those that were withdrawn, once the last epoch is committed wholly."""
    last = last_manifest(Journal(store))
    if not withdrawn:
        replayed = _Replayed.of(store, last)
        for name, content in _files(store, last, newest=newest):
            for row in _of_file(name, content):
                if not _is_withdrawn(row, last):
                    yield row if replayed is None else replayed.marked(row)
        return
    for name in store.list(dead_letter.WITHDRAWN):
        yield from _of_file(name, dead_letter.lines(store, name))
    if last is None or not last.withdrawn:
        return
    for name, content in _files(store, last):  # what its run has not withdrawn yet: it broke off, or is at it
        if not store.exists(dead_letter.withdrawn_name(name, last.epoch)):
            gone = (row for row in _of_file(name, content) if _is_withdrawn(row, last))
            yield from (replace(row, withdrawn_in=last.epoch) for row in gone)


@dataclass(slots=True)
class _Replayed:
    """Which dead-letter rows were mended. Of equal rows those that were replayed by their ids, else any of them.

    `rows` are the mended rows with the folders of their sources, `folders` those of tables, `there` the ids of mended rows
    that dead-letter rows have now: they have others once their source was read again.
    """

    rows: Sequence[tuple[str, MendedRow]]
    folders: Mapping[str, str]
    there: frozenset[str]
    used: set[tuple[str, int]] = field(default_factory=set)
    _numbers: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, (_, mended) in enumerate(self.rows):
            self._numbers.setdefault(_same(mended.row), []).append(number)

    @classmethod
    def of(cls, store: CheckpointStore, last: Manifest | None) -> _Replayed | None:
        """None: no row was ever mended."""
        rows = [(folder, row) for folder, found in all_mended_rows(store).items() for row in found]
        if not rows:
            return None
        folders = {} if last is None else {source.name: source.folder for source in last.positions[::-1]}
        ids = {row.letter for _, row in rows}
        read = (row.id for name, content in _files(store, last) for row in _of_file(name, content))
        return cls(rows, folders, frozenset(id_ for id_ in read if id_ in ids))

    def marked(self, row: DeadLetterRow) -> DeadLetterRow:
        """The row with what is read instead, if it was mended."""
        if row.kind != "malformed":
            return row
        for number in self._numbers.get(_same(row_of(row.fields)), ()):
            folder, mended = self.rows[number]
            if (row.source, number) in self.used or not self._stands_for(folder, mended, row):
                continue
            self.used.add((row.source, number))
            return replace(row, mended=mended)
        return row

    def _stands_for(self, folder: str, mended: MendedRow, row: DeadLetterRow) -> bool:
        known = self.folders.get(row.source)
        if mended.source != row.source if known is None else known != folder:
            return False
        if mended.source == row.source and mended.letter in self.there:
            return mended.letter == row.id
        return mended.is_of(row.fields)


def _same(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def _is_withdrawn(row: DeadLetterRow, last: Manifest | None) -> bool:
    return last is not None and row.epoch < last.epoch and dead_letter.is_of(row.fields, last.withdrawn)


def _files(
    store: CheckpointStore, last: Manifest | None, *, newest: bool = False
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The lines of each file, by the name that it has once the last epoch is committed wholly."""
    names = {name: name for name in store.list(dead_letter.FOLDER)}
    staged = () if last is None else last.dead_letter_files
    names = {dead_letter.visible_name(name): name for name in staged} | names
    for name, place in sorted(names.items(), reverse=newest):
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
