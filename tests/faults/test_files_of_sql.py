"""Pipeline files that are no text, no files, or not what the command line says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli

SQL = "CREATE TABLE t (a INT) WITH ('connector' = 'datagen');\r\n-- é\r\nSELECT a FROM t WHERE '"


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_cli([*arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_byte_that_is_no_utf_8_is_told_by_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bom: bytes
) -> None:
    file = tmp_path / "p.sql"
    file.write_bytes(bom + SQL.encode() + b"\xe9' = 'x'")
    assert output_of(capsys, "check", str(file)) == (
        "error[SQL000]: the file is not UTF-8 text: the byte 0xe9 can't stand here\n"
        f" --> {file}:3:24\n"
        "  |\n"
        "3 | SELECT a FROM t WHERE '\ufffd' = 'x'\n"
        "  |                        ^\n"
        "  = help: save it as UTF-8\n\n"
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_another_encoding_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str) -> None:
    file = tmp_path / "p.sql"
    file.write_bytes(
        (SQL + "'").encode("utf-16") if encoding == "utf-16" else ("\ufeff" + SQL).encode(encoding)
    )
    assert "iconv -f UTF-16 -t UTF-8" in output_of(capsys, "check", str(file))


def test_what_is_no_file_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", str(tmp_path / "pipe")):
        assert f"{path} is no file that can be read twice" in output_of(capsys, "check", path)
    assert f"{tmp_path} is a folder" in output_of(capsys, "check", str(tmp_path))


@pytest.mark.parametrize(
    ("pair", "instead"), [("x", "x=…"), ("=1", "NAME=1"), ("", "NAME=…"), (" ", "NAME=…")]
)
def test_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str], pair: str, instead: str) -> None:
    file = tmp_path / "p.sql"
    file.write_text("SELECT 1")
    assert f"help: write --var {instead}\n" in output_of(capsys, "check", str(file), "--var", pair)


def test_memory_that_is_not_to_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sqlstream.cli.check.load_project", full)
    assert run_cli(["check", "p.sql"]) == 5
    assert "error[ENV007]: the process has not enough memory" in capsys.readouterr().err
