"""A real Prometheus scrapes a run: what the board asks has an answer, and the alerts can be evaluated."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from sqlstream.metrics.exporter import Exporter
from sqlstream.metrics.server import served
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner

DOCS = Path(__file__).parents[2] / "docs" / "running"
BOARD = json.loads((DOCS / "grafana.json").read_text(encoding="utf-8"))
(RULES,) = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "metrics.md").read_text(encoding="utf-8"), re.M | re.S)
SQL = """
SET 'execution.checkpointing.interval' = '1 s';
CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;
"""
#: What only has a value when something has gone wrong.
_OF_TROUBLE = "sqlstream_restarts_total"

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="there is no Prometheus on this machine"
)


class Prometheus:
    """A server that scrapes one address five times a second."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, what: str, **parameters: str) -> Any:
        """The data of an answer. Raises OSError."""
        url = f"{self._url}/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        return found["data"]

    def values(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """By labels, the value of an expression now."""
        found = self.ask("query", query=expression)["result"]
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in found}


@contextmanager
def prometheus(folder: Path, scraped: int) -> Iterator[Prometheus]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "rules.yml").write_text(RULES)
    config = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {"job_name": "sqlstream", "static_configs": [{"targets": [f"127.0.0.1:{scraped}"]}]}
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield Prometheus(port)
        finally:
            process.terminate()


def until(found: Callable[[], bool]) -> None:
    """Wait until it is so, but not for ever; a server that does not answer yet is asked again."""
    end = time.monotonic() + 60
    while True:
        try:
            if found():
                return
        except OSError:
            pass
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.1)


def test_the_board_and_the_alerts_over_a_run(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [json.dumps({"k": "ab"[n % 2], "ts": f"2026-01-01 1{n % 3}:00:00"}) for n in range(30)]
    (tmp_path / "in" / "a.json").write_text("\n".join([*rows, "no JSON"]))
    (tmp_path / "p.sql").write_text(SQL)
    request = RunRequest(
        plan_file(tmp_path / "p.sql").physical,
        state_dir=tmp_path / "state",
        local_dir=tmp_path / "cache",
        base_dir=tmp_path,
        runner=InProcessRunner(2),
        parallelism=2,
        max_rows_per_epoch=10,
        name="shop",
    )
    exporter = Exporter("shop")
    observed = exporter.observing(request)
    with served(exporter, "0") as port, prometheus(tmp_path, port) as server:
        until(lambda: server.values("up == 1 and on () sqlstream_epochs_total == 0") != {})
        result = run_pipeline(observed)
        until(lambda: [*server.values("sqlstream_epochs_total").values()] == [result.epochs])

        assert [*server.values("sum(sqlstream_rows_read_total)").values()] == [31.0]
        assert [*server.values("max(sqlstream_epoch_interval_seconds)").values()] == [1.0]
        expressions = {target["expr"] for panel in BOARD["panels"] for target in panel["targets"]}

        def unanswered() -> set[str]:
            asked = {
                text: server.values(text.replace("$pipeline", ".*").replace("$__rate_interval", "1m"))
                for text in expressions
            }
            return {text for text, found in asked.items() if not found and _OF_TROUBLE not in text}

        with suppress(AssertionError):  # a rate needs two samples, also of what came with the last epoch
            until(lambda: not unanswered())
        assert unanswered() == set()

        until(
            lambda: all(r["health"] != "unknown" for g in server.ask("rules")["groups"] for r in g["rules"])
        )
        (group,) = server.ask("rules")["groups"]
        assert {rule["name"]: rule.get("lastError") for rule in group["rules"]} == dict.fromkeys(
            [rule["alert"] for rule in yaml.safe_load(RULES)["groups"][0]["rules"]]
        )
        assert all(rule["health"] == "ok" for rule in group["rules"])


@pytest.mark.parametrize(
    ("given", "firing"),
    [
        ("sqlstream_restarts_total 0+1x60", "PipelineRestarts"),
        ("sqlstream_epoch_seconds_sum 0+30x60", "EpochsExceedTheirInterval"),
        ("sqlstream_dead_letter_rows_total 0+600x60", "ManyDeadLetterRows"),
        ("sqlstream_source_lag_rows 0+100000x60", "PipelineFallsBehind"),
        ("sqlstream_source_watermark_timestamp_seconds 7+0x60", "WatermarkStandsStill"),
        ("sqlstream_last_commit_timestamp_seconds 0+0x60", "PipelineCommitsNothing"),
    ],
)
def test_an_alert_fires_for_what_it_is_about(tmp_path: Path, given: str, firing: str) -> None:
    """A sample a minute for an hour; the pipeline is well but for one figure."""
    well = {
        "sqlstream_restarts_total": "0+0x60",
        "sqlstream_epoch_seconds_sum": "0+6x60",
        "sqlstream_epoch_seconds_count": "0+60x60",
        "sqlstream_epoch_interval_seconds": "0.25+0x60",
        "sqlstream_dead_letter_rows_total": "0+0x60",
        "sqlstream_rows_read_total": "0+6000x60",
        "sqlstream_source_lag_rows": "10+0x60",
        "sqlstream_source_watermark_timestamp_seconds": "0+60x60",
        "sqlstream_last_commit_timestamp_seconds": "0+60x60",
    }
    name, _, values = given.partition(" ")
    figures = {**well, name: values}
    (tmp_path / "rules.yml").write_text(RULES)
    names = [rule["alert"] for rule in yaml.safe_load(RULES)["groups"][0]["rules"]]
    tested = {
        "rule_files": ["rules.yml"],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": f'{figure}{{pipeline="shop"}}', "values": text}
                    for figure, text in figures.items()
                ],
                "alert_rule_test": [
                    {
                        "alertname": one,
                        "eval_time": "60m",
                        "exp_alerts": [{"exp_labels": {"pipeline": "shop"}}] if one == firing else [],
                    }
                    for one in names
                ],
            }
        ],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tested))
    done = subprocess.run(
        ["promtool", "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
