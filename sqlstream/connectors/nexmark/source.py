"""The `nexmark` source: people, auctions and bids of an online auction, deterministic by event number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream.connectors.api import BadRow, ConnectorContext, Position, Split
from sqlstream.connectors.filesystem.columns import ReadColumns, paths_of
from sqlstream.connectors.generators.nexmark import DEFAULT_BASE_TIME_US, NexmarkGenerator
from sqlstream.connectors.generators.nexmark_columns import COLUMNS, unknown_columns
from sqlstream.connectors.numbered import NumberedSource, continues, publish
from sqlstream.connectors.options import duration_us, instant_us, number
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.catalog.options import OptionValue
from sqlstream_planner.diagnostics import DiagnosticError

_DEFAULT_RATE = 10_000


class NexmarkReader:
    """Makes the events of a split; columns and nested fields that nobody needs are not made."""

    def __init__(self, spec: SourceSpec) -> None:
        self._generator = generator(spec)
        self._first = number(spec.options, "first-event") or 0
        self._wanted = ReadColumns.of(spec)
        known = {name.lower(): name for name, _ in COLUMNS}
        self._needed = []
        for column in spec.columns:
            name = known[column.lower()]
            self._needed += [
                f"{name}.{p.partition('.')[0]}" for p in paths_of(column, spec.needed_paths)
            ] or [name]

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make the split's events queryable."""
        first, count = self._first + int(split.payload["first"]), int(split.payload["count"])
        table = self._generator.generate(first, count, self._needed or ["event_type"])
        publish(duck, relation, table, self._wanted.columns)

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """The same: no event is malformed."""
        self.open_strict(duck, relation, split, queries=1)
        return []


class NexmarkFactory:
    """Makes both halves."""

    def source(self, spec: SourceSpec, context: ConnectorContext) -> NumberedSource:
        """The driver's half. Raises DiagnosticError for a column that events don't have."""
        generator(spec)
        return NumberedSource(
            spec.name,
            number(spec.options, "events"),
            number(spec.options, "rows-per-second", minimum=1) if context.paced else None,
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
        """Whether only the number of events differs; see `Continuing`."""
        last = int(now["events"]) if "events" in now else None
        return continues({"events"}, was, now, position, last, closed=closed)

    def reader(self, spec: SourceSpec, base_dir: str) -> NexmarkReader:
        """The task's half."""
        return NexmarkReader(spec)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> NexmarkReader:
        """The task's half for whole rows: none is malformed."""
        return NexmarkReader(spec.whole)


def generator(spec: SourceSpec) -> NexmarkGenerator:
    """The generator of a table. Raises DiagnosticError for bad options and columns that events don't have."""
    wrong = list(unknown_columns((column.name, column.type, None) for column in spec.physical))
    if wrong:
        raise DiagnosticError(*wrong)
    return NexmarkGenerator(
        seed=number(spec.options, "seed") or 0,
        base_time_us=instant_us(spec.options, "base-time", DEFAULT_BASE_TIME_US),
        rate=number(spec.options, "rate", minimum=1) or _DEFAULT_RATE,
        out_of_order_us=duration_us(spec.options, "out-of-order") or 0,
    )
