"""Traces, as a collector gets them: an epoch is a trace, its steps are as long as the epoch's figures say."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sqlstream.cli.main import run_cli
from sqlstream.metrics.tracing import traced
from sqlstream.runtime.api import run_pipeline
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.diagnostics import Diagnostic
from tests.metrics.test_metrics import request


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """Takes OTLP over HTTP; gives its address, and the resources with their spans that came."""
    found: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                found.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def attributes(of: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}


def test_an_epoch_is_a_trace(tmp_path: Path) -> None:
    reports: list[EpochReport] = []
    with (
        collector() as (url, found),
        request(tmp_path, on_epoch=reports.append) as given,
        traced(given, url) as observed,
    ):
        run_pipeline(observed)
    (name,) = {attributes(r.resource)["sqlstream.pipeline"] for r in found}
    assert name == "shop"
    spans = [span for r in found for scope in r.scope_spans for span in scope.spans]
    traces: dict[bytes, list[Any]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    assert len(traces) == len(reports) == 4
    for report in reports:
        (trace,) = (t for t in traces.values() if any(s.name == f"epoch {report.epoch}" for s in t))
        (whole,) = (span for span in trace if not span.parent_span_id)
        assert attributes(whole)["sqlstream.rows_read.t"] == report.rows_read["t"]
        assert attributes(whole)["sqlstream.state_rows"] == report.state_rows
        steps = [span for span in trace if span.parent_span_id == whole.span_id]
        assert [span.name for span in steps] == list(report.seconds)
        for span in steps:
            seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
            assert seconds == pytest.approx(report.seconds[span.name], abs=1e-6)
            assert whole.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= whole.end_time_unix_nano + 10
        (job,) = (span for span in steps if span.name == "job")
        tasks = [span for span in trace if span.parent_span_id == job.span_id]
        assert len(tasks) == len(report.facts.outcome.tasks) > 0
        assert sum(attributes(t)["sqlstream.rows"] for t in tasks) >= report.rows_read["t"]


def test_a_collector_that_is_away_disturbs_nothing(tmp_path: Path) -> None:
    warnings: list[Diagnostic] = []
    with (
        request(tmp_path, tell=warnings.append) as given,
        traced(given, "http://user:hunter2@127.0.0.1:1") as observed,
    ):
        result = run_pipeline(observed)
    assert result.epochs == 4
    assert [warning.code for warning in warnings] == ["ENV018"]
    assert "hunter2" not in warnings[0].message


def test_the_option_of_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as (url, found), request(tmp_path):
        monkeypatch.chdir(tmp_path)
        assert run_cli(["run", "p.sql", "--traces", url]) == 0
    assert found
