"""Serves the dashboard: beside a run, or by itself."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sqlstream.ui.pipelines import Pipelines, Places
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    import uvicorn

PORT = 8321
TOKEN = "SQLSTREAM_UI_TOKEN"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
_START_S = 30.0


@dataclass(frozen=True, slots=True)
class Served:
    """A dashboard that is served: its server, and the address to open, whose token no browser sends in a request line."""

    server: uvicorn.Server
    listening: socket.socket
    url: str

    def run(self) -> None:
        """Serve until Ctrl-C or SIGTERM, or `server.should_exit`."""
        self.server.run(sockets=[self.listening])


def needs_token(host: str) -> bool:
    """Whether a dashboard at this address has a token of its own making: it is not on loopback, and none is set."""
    return host not in _LOOPBACK and not os.environ.get(TOKEN)


def prepared(places: Places, host: str, port: int, log: logging.Handler | None = None) -> Served:
    """A dashboard that listens at an address (port 0: one that is free). Away from loopback it needs a token.

    `log` gets what the server reports; without it that goes to standard error. Raises DiagnosticError: ENV015 if a package
    is missing, ENV016 if the address can't be used.
    """
    try:
        import uvicorn

        from sqlstream.ui.access import Access
        from sqlstream.ui.app import dashboard
    except ImportError as error:
        raise DiagnosticError(
            Diagnostic(
                "ENV015",
                f"the dashboard needs the package {error.name or 'starlette'}",
                help="pip install 'sqlstream-spark[ui]'",
            )
        ) from error
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise DiagnosticError(
            Diagnostic(
                "ENV016",
                f"no dashboard can be served at {host}:{port}: {error.strerror or error}",
                help="choose another HOST:PORT, or end what listens there",
            )
        ) from error
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24) if needs_token(host) else os.environ.get(TOKEN, "")
    access = Access(token, () if token else _LOOPBACK[:3])
    more: dict[str, Any] = {}
    if log is not None:
        more["log_config"] = None
        logger = logging.getLogger("uvicorn")
        logger.handlers, logger.propagate = [log], False
    config: Any = uvicorn.Config(
        dashboard(Pipelines(places), access),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        server_header=False,
        **more,
    )
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{port}/" + (f"#token={quote(token)}" if token else "")
    return Served(uvicorn.Server(config), listening, url)


@contextmanager
def served(places: Places, host: str, port: int, log: logging.Handler | None = None) -> Iterator[str]:
    """Serve the dashboard while inside, from another thread; gives the address to open.

    Raises DiagnosticError as `prepared`.
    """
    made = prepared(places, host, port, log)
    thread = threading.Thread(target=made.run, name="dashboard", daemon=True)
    thread.start()
    until = time.monotonic() + _START_S
    while not made.server.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield made.url
    finally:
        made.server.should_exit = True
        thread.join(5)
        made.listening.close()
