"""Which files DuckDB reads as the `filesystem` connector does.

It does not know partition columns in paths, a CSV header in another order than the table's columns, and JSON with values
of another type than their column's, which it would pass over as NULL.
"""

from __future__ import annotations

import re

import pyarrow as pa

from sqlstream.connectors.filesystem.batch import text_types
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import is_local, list_files, resolve
from sqlstream.formats.csv.files import first_record
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import quote_literal
from sqlstream_planner.catalog.descriptor import BatchFiles
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_HEAD_BYTES = 1 << 20


def batch_input(spec: SourceSpec, base_dir: str) -> BatchFiles | None:
    """See `BatchInput`. Raises DiagnosticError (GLD005) if there are no files."""
    options = FileOptions.read(spec.options)
    location = resolve(spec.options["path"], base_dir)
    if spec.partitioned_by or options.format == "orc" or not is_local(location):
        return None
    paths = [entry.path for entry in list_files(location)]
    paths = [p for p in paths if options.path_pattern is None or re.fullmatch(options.path_pattern, p)]
    header = None
    if options.format == "json" and paths and not _is_clean_json(spec, paths):
        return None
    if options.format == "csv":
        found = _headers(spec, options, paths)
        if found is None or len(found) > 1:
            return None
        header = next(iter(found), None)
    if not paths:
        raise DiagnosticError(
            Diagnostic("GLD005", f"source `{spec.name}` has no files: nothing is at {location}")
        )
    return BatchFiles(tuple(paths), header)


def _headers(spec: SourceSpec, options: FileOptions, paths: list[str]) -> set[bool] | None:
    """Whether CSV files have a header; None if DuckDB would read one of them otherwise."""
    declared = [column.name.lower() for column in spec.physical]
    headers = set()
    for path in paths:
        with pa.input_stream(path, compression="detect") as stream:
            head = stream.read(_HEAD_BYTES)
        if not head.strip():
            return None  # DuckDB finds no columns in an empty file
        fields, _ = first_record(head, options.csv)
        names = [name.strip().lower() for name in fields]
        found = options.csv_header is not False and set(declared) <= set(names)
        if (found or options.csv_header) and names != declared:
            return None
        headers.add(found)
    return headers


def _is_clean_json(spec: SourceSpec, paths: list[str]) -> bool:
    """Whether DuckDB reads every line without passing over anything."""
    columns = ", ".join(f"{quote_literal(n)}: {quote_literal(t)}" for n, t in text_types(spec).items())
    listed = ", ".join(map(quote_literal, paths))
    try:
        DuckSession().query(
            "SELECT count(DISTINCT hash(rows)) FROM "
            f"read_json([{listed}], format = 'newline_delimited', columns = {{{columns}}}) AS rows"
        )
    except DataError:
        return False
    return True
