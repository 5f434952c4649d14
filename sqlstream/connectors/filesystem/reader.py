"""The task's half of a filesystem source: a split's ranges as a relation in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream.connectors.api import BadRow, Split
from sqlstream.connectors.filesystem import csv, narrowing, orc, parquet
from sqlstream.connectors.filesystem.columns import ReadColumns
from sqlstream.connectors.filesystem.file_ranges import FileRange, Workspace
from sqlstream.connectors.filesystem.lines import lenient_lines
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import without_credentials
from sqlstream.formats.beside import of_files
from sqlstream.formats.changelog_json.lines import ChangelogLines, strict_table
from sqlstream.formats.json.lines import JsonLines
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SourceSpec


class FileReader:
    """Reads splits of one source.

    JSON and CSV are parsed once, also when several queries read them; Parquet stays a view, so that each
    query reads only the columns and row groups that it needs. A relation of changes has KIND_COLUMN too; the
    source's filter is not applied to it, because a row that it drops may be what takes another one away.
    """

    def __init__(self, spec: SourceSpec, base_dir: str) -> None:
        self._spec = spec
        self._options = FileOptions.read(spec.options)
        _, self._credentials = without_credentials(self._options.path)
        self._wanted = ReadColumns.of(spec)

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make all rows of the split queryable.

        Raises DataError if a file is gone, changed or not of its format; a row that can't be read raises here
        or when the relation is queried.
        """
        ranges = ranges_of(split, self._credentials)
        if self._options.json_fail_on_missing and self._options.format == "json":
            raise DataError("json.fail-on-missing-field needs each line to be looked at")
        with Workspace() as work:
            match self._options.format:
                case "orc":
                    self._register(duck, relation, orc.strict_table(duck, self._wanted, ranges, work))
                    return
                case "parquet":
                    sql = parquet.strict_sql(duck, self._wanted, self._options, ranges, work)
                    several_parses = False
                case "csv":
                    sql = csv.strict_sql(self._wanted, self._options, ranges, work)
                    several_parses = queries > 1
                case "json":
                    beside = of_files(self._wanted.constants([p.entry for p in ranges]))
                    sql = self._json.select([work.text(file_range) for file_range in ranges], beside)
                    several_parses = queries > 1
                case _:
                    paths = [work.text(file_range) for file_range in ranges]
                    beside = of_files(self._wanted.constants([p.entry for p in ranges]))
                    table = strict_table(duck, self._changelog, paths, beside)
                    self._register(duck, relation, table)
                    return
            if not work.used and not several_parses:
                duck.view(relation, sql)
                return
            if self._spec.filter is not None:
                sql = f"SELECT * FROM ({sql}) WHERE {self._spec.filter}"
            self._register(duck, relation, duck.query(sql))

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """Make the readable rows queryable and return the others.

        Raises DataError if nothing of a file can be read: gone, changed, or not of its format.
        """
        tables: list[pa.Table] = []
        bad: list[BadRow] = []
        with Workspace() as work:
            for file_range in ranges_of(split, self._credentials):
                table, refused = self._lenient(duck, file_range, work)
                tables.append(table)
                bad += refused
        self._register(duck, relation, pa.concat_tables(tables))
        return bad

    def halves(self, split: Split) -> Sequence[Split]:
        """Two splits that have the rows of this one together; none if it can't be divided."""
        return narrowing.halves(split, ranges_of(split, self._credentials), self._options)

    def place(self, split: Split) -> str:
        """Where the rows of a split are: the file, and the line or the row in it."""
        return narrowing.place(ranges_of(split, self._credentials), self._options)

    def _lenient(
        self, duck: DuckSession, file_range: FileRange, work: Workspace
    ) -> tuple[pa.Table, list[BadRow]]:
        wanted, options = self._wanted, self._options
        match options.format:
            case "orc":
                return orc.strict_table(duck, wanted, [file_range], work), []
            case "csv":
                return csv.lenient(duck, wanted, options, file_range, work)
            case "parquet":
                return parquet.lenient(duck, wanted, options, file_range, work)
            case "json":
                return lenient_lines(duck, self._json, wanted, file_range, work)
            case _:
                return lenient_lines(duck, self._changelog, wanted, file_range, work)

    @property
    def _json(self) -> JsonLines:
        return JsonLines(self._wanted.columns, self._options.json_fail_on_missing)

    @property
    def _changelog(self) -> ChangelogLines:
        spec = self._spec
        return ChangelogLines.of(self._options.format, self._wanted.columns, spec.options, spec.primary_key)

    def _register(self, duck: DuckSession, relation: str, table: pa.Table) -> None:
        duck.register(relation, table, self._wanted.schema)


def ranges_of(split: Split, credentials: str = "") -> list[FileRange]:
    """The ranges that a split consists of, with what opens their files."""
    return [FileRange.from_json(item, credentials) for item in split.payload["ranges"]]
