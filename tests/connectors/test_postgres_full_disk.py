"""A PostgreSQL server whose disk is full: an error that says so, and nothing is lost or twice once there is room."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")

import psycopg

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_server import PASSWORD, Database, Server
from tests.properties.in_process import run_here
from tests.small_disk import small_disk

_ROWS = 40_000


@pytest.fixture
def crowded(postgres_server: Server) -> Iterator[tuple[Database, Path]]:
    """A database on a disk of its own, which has room for little more than its system tables; and the disk's folder."""
    with tempfile.TemporaryDirectory(prefix="sqlstream-disk-", dir="/tmp") as parent:
        Path(parent).chmod(0o755)  # the server is another user's
        disk = Path(parent) / "disk"
        with (
            small_disk(disk, "10m"),
            psycopg.connect(postgres_server.url(), autocommit=True) as connection,
        ):
            (data,) = connection.execute("SHOW data_directory").fetchone() or ("",)
            owner = Path(data).stat()
            os.chown(disk, owner.st_uid, owner.st_gid)
            connection.execute(f"CREATE TABLESPACE crowded LOCATION '{disk}'".encode())
            connection.execute(b"CREATE DATABASE crowded TABLESPACE crowded")
            database = Database(postgres_server, "crowded")
            yield database, disk
            database.leave()
            connection.execute(b"DROP DATABASE crowded WITH (FORCE)")
            connection.execute(b"DROP TABLESPACE crowded")


@pytest.mark.parametrize("keyed", [False, True], ids=["appended", "by key"])
def test_the_servers_disk_is_full(crowded: tuple[Database, Path], keyed: bool, tmp_path: Path) -> None:
    database, disk = crowded
    (tmp_path / "in").mkdir()
    lines = (json.dumps({"k": k, "v": f"{k:0200}"}) for k in range(_ROWS))
    (tmp_path / "in/rows.json").write_text("\n".join(lines) + "\n")
    key, query = (
        (", PRIMARY KEY (k) NOT ENFORCED", "k, MAX(v) FROM t GROUP BY k") if keyed else ("", "k, v FROM t")
    )
    text = (
        "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        f"CREATE TABLE o (k INT, v STRING{key}) WITH ('connector' = 'postgres', 'url' = '{database.url}');\n"
        f"INSERT INTO o SELECT {query};\n"
    )

    def run() -> Any:
        return run_here(plan_file(text, file="p.sql"), tmp_path, rows_per_epoch=5_000)

    for _ in range(2):
        with pytest.raises(DiagnosticError) as caught:
            run()
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.code == "ENV006"
        assert "No space left on device" in diagnostic.message
        assert diagnostic.help is not None
        assert diagnostic.help.startswith("make room on the server's disk, and run again")
        assert PASSWORD not in str(caught.value)
    subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
    run()
    assert database.rows("SELECT count(*), count(DISTINCT k), sum(k) FROM o") == [
        (_ROWS, _ROWS, sum(range(_ROWS)))
    ]
