"""The tables that lookup joins read: of each epoch one copy, which its plan names, so that a replay finds the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.connectors.api import Dimension
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.spec import DimensionSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.dimension_copies import DimensionCopy, keep
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


@dataclass(frozen=True, slots=True)
class _Known:
    """A copy, what the table's version was before it was read, and when it was looked at last (seconds)."""

    copy: DimensionCopy
    version: str | None
    looked_at: float


class Dimensions:
    """The copies of a run's dimension tables in `store`; a run begins without any."""

    def __init__(
        self,
        specs: Sequence[DimensionSpec],
        dimensions: Mapping[str, Dimension],
        store: CheckpointStore,
        clock: Callable[[], float],
    ) -> None:
        self._specs = specs
        self._dimensions = dimensions
        self._store = store
        self._clock = clock
        self._known: dict[str, _Known] = {}

    def copies(self) -> dict[str, DimensionCopy]:
        """The copies for the next epoch, by the tables' names: of those that are due and have changed, new ones.

        Raises DiagnosticError for a table that can't be read, or that has two rows with its PRIMARY KEY.
        """
        for spec in self._specs:
            known = self._known.get(spec.name)
            now = self._clock()
            if known is not None and spec.reload_us and now - known.looked_at < spec.reload_us / 1e6:
                continue
            dimension = self._dimensions[spec.name]
            version = dimension.version()
            if known is not None and version is not None and version == known.version:
                copy = known.copy
            else:
                try:
                    copy = self._read(spec, dimension)
                except InputFileError:  # a file was changed while it was read
                    version = dimension.version()
                    copy = self._read(spec, dimension)
            self._known[spec.name] = _Known(copy, version, now)
        return {spec.name: self._known[spec.name].copy for spec in self._specs}

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the copies that the next epoch may read again."""
        return tuple(sorted({known.copy.name for known in self._known.values()}))

    def forget(self) -> None:
        """Read everything anew for the next epoch: copies that no manifest names are gone."""
        self._known.clear()

    def _read(self, spec: DimensionSpec, dimension: Dimension) -> DimensionCopy:
        schema = pa.schema([pa.field(c.name, to_arrow(c.type)) for c in spec.schema])
        with RunFolder("dimension-") as scratch:
            duck = DuckSession(temp_directory=str(scratch.path / "spill"))
            try:
                batches = self._conformed(spec, dimension.rows(duck))
                copy = keep(self._store, schema, batches, scratch.path)
                if spec.source.primary_key and copy.rows > 1:
                    _check_key(spec, duck, self._store, copy)
            except InputFileError:
                raise
            except DataError as error:
                raise DiagnosticError(
                    Diagnostic("DAT009", f"the table `{spec.name}` can't be read", notes=(error.message,))
                ) from error
            finally:
                duck.close()
        return copy

    @staticmethod
    def _conformed(spec: DimensionSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = conformed(pa.Table.from_batches([batch]), spec.schema, f"dimension {spec.name}")
            yield from table.combine_chunks().to_batches()


def _check_key(spec: DimensionSpec, duck: DuckSession, store: CheckpointStore, copy: DimensionCopy) -> None:
    """Raise DiagnosticError (DAT009) if two rows of a copy have one PRIMARY KEY: a row would find both."""
    names = spec.source.primary_key
    key = ", ".join(map(quote_identifier, names))
    with store.open(copy.name) as source, pa.ipc.open_stream(source) as reader:
        rows = reader.read_all()
    duck.register("copy", rows, spec.schema)
    twice = f"SELECT {key}, count(*) AS __rows FROM copy GROUP BY ALL HAVING count(*) > 1 LIMIT 1"
    shown = ", ".join(f"CAST({quote_identifier(n)} AS VARCHAR) AS {quote_identifier(n)}" for n in names)
    found = duck.query(f"SELECT {shown}, __rows FROM ({twice})")
    duck.drop("copy")
    if found.num_rows:
        row = found.to_pylist()[0]
        number = row.pop("__rows")
        values = ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in row.items())
        raise DiagnosticError(
            Diagnostic(
                "DAT009",
                f"the table `{spec.name}` has {number} rows with the PRIMARY KEY ({values})",
                notes=(
                    "it is declared to have one row of each key, and what reads the result relies on that",
                ),
                help="leave PRIMARY KEY out of the table's declaration, or fix the table",
            )
        )
