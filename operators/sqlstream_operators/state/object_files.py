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
import functools
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

from sqlstream_operators.errors import MachineError, StorePlaceError
from sqlstream_operators.state.store_options import (
    missing_place,
    split_client,
    store_config,
    without_signatures,
)

_T = TypeVar("_T")
_STATUS = re.compile(r"status code: (\d{3})")
#: Of the answers that say that a request is wrong those that say to send it again.
_LATER = frozenset((408, 409, 425, 429))
#: The schemes of URIs, and the kind of store each is.
SCHEMES = {
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
#: How to say which account of Azure a container is in.
_WHICH_ACCOUNT = "add ?account_name=… to the URI, or set AZURE_STORAGE_ACCOUNT_NAME"
#: What the AWS command line keeps its profiles in, and what other sources of credentials are found by.
_PROFILES = ("~/.aws/credentials", "~/.aws/config")
#: What names of variables of the environment begin with that say something of a cloud's stores.
_CLOUDS = ("AWS_", "AZURE_", "GOOGLE_", "MSI_", "IDENTITY_", "FABRIC_", "HOME")
#: Who says which region a bucket is in, how long that is waited for (s), and what of the environment says it, too.
_AMAZON, _REGION_S = "https://s3.amazonaws.com", 5
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_ROLES = re.compile(r"//(169\.254\.169\.254|metadata\.google\.internal)\b")
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)


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
        self._store = _client(uri, _environment())
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
        deadline, pause = time.monotonic() + _RETRY_S, 0.1
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


def _environment() -> tuple[tuple[str, str], ...]:
    """What of the environment clients are made of."""
    found = ((name, value) for name, value in os.environ.items() if name.startswith(_CLOUDS))
    return tuple(sorted(found))


@functools.lru_cache(maxsize=32)
def _client(uri: str, environment: tuple[tuple[str, str], ...]) -> ObjectStore:
    """A store's client, with the connections that it keeps open: tasks of one process share them."""
    return opened(uri)


def opened(uri: str) -> ObjectStore:
    """The store of a URI, with its path before all names. Raises StorePlaceError."""
    kind, place, config = _parts(uri)
    # Importing it takes longer than a look at a local state.
    from obstore import exceptions
    from obstore.store import from_url

    try:
        options, client = split_client(config)
        make: Any = from_url  # it is declared for each kind of store
        made: ObjectStore = make(
            place,
            config=options,
            client_options=client,
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
        raise _not_opened(uri, _line(error)) from None
    return made


def _not_opened(uri: str, why: str) -> StorePlaceError:
    """The error of a URI of no store that can be, with what to write instead where that is known."""
    help_ = ""
    if "Account must be specified" in why:
        why, help_ = "it is not said which account the container is in", _WHICH_ACCOUNT
    elif "not valid for store" in why and "sas_" in uri:
        help_ = "write %26 for each & of a SAS token in a URI, or set AZURE_STORAGE_SAS_TOKEN"
    return StorePlaceError(f"{shown(uri)} can't be opened: {why}", help_)


def store_settings(uri: str) -> tuple[str, dict[str, str]]:
    """A URI without login and options, and these as libraries take them that stand on Rust's `object_store`, too.

    Raises StorePlaceError.
    """
    _, place, config = _parts(uri)
    _, client = split_client(config)
    if client.get("allow_http"):
        config["allow_http"] = "true"
    return place, config


def _parts(uri: str) -> tuple[str, str, dict[str, str]]:
    """The kind of a URI's store, the URI without login and options, and these as `obstore` calls them."""
    found = urlsplit(uri)
    kind = SCHEMES.get(found.scheme)
    if kind is None:
        raise StorePlaceError(
            f"{shown(uri)} can't be opened: there is no store '{found.scheme}://'; there are "
            f"{', '.join(sorted(SCHEMES))} and local paths"
        )
    # Of Azure's URIs the container stands there.
    login = _login(found.netloc) if kind == "s3" else None
    host = found.netloc if login is None else found.netloc.rpartition("@")[2]
    try:
        config = store_config(kind, host, login, dict(parse_qsl(found.query)), os.environ)
    except ValueError as error:
        raise _not_opened(uri, str(error)) from None
    if kind == "s3" and host and not _has_region(config):
        config |= _region_of(host)
    return kind, f"{found.scheme}://{host}{found.path}", config


def shown(uri: str) -> str:
    """A URI for messages: without its options, and without who logs in.

    >>> shown("s3://key:secret@bucket/path?region=x"), shown("abfss://files@account.dfs.core.windows.net/x")
    ('s3://bucket/path', 'abfss://files@account.dfs.core.windows.net/x')
    >>> shown("s3://key:se/cret@bucket/path")
    's3://key:***'
    """
    scheme, mark, rest = uri.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    if ":" in host and _login(host) is None:  # a secret with a / or a ? in it, which ends there
        return f"{scheme}{mark}{host.partition(':')[0]}:***"
    return f"{scheme}{mark}{host if _login(host) is None else host.rpartition('@')[2]}{slash}{path}"


def _login(host: str) -> tuple[str, str] | None:
    """The key and the secret that stand before a bucket.

    >>> _login("key:se%2Fcret@bucket"), _login("bucket")
    (('key', 'se/cret'), None)
    """
    key, colon, secret = host.rpartition("@")[0].partition(":")
    return (unquote(key), unquote(secret)) if colon else None


def _has_region(config: Mapping[str, str]) -> bool:
    """Whether it is said which region a bucket is in, or that it is not Amazon's."""
    said = {
        "region",
        "aws_region",
        "default_region",
        "endpoint",
        "aws_endpoint",
        "endpoint_url",
    } & config.keys()
    return bool(said) or any(os.environ.get(name) for name in _REGIONS)


def _region_of(bucket: str) -> dict[str, str]:
    """The region of a bucket, which Amazon tells anybody; nothing if it does not answer."""
    import urllib.error  # they take longer to import than a look at a local state
    import urllib.request

    request = urllib.request.Request(f"{_AMAZON}/{quote(bucket)}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_REGION_S) as answer:
            region = answer.headers.get("x-amz-bucket-region")
    except urllib.error.HTTPError as refused:  # it is told with any answer
        region = refused.headers.get("x-amz-bucket-region")
    except OSError:
        return {}
    return {"region": region} if region else {}


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
    """What an error says, without what is for obstore's developers.

    >>> _line(OSError("Error performing PUT http://169.254.169.254/latest/api/token: timeout"))
    'no key is set for it, and this machine has none of its own'
    """
    text = without_signatures(" ".join(str(error).partition("\n\nDebug source")[0].split()))
    # Where the machines of clouds ask for the key of their role, which is tried last.
    return "no key is set for it, and this machine has none of its own" if _ROLES.search(text) else text
