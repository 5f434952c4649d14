"""A SELECT: its batch SQL, as the referee of golden files has it, run by DuckDB over samples, sinks and state."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.planning import bind_query
from sqlstream.shell.answers import Answer
from sqlstream.shell.samples import Bounds, Sample, sample
from sqlstream.shell.tables import ROWS, STATE, readable
from sqlstream.shell.waiting import interruptible
from sqlstream.state.committed import Committed
from sqlstream.state.relations import Relation, relations_of
from sqlstream.state.results import Result
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.duck.session import DUCKDB_ERRORS, DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.batch.queries import query_of
from sqlstream_planner.bind.script import Bound
from sqlstream_planner.catalog.descriptor import ONE_ROW
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import Scan, walk
from sqlstream_planner.sql.parse import Script

if TYPE_CHECKING:
    from sqlstream.state.query import RelationDataset

_FETCHED = 1_000


@dataclass(frozen=True, slots=True)
class Readable:
    """What can be selected from: a catalog, the folder that its relative paths are in, and the state, where there is one."""

    catalog: Catalog
    base_dir: Path
    committed: Committed | None
    bounds: Bounds

    @property
    def relations(self) -> tuple[Relation, ...]:
        """What the state has."""
        return () if self.committed is None else relations_of(self.committed.plan)

    def bound(self, script: Script) -> Bound:
        """The algebra of the SELECTs of a script. Raises DiagnosticError."""
        return bind_query(script, readable(self.catalog, self.relations))


@contextmanager
def selected(tables: Readable, script: Script, *, as_json: bool) -> Iterator[Answer]:
    """The result of the SELECT of a script, whose rows are read while inside; with `as_json` each is a JSON object.

    Raises DiagnosticError for mistakes, and what readers of tables and DuckDB raise.
    """
    bound = tables.bound(script)
    (root,) = bound.roots
    sql = query_of(root)
    known = set(tables.catalog.warnings)
    with _sources(tables, [n.source for n in walk([root]) if isinstance(n, Scan)]) as (
        duck,
        samples,
        datasets,
    ):
        duck.in_epoch(int(time.time() * 1e6), secrets.token_hex(8))
        head = "SELECT to_json(t) FROM (\n" if as_json else "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM (\n"
        text = f"{head}{sql}\n) AS t"
        rows = _rows(duck, text, datasets)
        columns = ("row",) if as_json else tuple(column.name for column in root.sink.schema)
        yield Answer(
            Result(columns, rows),
            notes=tuple(note for name, one in samples.items() for note in one.notes(name)),
            warnings=tuple(w for w in bound.warnings if w not in known),
            timed=True,
        )


def _rows(duck: DuckSession, sql: str, datasets: list[RelationDataset]) -> Iterator[tuple[str | None, ...]]:
    try:
        found: Any = duck.however_deep(lambda: duck.connection.execute(sql))
        while rows := found.fetchmany(_FETCHED):
            yield from rows
    except DUCKDB_ERRORS as error:
        for dataset in datasets:
            if dataset.failure is not None:
                raise dataset.failure from None
        failure = duck.error(error, sql)
        if not isinstance(failure, DataError):
            raise failure from error
        # What DuckDB shows of the statement is none that the user wrote.
        raise DataError(failure.message.partition("\nLINE ")[0].strip()) from error
    except RuntimeError as error:  # so DuckDB says that there was a Ctrl-C
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


@contextmanager
def _sources(
    tables: Readable, specs: list[SourceSpec]
) -> Iterator[tuple[DuckSession, Mapping[str, Sample], list[RelationDataset]]]:
    """DuckDB with every table that a query reads."""
    samples: dict[str, Sample] = {}
    datasets: list[RelationDataset] = []
    with RunFolder("sql-") as scratch, ExitStack() as closing:
        duck = DuckSession(temp_directory=str(scratch.path / "spill"))
        closing.callback(duck.close)
        by_name = {spec.name: spec for spec in specs if spec.connector != ONE_ROW}
        for spec in by_name.values():
            if not _is_state(spec):
                samples[spec.name] = found = interruptible(partial(_sampled, tables, spec))
                duck.register(spec.name, found.rows, found.columns)
        of_state = [name for name, spec in by_name.items() if _is_state(spec)]
        if of_state and tables.committed is not None:
            # What it needs of Arrow takes a second to be imported.
            from sqlstream.state.query import RelationDataset, select_of
            from sqlstream.state.reading import StateReader

            relations = {f"{STATE}{relation}".lower(): relation for relation in tables.relations}
            reader = StateReader(tables.committed, scratch.path)
            closing.callback(reader.close)
            for number, name in enumerate(of_state):
                dataset = RelationDataset(reader, relations[name.lower()])
                datasets.append(dataset)
                duck.connection.register(f"__relation_{number}", dataset)
                duck.view(name, select_of(relations[name.lower()], f"__relation_{number}"))
        yield duck, samples, datasets


def _is_state(spec: SourceSpec) -> bool:
    return spec.connector == ROWS.name and spec.name.startswith(STATE)


def _sampled(tables: Readable, spec: SourceSpec) -> Sample:
    """The sample of a table, read by a DuckDB of its own."""
    table = tables.catalog.table(spec.name)
    if table is None:
        raise InternalError(f"the table {spec.name} is not declared")
    own = replace(spec, connector=table.connector, options=dict(table.stored))
    duck = DuckSession()
    try:
        return sample(table, tables.catalog.secrets.resolved(own), tables.base_dir, tables.bounds, duck)
    finally:
        duck.close()
