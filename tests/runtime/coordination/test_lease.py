"""Who holds a state directory, and who may take it over; and how a run is asked to stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sqlstream.runtime.coordination.lease import NAME, Lease
from sqlstream.runtime.loop.stop import SAME_SIGNAL_S, Interrupted, StopFlag, stop_on_signals
from sqlstream.storage.manifest import RunInfo
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError

ME = RunInfo("me", socket.gethostname(), os.getpid(), "2026-01-01T00:00:00+00:00")


def held_by(store: CheckpointStore, run: RunInfo) -> None:
    store.put(NAME, Lease(store, run)._content())


def holder(store: CheckpointStore) -> str:
    """The run that holds the directory."""
    return str(json.loads(store.get(NAME))["run_id"])


def no_waiting(seconds: float) -> None:
    raise AssertionError("nothing to wait for")


def test_a_free_directory_is_taken_and_given_back(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    lease = Lease(store, ME)
    lease.acquire(no_waiting)
    assert holder(store) == "me"
    lease.check()
    lease.release()
    assert not store.exists(NAME)


def test_a_dead_process_of_this_host_is_taken_over_at_once(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    held_by(store, replace(ME, run_id="other", pid=gone.pid))
    lease = Lease(store, ME)
    lease.acquire(no_waiting)
    assert holder(store) == "me"
    lease.release()
    assert not store.exists(NAME)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"run_id": 1}'])
def test_a_lease_that_says_nothing_is_taken_over(tmp_path: Path, content: bytes) -> None:
    store = CheckpointStore(tmp_path)
    store.put(NAME, content)
    lease = Lease(store, ME)
    lease.acquire(no_waiting)
    assert holder(store) == "me"
    lease.release()
    assert not store.exists(NAME)


def test_a_silent_holder_elsewhere_is_taken_over_after_three_beats(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    held_by(store, replace(ME, run_id="other", host="elsewhere"))
    waited: list[float] = []
    lease = Lease(store, ME, beat_s=4.0)
    lease.acquire(waited.append)
    assert sum(waited) == 12.0
    assert holder(store) == "me"
    lease.release()
    assert not store.exists(NAME)


def test_a_holder_that_beats_is_named(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    other = Lease(store, replace(ME, run_id="other", host="elsewhere", pid=42))
    store.put(NAME, other._content())

    def beat(seconds: float) -> None:
        other._beats += 1
        store.put(NAME, other._content())

    with pytest.raises(DiagnosticError) as caught:
        Lease(store, ME).acquire(beat)
    assert "process 42 on elsewhere, started 2026" in caught.value.diagnostics[0].message
    assert holder(store) == "other"


def test_whoever_lost_the_lease_is_told(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    lease = Lease(store, ME, beat_s=0.01)
    lease.acquire()
    held_by(store, replace(ME, run_id="other", host="elsewhere"))
    until = time.monotonic() + 10
    while lease.lost_to is None and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(DiagnosticError):
        lease.check()
    lease.release()
    assert holder(store) == "other"


def test_who_ignores_that_the_terminal_is_closed_goes_on() -> None:
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        flag = StopFlag()
        with stop_on_signals(flag):
            signal.raise_signal(signal.SIGHUP)
            assert not flag.requested
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_the_run_to_stop(number: signal.Signals) -> None:
    # `nohup make test` ignores SIGHUP, and then it is none of ours.
    inherited = signal.signal(number, signal.SIG_DFL) if number is signal.SIGHUP else signal.getsignal(number)
    before = signal.getsignal(number)
    flag = StopFlag()
    try:
        with stop_on_signals(flag):
            os.kill(os.getpid(), number)
            assert flag.requested
            started = time.monotonic()
            flag.wait(30)
            assert time.monotonic() - started < 5
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, inherited)


def test_a_second_ctrl_c_interrupts() -> None:
    flag = StopFlag()
    flag.request()
    with stop_on_signals(flag), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_second_signal_ends_what_the_run_waits_for() -> None:
    """Spark's JVM, which else would be waited for though the error is under way."""
    flag = StopFlag()
    called: list[int] = []

    def fails() -> None:
        called.append(1)
        raise OSError("it is gone already")

    flag.on_interrupt = fails
    now = [0.0]
    with stop_on_signals(flag, lambda: now[0]):
        signal.raise_signal(signal.SIGTERM)
        assert not called
        now[0] += 1
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
    assert called == [1]


def test_one_signal_that_comes_twice_is_one() -> None:
    """`timeout` signals the process, and then its group."""
    flag = StopFlag()
    now = [100.0]
    with stop_on_signals(flag, lambda: now[0]):
        signal.raise_signal(signal.SIGTERM)
        now[0] += 0.8 * SAME_SIGNAL_S
        signal.raise_signal(signal.SIGTERM)
        assert flag.requested
        now[0] += 0.4 * SAME_SIGNAL_S
        with pytest.raises(Interrupted) as caught:
            signal.raise_signal(signal.SIGINT)
    assert (caught.value.number, flag.interrupted) == (signal.SIGINT, caught.value)
