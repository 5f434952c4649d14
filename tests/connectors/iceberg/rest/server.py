"""A real REST catalog: the server of Iceberg's own tests over a SQLite file, one process on a free port.

It writes the metadata of tables itself, below a folder or in an S3 server's bucket. Where there is no Maven, no Java or no
way to its jars, tests skip and say which is missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.catalog.rest import RestCatalog

from tests.jars import classpath, free_ports, java
from tests.object_stores.s3_server import KEY, SECRET, S3Server

_START_S = 60.0
_JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_POM = Path(__file__).with_name("pom.xml")


@dataclass(slots=True)
class RestServer:
    """A server, started; the catalog and the tables of a local warehouse are in `folder` until `close`."""

    folder: Path
    port: int
    java: str
    classpath: str
    settings: Mapping[str, str]
    warehouse: str
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def uri(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def options(self, name: str, port: int | None = None, warehouse: str = "") -> str:
        """The options of a table; `port` is that of a proxy, `warehouse` what opens the files' store."""
        opened = f", 'warehouse' = '{warehouse}'" if warehouse else ""
        return (
            f"'connector' = 'iceberg', 'catalog-type' = 'rest', 'uri' = 'http://127.0.0.1:{port or self.port}', "
            f"'catalog-database' = 'db', 'catalog-table' = '{name}'{opened}"
        )

    def start(self) -> None:
        """Start it with the tables that it had, and wait until it answers."""
        assert self.process is None
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [self.java, *_JVM, "-cp", self.classpath, "org.apache.iceberg.rest.RESTCatalogServer"],
                env={"PATH": os.environ["PATH"], **self.settings},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "output").read_text()[-2000:]
            try:
                urllib.request.urlopen(f"{self.uri}/v1/config", timeout=5)
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"the REST catalog does not answer after {_START_S} s")

    def kill(self) -> None:
        """Kill it as a crash would."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()

    def pause(self) -> None:
        """Let it answer nothing, with its connections open."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Wake it up after `pause`, and wait until it has done what it was asked for meanwhile, which locks its database."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)
        deadline, quiet = time.monotonic() + _START_S, 0
        while quiet < 5 and time.monotonic() < deadline:
            try:
                self.catalog().list_namespaces()
            except Exception:
                quiet = 0
            else:
                quiet += 1
            time.sleep(0.2)

    def close(self) -> None:
        """Kill it, and delete its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def catalog(self, **properties: str) -> RestCatalog:
        """The catalog, as another program opens it."""
        return RestCatalog("other", uri=self.uri, **properties)


def run_rest(store: S3Server | None = None) -> Iterator[RestServer]:
    """A server that is started, closed behind the test; with a `store` its tables are there."""
    java_, jars = java(), classpath(_POM, "REST catalog")
    folder = Path(tempfile.mkdtemp(prefix="sqlstream-rest-"))
    (port,) = free_ports(1)
    warehouse = f"file://{folder}/lake" if store is None else f"s3://{store.bucket}/lake"
    files = {
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": store.endpoint,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_S3_ACCESS__KEY__ID": KEY,
        "CATALOG_S3_SECRET__ACCESS__KEY": SECRET,
        "CATALOG_CLIENT_REGION": "us-east-1",
    } if store is not None else {"CATALOG_IO__IMPL": "org.apache.iceberg.hadoop.HadoopFileIO"}  # fmt: skip
    settings = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_CLIENTS": "1",  # requests that come at once find SQLite's file locked, and fail
        **files,
    }
    server = RestServer(folder, port, java_, jars, settings, warehouse)
    try:
        server.start()
        yield server
    finally:
        server.close()
