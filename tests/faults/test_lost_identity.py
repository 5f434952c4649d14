"""The file that says who a state directory is, gone: no other state directory is blamed, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import DiagnosticError
from tests.faults.commands import COUNTS, pipeline

TABLE = COUNTS.replace("'print'", "'duckdb', 'path' = 'o.duckdb'").replace(
    "s BIGINT)", "s BIGINT, PRIMARY KEY (k) NOT ENFORCED)"
)
FILES = COUNTS.replace("'print'", "'filesystem', 'path' = 'out', 'format' = 'changelog-json'")


def run(folder: Path, state: str = "state") -> None:
    planned = plan_file(folder / "p.sql")
    run_pipeline(
        RunRequest(
            planned.physical,
            state_dir=folder / state,
            base_dir=folder,
            local_dir=folder / "cache" / state,
            runner=InProcessRunner(1),
            sync=False,
            sql=planned.masked_sql,
        )
    )


@pytest.mark.parametrize("sql", [TABLE, FILES], ids=["table", "files"])
def test_it_is_named_each_time_and_restoring_it_helps(tmp_path: Path, sql: str) -> None:
    pipeline(tmp_path, sql)
    run(tmp_path)
    name = tmp_path / "state/sinks/identity.json"
    content = name.read_bytes()
    name.unlink()
    (tmp_path / "in/2.csv").write_text("k,v\na,10\nc,5\n")
    for _ in range(2):
        with pytest.raises(DiagnosticError) as caught:
            run(tmp_path)
        [diagnostic] = caught.value.diagnostics
        assert any(f"{name}, " in note and " is missing" in note for note in diagnostic.notes)
        assert "restore that file" in (diagnostic.help or "")
        assert "with another state directory" not in diagnostic.message
        assert not name.exists()
    with pytest.raises(DiagnosticError, match="with another state directory"):
        run(tmp_path, "fresh")
    name.write_bytes(content)
    run(tmp_path)
    if sql is TABLE:
        with duckdb.connect(str(tmp_path / "o.duckdb")) as found:
            expected = duckdb.sql(f"SELECT k, sum(v) FROM read_csv('{tmp_path}/in/*.csv') GROUP BY k")
            assert sorted(found.sql("FROM o").fetchall()) == sorted(expected.fetchall())
