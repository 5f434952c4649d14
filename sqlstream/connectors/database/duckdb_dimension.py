"""A table in a DuckDB file that lookup joins read."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.database.declared import table_in
from sqlstream.connectors.database.dimension import no_table, other_columns
from sqlstream.connectors.database.duckdb_table import PATIENCE_S, database_file
from sqlstream.connectors.exactly_once.target import unusable
from sqlstream_operators.codec.arrow_types import carried
from sqlstream_operators.duck.arrow_values import normalize
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import DimensionSpec
from sqlstream_operators.plan.types import Kind, SqlType, parse_type, quote_identifier, quote_literal
from sqlstream_operators.plan.widening import widens

_DATABASE = "dimension"
_ROWS_PER_BATCH = 1 << 16
_LOOK_S = 0.1


class DuckTableRows:
    """The rows of a table or view. The file is open while they are read only."""

    def __init__(
        self,
        spec: DimensionSpec,
        base_dir: str,
        *,
        patience_s: float = PATIENCE_S,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spec = spec
        self._path = database_file(spec.source.options, base_dir)
        schema, self._name = table_in(spec.source.options, spec.name)
        self._schema = schema or "main"
        self._patience_s = patience_s
        self._wait = wait

    @property
    def _location(self) -> str:
        return f"table {self._name} in '{self._path}'"

    def version(self) -> str | None:
        """When the file and its log were changed, and their sizes; None if there is none."""
        found = []
        for path in (self._path, Path(f"{self._path}.wal")):
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                found.append([path.name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino])
        return json.dumps(found) if found else None

    def rows(self, duck: DuckSession) -> Iterator[pa.RecordBatch]:
        """All rows. Raises DiagnosticError: DAT009 if they are not as declared, ENV006 if the file can't be opened."""
        con = duck.connection
        self._attach(con)
        try:
            items = self._items(con)
            table = f"{_DATABASE}.{quote_identifier(self._schema)}.{quote_identifier(self._name)}"
            try:
                for batch in con.sql(f"SELECT {', '.join(items)} FROM {table}").to_arrow_reader(
                    _ROWS_PER_BATCH
                ):
                    yield from normalize(pa.Table.from_batches([batch])).to_batches()
            except duckdb.Error as error:
                raise DataError(f"{self._location}: {error}") from error
        finally:
            with contextlib.suppress(duckdb.Error):
                con.execute(f"DETACH {_DATABASE}")

    def _attach(self, con: duckdb.DuckDBPyConnection) -> None:
        if not self._path.exists():
            raise unusable(self._location, "there is no such file", "write its 'path'", done="read")
        waited = 0.0
        while True:
            try:
                con.execute(f"ATTACH {quote_literal(str(self._path))} AS {_DATABASE} (READ_ONLY)")
                return
            except duckdb.Error as error:
                if "lock" not in str(error) or waited >= self._patience_s:
                    raise unusable(self._location, str(error), done="read") from None
            self._wait(_LOOK_S)
            waited += _LOOK_S

    def _items(self, con: duckdb.DuckDBPyConnection) -> list[str]:
        """The columns of the copy, as the types that they are declared as. Raises DiagnosticError (DAT009)."""
        there = self._columns(con)
        if not there:
            found = con.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_catalog = $1 ORDER BY 1",
                [_DATABASE],
            ).fetchall()
            raise no_table(self._spec.name, self._location, [str(name) for (name,) in found])
        types = {name.lower(): type_ for name, type_ in there}
        wrong = [
            (c.name, str(c.type), types.get(c.name.lower()))
            for c in self._spec.schema
            if not _can_be(types.get(c.name.lower()), c.type)
        ]
        if wrong:
            raise other_columns(self._spec.name, self._location, wrong, there)
        return [
            f"CAST({quote_identifier(c.name)} AS {carried(c.type)}) AS {quote_identifier(c.name)}"
            for c in self._spec.schema
        ]

    def _columns(self, con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
        found: list[tuple[Any, ...]] = con.execute(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = $1 AND "
            "lower(schema_name) = lower($2) AND lower(table_name) = lower($3) ORDER BY column_index",
            [_DATABASE, self._schema, self._name],
        ).fetchall()
        return [(str(name), str(type_)) for name, type_ in found]


def _can_be(found: str | None, wanted: SqlType) -> bool:
    """Whether all values of a type of DuckDB's are values of the declared type."""
    if found is None:
        return False
    try:
        has = parse_type(found)
    except ValueError:
        return False
    if has.kind is Kind.ENUM and wanted.kind is Kind.VARCHAR:
        return True
    return has == wanted or widens(has, wanted)


class DuckDimension:
    """Makes dimensions of tables in DuckDB files."""

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> DuckTableRows:
        """The driver's half."""
        return DuckTableRows(spec, context.base_dir)
