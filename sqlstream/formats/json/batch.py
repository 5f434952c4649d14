"""Files of JSON lines to the referee."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.formats.referee import BatchGiven, BatchRead, Referee, as_text
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import Kind, quote_literal


def _reader(read: BatchRead) -> str:
    return (
        f"read_json({read.listed}, format = 'newline_delimited', columns = {read.text_columns}, ignore_errors = true"
        f"{read.more})"
    )


def _given(spec: SourceSpec, paths: Sequence[str]) -> BatchGiven | None:
    """Whether DuckDB reads every line without passing over anything, such as a value of another type as NULL."""
    from sqlstream_operators.duck.session import DuckSession
    from sqlstream_operators.errors import DataError

    if not paths:
        return BatchGiven()
    if any(type_.kind is not Kind.BLOB and type_.has(Kind.BLOB) for type_ in (c.type for c in spec.physical)):
        return None  # base64 inside of a value, which DuckDB would take for the bytes
    listed = ", ".join(map(quote_literal, paths))
    try:
        DuckSession().query(
            "SELECT count(DISTINCT hash(rows)) FROM "
            f"read_json([{listed}], format = 'newline_delimited', columns = {as_text(spec.physical)}) AS rows"
        )
    except DataError:
        return None
    return BatchGiven()


REFEREE = Referee(_reader, _given)
