"""What Prometheus reads of a run: the figures are those of the run, and their names keep its conventions."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sqlstream.cli.main import run_cli
from sqlstream.metrics.exporter import Exporter
from sqlstream.metrics.server import measured, served
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.loop.restarts import Restart
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_operators.task.dead_letters import KINDS
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

SQL = """
CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o WITH ('connector' = 'duckdb', 'path' = 'o.duckdb') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;
CREATE TABLE w WITH ('connector' = 'blackhole') AS
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
"""
DOC = Path(__file__).parents[2] / "docs" / "running" / "metrics.md"
#: By the name of a sample, its values by the labels beside the pipeline.
Samples = dict[str, dict[tuple[str, ...], float]]


def read(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert sample.labels["pipeline"] == "shop"
            others = tuple(v for k, v in sorted(sample.labels.items()) if k != "pipeline")
            found.setdefault(sample.name, {})[others] = sample.value
    return found


@contextmanager
def request(folder: Path, **options: object) -> Iterator[RunRequest]:
    (folder / "in").mkdir()
    rows = [{"k": "ab"[n % 2], "ts": f"2026-01-01 1{n % 3}:00:00"} for n in range(30)]
    lines = [*map(json.dumps, rows), "no JSON"]
    (folder / "in" / "a.json").write_text("\n".join(lines))
    (folder / "p.sql").write_text(SQL)
    plan = plan_file(folder / "p.sql").physical
    yield RunRequest(
        plan,
        state_dir=folder / "state",
        local_dir=folder / "cache",
        base_dir=folder,
        runner=InProcessRunner(2),
        parallelism=2,
        max_rows_per_epoch=10,
        name="shop",
        **options,  # type: ignore[arg-type]
    )


def test_the_figures_of_a_run(tmp_path: Path) -> None:
    reports: list[EpochReport] = []
    with request(tmp_path, on_epoch=reports.append) as given:
        exporter = Exporter(given.name)
        with served(exporter, "0") as port:
            before = read(port)
            observed = exporter.observing(given)
            result = run_pipeline(observed)
            found = read(port)
    assert before["sqlstream_epochs_total"] == {(): 0}
    assert found["sqlstream_epochs_total"] == {(): result.epochs} == {(): len(reports)}
    assert found["sqlstream_rows_read_total"] == {("t",): 31}
    assert found["sqlstream_rows_written_total"] == {(name,): n for name, n in result.rows_written.items()}
    assert found["sqlstream_dead_letter_rows_total"] == {
        (kind,): result.dead_letters.get(kind, 0) for kind in KINDS
    }
    assert found["sqlstream_last_epoch"] == {(): result.last_epoch}
    assert found["sqlstream_source_lag_rows"] == {("t",): 0}
    # 12:00 of that day, less a minute.
    assert found["sqlstream_source_watermark_timestamp_seconds"] == {("t",): 1767268740.0}
    assert found["sqlstream_state_rows"] == {(): reports[-1].state_rows}
    assert found["sqlstream_state_bytes"] == {(): reports[-1].state_bytes}
    assert found["sqlstream_epoch_seconds_count"] == {(): result.epochs}
    steps = sum(found["sqlstream_epoch_step_seconds_total"].values())
    assert steps == pytest.approx(found["sqlstream_epoch_seconds_sum"][()])
    with pytest.raises(OSError, match="refused"):
        read(port)


def test_what_is_seen_before_anything_was_read(tmp_path: Path) -> None:
    with request(tmp_path) as given:
        exporter = Exporter("shop")
        exporter.observing(given)
        with served(exporter, "127.0.0.1:0") as port:
            found = read(port)
    assert found["sqlstream_rows_read_total"] == {("t",): 0}
    assert found["sqlstream_rows_written_total"] == {("o",): 0, ("w",): 0}
    assert "sqlstream_source_watermark_timestamp_seconds" not in found


def test_restarts_are_counted_by_their_reason(tmp_path: Path) -> None:
    seen: list[Restart] = []
    with request(tmp_path, on_restart=seen.append) as given:
        exporter = Exporter("shop")
        observed = exporter.observing(given)
        restart = Restart((Diagnostic("ENV010", "no broker"),), 1, None, 1.0)
        observed.on_restart(restart)
        observed.on_restart(restart)
        with served(exporter, "0") as port:
            assert read(port)["sqlstream_restarts_total"] == {("ENV010",): 2}
    assert seen == [restart, restart]


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, request(tmp_path) as given:
        port = taken.getsockname()[1]
        with pytest.raises(DiagnosticError) as caught, measured(given, str(port)):
            pass
    [found] = caught.value.diagnostics
    assert (found.code, caught.value.exit_code) == ("ENV014", 5)
    assert f"127.0.0.1:{port}" in found.message


def test_a_run_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with request(tmp_path):
        monkeypatch.chdir(tmp_path)
        assert run_cli(["run", "p.sql", "--metrics", "127.0.0.1:0"]) == 0
        assert run_cli(["run", "p.sql", "--metrics", "here"]) == 2
        assert "'here' is no HOST:PORT" in capfd.readouterr().err


def test_all_metrics_are_in_the_docs_and_have_names_by_the_conventions() -> None:
    documented = set(re.findall(r"^\| `(sqlstream_\w+)` \|", DOC.read_text(encoding="utf-8"), re.MULTILINE))
    families = list(Exporter("shop").registry.collect())
    names = {f"{f.name}_total" if f.type == "counter" else f.name for f in families}
    assert documented == {name if name != "sqlstream" else "sqlstream_info" for name in names}
    for family in families:
        assert family.documentation.endswith(".")
        assert not re.search(r"_(ms|millis|us|kb|mb|minutes)(_|$)", family.name)
