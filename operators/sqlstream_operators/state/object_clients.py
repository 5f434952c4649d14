"""Clients of object stores by their URIs: S3 and what speaks its protocol, Google Cloud Storage, Azure; by `obstore`.

A URI is `s3://bucket/path`, `gs://…` or `abfss://container@account…/path`, with options of the store behind `?`: those of
`obstore`, and of `pyarrow` those that URIs of former versions have (`region`, `endpoint_override`, `scheme`). Credentials
are found as the clouds' tools find them: in the environment, in the machine's or pod's identity, and, where `boto3` is
installed, in the profiles of the AWS command line.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

if TYPE_CHECKING:
    from obstore.store import ObjectStore

from sqlstream_operators.errors import MachineError, StorePlaceError
from sqlstream_operators.state.store_options import split_client, store_config, without_signatures

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
RETRY_S, PAUSE_S = 60, 5
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


def environment() -> tuple[tuple[str, str], ...]:
    """What of the environment clients are made of."""
    found = ((name, value) for name, value in os.environ.items() if name.startswith(_CLOUDS))
    return tuple(sorted(found))


@functools.lru_cache(maxsize=32)
def client_of(uri: str, environment: tuple[tuple[str, str], ...]) -> ObjectStore:
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
                "retry_timeout": timedelta(seconds=RETRY_S),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=PAUSE_S),
                    "base": 2,
                },
            },
            credential_provider=_profile() if kind == "s3" and "access_key_id" not in config else None,
        )
    except (exceptions.BaseError, ValueError) as error:
        raise _not_opened(uri, one_line(error)) from None
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


def one_line(error: Exception) -> str:
    """What an error says, without what is for obstore's developers.

    >>> one_line(OSError("Error performing PUT http://169.254.169.254/latest/api/token: timeout"))
    'no key is set for it, and this machine has none of its own'
    """
    text = without_signatures(" ".join(str(error).partition("\n\nDebug source")[0].split()))
    # Where the machines of clouds ask for the key of their role, which is tried last.
    return "no key is set for it, and this machine has none of its own" if _ROLES.search(text) else text
