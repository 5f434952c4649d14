"""The time between epochs of input that trickles in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from sqlstream.connectors.api import Sink
from sqlstream.runtime.loop.interval import LEAST_S, EpochInterval


def sink(*, often: bool | None) -> Sink:
    """A sink that says of itself whether it may be committed often, or nothing (None)."""
    nothing = dict.fromkeys(("prepare", "commit", "abort_uncommitted"))
    return cast(
        "Sink", SimpleNamespace(**nothing, **({} if often is None else {"may_be_committed_often": often}))
    )


def after(epoch_s: float, *sinks: Sink, given: float | None = None, local: bool = True) -> float:
    return EpochInterval(given, 0.5, sinks, state_is_local=local).after(epoch_s)


def test_quick_epochs_follow_each_other_soon() -> None:
    assert after(0.01, sink(often=True)) == LEAST_S
    assert after(0.2, sink(often=True), sink(often=True)) == pytest.approx(0.3)
    assert after(2.0, sink(often=True)) == 0.5


def test_what_keeps_something_of_every_epoch_has_fewer() -> None:
    assert after(0.01, sink(often=True), sink(often=False)) == 0.5
    assert after(0.01, sink(often=None)) == 0.5, "a sink that does not say so may not"
    assert after(0.01, sink(often=True), local=False) == 0.5


def test_an_interval_that_was_given_holds() -> None:
    assert after(0.01, sink(often=False), given=0.05) == 0.05
    assert after(3.0, sink(often=True), given=60.0) == 60.0
