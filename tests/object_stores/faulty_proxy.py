"""A proxy in front of a server that answers some requests as bad networks and busy servers do."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

_LISTED = re.compile(
    rb"<Contents>(?:(?!</Contents>).)*<LastModified>([^<]+)</LastModified>.*?</Contents>", re.DOTALL
)


class Server(Protocol):
    """A server of HTTP on this machine."""

    @property
    def port(self) -> int:
        """Its port."""
        ...


class Fault(Enum):
    """What becomes of a request."""

    NONE = "it is passed on"
    BUSY = "503 SlowDown, and nothing is passed on"
    FORBIDDEN = "403, and nothing is passed on"
    RESET = "half of the answer, then the connection is reset"
    LOST = "it is carried out, and the answer is lost"


@dataclass
class Proxy:
    """Which requests get which fault is `choose`'s: of a method, a path and how many such there were before.

    Lists lack what was written in the last `list_lag_s` seconds. `page` is how many blobs Azure puts into a page of a list,
    which only requests can be told that are not signed one by one.
    """

    port: int
    list_lag_s: float = 0.0
    page: int = 0
    choose: Callable[[str, str, int], Fault] = lambda method, path, before: Fault.NONE
    requests: Counter[str] = field(default_factory=Counter)
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, method: str, path: str) -> Fault:
        with self.lock:
            before = self.seen[method, path]
            self.seen[method, path] += 1
            self.requests[method] += 1
        return self.choose(method, path, before)


def _not_yet(content: bytes, lag_s: float) -> bytes:
    """A list without the objects that are younger."""

    def kept(found: re.Match[bytes]) -> bytes:
        written = datetime.fromisoformat(found[1].decode())
        return found[0] if (datetime.now(UTC) - written).total_seconds() > lag_s else b""

    return _LISTED.sub(kept, content) if lag_s else content


@contextmanager
def proxy_of(server: Server) -> Iterator[Proxy]:
    """A proxy on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            path = self.path.partition("?")[0]
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.fault(self.command, path)
            if fault is Fault.FORBIDDEN:
                self._answer(
                    403, {}, b'{"error": {"message": "no right", "type": "ForbiddenException", "code": 403}}'
                )
                return
            if fault is Fault.BUSY:
                self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
                return
            there = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            try:
                page = f"&maxresults={proxy.page}" if proxy.page and "comp=list" in self.path else ""
                there.request(self.command, self.path + page, body, dict(self.headers))
                answer = there.getresponse()
                content = answer.read()
            finally:
                there.close()
            if fault is Fault.LOST:
                self._reset()
                return
            given = {
                name: value
                for name, value in answer.getheaders()
                if name.lower() not in ("transfer-encoding", "connection", "content-length")
            }
            if self.command == "HEAD":
                given["Content-Length"] = answer.getheader("Content-Length") or "0"
            if fault is Fault.RESET:
                self._answer(answer.status, given, content, only=len(content) // 2)
                self._reset()
                return
            if "list-type=2" in self.path:
                content = _not_yet(content, proxy.list_lag_s)
            self._answer(answer.status, given, content)

        def _answer(
            self, status: int, headers: dict[str, str], content: bytes, only: int | None = None
        ) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers and status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[:only])

        def _reset(self) -> None:
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            self.close_connection = True
            self.connection.close()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    for method in ("GET", "PUT", "POST", "HEAD", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._pass_on)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that is gone, or that was reset."""

    listening = Server(("127.0.0.1", 0), Handler)
    proxy = Proxy(listening.server_address[1])
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
