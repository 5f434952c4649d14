"""Files in an object store.

An object appears when its upload is complete, and is durable then. `create` is the store's own conditional write
(`If-None-Match: *` in S3): of two writers of one name one is refused. A store that takes both is found out before the
first one, and refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore import ObjectMeta

from sqlstream_operators.errors import StorePlaceError
from sqlstream_operators.state import object_clients
from sqlstream_operators.state.object_clients import client_of, environment, one_line, shown
from sqlstream_operators.state.store_options import missing_place

_T = TypeVar("_T")
_STATUS = re.compile(r"status code: (\d{3})")
#: Of the answers that say that a request is wrong those that say to send it again.
_LATER = frozenset((408, 409, 425, 429))
#: What the names begin with of objects that are created to see whether the store keeps a second one from being created.
_TRIED = ".exclusive-"
#: Bytes of a part of a download.
_PART = 8 << 20


class _Requests:
    """How many requests this process has sent to object stores; pages of lists and parts of large files are not counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.number = 0

    def add(self, more: int) -> None:
        """Count some."""
        with self._lock:
            self.number += more


#: A process's requests are its own, whichever task sends them: who wants to know asks before and after.
_REQUESTS = _Requests()


def requests_sent() -> tuple[str, int]:
    """Which process of which machine this is, and how many requests it has sent to object stores up to now."""
    return f"{os.getpid()}@{os.uname().nodename}", _REQUESTS.number


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as a store lists it: its size in bytes, and when it was written, µs since 1970."""

    name: str
    size: int
    modified_us: int


class ObjectFiles:
    """The objects below a URI by their names, which are relative and `/`-separated.

    Raises StorePlaceError for a URI of no store that there is. All methods raise OSError for what a store does not do,
    PermissionError for what it refuses; names are told as URIs.
    """

    def __init__(self, uri: str) -> None:
        self._shown = shown(uri)
        self._store = client_of(uri, environment())
        self._creates = False

    def put(self, name: str, content: bytes | Path) -> None:
        """Write an object, over one of the same name; a large file in parts."""
        import obstore

        self._asked(name, lambda: obstore.put(self._store, name, content))

    def create(self, name: str, content: bytes) -> None:
        """Write an object that must not exist; raises FileExistsError if another writer was first."""
        import obstore

        def ask() -> None:
            try:
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
            except obstore.exceptions.AlreadyExistsError:
                # The answer to an earlier request may have been lost: then it is refused for that.
                if bytes(obstore.get(self._store, name).bytes()) != content:
                    raise

        self._check_creation()
        self._asked(name, ask)

    def get(self, name: str) -> bytes:
        """The bytes of an object; raises FileNotFoundError."""
        import obstore

        return self._asked(name, lambda: bytes(obstore.get(self._store, name).bytes()))

    def open(self, name: str) -> pa.NativeFile:
        """An object to read from its beginning on, in parts; raises FileNotFoundError."""
        import obstore
        import pyarrow as pa

        reader = self._asked(name, lambda: obstore.open_reader(self._store, name, buffer_size=_PART))
        return pa.PythonFile(_Reading(self, name, reader), mode="r")

    def download(self, name: str, target: Path) -> None:
        """Copy an object to a local file; raises FileNotFoundError."""
        import obstore

        def ask() -> None:
            found = obstore.get(self._store, name)
            with target.open("wb") as out:
                for part in found.stream(min_chunk_size=_PART):
                    out.write(part)

        self._asked(name, ask)

    def size(self, name: str) -> int | None:
        """The bytes of an object, None if there is none of that name."""
        found = self.info(name)
        return None if found is None else found.size

    def info(self, name: str) -> ObjectInfo | None:
        """An object without its content, None if there is none of that name."""
        import obstore

        try:
            return self._asked(name, lambda: _info(obstore.head(self._store, name)))
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> list[str]:
        """The names of all objects in the folder `prefix` and below it, sorted."""
        return [one.name for one in self.infos(prefix)]

    def infos(self, prefix: str) -> Sequence[ObjectInfo]:
        """All objects in the folder `prefix` and below it, sorted by their names."""
        import obstore

        def ask() -> dict[str, ObjectInfo]:
            parts = obstore.list(self._store, prefix or None)
            return {one["path"]: _info(one) for part in parts for one in part}

        found = self._asked(prefix, ask)
        return [found[name] for name in _files({n: one.size for n, one in found.items()}, prefix)]

    def folder(self, prefix: str) -> tuple[Sequence[ObjectInfo], Sequence[str]]:
        """The objects that are right in the folder `prefix`, and the folders there."""
        import obstore

        def ask() -> tuple[Sequence[ObjectInfo], Sequence[str]]:
            found = obstore.list_with_delimiter(self._store, prefix or None)
            folders = sorted(found["common_prefixes"])
            marks = {prefix, *folders}
            infos = [_info(one) for one in found["objects"] if one["size"] or one["path"] not in marks]
            return infos, folders

        return self._asked(prefix, ask)

    def is_folder(self, prefix: str) -> bool:
        """Whether there is an object below a name, or another tool's mark of the folder."""
        import obstore

        return self._asked(
            prefix, lambda: any(part for part in obstore.list(self._store, prefix or None, chunk_size=1))
        )

    def delete(self, name: str) -> None:
        """Delete an object; it is no error if there is none."""
        import obstore

        with contextlib.suppress(FileNotFoundError):
            self._asked(name, lambda: obstore.delete(self._store, name))

    def delete_all(self, names: Sequence[str]) -> None:
        """Delete objects, a thousand with a request where the store can do that; it is no error if some are not there."""
        import obstore

        if not names:
            return
        try:
            self._asked(names[0], lambda: obstore.delete(self._store, names))
        except FileNotFoundError:  # so some stores say of one of them, and which others are left is not known
            for name in names:
                self.delete(name)

    def move(self, name: str, target: str) -> None:
        """Give an object another name, over one of that name; it is no error if there is none."""
        import obstore

        with contextlib.suppress(FileNotFoundError):
            self._asked(name, lambda: obstore.rename(self._store, name, target), requests=2)

    def _check_creation(self) -> None:
        """Raises StorePlaceError if the store writes an object over one that it was to create."""
        import obstore

        if self._creates:
            return
        name = f"{_TRIED}{uuid.uuid4().hex}"

        def ask(content: bytes) -> bool:
            try:
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
            except obstore.exceptions.AlreadyExistsError:
                return False
            except NotImplementedError:  # an option says that it can't
                return True
            return True

        self._asked(name, lambda: ask(b"first"))
        self._creates = not self._asked(name, lambda: ask(b"second"))
        self.delete(name)
        if not self._creates:
            raise StorePlaceError(
                f"{self._shown} can't hold checkpoints: the store does not keep a second object of a name from being "
                "created (conditional writes, If-None-Match), so that two drivers could both commit"
            )

    def _asked(self, name: str, ask: Callable[[], _T], requests: int = 1) -> _T:
        """What a store answers to some requests, asked again where it does not: all that is asked here may be done twice.

        `obstore` repeats only what it knows to be so, and nothing once an answer has begun.
        """
        deadline, pause = time.monotonic() + object_clients.RETRY_S, 0.1
        while True:
            _REQUESTS.add(requests)
            try:
                with self._errors(name):
                    return ask()
            except (FileNotFoundError, FileExistsError, PermissionError, _RefusedError):
                raise
            except OSError:
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, object_clients.PAUSE_S)

    @contextlib.contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        """Errors of the store as Python's, in a line."""
        from obstore import exceptions

        place = f"{self._shown.rstrip('/')}/{name}"
        try:
            yield
        except exceptions.AlreadyExistsError:
            raise FileExistsError(place) from None
        except (exceptions.BaseError, FileNotFoundError) as error:
            text = one_line(error)
            status = _STATUS.search(text)
            code = 0 if status is None else int(status[1])
            what = missing_place(text)
            if what is not None:
                raise StorePlaceError(
                    f"{self._shown}: there is no such {what}", "create it, or name another one"
                ) from None
            if isinstance(error, FileNotFoundError):
                raise FileNotFoundError(place) from None
            denied = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
            if denied or code in (401, 403):
                raise PermissionError(f"{place}: {text}") from None
            final = 400 <= code < 500 and code not in _LATER
            raise (_RefusedError if final else OSError)(f"{place}: {text}") from None


