"""What servers of object stores have in common that the tests start: a process on a port, with its data in a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_START_S = 60.0
_BUCKET = "tests"


@dataclass(slots=True)
class StoreServer:
    """A server with one bucket; its data is in `folder` and stays until `close`.

    `scheme` and `kind` are what URIs and messages call its protocol and its buckets. `key` and `secret` are who may log in.
    """

    folder: Path
    port: int
    command: tuple[str, ...]
    scheme: str
    kind: str
    key: str
    secret: str
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def bucket(self) -> str:
        """The name of its bucket."""
        return _BUCKET

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def place(self, path: str) -> str:
        """Where a path in the bucket is, as it is shown."""
        return f"{self.scheme}://{_BUCKET}/{path}"

    def uri(self, path: str, *, login: bool = True, port: int | None = None) -> str:
        """Where a path in the bucket is; `login`: with the key, as tests change no environment of others.

        `port` is that of a proxy.
        """
        raise AssertionError("each kind of server has its own")

    def refused(self, path: str) -> str:
        """A URI with a login that the server does not take."""
        raise AssertionError("each kind of server has its own")

    def environment(self) -> Mapping[str, str]:
        """The variables that say who logs in, as the store's own tools have them."""
        raise AssertionError("each kind of server has its own")

    def start(self) -> None:
        """Start it with the data that it had, and wait until it answers."""
        assert self.process is None
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.folder / "output").read_text()[-2000:]
            try:
                urllib.request.urlopen(self.endpoint, timeout=5).close()
            except urllib.error.HTTPError:
                return  # it wants to know who asks
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"the {self.scheme} server does not answer after {_START_S} s")

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
