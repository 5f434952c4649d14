"""How the referee reads files of a format: DuckDB's own readers, and none of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import Kind, quote_literal

#: As which types DuckDB reads columns of text, for `text_item` of `sqlstream_planner.batch.sources`.
_READ_AS: Mapping[Kind, str] = {
    Kind.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
    Kind.TIMESTAMP_NS: "VARCHAR",
    Kind.BIT: "VARCHAR",  # which read_json can't read
    Kind.BLOB: "VARCHAR",  # it is base64
}


@dataclass(frozen=True, slots=True)
class BatchRead:
    """What DuckDB is to read: the columns that are in files, which are `listed` (a DuckDB list).

    `header`: whether CSV has one; None lets DuckDB find out. `more` are further arguments of a reader, behind a comma.
    """

    columns: Schema
    options: Mapping[str, str]
    listed: str
    header: bool | None
    more: str

    @property
    def text_columns(self) -> str:
        """The `columns` argument of a reader of text."""
        return as_text(self.columns)


@dataclass(frozen=True, slots=True)
class BatchGiven:
    """Files that DuckDB reads as the format does, and whether they have a header of CSV (None: that is no question)."""

    header: bool | None = None


@dataclass(frozen=True, slots=True)
class Referee:
    """How DuckDB reads a format.

    `reader` makes the table function; `typed`: its columns have types of their own. Of changes, `changes` makes the whole
    SELECT, of the source, its files and the items of columns that are beside. `ending`: what names of files in a folder end
    with, if DuckDB is to look for them. `given` says of files (None: of any) whether DuckDB reads them as the format does;
    None: it does not, and is given the rows that were read.
    """

    reader: Callable[[BatchRead], str]
    given: Callable[[SourceSpec, Sequence[str]], BatchGiven | None]
    typed: bool = False
    ending: str = ""
    changes: Callable[[SourceSpec, str, Sequence[str]], str] | None = None


def as_text(columns: Schema) -> str:
    """The `columns` argument of DuckDB's readers of text."""
    types = {column.name: _READ_AS.get(column.type.kind, str(column.type)) for column in columns}
    return "{" + ", ".join(f"{quote_literal(n)}: {quote_literal(t)}" for n, t in types.items()) + "}"


def always(spec: SourceSpec, paths: Sequence[str]) -> BatchGiven:
    """DuckDB reads whatever is there."""
    return BatchGiven()


def never(spec: SourceSpec, paths: Sequence[str]) -> None:
    """DuckDB has no reader."""
    return
