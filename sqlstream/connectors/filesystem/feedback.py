"""Whether a pipeline would read what it writes: a sink, or its state directory, where one of its sources reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from sqlstream.connectors.filesystem.paths import is_local, resolve, split_location, would_list
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec, SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Written

#: A file as each of them writes it.
_OF_A_SINK = "part-000001-0-00000.json"
_OF_STATE = "epochs/000001.plan.json"


def check_feedback(plan: PhysicalPlan, written: Mapping[str, Written], base_dir: str, state_dir: str) -> None:
    """Raise DiagnosticError (SQL017) if a source would list what the pipeline itself writes: local files, Delta tables."""
    for source in plan.sources:
        path = source.options.get("path", "")
        if source.connector == "delta":
            for one in plan.sinks:
                if one.connector == "delta" and _table(one, base_dir) == _table(source, base_dir):
                    raise _feedback(source, one.name, f"sink `{one.name}` adds to the same table", written)
        if source.connector != "filesystem" or not is_local(resolve(path, base_dir)):
            continue
        pattern = source.options.get("source.path.regex-pattern")
        for what, sink, file in _files(plan, base_dir, state_dir):
            if would_list(resolve(path, base_dir), file) and (pattern is None or _matches(pattern, file)):
                raise _feedback(
                    source,
                    sink,
                    f"{what} is where the source reads ('{path}')",
                    written,
                    ", or into a folder whose name starts with `.` or `_`, which sources pass over",
                )


def _feedback(
    source: SourceSpec, sink: str, what: str, written: Mapping[str, Written], or_: str = ""
) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            "SQL017",
            f"source `{source.name}` would read what the pipeline writes",
            written[sink].table if sink in written else None,
            notes=(what, "a pipeline that reads what it writes never ends"),
            help=f"write elsewhere{or_}",
        )
    )


def _table(spec: SourceSpec | SinkSpec, base_dir: str) -> str:
    """The folder of a Delta table."""
    place = split_location(resolve(spec.options.get("table-path", ""), base_dir))[0]
    return os.path.realpath(place) if is_local(place) else place


def _files(plan: PhysicalPlan, base_dir: str, state_dir: str) -> Iterator[tuple[str, str, str]]:
    """What is written, the sink's name, and a file as it will be there."""
    for sink in plan.sinks:
        location = _location(sink, base_dir)
        if location is not None:
            file = location if sink.connector == "duckdb" else f"{location}/{_OF_A_SINK}"
            yield f"the path of sink `{sink.name}` ('{sink.options['path']}')", sink.name, file
    if "://" not in state_dir:
        yield f"the state directory ('{state_dir}')", "", str(Path(state_dir).absolute() / _OF_STATE)


def _location(sink: SinkSpec, base_dir: str) -> str | None:
    if sink.connector not in ("filesystem", "duckdb") or "path" not in sink.options:
        return None
    location = resolve(sink.options["path"], base_dir)
    return location if is_local(location) else None


def _matches(pattern: str, file: str) -> bool:
    try:
        return re.fullmatch(pattern, os.path.realpath(file)) is not None
    except re.error:  # reported where the source is made
        return False
