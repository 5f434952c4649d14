"""The connectors of a test: every source reads the rows that the test gives, every sink keeps what it is given.

The plan is the pipeline's own, with the connectors that the file names; only what would read and write is another. So what
an edit means to a sink is what it means to a sink of its connector.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.connectors.api import (
    BadRow,
    ConnectorContext,
    Dimension,
    Limits,
    Position,
    Sink,
    SinkPart,
    Source,
    SourcePlan,
    Split,
    SplitReader,
    TargetEdit,
)
from sqlstream.connectors.database.changes import consolidate
from sqlstream.connectors.numbered import publish
from sqlstream.connectors.registry import REGISTERED
from sqlstream.runtime.tasks.task_program import Connectors
from sqlstream.unit_tests.memory import Content, Memory, Stream, Written
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.row_kinds import count_changes
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import with_weight
from sqlstream_operators.errors import TargetError
from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.spec import Column, DimensionSpec, Schema, SinkSpec, SourceSpec
from sqlstream_operators.plan.types import VARCHAR
from sqlstream_planner.catalog.descriptor import ONE_ROW

#: The options that say where a sink is that writes files.
_DIRECTORY = ("path",)
_GIVEN, _CHANGES = "__unit_test_given", "__unit_test_changes"


@dataclass(frozen=True, slots=True)
class MemoryConnectors:
    """Both halves of the connectors of one test; `changelogs` are the sources (lower case) that give changes."""

    memory: Memory
    changelogs: Collection[str]
    duck: DuckSession

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Source:
        """The driver's half of a source."""
        if spec.connector == ONE_ROW:
            return REGISTERED.source(spec, context)
        return GivenSource(spec.name, self.memory.stream(spec))

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Sink:
        """The driver's half of a sink."""
        content = self.memory.target(spec, context.known_as or spec.name)
        abilities = REGISTERED.descriptors[spec.connector].sink
        if abilities.records_epochs:
            return KeptTable(content, spec, self.duck)
        return KeptFiles(content, spec.name) if abilities.place == _DIRECTORY else KeptRows(content)

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> Dimension:
        """The driver's half of a table that lookup joins read."""
        return GivenDimension(spec, self.memory)

    def reader(self, spec: SourceSpec, base_dir: str) -> SplitReader:
        """The task's half of a source."""
        if spec.connector == ONE_ROW:
            return REGISTERED.reader(spec, base_dir)
        return GivenReader(spec, self.memory.stream(spec), changes=spec.name.lower() in self.changelogs)

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> KeepingWriter:
        """The task's half of a sink."""
        return KeepingWriter()

    @property
    def of_tasks(self) -> Connectors:
        """The halves that run in tasks."""
        return Connectors(self.reader, self.reader, self.writer)


class GivenSource:
    """The rows of a test. A position is {"row": the next one, "moves": how often the watermark was moved by then}."""

    bounded = True

    def __init__(self, name: str, stream: Stream, end: Position | None = None) -> None:
        self._name = name
        self._stream = stream
        self._end = end

    def initial_position(self) -> Position:
        """Before the first row."""
        return {"row": 0, "moves": 0}

    def until(self, position: Position) -> GivenSource:
        """The rows before `position`."""
        return GivenSource(self._name, self._stream, position)

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """All rows that were given since; a split without rows where only the watermark is moved."""
        first, after = int(position["row"]), self._after
        count = int(after["row"]) - first
        split = Split(self._name, {"first": first, "end": after["row"]}, count)
        due = count > 0 or after["moves"] > position["moves"]
        return SourcePlan((split,) if due else (), after, exhausted=True)

    def lag(self, position: Position) -> int:
        """The rows that wait."""
        return int(self._after["row"]) - int(position["row"])

    @property
    def _after(self) -> Position:
        """Behind all that there is."""
        return self._end or {"row": self._stream.rows, "moves": self._stream.moves}


