"""Traces of a run for OpenTelemetry: a trace per epoch, with its steps and its slowest tasks.

Spans are made when an epoch is committed, of the figures that it has then: nothing is measured twice, and an epoch that
fails has none. Attributes are of the pipeline and its file, never values of the data.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlstream import __version__
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.run.request import RunRequest
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.text.masking import without_password

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

#: How long a collector may take to answer, seconds.
PATIENCE_S = 5
_PATH = "/v1/traces"


@contextmanager
def traced(request: RunRequest, endpoint: str) -> Iterator[RunRequest]:
    """The request, whose epochs are traced to a collector (OTLP over HTTP) for as long as it runs.

    Raises DiagnosticError (ENV017) if the packages are not installed. A collector that is away is reported once (ENV018),
    and disturbs no run.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise DiagnosticError(
            Diagnostic(
                "ENV017",
                "--traces needs the packages of OpenTelemetry",
                help="pip install 'sqlstream-spark[traces]'",
            )
        ) from error
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    logging.getLogger("opentelemetry").propagate = False  # what goes wrong is reported once, by us
    provider = TracerProvider(
        resource=Resource.create(
            {
                "service.name": "sqlstream",
                "service.version": __version__,
                "sqlstream.pipeline": request.name,
            }
        )
    )
    url = endpoint.rstrip("/") + ("" if endpoint.rstrip("/").endswith(_PATH) else _PATH)
    exporter = OTLPSpanExporter(endpoint=url, timeout=PATIENCE_S)
    provider.add_span_processor(BatchSpanProcessor(_telling(exporter, url, request.tell)))
    try:
        yield observed(request, provider)
    finally:
        provider.shutdown()


def observed(request: RunRequest, provider: TracerProvider) -> RunRequest:
    """The request, each epoch of which becomes a trace of `provider`."""

    def epoch(report: EpochReport) -> None:
        _trace(provider, report, time.time_ns())
        request.on_epoch(report)

    return replace(request, on_epoch=epoch)


def _trace(provider: TracerProvider, report: EpochReport, end_ns: int) -> None:
    """The spans of an epoch that has ended just now: its steps follow each other, in their order."""
    from opentelemetry.trace import set_span_in_context

    tracer = provider.get_tracer("sqlstream", __version__)
    at = end_ns - _ns(report.total_seconds)
    whole = tracer.start_span(f"epoch {report.epoch}", start_time=at, attributes=_attributes(report))
    inside = set_span_in_context(whole)
    for step, seconds in report.seconds.items():
        span = tracer.start_span(step, inside, start_time=at)
        if step == "job":
            for task in report.facts.outcome.slowest_tasks:
                figures = {f"sqlstream.us.{name}": us for name, us in task.us.items()}
                one = tracer.start_span(
                    f"task {task.task}",
                    set_span_in_context(span),
                    start_time=at,  # when in the job it began is not known
                    attributes={"sqlstream.rows": task.rows, "sqlstream.bytes": task.bytes, **figures},
                )
                one.end(at + task.total_us * 1000)
        at += _ns(seconds)
        span.end(at)
    whole.end(end_ns)


def _attributes(report: EpochReport) -> dict[str, Any]:
    found: dict[str, Any] = {
        "sqlstream.epoch": report.epoch,
        "sqlstream.dead_letters": sum(report.dead_letters.values()),
        "sqlstream.state_rows": report.state_rows,
        "sqlstream.state_bytes": report.state_bytes,
        "sqlstream.replayed": report.replayed,
    }
    found |= {f"sqlstream.rows_read.{name}": rows for name, rows in report.rows_read.items()}
    found |= {f"sqlstream.rows_written.{name}": rows for name, rows in report.rows_written.items()}
    return found | {f"sqlstream.lag.{name}": lag for name, lag in report.lag.items() if lag is not None}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _telling(exporter: SpanExporter, url: str, tell: Callable[[Diagnostic], None]) -> SpanExporter:
    """An exporter that says once that nothing can be sent."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Telling(SpanExporter):
        told = False

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = exporter.export(spans)
            if result is not SpanExportResult.SUCCESS and not self.told:
                self.told = True
                tell(
                    Diagnostic(
                        "ENV018",
                        f"no traces can be sent to {without_password(url)}",
                        notes=("the run goes on without them",),
                        help="give --traces the address of a collector that takes OTLP over HTTP",
                        severity="warning",
                    )
                )
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return Telling()
