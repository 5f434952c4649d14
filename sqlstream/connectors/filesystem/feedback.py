"""Whether a source of files would list what the pipeline writes: local files of a sink, or of its state directory."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sqlstream.connectors.filesystem.paths import is_local, resolve, split_location, would_list
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec

#: A file as each of them writes it; a database is a file itself.
_WRITTEN = {
    "filesystem": ("path", "part-000001-0-00000.json"),
    "delta": ("table-path", "part-00000.snappy.parquet"),
    "duckdb": ("path", ""),
}
_OF_STATE = "epochs/000001.plan.json"


def feeds_on(source: SourceSpec, sink: SinkSpec, base_dir: str) -> str | None:
    """How a sink's files come to a source of files; None: they don't. See `Feeding`."""
    option, file = _WRITTEN.get(sink.connector, ("", ""))
    if option not in sink.options:
        return None
    folder = split_location(resolve(sink.options[option], base_dir))[0]
    if not is_local(folder) or not _lists(source, base_dir, f"{folder}/{file}".rstrip("/")):
        return None
    return (
        f"the {option} of sink `{sink.name}` ('{sink.options[option]}') is where the source reads "
        f"('{source.options.get('path', '')}')"
    )


def reads_state(source: SourceSpec, base_dir: str, state_dir: str) -> str | None:
    """How a state directory's files come to a source of files; None: they don't, or it is no such source."""
    if source.connector != "filesystem" or "://" in state_dir:
        return None
    if not _lists(source, base_dir, str(Path(state_dir).absolute() / _OF_STATE)):
        return None
    return (
        f"the state directory ('{state_dir}') is where the source reads ('{source.options.get('path', '')}')"
    )


def _lists(source: SourceSpec, base_dir: str, file: str) -> bool:
    location = resolve(source.options.get("path", ""), base_dir)
    if not is_local(location) or not would_list(location, file):
        return False
    pattern = source.options.get("source.path.regex-pattern")
    return pattern is None or _matches(pattern, file)


def _matches(pattern: str, file: str) -> bool:
    try:
        return re.fullmatch(pattern, os.path.realpath(file)) is not None
    except re.error:  # reported where the source is made
        return False
