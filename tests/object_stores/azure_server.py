"""An Azure Blob server of the tests' own: Azurite, Microsoft's emulator, from the npm registry, one process on a free port.

It checks signatures (Shared Key, SAS) and conditions, and has block lists, list pages and batches of deletions;
tests/object_stores/test_stores.py sees that it does. It is installed once a machine, into `sqlstream-tests` of the folder of
caches; where there is no npm or no way to the registry, tests skip and say which is missing.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import hashlib
import hmac
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.jars import free_ports
from tests.object_stores.store_server import StoreServer

_VERSION = "3.37.0"
#: An account with a key of the tests' own, with each of the characters in it that URIs give another meaning.
ACCOUNT = "sqlstreamtests"
KEY = base64.b64encode(b"\xfb\xef\xbe" + b"\xff\xff\xff" + b"tests-secret-not-shown").decode()
_API = "2023-11-03"


@dataclass(slots=True)
class AzureServer(StoreServer):
    """A server of Azure's blobs."""

    def uri(self, path: str, *, login: bool = True, port: int | None = None) -> str:
        """Where a path in the container is."""
        options = {
            "endpoint": f"http://127.0.0.1:{port or self.port}/{ACCOUNT}",
            **({"account_name": ACCOUNT, "account_key": KEY} if login else {}),
        }
        return f"az://{self.bucket}/{path}?{urlencode(options, safe=':/')}"

    def refused(self, path: str) -> str:
        """A URI with another key."""
        wrong = base64.b64encode(b"somebody else's, and not shown").decode()
        return self.uri(path).replace(quote(KEY, safe=":/"), quote(wrong, safe=":/"))

    def environment(self) -> Mapping[str, str]:
        """As the Azure command line has it."""
        return {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": KEY}

    def connection_string(self, *, signature: str = "") -> str:
        """As the portal shows it, with the key or a signature."""
        who = f"SharedAccessSignature={signature}" if signature else f"AccountKey={KEY}"
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};{who};BlobEndpoint={self.endpoint}/{ACCOUNT};"

    def signature(self, rights: str = "racwdl") -> str:
        """A shared access signature (SAS) of the container, for an hour."""
        end = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        parts = [rights, "", end, f"/blob/{ACCOUNT}/{self.bucket}", "", "", "", _API, "c", *[""] * 7]
        fields = {"sv": _API, "sr": "c", "sp": rights, "se": end, "sig": _signed("\n".join(parts))}
        return urlencode(fields)

    def kill(self) -> None:
        """End it so that it writes down what it has: it keeps for some seconds in memory which blobs there are."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
        self.process = None

    def signed_uri(self, path: str, *, port: int | None = None) -> str:
        """A URI with a signature instead of the key: its requests are not signed one by one."""
        endpoint = f"http://127.0.0.1:{port or self.port}/{ACCOUNT}"
        options = {"endpoint": endpoint, "account_name": ACCOUNT, "sas_token": self.signature()}
        return f"az://{self.bucket}/{path}?{urlencode(options, safe=':/')}"

    def create(self, container: str) -> None:
        """Make a container."""
        now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        text = (
            "PUT" + "\n" * 12 + f"x-ms-date:{now}\nx-ms-version:{_API}\n/{ACCOUNT}/{ACCOUNT}/{container}\n"
            "restype:container"
        )
        headers = {
            "x-ms-date": now,
            "x-ms-version": _API,
            "Authorization": f"SharedKey {ACCOUNT}:{_signed(text)}",
        }
        address = f"{self.endpoint}/{ACCOUNT}/{container}?restype=container"
        urllib.request.urlopen(urllib.request.Request(address, method="PUT", headers=headers)).close()


def _signed(text: str) -> str:
    """What proves to the server that one knows the key."""
    made = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256)
    return base64.b64encode(made.digest()).decode()


@functools.cache
def _azurite() -> tuple[str, str]:
    """Node, and the server's program, installed once a machine."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip(
            "there is no Azure server: it is a program of Node's, and there is no node or npm on PATH"
        )
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sqlstream-tests"
    caches.mkdir(parents=True, exist_ok=True)
    place = caches / f"azurite-{_VERSION}"
    with (caches / "azurite.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not place.exists():
            unfinished = caches / f"azurite-{_VERSION}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            (unfinished / "package.json").write_text('{"private": true}')
            wanted = ("install", f"azurite@{_VERSION}", "--no-audit", "--no-fund", "--ignore-scripts")
            done = subprocess.run([npm, *wanted], cwd=unfinished, capture_output=True, text=True)
            if done.returncode:
                said = [line for line in done.stderr.splitlines() if "npm error" in line]
                pytest.skip(f"there is no Azure server: npm did not install it: {''.join(said[:1])}")
            unfinished.rename(place)
    return node, str(place / "node_modules/azurite/dist/src/blob/main.js")


def run_azure() -> Iterator[AzureServer]:
    """A server that is started, closed behind the test."""
    node, program = _azurite()
    folder = Path(tempfile.mkdtemp(prefix="sqlstream-azure-"))
    (port,) = free_ports(1)
    options = ("--silent", "--disableTelemetry", "--skipApiVersionCheck")
    command = (
        "env",
        f"AZURITE_ACCOUNTS={ACCOUNT}:{KEY}",
        node,
        program,
        *("--blobPort", str(port), "--location", str(folder), *options),
    )
    server = AzureServer(folder, port, command, "az", "container", ACCOUNT, KEY)
    try:
        server.start()
        server.create(server.bucket)
        yield server
    finally:
        server.close()
