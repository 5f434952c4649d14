"""Input that is there and has no rows: the run says so, and does not claim to have read anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.commands import COUNTS, pipeline, sqlstream


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["1.csv"], "source `t` has no rows: {in}/1.csv is empty\n"),
        (["1.csv", "2.csv"], "source `t` has no rows: its 2 files are empty: '{in}/1.csv', '{in}/2.csv'\n"),
    ],
)
def test_files_without_a_byte(tmp_path: Path, files: list[str], expected: str) -> None:
    pipeline(tmp_path, COUNTS, rows="")
    for name in files:
        (tmp_path / "in" / name).touch()
    for _ in range(2):
        done = sqlstream(tmp_path, "run", "p.sql")
        assert done.returncode == 0
        assert "warning[DAT004]: " + expected.replace("{in}", str(tmp_path / "in")) in done.stderr
        assert "nothing to read, no source has ever had a row" in done.stderr
        assert "nothing new" not in done.stderr
    (tmp_path / "in/1.csv").write_text("k,v\na,1\n")
    done = sqlstream(tmp_path, "run", "p.sql")
    assert (done.returncode, done.stdout) == (0, "op  k  s\n+I  a  1\n")
    assert "DAT004" not in done.stderr
    assert "nothing new" in sqlstream(tmp_path, "run", "p.sql").stderr


def test_an_empty_file_beside_others_is_not_worth_a_word(tmp_path: Path) -> None:
    pipeline(tmp_path)
    (tmp_path / "in/2.csv").touch()
    done = sqlstream(tmp_path, "run", "p.sql")
    assert (done.returncode, "DAT004" in done.stderr) == (0, False)
