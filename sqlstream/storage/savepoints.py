"""Savepoints: the state of a pipeline after one epoch, under a name, kept until it is deleted.

A savepoint is one file, `savepoints/<name>@<epoch>-<id>.json`, which has the whole manifest of its epoch: what it names
(state, the physical plan, the SQL) is there already and never changes, so that making one costs the same however large
the state is. The garbage collector keeps what savepoints name. The file describes itself: nothing but the state
directory, or an exported copy of the savepoint, is needed to read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from secrets import token_hex

from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream.storage.garbage import RETAINED, files_of
from sqlstream.storage.journal import Journal, damaged
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, suggestion

FOLDER = "savepoints"
_KIND = "savepoint"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_FILE = re.compile(rf"{FOLDER}/(?P<name>[^@/]+)@(?P<epoch>\d+)-(?P<id>[0-9a-f]+)\.json")
#: How often an epoch may overtake the making of a savepoint before it is given up.
_ATTEMPTS = 20


def _name_in(file: str) -> str:
    return file.removeprefix(f"{FOLDER}/").partition("@")[0]


def imported_folder(savepoint_id: str) -> str:
    """Where an imported savepoint has what its sources had listed."""
    return f"{FOLDER}/imported-{savepoint_id}"


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A name for the state after an epoch: `manifest` is that epoch's, without what it made for sinks.

    `id` is random, `created` a time (ISO 8601, UTC). An imported one has what its sources had listed under `prefix`, where
    it can't be taken for what this state directory's own sources have listed.
    """

    name: str
    id: str
    created: str
    manifest: Manifest
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.manifest.epoch:06d}-{self.id}"

    @property
    def file(self) -> str:
        """Its name in the checkpoint store."""
        return f"{FOLDER}/{self}.json"

    @property
    def files(self) -> frozenset[str]:
        """The names of all files that it needs, without those of its sources' folders."""
        return files_of(self.manifest)

    @property
    def source_folders(self) -> frozenset[str]:
        """Where its sources keep what they have listed; nothing there is ever deleted."""
        return frozenset(source.folder for source in self.manifest.positions if source.folder)

    def to_bytes(self) -> bytes:
        """The content of its file."""
        manifest = json.loads(self.manifest.to_bytes())
        about = {"name": self.name, "id": self.id, "created": self.created, "prefix": self.prefix}
        return encode(_KIND, {**about, "manifest": manifest})

    @classmethod
    def from_bytes(cls, path: str, data: bytes) -> Savepoint:
        """Read what `to_bytes` wrote. Raises DamagedFileError."""
        content = decode(_KIND, path, data)
        try:
            manifest = Manifest.from_bytes(path, json.dumps(content["manifest"]).encode())
            return cls(content["name"], content["id"], content["created"], manifest, content["prefix"])
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFileError(path, f"can't be read: {error}") from None


