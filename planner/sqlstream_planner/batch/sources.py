"""Sources as DuckDB views: as the connector's descriptor says, or as Parquet files that hold what the connector reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier, quote_literal
from sqlstream_planner.catalog.descriptor import BatchFiles
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: The column of a changelog's view that gives the order of its rows.
ORDER_COLUMN = "__order"
#: The files of a source, in the order in which the runtime reads them.
Files = Callable[[SourceSpec], Sequence[str]]
#: Whether the CSV files of a source begin with a header line; None lets DuckDB find out.
Header = Callable[[SourceSpec], bool | None]


def source_view(catalog: Catalog, spec: SourceSpec, files: Files | None, header: Header | None) -> str:
    """CREATE VIEW of a source: its physical and metadata columns; of changes also KIND_COLUMN and ORDER_COLUMN.

    Without `files` the text names the path of the table's options. Raises DiagnosticError (GLD001), at the table's
    place, for a column that DuckDB has no way to give.
    """
    form = catalog.connectors[spec.connector].batch
    found = None
    if files is not None:
        found = BatchFiles(tuple(files(spec)), header(spec) if header is not None else None)
    view = f"CREATE OR REPLACE VIEW {quote_identifier(spec.name)} AS\n"
    if form is None:
        note = f"-- {spec.connector}: rows as the connector gives them, as Parquet\n"
        changelog = catalog.connectors[spec.connector].gives_changes(spec.options)
        return f"{note}{view}{copied_select(spec, found, changelog)}"
    try:
        return view + form(spec, found)
    except DiagnosticError as error:
        table = catalog.table(spec.name)
        place = table.span if table is not None else None
        raise DiagnosticError(*(replace(d, span=d.span or place) for d in error.diagnostics)) from None


def copied_select(spec: SourceSpec, files: BatchFiles | None, changelog: bool) -> str:
    """Parquet files with a source's columns, by default one that is called as the table is."""
    items = [typed_item(c.name, c.type) for c in spec.physical]
    items += [typed_item(m.name, m.type) for m in spec.metadata]
    if changelog:
        items += [quote_identifier(KIND_COLUMN), quote_identifier(ORDER_COLUMN)]
    body = ",\n  ".join(items)
    listed = list_of(files.paths if files is not None else (f"{spec.name}.parquet",))
    return f"SELECT\n  {body}\nFROM read_parquet({listed}, union_by_name = true)"


def list_of(paths: Sequence[str]) -> str:
    """Paths as a list of DuckDB's.

    >>> list_of(["a", "b"])
    "['a', 'b']"
    """
    return "[" + ", ".join(map(quote_literal, paths)) + "]"


def typed_item(name: str, type_: SqlType) -> str:
    """A column as its declared type."""
    quoted = quote_identifier(name)
    return f"CAST({quoted} AS {type_}) AS {quoted}"


def text_item(name: str, type_: SqlType) -> str:
    """A column of text files as its declared type: a TIMESTAMP was read with its zone offset, if it has one.

    A TIMESTAMP_NS is a text: its µs are those of the instant, and what is behind them is added. Bytes are a text in base64.
    """
    quoted = quote_identifier(name)
    if type_.kind is Kind.BLOB:
        return f"from_base64({quoted}) AS {quoted}"
    if type_.kind is Kind.TIMESTAMP_NS:
        behind = f"(epoch_ns(CAST({quoted} AS TIMESTAMP_NS)) % 1000 + 1000) % 1000"
        return f"make_timestamp_ns(1000 * epoch_us(CAST({quoted} AS TIMESTAMPTZ)) + {behind}) AS {quoted}"
    if type_.kind is not Kind.TIMESTAMP:
        return typed_item(name, type_)
    return f"{quoted} AT TIME ZONE 'UTC' AS {quoted}"


def no_metadata(spec: SourceSpec, name: str, key: str) -> DiagnosticError:
    """The error for a metadata column that DuckDB has no way to give."""
    return DiagnosticError(
        Diagnostic(
            "GLD001",
            f"`{name}` of `{spec.name}` is {key}, which the batch SQL for DuckDB can't give",
            help="leave the column out of pipelines that are checked against a golden",
        )
    )
