"""Who logs in to Azure, said in each way that its tools know, and what is said where that is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from obstore.store import AzureStore, GCSStore

from sqlstream.connectors.delta.library import open_table, place_and_options
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.filesystem.source_files import SourceFiles
from sqlstream.formats.files import Unit
from sqlstream.planning import plan_file
from sqlstream_operators.errors import StorePlaceError
from sqlstream_operators.state import object_clients
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.object_stores.azure_server import ACCOUNT, KEY, AzureServer, run_azure
from tests.properties.in_process import run_here


@pytest.fixture(scope="module")
def server() -> Iterator[AzureServer]:
    yield from run_azure()


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that says nothing of Azure."""
    for name in list(os.environ):
        if name.startswith("AZURE_"):
            monkeypatch.delenv(name)


def configured(uri: str) -> dict[str, object]:
    """The options that a client was made with."""
    found = object_clients.opened(uri)
    assert isinstance(found, AzureStore)
    return dict(found.config)


def endpoint(server: AzureServer) -> str:
    return f"endpoint={server.endpoint}/{ACCOUNT}"


def ways(server: AzureServer) -> dict[str, tuple[str, dict[str, str]]]:
    """URIs with options, and the environment that goes with them."""
    signature = server.signature()
    signed = server.connection_string(signature=signature)
    named = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT}
    return {
        "key": (f"az://tests/w?{endpoint(server)}&account_name={ACCOUNT}&account_key={quote(KEY)}", {}),
        "key as it is": (f"az://tests/w?{endpoint(server)}&account_name={ACCOUNT}&account_key={KEY}", {}),
        "azure": (
            f"azure://tests/w?{endpoint(server)}&azure_storage_account_name={ACCOUNT}&access_key={quote(KEY)}",
            {},
        ),
        "abfs": (f"abfs://tests/w?{endpoint(server)}&account_name={ACCOUNT}&account_key={quote(KEY)}", {}),
        "host": (
            f"abfss://tests@{ACCOUNT}.dfs.core.windows.net/w?{endpoint(server)}&account_key={quote(KEY)}",
            {},
        ),
        "host and variable": (
            f"abfss://tests@{ACCOUNT}.dfs.core.windows.net/w?{endpoint(server)}",
            {"AZURE_STORAGE_KEY": KEY},
        ),
        "variables": (
            f"az://tests/w?{endpoint(server)}",
            {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY},
        ),
        "command line's variables": (
            f"az://tests/w?{endpoint(server)}",
            {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": KEY},
        ),
        "service endpoint": (
            "az://tests/w",
            {
                "AZURE_STORAGE_ACCOUNT": ACCOUNT,
                "AZURE_STORAGE_KEY": KEY,
                "AZURE_STORAGE_SERVICE_ENDPOINT": f"{server.endpoint}/{ACCOUNT}",
            },
        ),
        "connection string": (
            "az://tests/w",
            {"AZURE_STORAGE_CONNECTION_STRING": server.connection_string()},
        ),
        "connection string of a signature": ("az://tests/w", {"AZURE_STORAGE_CONNECTION_STRING": signed}),
        "connection string in the URI": (
            f"az://tests/w?connection_string={quote(server.connection_string())}",
            {},
        ),
        "signature": (
            f"az://tests/w?{endpoint(server)}&account_name={ACCOUNT}&sas_token={quote(signature)}",
            {},
        ),
        "signature in a variable": (
            f"az://tests/w?{endpoint(server)}",
            {**named, "AZURE_STORAGE_SAS_TOKEN": signature},
        ),
    }


_WAYS = (
    "key",
    "key as it is",
    "azure",
    "abfs",
    "host",
    "host and variable",
    "variables",
    "command line's variables",
    "service endpoint",
    "connection string",
    "connection string of a signature",
    "connection string in the URI",
    "signature",
    "signature in a variable",
)


@pytest.mark.parametrize("way", _WAYS)
def test_ways_to_log_in(server: AzureServer, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    assert set(_WAYS) == set(ways(server))
    uri, environment = ways(server)[way]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    store = CheckpointStore(uri)
    name = way.replace(" ", "-")
    store.put_exclusive(name, b"1")
    assert (store.get(name), name in store.list()) == (b"1", True)
    store.delete_all([name])
    assert not store.exists(name)


@pytest.mark.parametrize("way", ["key", "host and variable", "connection string", "signature"])
def test_delta_logs_in_as_files_do(server: AzureServer, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    import pyarrow as pa

    uri, environment = ways(server)[way]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    place_and_options.cache_clear()
    uri = uri.replace("/w", f"/delta-{_WAYS.index(way)}", 1)
    place, options = place_and_options(uri)
    deltalake.write_deltalake(place, pa.table({"k": [1, 2]}), storage_options=options)
    table = open_table(uri)
    assert table is not None
    assert table.to_pyarrow_table().column("k").to_pylist() == [1, 2]
    place_and_options.cache_clear()


def test_nothing_of_another_account_is_taken(server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is another account's would be sent to a server of somebody else's, and be refused there."""
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", server.connection_string())
    config = configured("az://tests/x?account_name=another")
    assert config == {"container_name": "tests", "account_name": "another"}
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    config = configured("abfss://tests@another.dfs.core.windows.net/x")
    assert "account_key" not in config
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "another")
    assert "account_key" not in configured("az://tests/x")


@pytest.mark.parametrize(
    ("uri", "message", "help_"),
    [
        (
            "az://tests/x",
            "az://tests/x can't be opened: it is not said which account the container is in",
            "account_name",
        ),
        ("az://tests/x?account_name=a&account_key=!!!secret", "Invalid Access Key", ""),
        ("az://tests/x?account_name=a&sas_token=sv=1&ss=b&sig=not-shown", "'ss' is not valid", "%26"),
        (
            "az://tests/x?connection_string=AccountKey%3Dnot-shown",
            "the connection string names no account",
            "",
        ),
    ],
)
def test_what_is_no_account(uri: str, message: str, help_: str) -> None:
    with pytest.raises(StorePlaceError) as raised:
        CheckpointStore(uri)
    assert message in str(raised.value)
    assert help_ in raised.value.help
    assert "shown" not in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("rights", ["rl", "wrong"])
def test_a_signature_is_not_shown(server: AzureServer, tmp_path: Path, rights: str) -> None:
    """It stands in the address of each request, which errors name."""
    signature = server.signature("rl")
    if rights == "wrong":
        signature = signature.replace("sig=", "sig=AAAA")
    secret = signature.partition("sig=")[2]
    uri = f"az://tests/denied?{endpoint(server)}&account_name={ACCOUNT}&sas_token={quote(signature)}"
    store = CheckpointStore(uri)
    with pytest.raises(PermissionError, match="403") as refused:
        store.put("a", b"1")
    assert secret not in str(refused.value)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": 1}\n')
    for connector in (
        "'connector' = 'filesystem', 'format' = 'json', 'path'",
        "'connector' = 'delta', 'table-path'",
    ):
        text = (
            "CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
            f"CREATE TABLE o WITH ({connector} = '{uri}') AS SELECT k FROM t;\n"
        )
        with pytest.raises((DiagnosticError, PermissionError)) as raised:
            run_here(plan_file(text, file="p.sql"), tmp_path, state=f"state-{connector[15:20]}")
        shown = str(raised.value) + repr(raised.value)
        assert secret not in shown
        assert secret not in quote(shown)
    for one in tmp_path.rglob("*"):
        assert not one.is_file() or secret.encode() not in one.read_bytes()
        assert not one.is_file() or quote(secret).encode() not in one.read_bytes()


@pytest.mark.parametrize(
    "uri", ["s3://b/x?region=x", "gs://b/x?bearer_token=x", "az://b/x?account_name=a&account_key=AAAA"]
)
def test_options_of_the_client_are_of_any_store(uri: str) -> None:
    """As one of a store's, `obstore` ends the process for them."""
    for option in (
        "allow_http=true",
        "timeout=5%20seconds",
        "connect_timeout=1s",
        "user_agent=x",
        "allow_http=false",
    ):
        object_clients.opened(f"{uri}&{option}")


def test_an_address_of_google() -> None:
    found = object_clients.opened("gs://b/x?bearer_token=x&endpoint=http://127.0.0.1:1")
    assert isinstance(found, GCSStore)
    assert found.config["base_url"] == "http://127.0.0.1:1"


@pytest.mark.parametrize("scheme", sorted(object_clients.SCHEMES))
def test_an_object_is_whole_when_it_appears(scheme: str) -> None:
    """Whichever scheme names its store, a watched source need not see that nobody writes it any more."""
    watched: Any = SimpleNamespace(
        _options=SimpleNamespace(settle_us=10**9, files=SimpleNamespace(unit=Unit.TEXT))
    )
    assert SourceFiles._is_ready(watched, FileEntry(f"{scheme}://b/one.json", 5, 1), new=True)
