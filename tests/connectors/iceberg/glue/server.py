"""A server of others that speaks the interfaces of AWS Glue and S3: moto, one process on a free port, all in memory.

It takes each commit of two that are made to one version of a table (`VersionId`), which AWS refuses.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
from pyiceberg.catalog.glue import GlueCatalog

from tests.jars import free_ports

_START_S = 60.0
REGION = "eu-west-1"
KEY, SECRET = "AKIAEXAMPLEKEY", "a-secret-that-is-nowhere"
#: Credentials where AWS's tools find them.
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(slots=True)
class GlueServer:
    """A server that answers."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def uri(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def options(self, name: str, warehouse: str, *, port: int | None = None, database: str = "db") -> str:
        """The options of a table; `port` is that of a proxy."""
        return (
            "'connector' = 'iceberg', 'catalog-type' = 'glue', "
            f"'client.region' = '{REGION}', 'glue.endpoint' = 'http://127.0.0.1:{port or self.port}', "
            f"'warehouse' = '{warehouse}', 'catalog-database' = '{database}', 'catalog-table' = '{name}'"
        )

    def client(self, service: str = "glue") -> Any:
        """A client of AWS's own."""
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.uri,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def catalog(self, **properties: str) -> GlueCatalog:
        """The catalog, as another program opens it."""
        return GlueCatalog("other", self.client(), **properties)


def run_glue() -> Iterator[GlueServer]:
    """A server that is started, killed behind the test."""
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"]},
    )
    try:
        deadline = time.monotonic() + _START_S
        while True:
            assert process.poll() is None, "the server ends"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5)
                break
            except OSError:
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.1)
        yield GlueServer(port, process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
