"""Files as DuckDB batch SQL, for the referee: DuckDB's own readers, and none of ours."""

from __future__ import annotations

import re

from sqlstream.connectors.filesystem.columns import DEFAULT_PARTITION
from sqlstream.formats.referee import BatchRead, Referee
from sqlstream.formats.registry import REGISTERED
from sqlstream_operators.plan.spec import Column, SourceSpec
from sqlstream_operators.plan.types import SqlType, quote_identifier, quote_literal
from sqlstream_planner.batch.sources import list_of, no_metadata, text_item, typed_item
from sqlstream_planner.catalog.descriptor import BatchFiles


def batch_select(spec: SourceSpec, files: BatchFiles | None) -> str:
    """See `BatchForm`."""
    referee = _referee(spec)
    listed = list_of(files.paths if files is not None else [_default_path(spec)])
    if referee.changes is not None:
        return referee.changes(spec, listed, [_metadata(spec, m.name, m.key, m.type) for m in spec.metadata])
    item = typed_item if referee.typed else text_item
    items = [
        _partition(spec, c) if _is_partition(spec, c.name) else item(c.name, c.type) for c in spec.physical
    ]
    items += [_metadata(spec, m.name, m.key, m.type) for m in spec.metadata]
    body = ",\n  ".join(items)
    shown = "" if files is not None else _not_hidden(spec)
    named = ", filename = true" if spec.metadata or spec.partitioned_by or shown else ""
    inside = tuple(c for c in spec.physical if not _is_partition(spec, c.name))
    header = files.header if files is not None else None
    read = BatchRead(inside, spec.options, listed, header, f"{named}, hive_partitioning = false")
    return f"SELECT\n  {body}\nFROM {referee.reader(read)}{shown}"


def _referee(spec: SourceSpec) -> Referee:
    return REGISTERED.in_files(spec.options.get("format", "").strip().lower()).judged


def _is_partition(spec: SourceSpec, name: str) -> bool:
    return name.lower() in {partition.lower() for partition in spec.partitioned_by}


def _partition(spec: SourceSpec, column: Column) -> str:
    """A column whose value is in the names of folders."""
    folder = quote_literal(f"(?i)^(?:.*/)?{re.escape(column.name)}=([^/]*)/")
    default = quote_literal(spec.options.get("partition.default-name", DEFAULT_PARTITION))
    value = f"url_decode(nullif(regexp_extract(filename, {folder}, 1), {default}))"
    return f"CAST({value} AS {column.type}) AS {quote_identifier(column.name)}"


def _not_hidden(spec: SourceSpec) -> str:
    """A WHERE that leaves out what is below folders whose names hide them; "" where no folder is read."""
    path = _folder(spec)
    if path is None:
        return ""
    return f"\nWHERE NOT regexp_matches(substr(filename, {len(path) + 1}), '/[._]')"


def _metadata(spec: SourceSpec, name: str, key: str, type_: SqlType) -> str:
    expressions = {"file.path": "filename", "file.name": "parse_filename(filename)"}
    if key not in expressions:
        raise no_metadata(spec, name, key)
    return f"CAST({expressions[key]} AS {type_}) AS {quote_identifier(name)}"


def _default_path(spec: SourceSpec) -> str:
    """What DuckDB is given for the table's path: of a folder everything that is below it and not hidden."""
    folder = _folder(spec)
    if folder is None:
        return spec.options["path"]
    return f"{folder}/**/[!._]*{_referee(spec).ending}"


def _folder(spec: SourceSpec) -> str | None:
    """The path, if it looks like a folder's."""
    path = spec.options["path"].rstrip("/")
    last = path.rpartition("/")[2]
    return None if ("." in last.strip(".") and not spec.partitioned_by) or "*" in path else path
