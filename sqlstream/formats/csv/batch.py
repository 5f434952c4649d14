"""Files of CSV to the referee."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.formats.csv.descriptor import CSV
from sqlstream.formats.referee import BatchGiven, BatchRead, Referee
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import quote_literal
from sqlstream_planner.catalog.options import find_option

_HEAD_BYTES = 1 << 20


def _reader(read: BatchRead) -> str:
    options = "".join(_options(read))
    return f"read_csv({read.listed}, columns = {read.text_columns}, ignore_errors = true{options}{read.more})"


def _options(read: BatchRead) -> Sequence[str]:
    def text(key: str) -> str | None:
        option = find_option(CSV.options, key)
        return read.options.get(key, option.default if option is not None else None)

    header = read.header
    if read.options.get("csv.header") in ("true", "false"):
        header = read.options["csv.header"] == "true"
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


def _given(spec: SourceSpec, paths: Sequence[str]) -> BatchGiven | None:
    """Whether all have a header, or none; None if DuckDB would read one otherwise (columns in another order)."""
    import pyarrow as pa

    from sqlstream.formats.csv.files import first_record
    from sqlstream.formats.csv.shape import CsvShape
    from sqlstream.formats.options import flag

    shape = CsvShape.of(spec.options)
    declared_header = flag(spec.options, "csv.header") if "csv.header" in spec.options else None
    declared = [column.name.lower() for column in spec.physical]
    headers = set()
    for path in paths:
        with pa.input_stream(path, compression="detect") as stream:
            head = stream.read(_HEAD_BYTES)
        if not head.strip():
            return None  # DuckDB finds no columns in an empty file
        fields, _ = first_record(head, shape)
        names = [name.strip().lower() for name in fields]
        found = declared_header is not False and set(declared) <= set(names)
        if (found or declared_header) and names != declared:
            return None
        headers.add(found)
    return None if len(headers) > 1 else BatchGiven(next(iter(headers), None))


REFEREE = Referee(_reader, _given)
