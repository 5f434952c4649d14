"""A server with Glue's and S3's interfaces: moto, in a thread of the tests on a free port.

It is not AWS: it asks for no rights, checks no signature, and gives names back as they came. Of what Glue checks and moto
does not, the version by which a commit is refused beside another is added here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from moto.glue.exceptions import GlueClientError
from moto.glue.responses import GlueResponse
from moto.server import ThreadedMotoServer
from pyiceberg.catalog.glue import GlueCatalog

KEY, SECRET, REGION = "tests-key", "tests-secret-not-shown", "eu-west-1"
BUCKET = "lake"


@dataclass(frozen=True, slots=True)
class GlueServer:
    """A server, started."""

    port: int

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def client(self, service: str = "glue") -> Any:
        """Another program's client."""
        session = boto3.Session(aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name=REGION)
        return session.client(service, endpoint_url=self.endpoint)

    def catalog(self, warehouse: str = "") -> GlueCatalog:
        """The catalog, as another program opens it."""
        return GlueCatalog("other", client=self.client(), **({"warehouse": warehouse} if warehouse else {}))

    def place(self, warehouse: str = "lake", port: int | None = None) -> str:
        """The options of the catalog; `port` is that of a proxy."""
        stored = f", 'warehouse' = '{warehouse}'" if warehouse else ""
        return (
            f"'catalog-type' = 'glue', 'client.region' = '{REGION}', "
            f"'glue.endpoint' = 'http://127.0.0.1:{port or self.port}'{stored}"
        )

    def options(self, name: str, warehouse: str = "lake", port: int | None = None) -> str:
        """The options of a table in the database `db`."""
        table = f"'catalog-database' = 'db', 'catalog-table' = '{name}'"
        return f"'connector' = 'iceberg', {self.place(warehouse, port)}, {table}"


class _ModifiedError(GlueClientError):
    def __init__(self) -> None:
        super().__init__("ConcurrentModificationException", "the table has another version by now")


def run_glue() -> Iterator[GlueServer]:
    """A server that is started, stopped behind the tests; who asks is in the environment meanwhile."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", KEY)
        patched.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patched.setattr(logging.getLogger("werkzeug"), "disabled", True)
        plain = GlueResponse.update_table

        def update_table(self: GlueResponse) -> Any:
            asked = self.parameters
            there = self.glue_backend.get_table(asked["DatabaseName"], asked["TableInput"]["Name"])
            if asked.get("VersionId") not in (None, there.as_dict()["VersionId"]):
                raise _ModifiedError
            return plain(self)

        patched.setattr(GlueResponse, "update_table", update_table)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        try:
            made = GlueServer(server.get_host_and_port()[1])
            made.client("s3").create_bucket(
                Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
            )
            made.client().create_database(DatabaseInput={"Name": "db"})
            yield made
        finally:
            server.stop()
