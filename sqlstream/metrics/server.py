"""Where Prometheus finds a run's metrics: `http://HOST:PORT/metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlstream.metrics.exporter import Exporter
from sqlstream.runtime.run.request import RunRequest
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: Without a host: nobody but this machine.
LOOPBACK = "127.0.0.1"


def address_of(text: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`, `[HOST]:PORT` or `PORT`. Raises ValueError.

    >>> address_of("9464"), address_of("0.0.0.0:9464"), address_of("[::1]:80")
    (('127.0.0.1', 9464), ('0.0.0.0', 9464), ('::1', 80))
    """
    host, _, port = text.strip().rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError(f"{text!r} is no HOST:PORT")
    return host.strip("[]") or LOOPBACK, int(port)


@contextmanager
def measured(request: RunRequest, address: str) -> Iterator[RunRequest]:
    """The request, whose run is measured; its metrics are served while inside. Raises DiagnosticError as both do."""
    exporter = Exporter(request.name)
    with served(exporter, address):
        yield exporter.observing(request)


@contextmanager
def served(exporter: Exporter, address: str) -> Iterator[int]:
    """Serve the metrics while inside; gives the port (one that is free, where 0 was asked for).

    Raises DiagnosticError (ENV014) if the address can't be used.
    """
    from prometheus_client import start_http_server

    host, port = address_of(address)
    try:
        server, thread = start_http_server(port, host, exporter.registry)
    except OSError as error:
        raise DiagnosticError(
            Diagnostic(
                "ENV014",
                f"no metrics can be served at {host}:{port}: {error.strerror or error}",
                help="choose another --metrics HOST:PORT, or end what listens there",
            )
        ) from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
