"""What a CSV text is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.formats.options import character, flag


@dataclass(frozen=True, slots=True)
class CsvShape:
    """What decides where a CSV record ends; None for `quote` or `escape` means there is none."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comments: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> CsvShape:
        """What the options of a table say. Raises DiagnosticError for a value that can't be used."""
        unquoted = flag(options, "csv.disable-quote-character")
        return cls(
            delimiter=character(options, "csv.field-delimiter", ",") or ",",
            quote=None if unquoted else character(options, "csv.quote-character", '"'),
            escape=character(options, "csv.escape-character", None),
            comments=flag(options, "csv.allow-comments"),
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a text in its order, whether it starts with a header, and how its lines end.

    DuckDB would take the first line end that it sees, also one inside quotes.
    """

    names: tuple[str, ...]
    header: bool
    newline: str = "\n"
