"""The `datagen` source: Flink's options, each row a function of seed and row number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream.connectors.api import BadRow, ConnectorContext, Position, Split
from sqlstream.connectors.filesystem.columns import ReadColumns
from sqlstream.connectors.generators.datagen import DatagenGenerator
from sqlstream.connectors.numbered import NumberedSource, continues, publish
from sqlstream.connectors.options import number
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.catalog.options import OptionValue


class DatagenReader:
    """Makes the rows of a split; only the columns that are needed are kept."""

    def __init__(self, spec: SourceSpec) -> None:
        self._generator = generator(spec)
        self._wanted = ReadColumns.of(spec)

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make the split's rows queryable."""
        table = self._generator.generate(int(split.payload["first"]), int(split.payload["count"]))
        publish(duck, relation, table, self._wanted.columns)

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """The same: no row is malformed."""
        self.open_strict(duck, relation, split, queries=1)
        return []


class DatagenFactory:
    """Makes both halves."""

    def source(self, spec: SourceSpec, context: ConnectorContext) -> NumberedSource:
        """The driver's half.

        Without `rows-per-second`, an endless source makes 10,000 rows per second and a bounded one runs at full
        speed.
        """
        made = generator(spec)
        throttled = context.paced and (made.total_rows() is None or "rows-per-second" in spec.options)
        return NumberedSource(
            spec.name,
            made.total_rows(),
            made.rows_per_second if throttled else None,
            tasks=number(spec.options, "scan.parallelism", minimum=1),
        )

    def continues(
        self,
        was: Mapping[str, OptionValue],
        now: Mapping[str, OptionValue],
        position: Position,
        context: ConnectorContext,
        *,
        closed: bool,
    ) -> bool:
        """Whether only the number of rows differs, or the end of a sequence; see `Continuing`."""
        sequences = [
            k.removesuffix(".kind") for k, v in now.items() if k.endswith(".kind") and v == "sequence"
        ]
        ends = [int(now[f"{s}.end"]) - int(now[f"{s}.start"]) + 1 for s in sequences]
        ends += [int(now["number-of-rows"])] if "number-of-rows" in now else []
        free = {"number-of-rows", *(f"{s}.end" for s in sequences)}
        return continues(free, was, now, position, min(ends, default=None), closed=closed)

    def reader(self, spec: SourceSpec, base_dir: str) -> DatagenReader:
        """The task's half."""
        return DatagenReader(spec)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> DatagenReader:
        """The task's half for whole rows: none is malformed."""
        return DatagenReader(spec.whole)


def generator(spec: SourceSpec) -> DatagenGenerator:
    """The generator of a table. Raises DiagnosticError for options that don't fit it."""
    number(spec.options, "rows-per-second", minimum=1)
    return DatagenGenerator(tuple((column.name, column.type) for column in spec.physical), spec.options)
