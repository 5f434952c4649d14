"""An S3 server of the tests' own: S3Proxy over a folder, one process on a free port.

It checks signatures (version 4) and carries out conditional writes (`If-None-Match: *`); tests/object_stores/test_s3.py
sees that it does both. Where there is no Maven, no Java or no way to its jars, tests skip and say which is missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from tests.jars import classpath, free_ports, java

KEY, SECRET = "tests-key", "tests-secret-not-shown"
_START_S = 60.0
_JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_POM = Path(__file__).with_name("pom.xml")
_BUCKET = "tests"


@dataclass(slots=True)
class S3Server:
    """A server with one bucket; its data is in `folder` and stays until `close`."""

    folder: Path
    port: int
    java: str
    classpath: str
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def bucket(self) -> str:
        """The name of its bucket."""
        return _BUCKET

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def uri(self, path: str, *, login: bool = True, port: int | None = None) -> str:
        """Where a path in the bucket is; `login`: with the key, as tests change no environment of others.

        `port` is that of a proxy.
        """
        who = f"{quote(KEY)}:{quote(SECRET)}@" if login else ""
        options = f"endpoint_override=127.0.0.1:{port or self.port}&scheme=http&region=us-east-1"
        return f"s3://{who}{_BUCKET}/{path}?{options}"

    def start(self) -> None:
        """Start it with the data that it had, and wait until it answers."""
        assert self.process is None
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    self.java,
                    *_JVM,
                    "-cp",
                    self.classpath,
                    "org.gaul.s3proxy.Main",
                    "--properties",
                    str(self.folder / "s3proxy.conf"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "output").read_text()[-2000:]
            try:
                urllib.request.urlopen(self.endpoint, timeout=5)
            except urllib.error.HTTPError:
                return  # it wants a signature
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"the S3 server does not answer after {_START_S} s")

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
        """Wake it up after `pause`."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill it, and delete its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_server() -> Iterator[S3Server]:
    """A server that is started, closed behind the test."""
    java_, jars = java(), classpath(_POM, "S3 server")
    folder = Path(tempfile.mkdtemp(prefix="sqlstream-s3-"))
    (port,) = free_ports(1)
    (folder / "data" / _BUCKET).mkdir(parents=True)
    properties = {
        "s3proxy.endpoint": f"http://127.0.0.1:{port}",
        "s3proxy.authorization": "aws-v4",
        "s3proxy.identity": KEY,
        "s3proxy.credential": SECRET,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "data"),
    }
    (folder / "s3proxy.conf").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    server = S3Server(folder, port, java_, jars)
    try:
        server.start()
        yield server
    finally:
        server.close()