class _RefusedError(OSError):
    """A request that would be answered in the same way again."""


class _Reading:
    """An object as Python reads files."""

    def __init__(self, files: ObjectFiles, name: str, reader: Any) -> None:
        self._files, self._name, self._reader = files, name, reader
        self._at = self._fetched = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes, none at the end."""

        def ask() -> bytes:
            self._reader.seek(self._at)
            return bytes(self._reader.read(None if size < 0 else size))

        end = self._reader.size if size < 0 else min(self._at + size, self._reader.size)
        parts = -(-max(end - max(self._at, self._fetched), 0) // _PART)
        found = self._files._asked(self._name, ask, requests=parts)
        self._fetched = max(self._fetched, self._at) + parts * _PART if parts else self._fetched
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on elsewhere."""
        self._reader.seek(self._at)
        before, self._at = self._at, int(self._reader.seek(offset, whence))
        if self._at < before:
            self._fetched = self._at  # what is buffered is ahead
        return self._at

    def tell(self) -> int:
        """Where it is."""
        return self._at

    def close(self) -> None:
        """Read no more."""
        if not self.closed:
            self._reader.close()
        self.closed = True


def _info(found: ObjectMeta) -> ObjectInfo:
    """An object as `obstore` describes it."""
    return ObjectInfo(found["path"], found["size"], round(found["last_modified"].timestamp() * 1_000_000))


def _files(sizes: Mapping[str, int], folder: str) -> list[str]:
    """The names of files among those of objects, sorted: an empty object with a folder's name is other tools' mark of it.

    >>> _files({"": 0, "a": 0, "a/b": 0, "a/b/c": 0, "d": 7, ".exclusive-1": 5}, "")
    ['a/b/c', 'd']
    >>> _files({"a": 0, "a/x": 1}, "a"), _files({"a": 0}, "a")
    (['a/x'], [])
    """
    folders = {folder}
    for name in sizes:
        parts = name.split("/")
        folders |= {"/".join(parts[:count]) for count in range(1, len(parts))}
    return sorted(
        name for name, size in sizes.items() if (size or name not in folders) and _TRIED not in name
    )
