"""An S3 server of the tests' own: S3Proxy over a folder, one process on a free port.

It checks signatures (version 4) and carries out conditional writes (`If-None-Match: *`); tests/object_stores/test_stores.py
sees that it does both. Where there is no Maven, no Java or no way to its jars, tests skip and say which is missing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tests.jars import classpath, free_ports, java
from tests.object_stores.store_server import StoreServer

KEY, SECRET = "tests-key", "tests-secret-not-shown"
_JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_POM = Path(__file__).with_name("pom.xml")


@dataclass(slots=True)
class S3Server(StoreServer):
    """A server of S3."""

    def uri(self, path: str, *, login: bool = True, port: int | None = None) -> str:
        """Where a path in the bucket is."""
        who = f"{quote(KEY)}:{quote(SECRET)}@" if login else ""
        options = f"endpoint_override=127.0.0.1:{port or self.port}&scheme=http&region=us-east-1"
        return f"s3://{who}{self.bucket}/{path}?{options}"

    def refused(self, path: str) -> str:
        """A URI with a key that there is not."""
        return self.uri(path).replace(KEY, "somebody")

    def environment(self) -> Mapping[str, str]:
        """As the AWS command line has it."""
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}


def run_server() -> Iterator[S3Server]:
    """A server that is started, closed behind the test."""
    java_, jars = java(), classpath(_POM, "S3 server")
    folder = Path(tempfile.mkdtemp(prefix="sqlstream-s3-"))
    (port,) = free_ports(1)
    command = (
        java_,
        *_JVM,
        "-cp",
        jars,
        "org.gaul.s3proxy.Main",
        "--properties",
        str(folder / "s3proxy.conf"),
    )
    server = S3Server(folder, port, command, "s3", "bucket", KEY, SECRET)
    (folder / "data" / server.bucket).mkdir(parents=True)
    properties = {
        "s3proxy.endpoint": server.endpoint,
        "s3proxy.authorization": "aws-v4",
        "s3proxy.identity": KEY,
        "s3proxy.credential": SECRET,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "data"),
    }
    (folder / "s3proxy.conf").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    try:
        server.start()
        yield server
    finally:
        server.close()
