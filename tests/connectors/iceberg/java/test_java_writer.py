"""Tables that Iceberg's own library in Java writes, with deletes of every kind: at each snapshot its rows are read."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from sqlstream.connectors.api import Limits
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.iceberg.reading import Reading, table_spec
from tests.connectors.iceberg.tables import Row
from tests.connectors.iceberg.test_source_changes import CHANGES, folded
from tests.examples import seeds
from tests.jars import classpath

_HERE = Path(__file__).parent
#: The format version, and whether the table is partitioned.
TABLES = [(2, False), (2, True), (3, False), (3, True)]
STEPS = 12

#: The rows at each snapshot, in order, of each table's folder.
Found = Mapping[Path, Mapping[int, Counter[Row]]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    java = shutil.which("javac")
    if java is None:
        pytest.skip("there is no compiler of Java, javac, on PATH")
    jars = classpath(_HERE / "pom.xml", "Iceberg in Java")
    folder = tmp_path_factory.mktemp("java")
    arguments = []
    for number, (version, partitioned) in enumerate(TABLES):
        for seed in seeds(1):
            one = folder / f"{number}-{seed}"
            (one / "lake").mkdir(parents=True)
            arguments += [str(one), str(version), str(partitioned).lower(), str(seed + number), str(STEPS)]
    subprocess.run([java, "-cp", jars, "-d", str(folder), str(_HERE / "Writer.java")], check=True)
    command = [str(Path(java).with_name("java")), "-Xmx512m", "-cp", f"{jars}:{folder}", "Writer", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-2000:]
    made: dict[Path, dict[int, Counter[Row]]] = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "SNAPSHOT":
            where, snapshot, rows = rest.split(" ")
            pairs = [one.partition(":") for one in rows.split(",") if one]
            made.setdefault(Path(where), {})[int(snapshot)] = Counter((int(k), v) for k, _, v in pairs)
    assert sum(map(len, made.values())) > len(made) * STEPS // 2
    return made


def test_the_table_as_it_was(found: Found, duck: DuckSession) -> None:
    for folder, snapshots in found.items():
        for snapshot, rows in snapshots.items():
            read, _ = Reading(table_spec({"snapshot-id": str(snapshot)}), folder, duck).all()
            assert Counter(read) == rows, (folder, snapshot)


@pytest.mark.parametrize("limits", [Limits(files=1), Limits(rows=3, tasks=2)], ids=["files", "rows"])
def test_changes(found: Found, duck: DuckSession, limits: Limits) -> None:
    for folder, snapshots in found.items():
        first, *_, last = snapshots
        one = Reading(table_spec({**CHANGES, "start-snapshot-id": str(first)}), folder, duck)
        there, rows, at = Counter[Row](), list[Row](), one.source.initial_position()
        for epoch in one.epochs(at, limits):
            there, at = folded(epoch.rows, there), epoch.after
            rows += epoch.rows
            if "at" not in at:
                assert there == snapshots[at["after"]], (folder, at)
        assert there == snapshots[last]
        assert one.history(at) == rows
