"""Connections to PostgreSQL that notice a server that has fallen silent: a statement may take long, a dead one for ever."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import PQGen

_Result = TypeVar("_Result")

#: So long a server may say nothing before it is asked whether it is there, s. What it is asked needs no login.
SILENCE_S = 30.0


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is given up as lost if the server does not even answer a knock at its door.

    A machine that is gone sends nothing, and a process that hangs does not say so: the client would wait for hours.
    """

    address = b""

    def wait(self, gen: PQGen[_Result], *args: Any, **kwargs: Any) -> _Result:
        """Consume a generator of the client's, as the base class does, looking at the clock where it waits."""
        return super().wait(self._watched(gen), *args, **kwargs)

    def _watched(self, gen: PQGen[_Result]) -> PQGen[_Result]:
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    heard = now
                elif now - heard >= SILENCE_S:
                    self._knock(now - heard)
                    heard = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            result: _Result = end.value
            return result

    def _knock(self, seconds: float) -> None:
        """Raise OperationalError, with the connection closed, if the server does not answer."""
        if not self.address or pq.PGconn.ping(self.address) != pq.Ping.NO_RESPONSE:
            return
        self.pgconn.finish()
        raise psycopg.OperationalError(
            f"the server has not answered for {seconds:.0f} s, and takes no connection"
        )


def watched_connection(parameters: Mapping[str, str]) -> WatchedConnection:
    """A new connection. Raises what `psycopg.connect` does."""
    given = dict(parameters)
    address = psycopg.conninfo.make_conninfo("", **given)
    connection = WatchedConnection.connect(address, autocommit=True, prepare_threshold=None)
    given.pop("password", None)
    connection.address = psycopg.conninfo.make_conninfo("", **given).encode()
    return connection
