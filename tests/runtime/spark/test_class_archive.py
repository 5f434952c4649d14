"""The archive of Java's classes: it is used where it is whole and ours, and never in the way."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from sqlstream.runtime.spark.class_archive import ClassArchive, archive_of, make
from sqlstream.runtime.spark.java import Java, find_java
from sqlstream.runtime.spark.session import session_conf

TASK = "java/lang/Object\norg/apache/spark/api/python/PythonWorkerFactory$MonitorThread\n"
#: A Java that writes down what it is given where the archive should be.
DUMPS = """#!/bin/sh
for a in "$@"; do case $a in -XX:SharedArchiveFile=*) target=${a#*=};; -XX:SharedClassListFile=*) list=${a#*=};; esac; done
{ cat "$list"; echo "$@"; } > "$target"
"""


def installed(folder: Path, script: str = DUMPS, version: str = "21.0.2") -> Java:
    (folder / "bin").mkdir(parents=True)
    java = Java(folder, 21, "here")
    java.executable.write_text(script)
    java.executable.chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return java


def spark(folder: Path) -> Path:
    (folder / "jars").mkdir(parents=True)
    (folder / "jars/a.jar").write_bytes(b"a")
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def archive(tmp_path: Path, environ: dict[str, str], java: Java, **conf: str) -> ClassArchive:
    home = tmp_path / "spark"
    found = archive_of(java, environ, conf, home if home.exists() else spark(home))
    assert found is not None
    return found


def test_an_archive_is_of_one_java_and_the_jars_of_one_spark(tmp_path: Path, environ: dict[str, str]) -> None:
    java = installed(tmp_path / "java")
    first = archive(tmp_path, environ, java)
    assert first == archive(tmp_path, environ, java)
    assert first.file.parent == tmp_path / "cache/sqlstream"
    assert first.file.parent.stat().st_mode & 0o077 == 0
    found = {first.file}
    found.add(archive(tmp_path, environ, installed(tmp_path / "other")).file)
    found.add(archive(tmp_path, {**environ, "SPARK_DIST_CLASSPATH": "/x"}, java).file)
    (java.home / "release").write_text('JAVA_VERSION="21.0.3"\n')
    found.add(archive(tmp_path, environ, java).file)
    os.utime(tmp_path / "spark/jars/a.jar", (1, 1))
    found.add(archive(tmp_path, environ, java).file)
    (tmp_path / "spark/jars/b.jar").write_bytes(b"b")
    found.add(archive(tmp_path, environ, java).file)
    assert len(found) == 6


def test_where_there_is_none(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    java, home = installed(tmp_path / "java"), spark(tmp_path / "spark")
    for own in ("spark.driver.extraJavaOptions", "spark.driver.extraClassPath"):
        assert archive_of(java, environ, {own: "x"}, home) is None
    assert archive_of(java, {**environ, "SQLSTREAM_CLASS_ARCHIVE": "off"}, {}, home) is None
    assert archive_of(java, environ, {}, tmp_path / "no spark") is None
    assert archive_of(java, environ, {}, None) is None
    (tmp_path / "file").touch()
    assert archive_of(java, {"XDG_CACHE_HOME": str(tmp_path / "file")}, {}, home) is None
    assert archive_of(java, {"HOME": str(tmp_path / "nowhere")}, {}, home) is None
    (tmp_path / "home").mkdir()
    own_home = archive_of(java, {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": "relative"}, {}, home)
    assert own_home is not None
    assert own_home.file.parent == tmp_path / "home/.cache/sqlstream"
    monkeypatch.setattr(os, "getuid", lambda: (tmp_path / "home").stat().st_uid + 1)
    assert archive_of(java, {"HOME": str(tmp_path / "home")}, {}, home) is None, "another user's home"


def test_the_first_run_lists_its_classes_and_the_next_has_them(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    made = archive(tmp_path, environ, installed(tmp_path / "java"))
    run = tmp_path / "run"
    run.mkdir()
    assert f"-XX:DumpLoadedClassList={run}/classes.list" in made.options(run)
    assert made.make_of(run, "/a.jar:/b.jar") is None, "no list"
    (run / "classes.list").write_text("java/lang/Object\n")
    assert made.make_of(run, "/a.jar:/b.jar") is None, "no task ran"
    (run / "classes.list").write_text(TASK + "cut/off/in/the/mid")
    process = made.make_of(run, "/a.jar:/b.jar")
    assert process is not None
    assert process.wait(60) == 0
    text = made.file.read_text()
    assert text.startswith(TASK + "-Xshare:dump"), "whole lines, and the class path of the run"
    assert text.endswith("-cp /a.jar:/b.jar\n")
    assert sorted(p.suffix for p in made.file.parent.iterdir()) == [".jsa", ".lock"]
    os.utime(made.file, (1, 1))
    conf = session_conf("local", {}, run, made)
    assert f" -XX:SharedArchiveFile={made.file} " in conf["spark.driver.extraJavaOptions"]
    assert made.file.stat().st_mtime > 1, "it is in use"
    assert made.make_of(run, "/a.jar") is None, "it is there"
    assert made.options(tmp_path / "with space") == ()
    made.drop()
    assert not made.is_there


def test_one_that_cannot_be_made_is_tried_once(tmp_path: Path, environ: dict[str, str]) -> None:
    refuses = archive(tmp_path, environ, installed(tmp_path / "java", "#!/bin/sh\nexit 1\n"))
    listed = refuses.file.with_suffix(".x.classlist")
    listed.write_text(TASK)
    with refuses.file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not make(refuses.file, refuses.java, listed, "/a.jar"), "another run makes it"
    assert refuses.options(tmp_path) != ()
    listed.write_text(TASK)
    assert not make(refuses.file, refuses.java, listed, "/a.jar")
    assert refuses.options(tmp_path) == ()
    assert not listed.exists()


def test_the_archives_used_last_are_kept(tmp_path: Path, environ: dict[str, str]) -> None:
    made = archive(tmp_path, environ, installed(tmp_path / "java"))
    folder = made.file.parent
    for age in range(5):
        (folder / f"{age}.jsa").touch()
        os.utime(folder / f"{age}.jsa", (age, age))
    (folder / "left.part").touch()
    os.utime(folder / "left.part", (1, 1))
    listed = folder / f"{made.file.stem}.x.classlist"
    assert not make(made.file, made.java, listed, "x"), "its list was tidied up"
    listed.write_text(TASK)
    for left in ("1.part", "y.classlist"):
        made.file.with_suffix(f".{left}").touch()
    assert make(made.file, made.java, listed, "x")
    assert {p.name for p in folder.iterdir()} == {
        made.file.name,
        made.file.with_suffix(".lock").name,
        "3.jsa",
        "4.jsa",
    }


def test_java_takes_an_archive_that_it_has_made(tmp_path: Path, environ: dict[str, str]) -> None:
    java = find_java({"PATH": ""})
    made = archive(tmp_path, environ, java)
    run = tmp_path / "run"
    run.mkdir()
    options = [str(java.executable), "-cp", str(tmp_path / "a.jar")]
    listing = subprocess.run(
        [*options, *made.options(run), "-version"], capture_output=True, text=True, check=True
    )
    assert listing.stdout == ""
    assert make(made.file, made.java, run / "classes.list", str(tmp_path / "a.jar"))
    subprocess.run([*options, *made.options(run), "-Xshare:on", "-version"], capture_output=True, check=True)
    made.file.write_bytes(made.file.read_bytes()[:100_000])
    damaged = subprocess.run(
        [*options, *made.options(run), "-version"], capture_output=True, text=True, check=True
    )
    assert damaged.stdout == ""
