"""What a test's tables have: rows given to sources and to tables that are looked up, and what sinks were given.

Everything is in this process's memory. A source is known by which data it is (its identity), so that rows stay where they
are when an edit renames a table; one whose identity is new is known by its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from sqlstream.connectors.api import TargetEdit
from sqlstream.runtime.edits.sinks.sink_places import place_of
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec

#: The name of a sink, or the one by which its target knows it, and where it is, if its connector tells.
Target = tuple[str, tuple[str, ...] | None]


@dataclass(slots=True)
class Stream:
    """The rows that a source was given, a table per step that gave it some, and how often its watermark was moved."""

    tables: list[pa.Table] = field(default_factory=list)
    moves: int = 0

    @property
    def rows(self) -> int:
        """How many rows it has been given."""
        return sum(table.num_rows for table in self.tables)

    def between(self, first: int, end: int) -> list[pa.Table]:
        """The rows from number `first` to before number `end`, in order."""
        found = []
        start = 0
        for table in self.tables:
            low, high = max(first - start, 0), min(end - start, table.num_rows)
            if low < high:
                found.append(table.slice(low, high - low))
            start += table.num_rows
        return found


@dataclass(frozen=True, slots=True)
class Written:
    """What an epoch gave to a sink: rows, with WEIGHT_COLUMN where they can go; `edit` is done to the table first."""

    tables: tuple[pa.Table, ...]
    edit: TargetEdit | None = None


@dataclass(slots=True)
class Content:
    """What a sink was given, by epoch."""

    epochs: dict[int, Written] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it was given no rows."""
        return not any(written.tables for written in self.epochs.values())

    @property
    def last(self) -> int | None:
        """The last epoch that gave anything."""
        return max(self.epochs, default=None)


@dataclass(slots=True)
class Memory:
    """The tables of one test.

    `dimensions` are the rows of tables that are looked up, by their names in lower case. Sinks are known by the names that
    their targets have, and where those are.
    """

    dimensions: dict[str, pa.Table] = field(default_factory=dict)
    _contents: dict[Target, Content] = field(default_factory=dict)
    _names: dict[Target, str] = field(default_factory=dict)
    _by_name: dict[str, Stream] = field(default_factory=dict)
    _by_identity: dict[str, Stream] = field(default_factory=dict)

    def stream(self, spec: SourceSpec) -> Stream:
        """The rows of a source."""
        name = spec.name.lower()
        found = self._by_identity.get(spec.identity) or self._by_name.get(name) or Stream()
        self._by_identity[spec.identity] = self._by_name[name] = found
        return found

    def target(self, spec: SinkSpec, known_as: str) -> Content:
        """What the target has that knows the table of a sink by this name."""
        place = place_of(spec)
        self._names[spec.name, place] = known_as
        return self._contents.setdefault((known_as, place), Content())

    def content(self, spec: SinkSpec) -> Content:
        """What a sink was given."""
        place = place_of(spec)
        return self.target(spec, self._names.get((spec.name, place), spec.name))
