"""A DuckDB file that sinks share: its name, its lock, and who has it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from sqlstream.connectors.database.duckdb_file import _FILES, DuckFile

_OTHER_PROCESS = (
    "import sys, duckdb; print(duckdb.connect(sys.argv[1]).execute('SELECT * FROM t').fetchall())"
)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[DuckFile]:
    with closing(DuckFile(tmp_path / "results.duckdb")) as file:
        yield file


def _read_elsewhere(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_PROCESS, str(path)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "name", ["results.v2.duckdb", "temp.duckdb", "system.duckdb", "a b.duckdb", "Ä'\"", "x"]
)
def test_a_file_has_the_name_that_duckdb_gives_it(tmp_path: Path, name: str) -> None:
    with duckdb.connect(str(tmp_path / name)) as connection:
        expected = connection.execute("SELECT current_database()").fetchall()
    with closing(DuckFile(tmp_path / name)) as file:
        assert file.open().execute("SELECT current_database()").fetchall() == expected


@pytest.mark.parametrize("name", ["memory.duckdb", "MEMORY", "memory"])
def test_a_file_can_be_called_as_a_duckdb_in_memory_is(tmp_path: Path, name: str) -> None:
    with closing(DuckFile(tmp_path / name)) as file:
        file.open().execute("CREATE TABLE t AS SELECT 7 AS a")
    assert _read_elsewhere(tmp_path / name) == "[(7,)]"


def test_others_can_open_it_when_it_is_let_go_and_not_before(file: DuckFile, tmp_path: Path) -> None:
    for value in (1, 2):
        file.open().execute(f"CREATE OR REPLACE TABLE t AS SELECT {value} AS a")
        assert "lock" in _read_elsewhere(tmp_path / "results.duckdb")
        file.release()
        assert _read_elsewhere(tmp_path / "results.duckdb") == f"[({value},)]"


def test_what_is_not_committed_is_rolled_back(file: DuckFile) -> None:
    file.open().execute("CREATE TABLE t (a INT)")
    file.open().execute("BEGIN; INSERT INTO t VALUES (1)")
    file.release()
    assert file.open().execute("SELECT * FROM t").fetchall() == []


@pytest.mark.parametrize("spelled", ["results.duckdb", "sub/../results.duckdb", "link.duckdb"])
def test_two_have_it_at_once_with_a_transaction_each(file: DuckFile, tmp_path: Path, spelled: str) -> None:
    file.open().execute("CREATE TABLE t (a INT)")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.duckdb").symlink_to(tmp_path / "results.duckdb")
    with closing(DuckFile(tmp_path / spelled)) as other:
        first, second = file.open(), other.open()
        first.execute("BEGIN; INSERT INTO t VALUES (1)")
        assert second.execute("SELECT * FROM t").fetchall() == []
        first.execute("COMMIT")
        assert second.execute("SELECT * FROM t").fetchall() == [(1,)]
        file.release()
        assert second.execute("SELECT * FROM t").fetchall() == [(1,)]
        assert "lock" in _read_elsewhere(tmp_path / "results.duckdb")
    assert _read_elsewhere(tmp_path / "results.duckdb") == "[(1,)]"


def test_a_file_that_is_none_is_refused_and_can_be_mended(file: DuckFile, tmp_path: Path) -> None:
    (tmp_path / "results.duckdb").write_bytes(b"nothing that DuckDB knows" * 1000)
    with pytest.raises(duckdb.Error, match="not a valid DuckDB database"):
        file.open()
    (tmp_path / "results.duckdb").unlink()
    file.open().execute("CREATE TABLE t AS SELECT 3 AS a")
    file.release()
    assert _read_elsewhere(tmp_path / "results.duckdb") == "[(3,)]"


def test_a_file_that_was_replaced_meanwhile_is_the_new_one(file: DuckFile, tmp_path: Path) -> None:
    file.open().execute("CREATE TABLE t AS SELECT 1 AS a")
    file.release()
    (tmp_path / "results.duckdb").unlink()
    with duckdb.connect(str(tmp_path / "results.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 2 AS a")
    assert file.open().execute("SELECT * FROM t").fetchall() == [(2,)]


def test_a_file_that_nobody_has_any_more_can_be_opened_by_others(tmp_path: Path) -> None:
    """Also where it was not closed: whoever had it is garbage, which may be collected at any step of the next one."""
    file, other = (tmp_path.resolve() / name for name in ("results.duckdb", "other.duckdb"))
    for value in range(3):
        left = DuckFile(file)
        left.open().execute(f"CREATE OR REPLACE TABLE t AS SELECT {value} AS a")
        left.release()
        _FILES.take(other)
        with _FILES._lock:
            del left
        assert (file in _FILES._shared, other in _FILES._shared) == (False, True)
        assert _read_elsewhere(file) == f"[({value},)]"
    for _ in range(3):
        _FILES.give_back(_FILES._shared[other])
    assert other not in _FILES._shared


def test_a_duckdb_that_was_given_back_is_the_next_files(tmp_path: Path) -> None:
    """Nothing of the file before is in it; one that had to spill is not kept."""
    made: list[int] = []
    for name in ("first", "second", "third"):
        with closing(DuckFile(tmp_path / f"{name}.duckdb")) as file:
            connection = file.open()
            made.append(id(file._shared._instance) if file._shared else 0)
            assert connection.execute("SELECT current_database()").fetchall() == [(name,)]
            assert connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
            there = connection.execute("SELECT database_name FROM duckdb_databases()").fetchall()
            assert {one for (one,) in there} == {"memory", "system", "temp", name}
            spills = connection.execute("SELECT current_setting('temp_directory')").fetchall()
            assert spills == [(str((tmp_path / f"{name}.duckdb.tmp").resolve()),)]
            connection.execute(
                "CREATE TABLE t AS SELECT 1 AS a; CREATE TEMP TABLE left_here AS SELECT 2 AS a"
            )
            if name == "second":
                connection.execute("SET memory_limit = '40MB'")
                connection.execute(
                    "CREATE TEMP TABLE large AS SELECT i, md5(i::VARCHAR) AS a, md5((i + 1)::VARCHAR) AS b "
                    "FROM range(1_000_000) r(i)"
                )
    assert made[0] == made[1] != made[2]


def test_two_files_at_once_have_a_duckdb_each(tmp_path: Path) -> None:
    with closing(DuckFile(tmp_path / "a.duckdb")) as one, closing(DuckFile(tmp_path / "b.duckdb")) as other:
        one.open(), other.open()
        assert one._shared is not None
        assert other._shared is not None
        assert one._shared._instance is not other._shared._instance
