"""Mended rows: dead-letter rows of a source that a user has put right, for the source to read once more.

They are in the source's own folder of the state directory, so that what becomes of the folder (a savepoint is exported, a
table more of the same data gets one, the data is elsewhere) becomes of them. `mended/rows/KEY.json`, created exclusively,
says which dead-letter row was mended; `mended/text/KEY-DIGEST.…`, written before it, is what is read instead. Neither
changes, and nothing deletes them. KEY is made of the row as it was and of how often it was mended: of two commands that
replay one row at the same time, one loses; and it is replayed once, though its id is another one when its source was read
again in between.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream_operators.plan.plain_data import PlainData
from sqlstream_operators.state.checkpoint_store import CheckpointStore

#: Below the folder of a source.
FOLDER = "mended"
ROWS, TEXT = f"{FOLDER}/rows", f"{FOLDER}/text"
#: What the paths of mended rows begin with in the list of a source.
LISTED = "mended:"
_KIND = "mended row"
#: What stands for a row in its file.
_ROW = ("line", "row", "row_base64")


@dataclass(frozen=True, slots=True)
class MendedRow(PlainData):
    """A dead-letter row that was mended: which one, and the file that is read instead.

    `letter` is the id that it had, `source` what its table was called, `origin` the file that it is in, as the source has it
    in its list, `row` what it is there. `file` is in the folder `TEXT` and has `size` bytes. `mended_us` is when (µs since
    1970).
    """

    key: str
    letter: str
    source: str
    origin: str
    row: Mapping[str, Any]
    file: str
    size: int
    mended_us: int

    def is_of(self, letter: Mapping[str, Any]) -> bool:
        """Whether a dead-letter row, of whatever table, is the one that was mended; folders may have been moved since."""
        found = str(letter.get("origin", ""))
        return row_of(letter) == self.row and (found == self.origin or found.endswith(f"/{self.origin}"))


def row_of(letter: Mapping[str, Any]) -> dict[str, Any]:
    """What a dead-letter row is in its file."""
    return {name: letter[name] for name in _ROW if name in letter}


def mended_rows(store: CheckpointStore, folder: str) -> list[MendedRow]:
    """The mended rows of the source that has `folder` of the store for itself, in the order of their keys.

    Raises DamagedFileError.
    """
    found = []
    for name in store.list(f"{folder}/{ROWS}"):
        content = decode(_KIND, name, store.get(name))
        try:
            found.append(MendedRow.from_json(content))
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFileError(name, f"can't be read: {error}") from None
    return found


def all_mended_rows(store: CheckpointStore) -> dict[str, list[MendedRow]]:
    """The mended rows of all sources that have any, by the sources' folders. Raises DamagedFileError."""
    names = (name for name in store.list("sources") if f"/{ROWS}/" in name)
    folders = dict.fromkeys(name.partition(f"/{ROWS}/")[0] for name in names)
    return {folder: mended_rows(store, folder) for folder in folders}


def keep_mended(
    store: CheckpointStore,
    folder: str,
    mended: MendedRow,
    known: Collection[MendedRow],
    content: bytes,
    ending: str,
) -> MendedRow | None:
    """Keep a mended row, its key and file being made here, with the `content` that is read instead: wholly or not at all.

    `known` are those of the folder, as far as this command knows; None: another command has kept one of the same row.
    """
    same = sum((one.origin, one.row) == (mended.origin, mended.row) for one in known)
    text = json.dumps([mended.origin, mended.row], sort_keys=True)
    key = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}-{same + 1}"
    file = f"{key}-{content_digest(content)}{ending}"
    kept = replace(mended, key=key, file=file, size=len(content))
    store.put(f"{folder}/{TEXT}/{file}", content)
    try:
        store.put_exclusive(f"{folder}/{ROWS}/{key}.json", encode(_KIND, kept.to_json()))
    except FileExistsError:
        return None
    return kept


def digest_of_read(files: Sequence[str]) -> str:
    """What stands, in the position of a source, for the mended rows that it has read, by their files in this order."""
    return hashlib.sha256("\n".join(files).encode()).hexdigest()[:16]


def read_by(store: CheckpointStore, folder: str, position: Mapping[str, Any]) -> frozenset[str]:
    """The names of all files of the mended rows that a source has read which stands at `position`.

    Raises DamagedFileError if they are not there.
    """
    wanted = position.get("mended")
    if wanted is None:
        return frozenset()
    files: list[str] = []
    for name in store.list(folder):
        if is_mended(name, folder):
            continue
        for path, *_ in json.loads(store.get(name))["files"]:
            if not str(path).startswith(LISTED):
                continue
            files.append(str(path).removeprefix(LISTED))
            if digest_of_read(files) == wanted:
                keys = ("-".join(file.split("-")[:2]) for file in files)
                rows = (f"{folder}/{ROWS}/{key}.json" for key in keys)
                return frozenset([*rows, *(f"{folder}/{TEXT}/{file}" for file in files)])
    raise DamagedFileError(folder, "has other mended rows than the state says")


def is_mended(name: str, folder: str) -> bool:
    """Whether a file of the folder of a source is of a mended row."""
    return name.startswith(f"{folder}/{FOLDER}/")


def content_digest(content: bytes) -> str:
    """What stands for a content in the name of its file."""
    return hashlib.sha256(content).hexdigest()[:16]


def damage(name: str, content: bytes) -> str | None:
    """What is wrong with a file of `TEXT`; None: nothing."""
    digest = name.rpartition("/")[2].partition(".")[0].rpartition("-")[2]
    return None if digest == content_digest(content) else "has another content than its name says"


def not_among(rows: Collection[MendedRow], letters: Collection[Mapping[str, Any]]) -> list[MendedRow]:
    """Those mended rows that are no dead letters, of which each stands for one.

    >>> row = MendedRow("k", "i", "t", "in/a.csv", {"line": 2, "row": "x"}, "f", 1, 0)
    >>> letter = {"origin": "/moved/in/a.csv", "line": 2, "row": "x", "epoch": 7}
    >>> len(not_among([row, row], [letter])), len(not_among([row], [letter])), len(not_among([row], [letter | {"line": 3}]))
    (1, 0, 1)
    """
    left = list(letters)
    missing = []
    for row in rows:
        found = next((n for n, letter in enumerate(left) if row.is_of(letter)), None)
        if found is None:
            missing.append(row)
        else:
            del left[found]
    return missing
