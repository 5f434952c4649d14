"""The named relations of a stage: computed at most once, or inlined where only one fragment reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlstream_operators.codec.arrow_types import conform, to_arrow
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.epoch_values import OF_EPOCH
from sqlstream_operators.plan.spec import Column, Schema

from .session import DuckSession


class Relations:
    """Relations by name: Arrow tables, and SQL that is run when a table of it is needed.

    SQL over SQL goes to DuckDB as one query (views), so that projections and filters reach the source's
    files.
    """

    def __init__(self, duck: DuckSession) -> None:
        self._duck = duck
        self._tables: dict[str, pa.Table] = {}
        self._schemas: dict[str, Sequence[Column]] = {}
        self._lazy: dict[str, tuple[str, tuple[str, ...]]] = {}

    def add_table(self, name: str, table: pa.Table, schema: Sequence[Column]) -> None:
        """A relation that is there; `schema` restores what Arrow's types lose."""
        self._tables[name] = table
        self._schemas[name] = schema

    def add_sql(self, name: str, sql: str, inputs: Sequence[str]) -> None:
        """A relation that `sql` over `inputs` computes when it is needed."""
        self._lazy[name] = (sql, tuple(inputs))

    def table(self, name: str) -> pa.Table:
        """The rows of a relation, computed now if they are not there, and kept."""
        if name not in self._tables:
            table, schema = self._run(*self._lazy[name])
            self.add_table(name, table, schema)
        return self._tables[name]

    def made_of(self, name: str) -> dict[str, pa.Table] | None:
        """The relations whose rows are there that a relation is computed from; None: it reads something else, too."""
        needed: dict[str, None] = {}
        if name not in self._lazy or self._reads_epoch(name):
            return None
        self._collect(self._lazy[name][1], needed)
        if any(read not in self._tables and not self._lazy[read][1] for read in needed):
            return None  # the split of a source
        return {read: self._tables[read] for read in needed if read in self._tables}

    def text(self, name: str) -> str:
        """All the SQL that computes a relation from those whose rows are there."""
        needed: dict[str, None] = {}
        self._collect((name,), needed)
        return "\n".join(self._lazy[read][0] for read in needed if read not in self._tables)

    def computed_over(self, name: str, others: Mapping[str, pa.Table]) -> tuple[pa.Table, Schema]:
        """The rows that a relation would have with other rows in those that it is made of, and its columns."""
        kept = dict(self._tables)
        self._tables.pop(name, None)
        self._tables |= others
        try:
            return self._run(*self._lazy[name])
        finally:
            self._tables = kept

    def schema(self, name: str) -> Sequence[Column]:
        """The columns of a relation whose rows are there."""
        return self._schemas[name]

    def write_json(
        self, sql: str, inputs: Sequence[str], target: Path, parameters: Mapping[str, Any] | None = None
    ) -> int:
        """Write the result of one more query to a local file; see `DuckSession.write_json`."""
        with self._readable(inputs):
            return self._duck.write_json(sql, target, parameters)

    def query(
        self, sql: str, inputs: Sequence[str], parameters: Mapping[str, Any] | None = None
    ) -> tuple[pa.Table, Schema]:
        """The result of one more query, and its columns."""
        with self._readable(inputs):
            return self._duck.query_typed(sql, parameters=parameters)

    def _run(self, sql: str, inputs: Sequence[str]) -> tuple[pa.Table, Schema]:
        with self._readable(inputs):
            return self._duck.query_typed(sql)

    @contextmanager
    def _readable(self, inputs: Sequence[str]) -> Iterator[None]:
        """Meanwhile SQL can read these relations."""
        needed: dict[str, None] = {}
        self._collect(tuple(inputs), needed)
        made = []
        try:
            for name in needed:
                made.append(name)
                if name in self._tables:
                    self._duck.register(name, self._tables[name], self._schemas[name])
                else:
                    self._duck.view(name, self._lazy[name][0])
            yield
        finally:
            for name in reversed(made):
                self._duck.drop(name)

    def _reads_epoch(self, name: str) -> bool:
        inputs = self._lazy[name][1] if name in self._lazy and name not in self._tables else ()
        return any(read in OF_EPOCH or self._reads_epoch(read) for read in inputs)

    def _collect(self, names: tuple[str, ...], needed: dict[str, None]) -> None:
        """What these relations are made of, each after what it reads."""
        for name in names:
            if name not in needed and name not in OF_EPOCH:
                if name not in self._tables:
                    self._collect(self._lazy[name][1], needed)
                needed[name] = None


def conformed(table: pa.Table, schema: Schema, what: str, extra: Sequence[str] = ()) -> pa.Table:
    """The columns of `schema` in its order and Arrow types, then those of `extra` that are there.

    Raises InternalError, naming `what`, where a column is missing or its values are not of the type.
    """
    arrays, fields = [], []
    for column in schema:
        if column.name not in table.column_names:
            raise InternalError(f"{what}: no column {column.name} among {table.column_names}")
        found, type_ = table.column(column.name), to_arrow(column.type)
        if found.type != type_:
            try:
                found = conform(found, type_)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InternalError(
                    f"{what}: column {column.name} is {found.type}, not {type_}: {error}"
                ) from error
        arrays.append(found)
        fields.append(pa.field(column.name, type_))
    for name in extra:
        if name in table.column_names:
            arrays.append(table.column(name))
            fields.append(pa.field(name, table.column(name).type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
