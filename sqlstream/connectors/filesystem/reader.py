"""The task's half of a filesystem source: a split's pieces as a relation in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream.connectors.api import BadRow, Split
from sqlstream.connectors.filesystem import csv, json, orc, parquet
from sqlstream.connectors.filesystem.columns import Wanted
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.pieces import Piece, Workspace
from sqlstream_operators.errors import DataError
from sqlstream_operators.fragment import DuckSession
from sqlstream_operators.spec import SourceSpec

_CAREFUL = {"json": json.careful, "csv": csv.careful, "parquet": parquet.careful}


class FileReader:
    """Reads splits of one source.

    JSON and CSV are parsed once, also when several queries read them; Parquet stays a view, so that each
    query reads only the columns and row groups that it needs.
    """

    def __init__(self, spec: SourceSpec, base_dir: str) -> None:
        self._spec = spec
        self._options = FileOptions.read(spec.options)
        self._wanted = Wanted.of(spec)

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make all rows of the split queryable.

        Raises DataError if a file is gone, changed or not of its format; a row that can't be read raises here
        or when the relation is queried.
        """
        pieces = pieces_of(split)
        if self._options.json_fail_on_missing and self._options.format == "json":
            raise DataError("json.fail-on-missing-field needs each line to be looked at")
        with Workspace() as work:
            match self._options.format:
                case "orc":
                    self._register(duck, relation, orc.strict_table(duck, self._wanted, pieces, work))
                    return
                case "parquet":
                    sql = parquet.strict_sql(duck, self._wanted, self._options, pieces, work)
                    several_parses = False
                case "csv":
                    sql = csv.strict_sql(self._wanted, self._options, pieces, work)
                    several_parses = queries > 1
                case _:
                    sql = json.strict_sql(self._wanted, self._options, pieces, work)
                    several_parses = queries > 1
            if not work.used and not several_parses:
                duck.view(relation, sql)
                return
            if self._spec.filter is not None:
                sql = f"SELECT * FROM ({sql}) WHERE {self._spec.filter}"
            self._register(duck, relation, duck.query(sql))

    def open_careful(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """Make the readable rows queryable and return the others.

        Raises DataError if nothing of a file can be read: gone, changed, or not of its format.
        """
        tables: list[pa.Table] = []
        bad: list[BadRow] = []
        with Workspace() as work:
            for piece in pieces_of(split):
                if self._options.format == "orc":
                    tables.append(orc.strict_table(duck, self._wanted, [piece], work))
                    continue
                table, refused = _CAREFUL[self._options.format](
                    duck, self._wanted, self._options, piece, work
                )
                tables.append(table)
                bad += refused
        self._register(duck, relation, pa.concat_tables(tables))
        return bad

    def _register(self, duck: DuckSession, relation: str, table: pa.Table) -> None:
        duck.register(relation, table, self._wanted.schema)


def pieces_of(split: Split) -> list[Piece]:
    """The pieces that a split consists of."""
    return [Piece.from_json(item) for item in split.payload["pieces"]]
