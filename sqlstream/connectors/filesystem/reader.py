"""The task's half of a filesystem source: a split's ranges as a relation in DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.api import BadRow, Split
from sqlstream.connectors.filesystem import narrowing
from sqlstream.connectors.filesystem.columns import ReadColumns
from sqlstream.connectors.filesystem.file_ranges import FileRange, Workspace
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.parts import Part
from sqlstream.connectors.filesystem.paths import FileEntry, split_location
from sqlstream.formats.beside import Beside, of_files
from sqlstream.formats.file_parts import ColumnsIn, FilePart, FileTable
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import KIND_COLUMN, SourceSpec

#: SELECT items of the columns that are not in files, for files that DuckDB numbers in this order.
Constants = Callable[[Sequence[FileEntry]], list[str]]
#: The column that says whether a row is there; where it is NULL it is not.
HERE = "__sqlstream_here"


class FileReader:
    """Reads splits of one source.

    JSON and CSV are parsed once, also when several queries read them; Parquet stays a view, so that each
    query reads only the columns and row groups that it needs. A relation of changes has KIND_COLUMN too; the
    source's filter is not applied to it, because a row that it drops may be what takes another one away.

    `constants` says what partition and metadata columns are, as `ReadColumns.constants` does, which goes by files' paths.
    With `kinds` it also has KIND_COLUMN, and rows where that is NULL are left out. `columns_in` finds columns in files of
    Parquet otherwise than by their names; with `marks` it gives a column HERE more, and rows where that is not true are
    left out, and so is the column.
    """

    def __init__(
        self,
        spec: SourceSpec,
        base_dir: str,
        constants: Constants | None = None,
        *,
        kinds: bool = False,
        columns_in: ColumnsIn | None = None,
        marks: bool = False,
    ) -> None:
        self._spec = spec
        self._options = FileOptions.read(spec.options)
        _, self._opening = split_location(self._options.path)
        self._wanted = wanted = ReadColumns.of(spec)
        self._constants = constants or wanted.constants
        self._kinds, self._marks = kinds, marks
        table = FileTable(
            wanted.columns, wanted.declared, spec.options, spec.primary_key, self._beside, columns_in
        )
        self._format = self._options.files.read(table)

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make all rows of the split queryable.

        Raises DataError if a file is gone, changed or not of its format; a row that can't be read raises here
        or when the relation is queried.
        """
        ranges = ranges_of(split, self._opening)
        with Workspace() as work:
            found = self._format.strict(duck, [Part(one, work) for one in ranges], work)
            if not isinstance(found, str):
                self._register(duck, relation, found)
                return
            sql, several_parses = found, self._format.parses and queries > 1
            if self._marks:
                sql = f"SELECT * EXCLUDE ({HERE}) FROM ({sql}) WHERE {HERE}"
            if self._kinds:
                sql = f"SELECT * FROM ({sql}) WHERE {KIND_COLUMN} IS NOT NULL"
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
            for file_range in ranges_of(split, self._opening):
                table, refused = self._format.lenient(duck, Part(file_range, work), work)
                tables.append(table)
                path = file_range.entry.path
                bad += [BadRow(path, one.line, one.raw, one.reason) for one in refused]
        found = pa.concat_tables(tables)
        if self._marks:
            found = found.filter(found.column(HERE)).drop_columns(HERE)
        if self._kinds:
            found = found.filter(pc.is_valid(found.column(KIND_COLUMN)))
        self._register(duck, relation, found)
        return bad

    def halves(self, split: Split) -> Sequence[Split]:
        """Two splits that have the rows of this one together; none if it can't be divided."""
        return narrowing.halves(split, ranges_of(split, self._opening), self._options)

    def place(self, split: Split) -> str:
        """Where the rows of a split are: the file, and the line or the row in it."""
        return narrowing.place(ranges_of(split, self._opening), self._options)

    def _beside(self, parts: Sequence[FilePart]) -> Beside:
        """The columns that are not in files but in their paths, or their metadata."""
        entries = [part.range.entry for part in parts if isinstance(part, Part)]
        return of_files(self._constants(entries))

    def _register(self, duck: DuckSession, relation: str, table: pa.Table) -> None:
        duck.register(relation, table, self._wanted.schema)


def ranges_of(split: Split, opening: str = "") -> list[FileRange]:
    """The ranges that a split consists of, with what opens their files."""
    return [FileRange.from_json(item, opening) for item in split.payload["ranges"]]
