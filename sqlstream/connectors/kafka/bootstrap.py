"""Whether anything listens where brokers should be: the client itself tries for as long as it is given, silently."""

from __future__ import annotations

import socket

from sqlstream.connectors.exactly_once.target import LostConnectionError

#: How long one address may take to answer, s.
_ANSWER_S = 3.0
_PORT = 9092


def check_reachable(brokers: str, answer_s: float = _ANSWER_S) -> None:
    """Raise LostConnectionError, with the reason of each address, if none of `host:port, …` takes a connection.

    A port without a listener refuses at once. What answers may still be no broker, or not let this user in: the client
    says so. An address may begin with a protocol (`SASL_SSL://host:9093`), as the client's may; its port is 9092 by default.

    >>> check_reachable("localhost:1")
    Traceback (most recent call last):
        ...
    sqlstream.connectors.exactly_once.target.LostConnectionError: localhost:1: Connection refused
    """
    reasons = []
    for address in filter(None, (part.strip() for part in brokers.split(","))):
        host, port = _host_and_port(address)
        try:
            socket.create_connection((host, port), answer_s).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
        else:
            return
    if reasons:
        raise LostConnectionError("; ".join(reasons))


def _host_and_port(address: str) -> tuple[str, int]:
    bare = address.rpartition("://")[2]
    host, colon, port = bare.rpartition(":")
    if not colon or bare.endswith("]"):  # an IPv6 address without a port has colons of its own
        return bare.strip("[]"), _PORT
    return host.strip("[]"), int(port) if port.isascii() and port.isdecimal() else _PORT
