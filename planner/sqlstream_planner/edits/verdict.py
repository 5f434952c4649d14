"""Verdicts about state, as plain data: what a plan of an edit shows, and what a run carries out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.spec import OperatorSpec
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_planner.diagnostics import Span


class Verdict(StrEnum):
    """What happens to a piece of state; FRESH needs consent."""

    KEEP = "KEEP"  # it is what the new query needs, as it is
    ADAPT = "ADAPT"  # computed from what is kept
    BACKFILL = "BACKFILL"  # computed from the sources' history, up to where they have been read
    FRESH = "FRESH"  # begins empty, in the middle of the input
    DROP = "DROP"  # nothing of the new query needs it


NOW_US = "$now_us"
"""In the SQL of derivations: the clock of the epoch that carries the edit out, µs."""


@dataclass(frozen=True, slots=True)
class Regrouped:
    """An exchange between an old state and a derived table: rows with `columns` are brought together by `keys`.

    `rows` is DuckDB SQL over all that have a key in one shard, as the relation `"rows"`; it gives the table's columns.
    """

    columns: Schema
    keys: tuple[str, ...]
    rows: str


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """Rows of a derived table that another old state gives: SQL over each of its shards, as in `DerivedTable`.

    With `via` that SQL gives the columns of `via`, and `via` the table's.
    """

    state: StateSchema
    reads: tuple[str, ...]
    rows: str
    via: Regrouped | None = None


@dataclass(frozen=True, slots=True)
class DerivedTable:
    """How one table of a state is computed from an older state's tables.

    `rows` is DuckDB SQL over one old shard, whose tables are the relations in `reads`, each called `"old.<table>"`
    (columns: `StateTable.key_columns`, then `value_columns`). Its columns are those of the new table, by name. The rows
    are exchanged by the new key. `merged` is DuckDB SQL over them all, as the relation `"rows"`, for one new shard; None:
    they are the table's rows as they are, each key once. It may be run over parts of them first, and over what comes out.
    `also` are more rows, from other old states; there is a `merged` then.
    """

    table: str
    reads: tuple[str, ...]
    rows: str
    merged: str | None = None
    also: tuple[DerivedRows, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedInput:
    """What the new operator is given on one of its inputs.

    `rows` is DuckDB SQL over one old shard of `state` as in `DerivedTable`, with exactly the columns `columns`; they are
    exchanged by `keys`. `state` None: it is that of the older operator.
    """

    reads: tuple[str, ...]
    rows: str
    columns: Schema
    keys: tuple[str, ...]
    state: StateSchema | None = None


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a state is computed from an older one: the rule's name, and every table that it can compute.

    With `inputs`, one for each of the new operator's, there are no `tables`: the new operator is run on them with an
    empty state, as in one epoch whose watermark closes nothing, and what it emits is thrown away. That is for states that
    have columns which SQL can't compute.
    """

    rule: str
    tables: tuple[DerivedTable, ...]
    inputs: tuple[DerivedInput, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """The verdict about one field of a table (`part` is `key`, `sub_key` or `value`), or about a whole table (`name` and
    `part` are "").

    `meaning` is what it holds, in words, `reason` why the verdict is so, "" where that is plain, `at` where the new file
    asks for it. `counts`: where it begins in the middle of the input, it begins with 0, and not with NULL.
    """

    verdict: Verdict
    table: str
    part: str
    name: str
    meaning: str
    reason: str = ""
    at: Span | None = None
    counts: bool = False


@dataclass(frozen=True, slots=True)
class StateEdit:
    """The verdict about one operator's state.

    `new` is the operator that needs it (None: it is dropped), `step` its name in the plan. `old` is the state that it is
    kept or derived from (None: there is none). `derivation` is how (None: its rows as they are, each field known by
    what it means). Fields with the verdict BACKFILL or FRESH are not in what is kept; without `old` all are. `at` is the
    clause in the new file.
    """

    verdict: Verdict
    step: str
    new: OperatorSpec | None
    old: OperatorSpec | None
    fields: tuple[FieldEdit, ...]
    derivation: Derivation | None = None
    reason: str = ""
    at: Span | None = None

    @property
    def state(self) -> StateSchema:
        """The state that this is about: the new one, or the one that is dropped."""
        spec = self.new or self.old
        assert spec is not None
        return spec.state

    def to_json(self) -> dict[str, Any]:
        """What was decided, as plain data for manifests."""
        return {
            "verdict": self.verdict.value,
            "step": self.step,
            "state": self.state.state_id,
            "from": None if self.old is None or self.new is None else self.old.state.state_id,
            "rule": None if self.derivation is None else self.derivation.rule,
            "fields": [[f.verdict.value, f.table, f.part, f.name, f.meaning, f.reason] for f in self.fields],
        }

    @property
    def sources(self) -> frozenset[str]:
        """The ids of the older states that the new one is made of."""
        if self.new is None or self.old is None:
            return frozenset()
        tables = () if self.derivation is None else self.derivation.tables
        inputs = () if self.derivation is None else self.derivation.inputs
        return frozenset(
            {
                self.old.state.state_id,
                *(also.state.state_id for table in tables for also in table.also),
                *(given.state.state_id for given in inputs if given.state is not None),
            }
        )

    def fresh(self) -> StateEdit:
        """The same, with what would be backfilled beginning empty."""
        if not self.needs_history:
            return self
        fields = tuple(
            replace(f, verdict=Verdict.FRESH, reason="it begins now") if f.verdict is Verdict.BACKFILL else f
            for f in self.fields
        )
        return replace(self, verdict=Verdict.FRESH, fields=fields)

    @property
    def needs_history(self) -> bool:
        """Whether some of it is computed from the sources' history."""
        return any(f.verdict is Verdict.BACKFILL for f in self.fields)

    @property
    def missing(self) -> tuple[FieldEdit, ...]:
        """The fields that neither the older state nor a derivation has."""
        return tuple(f for f in self.fields if f.verdict in (Verdict.BACKFILL, Verdict.FRESH))

    @property
    def is_same(self) -> bool:
        """Whether nothing happens: the new operator goes on with the very state."""
        return (
            self.new is not None
            and self.old is not None
            and self.new.state.state_id == self.old.state.state_id
            and self.new.state.schema_id == self.old.state.schema_id
        )
