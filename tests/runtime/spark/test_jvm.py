"""The JVM that is begun before it is connected to: none is left behind, and one that does not start is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream.runtime.spark import session
from sqlstream.runtime.spark.class_archive import ClassArchive, archive_of
from sqlstream.runtime.spark.java import find_java
from sqlstream.runtime.spark.jvm import spark_home
from sqlstream.runtime.spark.masters import check_master
from sqlstream_planner.diagnostics import DiagnosticError

HANGS = "#!/bin/sh\nexec cat >/dev/null\n"
ENDS = """#!/bin/sh
echo "$@" >>"$(dirname "$0")/../called"
for argument in "$@"; do
  case $argument in --properties-file=*)
    file=${argument#--properties-file=}; stat -c %a "$file"; tr '\\n' ' ' <"$file"; echo ;;
  esac
done >>"$(dirname "$0")/../told"
exit 3
"""


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
    jvm = session.begin("local[2]", {})
    assert jvm.process is not None
    assert jvm.process.poll() is None
    jvm.abandon()
    assert jvm.process.returncode < 0
    assert not jvm.folder.path.exists()


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
    rights, first, _, second = (java / "told").read_text().splitlines()
    assert rights == "600"
    assert f"-XX\\:SharedArchiveFile\\={archive.file}" in first
    assert "-XX\\:DumpLoadedClassList\\=" in second


def test_settings_are_no_arguments(java: Path) -> None:
    """Anyone on the machine can read those."""
    secrets = {"spark.hadoop.fs.s3a.secret.key": "S3CRET", "spark.x": " a\\b=c:d#e!f\nü\t"}
    (java / "bin/java").write_text(ENDS)
    jvm = session.begin("local[2]", secrets)
    assert jvm.process is not None
    assert jvm.process.wait(20)
    assert "S3CRET" not in (java / "called").read_text()
    settings = (jvm.folder.path / "settings.properties").read_text("utf-8")
    assert "spark.hadoop.fs.s3a.secret.key=S3CRET\n" in settings
    assert "spark.x=\\ a\\\\b\\=c\\:d\\#e\\!f\\nü\\t\n" in settings
    assert "spark.authenticate=true\n" in settings
    assert jvm.environment["SPARK_LOCAL_IP"] == "127.0.0.1", "where Spark's pages are, if they are asked for"
    jvm.abandon()
    assert not jvm.folder.path.exists()
