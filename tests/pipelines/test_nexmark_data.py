"""The side table of q13 is what prepare_data.py makes."""

from __future__ import annotations

import runpy
from pathlib import Path

NEXMARK = Path(__file__).resolve().parents[2] / "pipelines" / "nexmark"


def test_the_script_makes_the_same_bytes(tmp_path: Path) -> None:
    runpy.run_path(str(NEXMARK / "prepare_data.py"))["main"](tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in (NEXMARK / "data").iterdir()}
    assert made["side_input.csv"].count(b"\n") == 101
