"""Write pipelines/nexmark/data/side_input.csv: the table that q13 looks up, a text for each key from 0 to 99.

    python pipelines/nexmark/prepare_data.py

Needs only the standard library and gives the same bytes every time.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

KEYS = 100


def main(folder: Path) -> None:
    """Write the file into `folder`."""
    chosen = random.Random(13)
    letters = "abcdefghijklmnopqrstuvwxyz"
    rows = [f"{key},{''.join(chosen.choices(letters, k=6))}" for key in range(KEYS)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "side_input.csv").write_text("".join(f"{line}\n" for line in ["key,value", *rows]))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data")
