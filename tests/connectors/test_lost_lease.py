"""A driver that was paused while another one went on: it says so, and nothing of the table that it finds further on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.connectors.table_sinks import TableWorld
from tests.connectors.test_duckdb_sink import DuckBackend
from tests.runtime.support import rows_of


class _PausedAt:
    """Runs another driver when the sink's target is at a step for the n-th time."""

    def __init__(self, world: TableWorld, wanted: tuple[str, bool], turn: int, epochs: int | None) -> None:
        self.world, self.wanted, self.turn, self.epochs = world, wanted, turn, epochs
        self.seen = 0
        self.slept = False

    def __call__(self, step: str, done: bool) -> None:
        if self.slept or (step, done) != self.wanted:
            return
        self.seen += 1
        if self.seen > self.turn:
            self.slept = True
            self.world.run(max_epochs=self.epochs, lease_beat_s=0.01)


@pytest.mark.parametrize(("key", "epochs"), [((), 1), (("k", "window_start"), None)])
def test_a_driver_that_wakes_up_before_it_looks_at_its_table(
    tmp_path: Path, key: tuple[str, ...], epochs: int | None
) -> None:
    world = TableWorld.over(DuckBackend(tmp_path), key)
    world.run(max_epochs=1)
    told: list[Diagnostic] = []
    for turn in range(3):
        world.rows += rows_of(*((200 + 100 * turn + n * 4, "ab"[n % 2]) for n in range(10)))
        pause = _PausedAt(world, ("open", False), turn, epochs)
        world.broken = pause
        try:
            world.run(lease_beat_s=1000)
        except DiagnosticError as error:
            told += error.diagnostics
        assert pause.slept
        world.broken = None
        world.run()
        world.check(DuckBackend(tmp_path))
    assert {diagnostic.code for diagnostic in told} == {"STA002"}
    assert all("another run is working on the state directory" in d.message for d in told)
