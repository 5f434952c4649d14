"""Tables on a disk that is full: an error that says so, and nothing is lost or twice once there is room."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.delta import reading as delta
from tests.connectors.iceberg.tables import OPTIONS
from tests.properties.in_process import run_here
from tests.small_disk import small_disk

_ROWS = 40_000


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Path]:
    """A disk of 300 kB."""
    with small_disk(tmp_path / "lake", "300k"):
        yield tmp_path / "lake"


@pytest.mark.parametrize("keyed", [False, True], ids=["appended", "by key"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_full_disk(kind: str, keyed: bool, lake: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = (json.dumps({"k": k, "v": f"{k * 7919 % 104729 * 104723}"}) for k in range(_ROWS))
    (tmp_path / "in/rows.json").write_text("\n".join(lines) + "\n")
    options = (
        "'connector' = 'delta', 'table-path' = 'lake/table'"
        if kind == "delta"
        else OPTIONS.format(name="table").replace("sqlite:///lake/", "sqlite:///")
    )
    key, query = (
        (", PRIMARY KEY (k) NOT ENFORCED", "k, MAX(v) FROM t GROUP BY k") if keyed else ("", "k, v FROM t")
    )
    text = (
        "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        f"CREATE TABLE o (k INT, v STRING{key}) WITH ({options});\nINSERT INTO o SELECT {query};\n"
    )

    def run() -> Any:
        return run_here(plan_file(text, file="p.sql"), tmp_path, rows_per_epoch=10_000)

    with pytest.raises(DiagnosticError) as caught:
        run()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code in ("ENV005", "ENV006")
    assert "the disk is full" in diagnostic.message or "No space left on device" in diagnostic.message
    subprocess.run(["mount", "-o", "remount,size=50m", lake], check=True)
    run()
    assert sorted(_keys(kind, tmp_path)) == [*range(_ROWS)]


def _keys(kind: str, folder: Path) -> list[int]:
    if kind == "delta":
        return [k for (k,) in delta.rows_of(folder / "lake/table", "k")]
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake")
    found = catalog.load_table(("db", "table")).scan().to_arrow()
    keys: list[int] = found.column("k").to_pylist()
    return keys
