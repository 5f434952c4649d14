"""What opens an object store beside its name, as `obstore` calls it: options of its URI, of its HTTP client, and what the
clouds' own tools find in the environment that `obstore` does not look for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

#: What pyarrow calls options of `obstore`.
_RENAMED = {"force_virtual_addressing": "virtual_hosted_style_request"}
#: Options that are the HTTP client's, whichever store it asks; as a store's, `obstore` stops the process for them.
CLIENT = frozenset(
    (
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_max_frame_size",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    )
)
_TRUE = frozenset(("true", "1", "yes", "on", "y"))
#: Those of them that are yes or no.
_FLAGS = frozenset(
    (
        "allow_http",
        "allow_invalid_certificates",
        "http1_only",
        "http2_keep_alive_while_idle",
        "http2_only",
        "randomize_addresses",
    )
)
#: What options of Azure may begin with, and which of them say who logs in.
_AZURE = re.compile(r"^(?:azure_)?(?:storage_)?")
_LOGINS = frozenset(
    (
        "account_key",
        "access_key",
        "master_key",
        "sas_key",
        "sas_token",
        "token",
        "bearer_token",
        "client_id",
        "client_secret",
        "federated_token_file",
        "skip_signature",
        "use_azure_cli",
        "use_emulator",
    )
)
#: Variables that Azure's command line has, and `obstore` has not.
_VARIABLES = {
    "AZURE_STORAGE_ACCOUNT": "account_name",
    "AZURE_STORAGE_KEY": "account_key",
    "AZURE_STORAGE_SERVICE_ENDPOINT": "endpoint",
}
_CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
_ACCOUNT = re.compile(r"(?:https?://)?([\w-]+)\.(?:blob|dfs)\.")
#: What of an address, in what a store's client says of a request, lets others in.
_SIGNED = re.compile(r"(?i)([?&](?:sig|x-amz-signature|x-goog-signature|x-amz-security-token)=)[^&\s]+")


def store_config(
    kind: str,
    host: str,
    login: tuple[str, str] | None,
    options: Mapping[str, str],
    environment: Mapping[str, str],
) -> dict[str, str]:
    """The options of a URI as `obstore` calls them, with those of the environment that it does not look for.

    `kind` is the store's (`s3`, `gs`, `az`), `host` what stands for one in the URI.
    Raises ValueError for a connection string of Azure that is none.

    >>> store_config("s3", "b", ("key", "secret"), {"endpoint_override": "h:9000", "scheme": "http", "region": "x"}, {})
    {'endpoint': 'http://h:9000', 'region': 'x', 'access_key_id': 'key', 'secret_access_key': 'secret'}
    >>> store_config("gs", "b", None, {"endpoint": "http://h:1"}, {})
    {'base_url': 'http://h:1'}
    """
    config = {_RENAMED.get(name, name): value for name, value in options.items()}
    scheme = config.pop("scheme", "https")
    if "endpoint_override" in config:
        endpoint = config.pop("endpoint_override")
        config = {"endpoint": endpoint if "://" in endpoint else f"{scheme}://{endpoint}", **config}
    if login is not None:
        config |= {"access_key_id": login[0], "secret_access_key": login[1]}
    if kind == "gs" and "endpoint" in config:
        config["base_url"] = config.pop("endpoint")
    return _azure(host, config, environment) if kind == "az" else config


def split_client(config: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str | bool]]:
    """The options of a store, and those of its HTTP client.

    >>> split_client({"region": "x", "allow_http": "true", "timeout": "5 seconds"})
    ({'region': 'x'}, {'allow_http': True, 'timeout': '5 seconds'})
    """
    client: dict[str, str | bool] = {
        name: value.lower() in _TRUE if name in _FLAGS else value
        for name, value in config.items()
        if name in CLIENT
    }
    plain = any(config.get(name, "").startswith("http://") for name in ("endpoint", "base_url"))
    store = {name: value for name, value in config.items() if name not in CLIENT}
    return store, client | ({"allow_http": True} if plain else {})


def without_signatures(text: str) -> str:
    """What a store's client says, without what lets others in.

    >>> without_signatures("GET http://h/c?sv=1&sig=abc%3D&se=2 in 3 ms")
    'GET http://h/c?sv=1&sig=***&se=2 in 3 ms'
    """
    return _SIGNED.sub(r"\1***", text)


def missing_place(text: str) -> str | None:
    """What else than an object a store says that there is not.

    >>> missing_place("404 Not Found: <Code>NoSuchBucket</Code>"), missing_place("404 Not Found: <Code>NoSuchKey</Code>")
    ('bucket', None)
    """
    if "ContainerNotFound" in text or "specified container does not exist" in text:
        return "container"
    return "bucket" if "NoSuchBucket" in text else None


def _azure(host: str, config: dict[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Azure's options: what the URI says, and of what the environment says for Azure's other tools what `obstore`
    would not find there: nothing that is another account's.
    """
    said = connection_options(config.pop("connection_string", "")) | config
    # A key is Base64: it has no space, and a + in a URI is read as one.
    said = {n: v.replace(" ", "+") if _short(n) == "account_key" else v for n, v in said.items()}
    own = {_short(name): value for name, value in said.items()}
    if "use_emulator" in own:
        return said
    in_host = _ACCOUNT.match(host.rpartition("@")[2])
    account = own.get("account_name") or (None if in_host is None else in_host[1])
    account = account or environment.get("AZURE_STORAGE_ACCOUNT_NAME")
    taken = {*own, *(_short(name.lower()) for name in environment if name.startswith("AZURE_STORAGE_"))}
    variables = {name: environment[found] for found, name in _VARIABLES.items() if environment.get(found)}
    for more in (variables, connection_options(environment.get(_CONNECTION, ""))):
        if account is not None and more.get("account_name", account) != account:
            continue
        account = account or more.get("account_name")
        logs_in = bool(_LOGINS & taken)
        added = {n: v for n, v in more.items() if n not in taken and not (logs_in and n in _LOGINS)}
        if in_host is not None:
            added.pop("account_name", None)
        said, taken = added | said, taken | added.keys()
    return said


