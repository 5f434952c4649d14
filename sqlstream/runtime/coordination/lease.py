"""The lease file of a state directory: who runs on it, so that a second driver is refused at once.

It is a courtesy, not what keeps the data right: that is the exclusive creation of plans and manifests, which
hold even if a driver was paused for an hour and lost its lease. `run.lock` holds the run's id, host, process
and start, and a number that grows while it lives. A lease whose process is gone from this host is
taken over at once; one from another host when its number has not moved for a while. No clocks are
compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable

from sqlstream.storage.manifest import RunInfo
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

NAME = "run.lock"
BEAT_S = 5.0
PATIENCE_BEATS = 3


def another_driver(other: str, store: CheckpointStore) -> DiagnosticError:
    """The message for a state directory that another driver runs on."""
    return DiagnosticError(
        Diagnostic(
            "STA002",
            f"another run is working on the state directory {store.uri}: {other}",
            notes=("two runs on one state directory would commit the same epochs; this one has stopped",),
            help="stop the other run, or give this one another --state-dir",
        ),
        exit_code=4,
    )


def read_lease(store: CheckpointStore) -> tuple[RunInfo, int] | None:
    """Who holds the lease of a state directory, and the number of its beats; None if nobody does, or it says nothing."""
    try:
        data = json.loads(store.get(NAME))
        return RunInfo.from_json(data), int(data["beats"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_gone(holder: RunInfo, host: str | None = None) -> bool:
    """Whether the process that holds a lease is known, on `host` (None: this machine), not to run any more."""
    if holder.host != (host or socket.gethostname()):
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


class Lease:
    """The lease of this run; `acquire` before use, `release` at the end. Beats in a thread of its own.

    `on_beat` is called with each beat, in that thread.
    """

    def __init__(
        self,
        store: CheckpointStore,
        run: RunInfo,
        *,
        beat_s: float = BEAT_S,
        on_beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_beat = on_beat
        self._store = store
        self._run = run
        self._beat_s = beat_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._beats = 0
        self.lost_to: str | None = None

    def acquire(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take the lease. Raises DiagnosticError (STA002) if another run holds it and lives."""
        try:
            self._store.put_exclusive(NAME, self._content())
        except FileExistsError:
            self._take_over(sleep)
        self._thread = threading.Thread(target=self._beat, name="sqlstream-lease", daemon=True)
        self._thread.start()

    def check(self, *, look: bool = False) -> None:
        """Raise DiagnosticError (STA002) if another run has taken the lease, as far as the last beat saw; or `look` now."""
        if look:
            held = self._read()
            if held is not None and held[0].run_id != self._run.run_id:
                self.lost_to = str(held[0])
        if self.lost_to is not None:
            raise another_driver(self.lost_to, self._store)

    def stop_beating(self) -> bool:
        """End the thread; whether the lease was had, and is not known to be lost."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        return self._thread is not None and self.lost_to is None

    def release(self) -> None:
        """Give the lease back, if it is still ours."""
        self.stop_beating()
        held = self._read()
        if held is not None and held[0].run_id == self._run.run_id:
            with contextlib.suppress(OSError):
                self._store.delete(NAME)

    def _content(self) -> bytes:
        return json.dumps({**self._run.to_json(), "beats": self._beats}).encode()

    def _read(self) -> tuple[RunInfo, int] | None:
        return read_lease(self._store)

    def _take_over(self, sleep: Callable[[float], None]) -> None:
        first = self._read()
        if first is not None and not _gone(first[0], self._run):
            for _ in range(PATIENCE_BEATS * 4):
                sleep(self._beat_s / 4)
                now = self._read()
                if now is None:
                    break  # released meanwhile
                if now != first:
                    raise another_driver(str(now[0]), self._store)
        self._store.put(NAME, self._content())

    def _beat(self) -> None:
        while not self._stop.wait(self._beat_s):
            with contextlib.suppress(OSError):
                held = self._read()
                if held is not None and held[0].run_id != self._run.run_id:
                    self.lost_to = str(held[0])
                    return
                self._beats += 1
                self._store.put(NAME, self._content())
                self._on_beat()


def _gone(holder: RunInfo, me: RunInfo) -> bool:
    """Whether the process that holds a lease is known not to run any more."""
    # The same pid is this process, or one before a restart of a container, where pids are the same.
    return holder.pid != me.pid and is_gone(holder, me.host)
