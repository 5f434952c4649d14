"""Writes the savepoints of a new format, or of one new case, by the program as it is now (see README.md).

python -m tests.compat.write N [CASE]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.compat.cases import HERE, SAVEPOINT, cases, formats
from tests.compat.encodings import written


def write_case(format_: int, name: str) -> None:
    """Write the savepoint of one case of a format that is there; refuses to write over one."""
    [case] = [case for case in cases(format_) if case.folder.name == name]
    if (case.folder / SAVEPOINT).exists():
        raise SystemExit(f"{case.folder} is there: what a release has written is never written anew")
    with tempfile.TemporaryDirectory() as work:
        case.write(Path(work))


def main(format_: int) -> None:
    """Make `formatN`: the cases of the newest format, each with a savepoint of its own. Refuses to write over one."""
    new = HERE / f"format{format_}"
    if list(new.glob(f"*/{SAVEPOINT}")):
        raise SystemExit(f"{new} is there: what a release has written is never written anew")
    if not new.exists():
        kept = shutil.ignore_patterns(SAVEPOINT, "expected.json", "encodings.json")
        shutil.copytree(HERE / f"format{formats()[-1]}", new, ignore=kept)
    for case in cases(format_):
        with tempfile.TemporaryDirectory() as work:
            case.write(Path(work))
    (new / "encodings.json").write_text(written())


if __name__ == "__main__":
    if len(sys.argv) > 2:
        write_case(int(sys.argv[1]), sys.argv[2])
    else:
        main(int(sys.argv[1]))