def _short(name: str) -> str:
    """An option of Azure without what it may begin with; two of them have another name, too.

    >>> _short("azure_storage_account_key"), _short("account_name")
    ('account_key', 'account_name')
    """
    return _AZURE.sub("", name)


def connection_options(text: str) -> dict[str, str]:
    """What a connection string of Azure's portal says, as options. Raises ValueError if it is none.

    >>> connection_options("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;EndpointSuffix=core.windows.net")
    {'account_name': 'a', 'account_key': 'k=='}
    >>> connection_options("BlobEndpoint=http://127.0.0.1:1/a;AccountName=a;AccountKey=k==;")
    {'account_name': 'a', 'account_key': 'k==', 'endpoint': 'http://127.0.0.1:1/a'}
    >>> connection_options("BlobEndpoint=https://a.blob.core.windows.net/;SharedAccessSignature=sv=1&sig=x")
    {'account_name': 'a', 'sas_token': 'sv=1&sig=x', 'endpoint': 'https://a.blob.core.windows.net'}
    """
    if not text:
        return {}
    parts = [part.partition("=") for part in text.split(";") if part.strip()]
    said = {name.strip().lower(): value.strip() for name, _, value in parts}
    if said.get("usedevelopmentstorage", "").lower() == "true":
        return {"account_name": "devstoreaccount1", "use_emulator": "true"}
    endpoint = said.get("blobendpoint", "").rstrip("/")
    named = _ACCOUNT.match(endpoint)
    account = said.get("accountname") or ("" if named is None else named[1])
    if not account:
        raise ValueError("the connection string names no account: AccountName=…;AccountKey=…")
    suffix = said.get("endpointsuffix", "core.windows.net")
    if not endpoint and suffix != "core.windows.net":
        endpoint = f"{said.get('defaultendpointsprotocol', 'https')}://{account}.blob.{suffix}"
    found = {
        "account_name": account,
        "account_key": said.get("accountkey", ""),
        "sas_token": said.get("sharedaccesssignature", ""),
        "endpoint": endpoint,
    }
    return {name: value for name, value in found.items() if value}
