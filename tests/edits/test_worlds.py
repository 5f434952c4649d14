"""Random chains of edits over small worlds: what a plan calls exact is what a run from scratch gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edits.worlds import WORLDS, Found, chain
from tests.examples import seeds


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.sampled(3)
def test_a_chain(name: str, seed: int, tmp_path: Path) -> None:
    found = Found()
    chain(WORLDS[name], seed, tmp_path, found)
    assert not found.wrong
