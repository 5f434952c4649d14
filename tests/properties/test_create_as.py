"""CREATE TABLE … AS SELECT with a column list: declared types hold, columns that the query does not give come first."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import collecting

SOURCE = """
CREATE TABLE t (k INT, s STRING) WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');
"""


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("k DOUBLE, s STRING", [(1.0, "x"), (2.0, None)]),
        ("S STRING", [(1, "x"), (2, None)]),
        ("note STRING, n INT", [(None, None, 1, "x"), (None, None, 2, None)]),
        ("note STRING, k BIGINT, twice AS k * 2", [(None, 1, "x"), (None, 2, None)]),
    ],
)
def test_a_column_list_gives_types_and_more_columns(columns: str, expected: Rows, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.json").write_text('{"k": 1, "s": "x"}\n{"k": 2}\n')
    file = tmp_path / "pipeline.sql"
    file.write_text(
        f"{SOURCE}CREATE TABLE o ({columns}) WITH ('connector' = 'blackhole') AS SELECT k, s FROM t;"
    )
    with collecting() as collected:
        run_pipeline(
            RunRequest(
                plan_file(file).physical,
                state_dir=tmp_path / "state",
                local_dir=tmp_path / "cache",
                base_dir=tmp_path,
                runner=InProcessRunner(2),
                sync=False,
            )
        )
        assert_same(collected.folded("o"), expected)


@pytest.mark.parametrize(("columns", "code"), [("s ARRAY<INT>", "SQL053"), ("n INT NOT NULL", "SQL052")])
def test_what_a_column_can_not_be_is_refused(columns: str, code: str) -> None:
    text = f"{SOURCE}CREATE TABLE o ({columns}) WITH ('connector' = 'blackhole') AS SELECT k, s FROM t;"
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text, file="p.sql")
    assert [d.code for d in caught.value.diagnostics] == [code]
