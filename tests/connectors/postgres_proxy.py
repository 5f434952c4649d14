"""A TCP proxy before a PostgreSQL server: it cuts connections after so many bytes, refuses them, or falls silent."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Proxy:
    """Connections to a server; its thread ends with `close`.

    `cut_after` is how many more bytes of the server's pass, of all connections, before all are cut and new ones refused
    until `heal`. While `silent` nothing passes, in either direction, and connections stay open.
    """

    target: int
    cut_after: int | None = None
    silent: bool = False
    passed: int = 0
    _pairs: set[tuple[socket.socket, socket.socket]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _speaks: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._speaks.set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def is_cut(self) -> bool:
        """Whether the server is away by now."""
        return self.cut_after is not None and self.cut_after <= 0

    def heal(self) -> None:
        """Let everything pass."""
        self.cut_after = None

    def hush(self, silent: bool) -> None:
        """Fall silent, or speak again."""
        if silent:
            self._speaks.clear()
        else:
            self._speaks.set()

    def cut(self) -> None:
        """Cut all connections; new ones are refused until `heal`."""
        self.cut_after = 0
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._end(pair)

    def close(self) -> None:
        """Cut everything and listen no more."""
        self._speaks.set()
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_cut:
                client.close()
                continue
            pair = (client, socket.create_connection(("127.0.0.1", self.target)))
            with self._lock:
                self._pairs.add(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(target=self._pump, args=(pair, source, sink), daemon=True).start()

    def _pump(
        self, pair: tuple[socket.socket, socket.socket], source: socket.socket, sink: socket.socket
    ) -> None:
        from_server = source is pair[1]
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                self._speaks.wait()
                if from_server:
                    with self._lock:
                        self.passed += len(data)
                        if self.cut_after is not None:
                            left, self.cut_after = self.cut_after, self.cut_after - len(data)
                            data = data[: max(0, left)]
                sink.sendall(data)
                if self.is_cut:
                    self.cut()
                    return
        self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            self._pairs.discard(pair)
        for one in pair:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """A proxy before the server at this port of this machine."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
