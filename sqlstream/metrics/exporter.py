"""The metrics of one run, by Prometheus' conventions: base units, `_total` for what only grows, few labels.

Labels are the pipeline and what its file names: sources, sinks, and the kinds and steps that this program has. None is a
value of the data, so their number is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream import __version__
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.loop.restarts import Restart
from sqlstream.runtime.run.request import RunRequest
from sqlstream_operators.task.dead_letters import KINDS
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

#: Upper bounds of the buckets of an epoch's time, seconds.
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Exporter:
    """Counts what a run reports. Raises DiagnosticError (ENV013) if the client library is not installed."""

    def __init__(self, pipeline: str) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
        except ImportError as error:
            raise DiagnosticError(
                Diagnostic(
                    "ENV013",
                    "--metrics needs the package prometheus_client",
                    help="pip install 'sqlstream-spark[metrics]'",
                )
            ) from error
        self.registry: CollectorRegistry = CollectorRegistry()

        def counter(name: str, help_: str, *labels: str) -> Counter:
            return Counter(f"sqlstream_{name}", help_, ("pipeline", *labels), registry=self.registry)

        def gauge(name: str, help_: str, *labels: str) -> Gauge:
            return Gauge(f"sqlstream_{name}", help_, ("pipeline", *labels), registry=self.registry)

        self._pipeline = pipeline
        self._read = counter("rows_read", "Rows read in committed epochs.", "source")
        self._written = counter("rows_written", "Rows, or changes, committed.", "sink")
        self._letters = counter("dead_letter_rows", "Rows that became dead-letter rows.", "kind")
        self._epochs = counter("epochs", "Committed epochs.")
        self._steps = counter("epoch_step_seconds", "Time that epochs took, by step of the loop.", "step")
        self._restarts = counter("restarts", "How often the run was begun again.", "code")
        self._last = gauge("last_epoch", "The number of the last committed epoch.")
        self._committed = gauge("last_commit_timestamp_seconds", "When the last epoch was committed.")
        self._lag = gauge("source_lag_rows", "Rows that wait to be read, as far as known.", "source")
        self._watermark = gauge(
            "source_watermark_timestamp_seconds", "The watermark in event time.", "source"
        )
        self._rows = gauge("state_rows", "Rows of state.")
        self._bytes = gauge("state_bytes", "Bytes of keys and values of state.")
        self._interval = gauge(
            "epoch_interval_seconds", "The interval between epochs, where the file sets one."
        )
        self._seconds = Histogram(
            "sqlstream_epoch_seconds",
            "How long epochs took, from planning to the end of their commit.",
            ("pipeline",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        Info("sqlstream", "This program.", ("pipeline",), registry=self.registry).labels(pipeline).info(
            {"version": __version__}
        )
        # What has not happened yet is 0, so that its rate is known from the first time on.
        for metric in (self._epochs, self._rows, self._bytes):
            metric.labels(pipeline)
        for kind in KINDS:
            self._letters.labels(pipeline, kind)

    def observing(self, request: RunRequest) -> RunRequest:
        """The request, whose observers this one comes before; sources and sinks of its plan begin with 0."""
        for source in request.plan.sources:
            self._read.labels(self._pipeline, source.name)
        for sink in request.plan.sinks:
            self._written.labels(self._pipeline, sink.name)
        interval_us = request.plan.options.epoch_interval_us
        if interval_us is not None:
            self._interval.labels(self._pipeline).set(interval_us / 1e6)

        def epoch(report: EpochReport) -> None:
            self._epoch(report)
            request.on_epoch(report)

        def restart(one: Restart) -> None:
            for diagnostic in one.diagnostics:
                self._restarts.labels(self._pipeline, diagnostic.code).inc()
            request.on_restart(one)

        def lag(waiting: Mapping[str, int | None]) -> None:
            self._show_lag(waiting)
            request.on_lag(waiting)

        return replace(request, on_epoch=epoch, on_restart=restart, on_lag=lag)

    def _show_lag(self, waiting: Mapping[str, int | None]) -> None:
        """Before an epoch, too: one that fails again and again has rows waiting."""
        for name, lag in waiting.items():
            if lag is not None:
                self._lag.labels(self._pipeline, name).set(lag)

    def _epoch(self, report: EpochReport) -> None:
        own = self._pipeline
        for name, rows in report.rows_read.items():
            self._read.labels(own, name).inc(rows)
        for name, rows in report.rows_written.items():
            self._written.labels(own, name).inc(rows)
        for kind, rows in report.dead_letters.items():
            self._letters.labels(own, kind).inc(rows)
        for step, seconds in report.seconds.items():
            self._steps.labels(own, step).inc(seconds)
        self._show_lag(report.lag)
        for name, seconds in _event_times(report.watermarks).items():
            self._watermark.labels(own, name).set(seconds)
        self._epochs.labels(own).inc()
        self._seconds.labels(own).observe(report.total_seconds)
        self._last.labels(own).set(report.epoch)
        self._committed.labels(own).set_to_current_time()
        self._rows.labels(own).set(report.state_rows)
        self._bytes.labels(own).set(report.state_bytes)


def _event_times(watermarks: Mapping[str, int | str | None]) -> dict[str, float]:
    """Watermarks in seconds, where there is one; the end of input is none."""
    return {name: mark / 1e6 for name, mark in watermarks.items() if isinstance(mark, int)}