class GivenReader:
    """Makes rows of a test queryable: the columns that the query reads, metadata, and the kinds of changes."""

    def __init__(self, spec: SourceSpec, stream: Stream, *, changes: bool) -> None:
        read = set(spec.columns)
        kinds = (Column(KIND_COLUMN, VARCHAR),) if changes else ()
        metadata = (Column(m.name, m.type) for m in spec.metadata)
        schema: Schema = (*(c for c in spec.physical if c.name in read), *metadata, *kinds)
        self._schema = schema or spec.physical[:1]  # rows are counted by a column
        self._stream = stream

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make the rows queryable."""
        found = self._stream.between(int(split.payload["first"]), int(split.payload["end"]))
        publish(duck, relation, conformed(found, self._schema), self._schema)

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """The same: none is malformed."""
        self.open_strict(duck, relation, split, queries=1)
        return []

    def halves(self, split: Split) -> Sequence[Split]:
        """Two splits with the rows of one, so that a row over which an expression fails is found."""
        first, end = int(split.payload["first"]), int(split.payload["end"])
        if end - first < 2:
            return ()
        middle = (first + end) // 2
        cuts = ((first, middle), (middle, end))
        return [Split(split.source, {"first": a, "end": b}, b - a) for a, b in cuts]

    def place(self, split: Split) -> str:
        """Which row it is."""
        return f"row {int(split.payload['first']) + 1} of those that the test gives to {split.source}"


class GivenDimension:
    """The rows that a table has by now for lookup joins."""

    def __init__(self, spec: DimensionSpec, memory: Memory) -> None:
        self._spec = spec
        self._memory = memory

    def version(self) -> None:
        """It is read for each epoch."""

    def rows(self, duck: DuckSession) -> Iterator[pa.RecordBatch]:
        """All rows."""
        given = self._memory.dimensions.get(self._spec.name.lower())
        table = conformed([] if given is None else [given], self._spec.schema)
        yield from table.combine_chunks().to_batches()


class KeepingWriter:
    """Hands the rows to the driver."""

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Return the rows."""
        return SinkPart(count_changes(table), table=table if table.num_rows else None)


class KeptRows:
    """A sink whose rows can be looked at."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._edit: TargetEdit | None = None

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Nothing can fail."""

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Keep the rows; those of an epoch that is committed again are there."""
        if epoch not in self._content.epochs:
            tables = tuple(part.table for part in parts if part.table is not None)
            self._content.epochs[epoch] = Written(tables, self._edit)
            self._edit = None

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Nothing was staged."""


class KeptFiles(KeptRows):
    """One in the place of a directory of files, which can begin only where none are."""

    def __init__(self, content: Content, name: str) -> None:
        super().__init__(content)
        self._name = name

    def begin_with(self, edit: TargetEdit) -> None:
        """The next epoch that is committed does this first."""
        self._edit = edit

    def is_vacant(self) -> bool:
        """Whether it has no rows."""
        return self._content.is_empty

    def epoch_there(self) -> int | None:
        """What a directory does not show."""
        return None

    def check(self, *, previous: int) -> None:
        """Raise TargetError where rows are that would be mixed with those of an epoch behind `previous`."""
        if self._content.is_empty:
            return
        if self._edit is TargetEdit.REWRITE:
            raise TargetError(f"the directory of `{self._name}` would be rewritten, but has files")
        if not previous:
            raise TargetError(
                f"the directory of `{self._name}` has rows from before it was left out",
                ("the steps before this one wrote them",),
                "name another place in the edit",
            )

    def look(self, epochs: Collection[int]) -> None:
        """The same, as one of these epochs left it."""
        self.check(previous=max(epochs))


class KeptTable(KeptRows):
    """One in the place of a table of a database, which an edit can alter, replace or begin anew."""

    def __init__(self, content: Content, spec: SinkSpec, duck: DuckSession) -> None:
        super().__init__(content)
        self._spec = spec
        self._duck = duck

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Raise RefusedRowError if a key has two rows, or is NULL, as the database would."""
        tables = [part.table for part in parts if part.table is not None]
        if self._spec.primary_key and tables:
            schema = (
                with_weight(self._spec.schema) if self._spec.changelog == "retract" else self._spec.schema
            )
            rows = self._duck.source(_GIVEN, conformed(tables, schema), schema)
            run = self._duck.connection.execute
            try:
                consolidate(lambda sql: run(sql).fetchall(), self._spec, f"{rows} AS given", _CHANGES)
            finally:
                self._duck.drop(_GIVEN)

    def begin_with(self, edit: TargetEdit) -> None:
        """The next epoch that is committed does this first."""
        self._edit = edit

    def is_vacant(self) -> bool:
        """Whether it has no rows."""
        return self._content.is_empty

    def epoch_there(self) -> int | None:
        """The last epoch that is in it."""
        return self._content.last

    def look(self, epochs: Collection[int]) -> None:
        """It is as it was left."""


def conformed(tables: Sequence[pa.Table], schema: Schema) -> pa.Table:
    """Rows with the columns of `schema` by their names; NULL in a column that they were not given."""
    arrow = pa.schema([(column.name, to_arrow(column.type)) for column in schema])
    made = []
    for table in tables:
        named: Mapping[str, str] = {name.lower(): name for name in table.column_names}
        columns = [
            table.column(named[f.name.lower()]).cast(f.type)
            if f.name.lower() in named
            else pa.nulls(table.num_rows, f.type)
            for f in arrow
        ]
        made.append(pa.Table.from_arrays(columns, schema=arrow) if columns else table.select([]))
    return pa.concat_tables(made) if made else arrow.empty_table()
