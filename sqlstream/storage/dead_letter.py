"""The dead-letter table: rows that could not be counted, kept as JSON lines, only from committed epochs.

A task's dead letters of an epoch are a file (`sqlstream_operators.task.dead_letters` says what is in it) that it stages
before the manifest, which names it. After the manifest it is put in place, under `dead-letter/`; both steps may be
repeated with the same result, and no row passes through the driver.

An edit that reads a source otherwise, and its history again, finds anew what can't be read: the dead letters of its
malformed rows are withdrawn by the epoch that carries it out, and those that were found then are that epoch's.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlstream.storage.checked_json import DamagedFileError
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.task.dead_letters import STAGED, digest

FOLDER = "dead-letter"
#: Where withdrawn rows are kept, for whoever asks what became of them; no run reads it.
WITHDRAWN = "dead-letter-withdrawn"


def visible_name(staged: str) -> str:
    """The name of a staged file once it is committed.

    >>> visible_name("staging/dead-letter/epoch-000042-0-00003-0123456789abcdef.jsonl")
    'dead-letter/epoch-000042-0-00003.jsonl'
    """
    task = staged.removeprefix(f"{STAGED}/").rsplit("-", 1)[0]
    return f"{FOLDER}/{task}.jsonl"


def withdrawn_name(name: str, epoch: int) -> str:
    """The name of the rows that `epoch` withdrew of a file.

    >>> withdrawn_name("dead-letter/epoch-000042-0-00003.jsonl", 57)
    'dead-letter-withdrawn/by-000057/epoch-000042-0-00003.jsonl'
    """
    return f"{WITHDRAWN}/by-{epoch:06d}/{name.removeprefix(f'{FOLDER}/')}"


def commit(store: CheckpointStore, staged: Iterable[str], *, after_a_crash: bool = False) -> None:
    """Put the staged files of a committed epoch in place. Repeatable: one that is not there is in place.

    `after_a_crash`: another process has written them, so they are checked. Raises DamagedFileError.
    """
    for name in staged:
        if after_a_crash and store.exists(name):
            with store.open(name) as file:
                if digest(file) != name.removesuffix(".jsonl").rsplit("-", 1)[-1]:
                    raise DamagedFileError(name, "has another content than its name says")
        store.move(name, visible_name(name))


def abort_uncommitted(store: CheckpointStore, last_epoch: int) -> None:
    """Remove what epochs after `last_epoch` staged."""
    for name in store.list(STAGED):
        number = name.removeprefix(f"{STAGED}/epoch-").split("-")[0]
        if number.isdigit() and int(number) > last_epoch:
            store.delete(name)


def withdraw(store: CheckpointStore, tables: Collection[str], epoch: int) -> None:
    """Take the malformed rows of some tables out of the dead letters of all epochs before `epoch`. Repeatable.

    They are kept beside, with `withdrawn_in`.
    """
    if not tables:
        return
    for name in of_epochs(store, FOLDER, epoch):
        with tempfile.TemporaryDirectory(prefix="sqlstream-letters-") as made:
            file, beside = Path(made) / "letters", Path(made) / "withdrawn"
            kept = gone = 0
            with file.open("wb") as out, beside.open("w", encoding="utf-8") as withdrawn:
                for line in lines(store, name):
                    letter = json.loads(line)
                    if is_of(letter, tables):
                        withdrawn.write(
                            json.dumps(letter | {"withdrawn_in": epoch}, ensure_ascii=False) + "\n"
                        )
                        gone += 1
                    else:
                        kept += out.write(line + b"\n")
            if gone:
                store.put(withdrawn_name(name, epoch), beside)
            if not kept:
                store.delete(name)
            elif gone:
                store.put(name, file)


def report_again(
    store: CheckpointStore, folder: str, whole: Collection[str], more: Collection[str], epoch: int
) -> tuple[str, int] | None:
    """Stage the malformed rows that a backfill in `folder` found as dead letters of `epoch`: the file's name and how many.

    Of the tables `whole` all, of those in `more` those that are none yet. None: there are none. The same in a retry.
    """
    there: set[str] = set()
    if more:
        for name in of_epochs(store, FOLDER, epoch):
            there |= {row_of(letter) for letter in map(json.loads, lines(store, name)) if is_of(letter, more)}
    number = 0
    with tempfile.TemporaryDirectory(prefix="sqlstream-letters-") as made:
        file = Path(made) / "letters"
        with file.open("w", encoding="utf-8") as out:
            for name in of_epochs(store, f"{folder}/{FOLDER}"):
                for letter in map(json.loads, lines(store, name)):
                    if is_of(letter, whole) or (is_of(letter, more) and row_of(letter) not in there):
                        out.write(json.dumps(letter | {"epoch": epoch}, ensure_ascii=False) + "\n")
                        number += 1
        if not number:
            return None
        with file.open("rb") as content:
            staged = f"{STAGED}/epoch-{epoch:06d}-again-{digest(content)}.jsonl"
        store.put(staged, file)
    return staged, number


def malformed_in(store: CheckpointStore, folder: str, table: str) -> Iterator[dict[str, Any]]:
    """The malformed rows of a table that a backfill in `folder` found."""
    for name in of_epochs(store, f"{folder}/{FOLDER}"):
        yield from (letter for letter in map(json.loads, lines(store, name)) if is_of(letter, {table}))


def of_epochs(store: CheckpointStore, folder: str, before: int | None = None) -> list[str]:
    """The files of dead letters in a folder, of epochs before one."""
    found = []
    for name in store.list(folder):
        number = name.removeprefix(f"{folder}/epoch-").split("-")[0]
        if number.isdigit() and (before is None or int(number) < before):
            found.append(name)
    return found


def lines(store: CheckpointStore, name: str) -> Iterator[bytes]:
    """The rows of a file, as they are written. Raises FileNotFoundError when the first is asked for."""
    with store.open(name) as file:
        rest = b""
        while block := file.read(1 << 20):
            *lines, rest = (rest + block).split(b"\n")
            yield from (line for line in lines if line)
    if rest:
        yield rest


def is_of(letter: Mapping[str, Any], tables: Collection[str]) -> bool:
    """Whether it is a malformed row of one of these tables."""
    return letter.get("kind") == "malformed" and letter.get("source") in tables


def row_of(letter: Mapping[str, Any]) -> str:
    """What stands for the row of a dead letter, whatever was wrong with it."""
    names = ("source", "origin", "line", "position", "row", "row_base64")
    return json.dumps([letter.get(name) for name in names], sort_keys=True)
