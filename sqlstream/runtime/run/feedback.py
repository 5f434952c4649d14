"""Whether a pipeline would read what it writes: a sink, or its state directory, where one of its sources reads."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.connectors.api import Feeding
from sqlstream.connectors.filesystem.feedback import reads_state
from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.plan.spec import PhysicalPlan, SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Written


def check_feedback(plan: PhysicalPlan, written: Mapping[str, Written], base_dir: str, state_dir: str) -> None:
    """Raise DiagnosticError (SQL017) if a source would be given what the pipeline itself writes, as it would never end.

    A topic may be: a query over one decides what goes round, as with Flink.
    """
    for source in plan.sources:
        factory = REGISTERED.source_factory(source.connector)
        if isinstance(factory, Feeding):
            for sink in plan.sinks:
                way = factory.feeds_on(source, sink, base_dir)
                if way is not None:
                    raise _feedback(source, sink.name, way, written)
        way = reads_state(source, base_dir, state_dir)
        if way is not None:
            raise _feedback(source, "", way, written)


def _feedback(source: SourceSpec, sink: str, way: str, written: Mapping[str, Written]) -> DiagnosticError:
    files = source.connector == "filesystem"
    hidden = ", or into a folder whose name starts with `.` or `_`, which sources pass over" if files else ""
    return DiagnosticError(
        Diagnostic(
            "SQL017",
            f"source `{source.name}` would read what the pipeline writes",
            written[sink].table if sink in written else None,
            notes=(way, "a pipeline that reads what it writes never ends"),
            help=f"write elsewhere{hidden}",
        )
    )
