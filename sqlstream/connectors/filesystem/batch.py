"""Files as DuckDB batch SQL, for the referee: DuckDB's own readers, and none of ours."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.connectors.filesystem.batch_changelog import changelog_select
from sqlstream.connectors.filesystem.formats import FORMATS
from sqlstream_operators.plan.spec import SourceSpec
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
    items = [(typed_item if typed else text_item)(c.name, c.type) for c in spec.physical]
    items += [_metadata(spec, m.name, m.key, m.type) for m in spec.metadata]
    body = ",\n  ".join(items)
    return f"SELECT\n  {body}\nFROM {_reader(spec, format_, listed, files.header if files else None)}"


def _reader(spec: SourceSpec, format_: str, listed: str, header: bool | None) -> str:
    name_column = ", filename = true" if spec.metadata else ""
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
    return {c.name: read_as.get(c.type.kind, str(c.type)) for c in spec.physical}


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
    path = spec.options["path"]
    last = path.rstrip("/").rpartition("/")[2]
    return path if "." in last or "*" in last else f"{path.rstrip('/')}/*"
