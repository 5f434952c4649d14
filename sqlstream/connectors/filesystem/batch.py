"""Files as DuckDB batch SQL, for the referee: DuckDB's own readers, and none of ours."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlstream.connectors.filesystem.batch_changelog import changelog_select
from sqlstream.connectors.filesystem.columns import DEFAULT_PARTITION
from sqlstream.connectors.filesystem.formats import FORMATS
from sqlstream_operators.plan.spec import Column, SourceSpec
from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier, quote_literal
from sqlstream_planner.batch.sources import list_of, no_metadata, text_item, typed_item
from sqlstream_planner.catalog.descriptor import BatchFiles
from sqlstream_planner.catalog.options import find_option


def batch_select(spec: SourceSpec, files: BatchFiles | None) -> str:
    """See `BatchForm`."""
    format_ = spec.options.get("format", "").strip().lower()
    listed = list_of(files.paths if files is not None else [_default_path(spec)])
    if any(f.changelog for f in FORMATS if f.name == format_):
        beside = [_metadata(spec, m.name, m.key, m.type) for m in spec.metadata]
        return changelog_select(spec, format_, listed, beside)
    typed = format_ in ("parquet", "orc")  # DuckDB is given ORC as Parquet
    item = typed_item if typed else text_item
    items = [
        _partition(spec, c) if _is_partition(spec, c.name) else item(c.name, c.type) for c in spec.physical
    ]
    items += [_metadata(spec, m.name, m.key, m.type) for m in spec.metadata]
    body = ",\n  ".join(items)
    shown = "" if files is not None else _not_hidden(spec)
    named = bool(spec.metadata or spec.partitioned_by or shown)
    reader = _reader(spec, format_, listed, files.header if files else None, named=named)
    return f"SELECT\n  {body}\nFROM {reader}{shown}"


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


def _reader(spec: SourceSpec, format_: str, listed: str, header: bool | None, *, named: bool) -> str:
    name_column = (", filename = true" if named else "") + ", hive_partitioning = false"
    if format_ in ("parquet", "orc"):
        return f"read_parquet({listed}, union_by_name = true{name_column})"
    columns = (
        "{" + ", ".join(f"{quote_literal(n)}: {quote_literal(t)}" for n, t in text_types(spec).items()) + "}"
    )
    shape = f"columns = {columns}, ignore_errors = true"
    if format_ == "json":
        return f"read_json({listed}, format = 'newline_delimited', {shape}{name_column})"
    return f"read_csv({listed}, {shape}{''.join(_csv_options(spec, header))}{name_column})"


def text_types(spec: SourceSpec) -> dict[str, str]:
    """As which types DuckDB reads the columns of text files, for `text_item`."""
    read_as = {
        Kind.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
        Kind.TIMESTAMP_NS: "VARCHAR",
        Kind.BIT: "VARCHAR",  # which read_json can't read
    }
    inside = (c for c in spec.physical if not _is_partition(spec, c.name))
    return {c.name: read_as.get(c.type.kind, str(c.type)) for c in inside}


def _csv_options(spec: SourceSpec, header: bool | None) -> Sequence[str]:
    known = next(f for f in FORMATS if f.name == "csv").options

    def text(key: str) -> str | None:
        option = find_option(known, key)
        return spec.options.get(key, option.default if option is not None else None)

    if spec.options.get("csv.header") in ("true", "false"):
        header = spec.options["csv.header"] == "true"
    parts = [f", header = {'true' if header else 'false'}"] if header is not None else []
    parts.append(f", delim = {quote_literal(text('csv.field-delimiter') or ',')}")
    quote = "" if text("csv.disable-quote-character") == "true" else text("csv.quote-character") or '"'
    parts.append(f", quote = {quote_literal(quote)}")
    if text("csv.escape-character"):
        parts.append(f", escape = {quote_literal(text('csv.escape-character') or '')}")
    parts.append(", allow_quoted_nulls = false")
    if text("csv.null-literal") is not None:
        parts.append(f", nullstr = {quote_literal(text('csv.null-literal') or '')}")
    if text("csv.allow-comments") == "true":
        parts.append(", comment = '#'")
    return parts


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
    ending = ".parquet" if spec.options.get("format", "").strip().lower() in ("parquet", "orc") else ""
    return f"{folder}/**/[!._]*{ending}"


def _folder(spec: SourceSpec) -> str | None:
    """The path, if it looks like a folder's."""
    path = spec.options["path"].rstrip("/")
    last = path.rpartition("/")[2]
    return None if ("." in last.strip(".") and not spec.partitioned_by) or "*" in path else path
