"""Files in an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure; by `obstore`.

An object appears when its upload is complete, and is durable then. `create` is the store's own conditional write
(`If-None-Match: *` in S3): of two writers of one name one is refused. A store that takes both is found out before the
first one, and refused.

A URI is `s3://bucket/path`, `gs://…` or `abfss://container@account…/path`, with options of the store behind `?`: those of
`obstore`, and of `pyarrow` those that URIs of former versions have (`region`, `endpoint_override`, `scheme`). Credentials
are found as the clouds' tools find them: in the environment, in the machine's or pod's identity, and, where `boto3` is
installed, in the profiles of the AWS command line.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore.store import ObjectStore

from sqlstream_operators.errors import MachineError, StorePlaceError

_T = TypeVar("_T")
_STATUS = re.compile(r"status code: (\d{3})")
#: Of the answers that say that a request is wrong those that say to send it again.
_LATER = frozenset((408, 409, 425, 429))
#: The schemes of URIs, and the kind of store each is.
_SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "azure": "az",
    "adl": "az",
    "abfs": "az",
    "abfss": "az",
}
#: How long a request is repeated that a store does not answer, or answers with "later" (HTTP 429, 500, 503), and the
#: longest pause before it is, s.
_RETRY_S, _PAUSE_S = 60, 5
#: What the names begin with of objects that are created to see whether the store keeps a second one from being created.
_TRIED = ".exclusive-"
#: Bytes of a part of a download.
_PART = 8 << 20
#: What the AWS command line keeps its profiles in, and what other sources of credentials are found by.
_PROFILES = ("~/.aws/credentials", "~/.aws/config")
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)


class ObjectFiles:
    """The objects below a URI by their names, which are relative and `/`-separated.

    Raises StorePlaceError for a URI of no store that there is. All methods raise OSError for what a store does not do,
    PermissionError for what it refuses; names are told as URIs.
    """

    def __init__(self, uri: str) -> None:
        self._shown = shown(uri)
        self._store = opened(uri)
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
        import obstore

        try:
            return self._asked(name, lambda: int(obstore.head(self._store, name)["size"]))
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> list[str]:
        """The names of all objects in the folder `prefix` and below it, sorted."""
        import obstore

        def ask() -> dict[str, int]:
            parts = obstore.list(self._store, prefix or None)
            return {str(one["path"]): int(one["size"]) for part in parts for one in part}

        return _files(self._asked(prefix, ask), prefix)

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
            self._asked(name, lambda: obstore.rename(self._store, name, target))

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

    def _asked(self, name: str, ask: Callable[[], _T]) -> _T:
        """What a store answers, asked again where it does not: all that is asked here may be done twice.

        `obstore` repeats only what it knows to be so, and nothing once an answer has begun.
        """
        deadline, pause = time.monotonic() + _RETRY_S, 0.1
        while True:
            try:
                with self._errors(name):
                    return ask()
            except (FileNotFoundError, FileExistsError, PermissionError, _RefusedError):
                raise
            except OSError:
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, _PAUSE_S)

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
            text = _line(error)
            status = _STATUS.search(text)
            code = 0 if status is None else int(status[1])
            if "NoSuchBucket" in text or "ContainerNotFound" in text:
                raise StorePlaceError(f"{self._shown}: there is no such bucket") from None
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
        self._at = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes, none at the end."""

        def ask() -> bytes:
            self._reader.seek(self._at)
            return bytes(self._reader.read(None if size < 0 else size))

        found = self._files._asked(self._name, ask)
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on elsewhere."""
        self._reader.seek(self._at)
        self._at = int(self._reader.seek(offset, whence))
        return self._at

    def tell(self) -> int:
        """Where it is."""
        return self._at

    def close(self) -> None:
        """Read no more."""
        if not self.closed:
            self._reader.close()
        self.closed = True


def opened(uri: str) -> ObjectStore:
    """The store of a URI, with its path before all names. Raises StorePlaceError."""
    found = urlsplit(uri)
    kind = _SCHEMES.get(found.scheme)
    if kind is None:
        raise StorePlaceError(
            f"{shown(uri)} can't be opened: there is no store '{found.scheme}://'; there are "
            f"{', '.join(sorted(_SCHEMES))} and local paths"
        )
    # Importing it takes longer than a look at a local state.
    from obstore import exceptions
    from obstore.store import from_url

    # Of Azure's URIs the container stands there.
    login = _login(found.netloc) if kind == "s3" else None
    host = found.netloc if login is None else found.netloc.rpartition("@")[2]
    try:
        config = _config(login, dict(parse_qsl(found.query)))
        plain = config.get("allow_http") == "true" or str(config.get("endpoint", "")).startswith("http://")
        make: Any = from_url  # it is declared for each kind of store
        made: ObjectStore = make(
            f"{found.scheme}://{host}{found.path}",
            config=config,
            client_options={"allow_http": plain},
            retry_config={
                "max_retries": 1000,
                "retry_timeout": timedelta(seconds=_RETRY_S),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=_PAUSE_S),
                    "base": 2,
                },
            },
            credential_provider=_profile() if kind == "s3" and "access_key_id" not in config else None,
        )
    except (exceptions.BaseError, ValueError) as error:
        raise StorePlaceError(f"{shown(uri)} can't be opened: {_line(error)}") from None
    return made


def shown(uri: str) -> str:
    """A URI for messages: without its options, and without who logs in.

    >>> shown("s3://key:secret@bucket/path?region=x"), shown("abfss://files@account.dfs.core.windows.net/x")
    ('s3://bucket/path', 'abfss://files@account.dfs.core.windows.net/x')
    """
    scheme, mark, rest = uri.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host if _login(host) is None else host.rpartition('@')[2]}{slash}{path}"


def _login(host: str) -> tuple[str, str] | None:
    """The key and the secret that stand before a bucket.

    >>> _login("key:se%2Fcret@bucket"), _login("bucket")
    (('key', 'se/cret'), None)
    """
    key, colon, secret = host.rpartition("@")[0].partition(":")
    return (unquote(key), unquote(secret)) if colon else None


def _config(login: tuple[str, str] | None, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a URI as `obstore` calls them.

    >>> _config(("key", "secret"), {"endpoint_override": "h:9000", "scheme": "http", "region": "x"})
    {'endpoint': 'http://h:9000', 'region': 'x', 'access_key_id': 'key', 'secret_access_key': 'secret'}
    """
    config = dict(options)
    scheme = config.pop("scheme", "https")
    if "endpoint_override" in config:
        endpoint = config.pop("endpoint_override")
        config = {"endpoint": endpoint if "://" in endpoint else f"{scheme}://{endpoint}", **config}
    if login is not None:
        config |= {"access_key_id": login[0], "secret_access_key": login[1]}
    return config


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


def _profile() -> Any:
    """Credentials of a profile of the AWS command line, if there is one and nothing else to log in by."""
    if any(os.environ.get(name) for name in _CREDENTIALS):
        return None
    named = os.environ.get("AWS_PROFILE") is not None
    if not named and not any(Path(place).expanduser().exists() for place in _PROFILES):
        return None
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        if named:
            raise MachineError(
                "AWS_PROFILE is set, and profiles are read by boto3, which is not installed: pip install boto3"
            ) from None
        return None
    session = boto3.Session()
    return None if session.get_credentials() is None else Boto3CredentialProvider(session)


def _line(error: Exception) -> str:
    """What an error says, without what is for obstore's developers."""
    return " ".join(str(error).partition("\n\nDebug source")[0].split())
