"""Every example pipeline, cut into epochs, gives the rows of its golden files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.golden import check as golden
from sqlstream.golden.paths import directives
from sqlstream.project import pipeline_files
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from tests.examples import is_long

ROOT = Path(__file__).parent.parent.parent
PIPELINES = [f.relative_to(ROOT) for f in pipeline_files(ROOT) if not directives(f).none]


#: Cut is each second one, and the others are whole; long searches take all both ways. TPC-H's are cut in test_tpch.py, where
#: each prefix is compared, and their files in test_handwritten.py: here is each third of them.
RUNS = [
    pytest.param(file, rows, shards, id=f"{how}-{file}")
    for how, rows, shards in (("whole", None, 1), ("cut", 7000, 3))
    for number, file in enumerate(PIPELINES)
    if is_long()
    or (
        how == "whole" and number % 3 == 0 if file.parts[1] == "tpch" else (how == "cut") == (number % 2 == 0)
    )
]


@pytest.mark.parametrize(("file", "rows_per_epoch", "shards"), RUNS)
def test_rows_are_those_of_the_golden_files(file: Path, rows_per_epoch: int | None, shards: int) -> None:
    pipeline = golden.Pipeline.load(ROOT / file, {}, None, None)
    outcome = golden.check(pipeline, InProcessRunner(2), rows_per_epoch=rows_per_epoch, parallelism=shards)
    assert outcome.sinks
    assert outcome.ok, outcome


@pytest.mark.sampled(3)
@pytest.mark.parametrize("file", PIPELINES, ids=str)
def test_duckdb_would_write_the_same_files(file: Path, tmp_path: Path) -> None:
    pipeline = golden.Pipeline.load(ROOT / file, {}, None, tmp_path)
    for sink in golden.update(pipeline).sinks:
        kept = ROOT / "golden" / sink.file.relative_to(tmp_path)
        assert sink.file.read_bytes() == kept.read_bytes()


def test_a_missing_and_a_stale_file_are_not_ok(tmp_path: Path) -> None:
    pipeline = golden.Pipeline.load(ROOT / "pipelines/nexmark/q2.sql", {}, None, tmp_path)
    pipeline.folder.mkdir(parents=True)
    (pipeline.folder / "former.csv").write_text("a\n1\n")
    outcome = golden.check(pipeline, InProcessRunner(1))
    assert [sink.difference for sink in outcome.sinks] == [None]
    assert [path.name for path in outcome.stale] == ["former.csv"]
    assert not outcome.ok
    golden.update(pipeline)
    assert golden.check(pipeline, InProcessRunner(1)).ok


def test_a_wrong_golden_file_is_seen(tmp_path: Path) -> None:
    pipeline = golden.Pipeline.load(ROOT / "pipelines/nexmark/q7_max.sql", {}, None, tmp_path)
    golden.update(pipeline)
    (file,) = pipeline.folder.glob("*.csv")
    lines = file.read_text().splitlines()
    cells = lines[3].split(",")
    cells[3] = str(int(cells[3]) + 1)
    file.write_text("\n".join([*lines[:3], ",".join(cells), *lines[4:]]) + "\n")
    (sink,) = golden.check(pipeline, InProcessRunner(1)).sinks
    assert sink.difference is not None
    assert not sink.difference.missing
    assert not sink.difference.extra
    ((expected, actual),) = sink.difference.changed
    assert int(expected[3] or 0) == int(actual[3] or 0) + 1
