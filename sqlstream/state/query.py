"""SQL over committed state: DuckDB over relations that are read as it asks for them."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import compute as pc

from sqlstream.state.committed import Committed, find_committed
from sqlstream.state.pushed import values_of
from sqlstream.state.reading import ReadCounts, StateReader
from sqlstream.state.relations import Relation, columns_of, relations_of
from sqlstream.state.results import Result, write_result
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.arrow_values import is_lossy
from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, suggestion

#: What the place of a mistake is in: the text of the query.
FILE = "query"
_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET preserve_insertion_order = true",
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET enable_progress_bar = false",
    "SET errors_as_json = true",
)
#: How often a query is begun anew because the epoch that it reads is collected meanwhile.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a query may use where it runs beside something else: bytes of memory and of disk, characters of a value."""

    memory: int
    spill: int
    cell: int


class StateDatabase:
    """DuckDB with the relations of a committed state: a context manager. Without `bounds` a query may use what DuckDB does.

    It reads and never writes: no statement but a SELECT runs, and none can reach a file, the network or a setting.
    Everything on disk is in a temporary folder of its own.
    """

    def __init__(self, committed: Committed, bounds: Bounds | None = None) -> None:
        self.committed = committed
        self._bounds = bounds
        self.relations = relations_of(committed.plan)
        self._scratch = RunFolder("state-")
        self._folder = self._scratch.path
        self._reader = StateReader(committed, self._folder)
        config = {
            "threads": 1,
            "enable_external_access": "false",
            "temp_directory": str(self._folder / "query"),
        }
        if bounds is not None:
            config["memory_limit"] = f"{bounds.memory}B"
            config["max_temp_directory_size"] = f"{bounds.spill}B"
        self._connection = duckdb.connect(":memory:", config=config)
        self._datasets: list[RelationDataset] = []
        for setting in _SETTINGS:
            self._connection.execute(setting)
        for number, relation in enumerate(self.relations):
            self._add(f"__relation_{number}", relation)
        self._connection.execute("SET lock_configuration = true")

    def __enter__(self) -> StateDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close DuckDB and remove the folder."""
        self._connection.close()
        self._reader.close()
        self._scratch.close()

    def interrupt(self) -> None:
        """End the query that is running, with an error; to be called by another thread."""
        self._connection.interrupt()

    @property
    def counts(self) -> ReadCounts:
        """What was read so far."""
        return self._reader.counts

    def query(self, sql: str, *, as_json: bool = False) -> Result:
        """Run one SELECT; with `as_json` the only column of the result is each row as a JSON object.

        Raises DiagnosticError: STA022 for what is no SELECT, STA023 for a mistake in it, STA024 for a relation that there is
        not; and what `StateReader.rows` raises.
        """
        text = self._select(sql)
        columns = self._described(sql, text)
        text_of = "CAST(COLUMNS(*) AS VARCHAR)"
        if self._bounds is not None:
            text_of = f"left({text_of}, {self._bounds.cell})"
        head = "SELECT to_json(t) FROM (\n" if as_json else f"SELECT {text_of} FROM (\n"
        with self._telling(sql, len(head)):
            found = self._connection.execute(f"{head}{text}\n) AS t")
        return Result(("row",) if as_json else columns, self._rows(found, sql, len(head)))

    def _add(self, hidden: str, relation: Relation) -> None:
        dataset = RelationDataset(self._reader, relation)
        self._datasets.append(dataset)
        self._connection.register(hidden, dataset)
        if len(relation.name) > 1:
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(relation.name[0])}")
        name = ".".join(map(quote_identifier, relation.name))
        self._connection.execute(f"CREATE VIEW {name} AS {select_of(relation, hidden)}")

    def _select(self, sql: str) -> str:
        """The text of the one SELECT that `sql` is."""
        with self._telling(sql, 0):
            statements = self._connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            second = len(statements[0].query) if len(statements) > 1 else 0
            raise DiagnosticError(
                Diagnostic(
                    "STA022",
                    "state can only be read: one SELECT, or WITH … SELECT",
                    _span(sql, second + len(sql[second:]) - len(sql[second:].lstrip()), 1),
                    help="write SELECT … FROM a relation that `sqlstream state list` names",
                )
            )
        return self._without_end(sql)

    def _without_end(self, sql: str) -> str:
        """A statement without the semicolons behind it, after which only comments stand."""
        text = sql
        for at in reversed([at for at, character in enumerate(sql) if character == ";"]):
            with contextlib.suppress(duckdb.Error):  # this one is in a comment or a text
                if self._connection.extract_statements(sql[at + 1 :]):
                    break
                text = sql[:at]
        return text

    def _described(self, sql: str, text: str) -> tuple[str, ...]:
        """The names of the columns of a SELECT; nothing is read for that."""
        with self._telling(sql, len("DESCRIBE ")):
            rows = self._connection.execute(f"DESCRIBE {text}").fetchall()
        return tuple(row[0] for row in rows)

    def _rows(self, found: Any, sql: str, offset: int) -> Iterator[tuple[str | None, ...]]:
        while True:
            with self._telling(sql, offset):
                rows = found.fetchmany(1000)
            if not rows:
                return
            yield from rows

    @contextlib.contextmanager
    def _telling(self, sql: str, offset: int) -> Iterator[None]:
        """Says of an error of DuckDB where in the query it is; `offset` characters stand before it."""
        try:
            yield
        except duckdb.Error as error:
            for dataset in self._datasets:
                if dataset.failure is not None:
                    raise dataset.failure from None
            raise DiagnosticError(self._diagnostic(str(error), sql, offset)) from None

    def _diagnostic(self, text: str, sql: str, offset: int) -> Diagnostic:
        brace = text.find("{")
        try:
            details = json.loads(text[brace:]) if brace >= 0 else {}
        except ValueError:
            details = {}
        message = str(details.get("exception_message", text)).strip()
        place, _, length = str(details.get("location", "")).strip("[]").partition(",")
        span = None
        if place.isdigit():
            # DuckDB counts bytes.
            before = len(sql.encode()[: max(int(place) - offset, 0)].decode(errors="ignore"))
            span = _span(sql, before, int(length) if length.isdigit() else 1)
        if details.get("type") == "Table" and "name" in details:
            return self._unknown(str(details["name"]), span)
        first, _, rest = message.partition("\n")
        notes = tuple(line.strip() for line in rest.split("\n")[:8] if line.strip())
        help_ = None
        if self._bounds is not None and details.get("exception_type") == "Out of Memory":
            return _more_memory(self._bounds, span)
        if details.get("exception_type") == "Permission":
            first, help_ = (
                "a query of state can't reach files",
                "select from what `sqlstream state list` names",
            )
        return Diagnostic("STA023", first, span, notes, help_)

    def _unknown(self, name: str, span: Span | None) -> Diagnostic:
        names = [str(relation) for relation in self.relations]
        return Diagnostic(
            "STA024",
            f"unknown relation `{name}` in {self.committed.title}",
            span,
            (f"there is {', '.join(names) or 'none: no operator of this query keeps state'}",),
            suggestion(name, names),
        )


def needs_more_memory(bounds: Bounds) -> DiagnosticError:
    """STA023, for a query that is ended where it needs more than its bounds."""
    return DiagnosticError(_more_memory(bounds, None))


def _more_memory(bounds: Bounds, span: Span | None) -> Diagnostic:
    return Diagnostic(
        "STA023",
        f"the query needs more than {bounds.memory >> 20} MiB of memory",
        span,
        help="ask for some keys, or run it with `sqlstream state query`",
    )


def select_of(relation: Relation, dataset: str) -> str:
    """The columns of a relation with their types, of a `RelationDataset` that DuckDB knows by a name."""
    items = [
        f"CAST({name} AS {c.type}) AS {name}" if is_lossy(c.type) else name
        for c in relation.columns
        for name in [quote_identifier(c.name)]
    ]
    return f"SELECT {', '.join(items)} FROM {quote_identifier(dataset)}"


class RelationDataset(ds.Dataset):  # type: ignore[misc]
    """A relation as DuckDB scans it: it asks for columns and gives a filter, as it does of any of pyarrow's datasets.

    `failure` is what went wrong while it was read: DuckDB only passes on its text.
    """

    def __init__(self, reader: StateReader, relation: Relation) -> None:
        self._reader = reader
        self._relation = relation
        self.failure: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the relation."""
        return pa.schema([(c.name, to_arrow(c.type)) for c in columns_of(self._relation)])

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> ds.Scanner:
        """What DuckDB reads: some columns of the rows that pass its filter, as they come."""
        chosen = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        batches = self._batches(chosen, filter)
        return ds.Scanner.from_batches(pa.RecordBatchReader.from_batches(chosen, batches))

    def _batches(self, chosen: pa.Schema, filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            for rows in self._reader.rows(self._relation, values_of(filter)):
                passed = rows if filter is None else rows.filter(filter)
                yield from passed.select(chosen.names).to_batches()
        except Exception as error:
            self.failure = error
            raise


def _span(sql: str, position: int, length: int) -> Span:
    """A place in the query, by the number of characters before it."""
    before = sql[:position]
    line = before.count("\n") + 1
    return Span(FILE, line, position - (before.rfind("\n") + 1) + 1, max(length, 1))


def run_query(store: CheckpointStore, at: str | None, sql: str, form: str, out: IO[str]) -> ReadCounts:
    """Write the result of a SELECT over the state of `store` in a form: `table`, `csv`, or `json` (an object a line).

    Nothing is written before all is known. A query that loses its epoch to the collector begins anew at the last one.
    Raises DiagnosticError: STA025 if that goes on, or the requested epoch is gone.
    """
    for _ in range(_ATTEMPTS):
        committed = find_committed(store, at)
        with (
            StateDatabase(committed) as database,
            tempfile.SpooledTemporaryFile(16 << 20, "w+", encoding="utf-8", newline="") as spool,
        ):
            try:
                write_result(database.query(sql, as_json=form == "json"), form, spool)
            except (StateError, FileNotFoundError):
                if committed.is_there:
                    raise
                if at is not None:
                    break
                continue
            spool.seek(0)
            shutil.copyfileobj(spool, out)
            return database.counts
    raise DiagnosticError(
        Diagnostic(
            "STA025",
            f"{committed.title} was collected while it was read",
            help="make a savepoint, which is kept, and give its name to --at",
        )
    )
