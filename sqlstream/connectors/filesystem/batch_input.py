"""Which files DuckDB reads as the `filesystem` connector does: it does not know partition columns in paths, and what else
it reads otherwise its format says.
"""

from __future__ import annotations

import re

from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import is_local, list_files, resolve
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.catalog.descriptor import BatchFiles
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def batch_input(spec: SourceSpec, base_dir: str) -> BatchFiles | None:
    """See `BatchInput`. Raises DiagnosticError (GLD005) if there are no files."""
    options = FileOptions.read(spec.options)
    location = resolve(spec.options["path"], base_dir)
    if spec.partitioned_by or not is_local(location):
        return None
    paths = [entry.path for entry in list_files(location)]
    paths = [p for p in paths if options.path_pattern is None or re.fullmatch(options.path_pattern, p)]
    given = options.files.judged.given(spec, paths)
    if given is None:
        return None
    if not paths:
        raise DiagnosticError(
            Diagnostic("GLD005", f"source `{spec.name}` has no files: nothing is at {location}")
        )
    return BatchFiles(tuple(paths), given.header)
