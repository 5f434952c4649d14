"""Sources as DuckDB views."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier, quote_literal
from sqlstream_planner.batch.batch_changelog import changelog_view
from sqlstream_planner.catalog.connector_options import CHANGELOG_FORMATS
from sqlstream_planner.catalog.options import find_option
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: The files of a source, in the order in which the runtime reads them.
Files = Callable[[SourceSpec], Sequence[str]]
#: Whether the CSV files of a source begin with a header line; None lets DuckDB find out.
Header = Callable[[SourceSpec], bool | None]


def source_view(catalog: Catalog, spec: SourceSpec, files: Files | None, header: Header | None) -> str:
    """CREATE VIEW of a source. Raises DiagnosticError for a metadata column that DuckDB has no way to give."""
    name = quote_identifier(spec.name)
    paths = list(files(spec)) if files is not None else [_default_path(spec)]
    listed = "[" + ", ".join(quote_literal(p) for p in paths) + "]"
    generated = spec.connector != "filesystem"
    format_ = "parquet" if generated else spec.options.get("format", "")
    if not generated and format_ == "orc":
        format_ = "parquet"
    if format_ in CHANGELOG_FORMATS:
        return f"CREATE OR REPLACE VIEW {name} AS\n{changelog_view(spec, listed)}"
    typed = format_ == "parquet"
    reader = _reader(spec, format_, listed, header)
    items = [_item(c.name, c.type, typed=typed) for c in spec.physical]
    items += [_metadata(catalog, spec, m.name, m.key, m.type) for m in spec.metadata]
    note = f"-- {spec.connector}: rows as the generator makes them, as Parquet\n" if generated else ""
    body = ",\n  ".join(items)
    return f"{note}CREATE OR REPLACE VIEW {name} AS\nSELECT\n  {body}\nFROM {reader}"


def _item(name: str, type_: SqlType, *, typed: bool) -> str:
    quoted = quote_identifier(name)
    if type_.kind is Kind.TIMESTAMP and not typed:
        return f"{quoted} AT TIME ZONE 'UTC' AS {quoted}"  # read with its zone offset, if it has one
    return f"CAST({quoted} AS {type_}) AS {quoted}"


def _reader(spec: SourceSpec, format_: str, listed: str, header: Header | None) -> str:
    name_column = ", filename = true" if spec.metadata else ""
    if format_ == "parquet":
        return f"read_parquet({listed}, union_by_name = true{name_column})"
    types = {
        c.name: "TIMESTAMP WITH TIME ZONE" if c.type.kind is Kind.TIMESTAMP else str(c.type)
        for c in spec.physical
    }
    columns = "{" + ", ".join(f"{quote_literal(n)}: {quote_literal(t)}" for n, t in types.items()) + "}"
    if format_ == "json":
        return f"read_json({listed}, format = 'newline_delimited', columns = {columns}, ignore_errors = true{name_column})"
    options = _csv_options(spec, header)
    return f"read_csv({listed}, columns = {columns}, ignore_errors = true{options}{name_column})"


def _csv_options(spec: SourceSpec, header: Header | None) -> str:
    from sqlstream_planner.catalog.connector_options import CONNECTORS

    known = CONNECTORS["filesystem"].options

    def text(key: str) -> str | None:
        option = find_option(known, key)
        return spec.options.get(key, option.default if option is not None else None)

    first = header(spec) if header is not None else None
    if spec.options.get("csv.header") in ("true", "false"):
        first = spec.options["csv.header"] == "true"
    parts = [f", header = {'true' if first else 'false'}"] if first is not None else []
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
    return "".join(parts)


def _metadata(catalog: Catalog, spec: SourceSpec, name: str, key: str, type_: SqlType) -> str:
    expressions = {"file.path": "filename", "file.name": "parse_filename(filename)"}
    if key not in expressions:
        table = catalog.table(spec.name)
        raise DiagnosticError(
            Diagnostic(
                "GLD001",
                f"`{name}` of `{spec.name}` is {key}, which the batch SQL for DuckDB has no way to give",
                table.span if table is not None else None,
                help="leave the column out of pipelines that are checked against a golden",
            )
        )
    return f"CAST({expressions[key]} AS {type_}) AS {quote_identifier(name)}"


def _default_path(spec: SourceSpec) -> str:
    path = spec.options.get("path")
    if path is None:
        return f"{spec.name}.parquet"
    last = path.rstrip("/").rpartition("/")[2]
    return path if "." in last or "*" in last else f"{path.rstrip('/')}/*"