class Savepoints:
    """The savepoints of a state directory. Methods raise DiagnosticError (SAV…, and STA001 for a damaged file)."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._journal = Journal(store)
        self._pinned: dict[str, frozenset[str]] = {}

    def all(self) -> tuple[Savepoint, ...]:
        """All of them, by epoch and then by name: a clock may be set back."""
        found = [self._read(file) for file in self._files()]
        return tuple(sorted(found, key=lambda s: (s.manifest.epoch, s.name, s.id)))

    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(map(_name_in, self._files()))

    def find(self, name: str) -> Savepoint:
        """The savepoint of this name. Raises DiagnosticError (SAV001) if there is none."""
        return self._read(self._files_of(name)[-1])

    def create(self, name: str | None = None, *, now: Callable[[], datetime] | None = None) -> Savepoint:
        """Name the state after the last epoch; a driver may be running meanwhile. The name's default says time and epoch.

        Raises DiagnosticError: SAV002 for a name that is taken or can't be one, SAV003 if no epoch was committed.
        """
        created = (now() if now is not None else datetime.now(UTC)).astimezone(UTC)
        if name is not None:
            self.check_new(name)
        for _ in range(_ATTEMPTS):
            savepoint = self._of_last(name, created)
            self._store.put_exclusive(savepoint.file, savepoint.to_bytes())
            # What the epoch names is collected when RETAINED later ones are there, by a driver that reads the pins after it
            # has published the last of these: if that one is not there yet, it will find this savepoint.
            if self._last_epoch() < savepoint.manifest.epoch + RETAINED:
                return savepoint
            self._store.delete(savepoint.file)
        raise DiagnosticError(
            Diagnostic(
                "SAV003",
                f"no savepoint could be made in {_ATTEMPTS} attempts: too many epochs were committed meanwhile",
                help="run it again, or stop the pipeline first",
            )
        )

    def put(self, savepoint: Savepoint) -> None:
        """Keep a savepoint whose files are there already, such as one that is imported."""
        self._store.put_exclusive(savepoint.file, savepoint.to_bytes())

    def delete(self, name: str) -> None:
        """Forget a savepoint; what only it named is collected when the pipeline runs."""
        for file in self._files_of(name):
            self._store.delete(file)
            found = _FILE.fullmatch(file)
            assert found is not None
            for listed in self._store.list(imported_folder(found["id"])):
                self._store.delete(listed)

    def pinned(self) -> frozenset[str]:
        """The names of all files that savepoints need; read anew where there are new ones.

        Raises DiagnosticError (STA001) for a damaged savepoint: what it needs is not known, so nothing may be collected.
        """
        files = self._files()
        self._pinned = {file: self._pinned.get(file) or self._read(file).files for file in files}
        return frozenset[str]().union(*self._pinned.values())

    def check_new(self, name: str) -> None:
        """Raises DiagnosticError (SAV002) for a name that is taken, or can't be one."""
        if not _NAME.fullmatch(name) or name.isdigit():
            raise DiagnosticError(
                Diagnostic(
                    "SAV002",
                    f"a savepoint can't be called `{name}`",
                    notes=("a number names an epoch",) if name.isdigit() else (),
                    help="a name has letters, digits, `_`, `-` and `.`, at most 100, and does not begin with `-` or `.`",
                ),
                exit_code=2,
            )
        if name in self.names():
            raise DiagnosticError(
                Diagnostic(
                    "SAV002",
                    f"there is a savepoint `{name}` already in {self._store.uri}",
                    help="give another name, or delete that one first",
                ),
                exit_code=2,
            )

    def _of_last(self, name: str | None, created: datetime) -> Savepoint:
        epoch = self._last_epoch()
        if not epoch:
            raise DiagnosticError(
                Diagnostic(
                    "SAV003",
                    f"there is no state in {self._store.uri}: no epoch was committed",
                    help="run the pipeline first, or give its --state-dir",
                )
            )
        try:
            manifest = self._journal.manifest(epoch)
        except FileNotFoundError:  # collected since it was listed
            return self._of_last(name, created)
        kept = replace(manifest, sinks={}, dead_letter_files=())
        default = f"{created:%Y%m%dT%H%M%S}-epoch-{epoch}"
        return Savepoint(name or default, token_hex(4), created.isoformat(timespec="seconds"), kept)

    def _last_epoch(self) -> int:
        _, manifests = self._journal.epochs()
        return manifests[-1] if manifests else 0

    def _files(self) -> list[str]:
        return [file for file in self._store.list(FOLDER) if _FILE.fullmatch(file)]

    def _files_of(self, name: str) -> list[str]:
        """The files of this name: one, unless two processes made one at the same moment."""
        found = [file for file in self._files() if _name_in(file) == name]
        if not found:
            names = sorted(self.names())
            there = ", ".join(names) or "none"
            raise DiagnosticError(
                Diagnostic(
                    "SAV001",
                    f"there is no savepoint `{name}` in {self._store.uri}",
                    notes=(f"there is {there}",),
                    help=suggestion(name, names),
                ),
                exit_code=2,
            )
        return found

    def _read(self, file: str) -> Savepoint:
        try:
            return Savepoint.from_bytes(file, self._store.get(file))
        except DamagedFileError as error:
            raise damaged(error, self._store) from None
