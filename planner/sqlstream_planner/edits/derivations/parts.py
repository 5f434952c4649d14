"""Pieces of the SQL of derivations, and which columns of a new table an old one has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.state_schema import TIME, StateField, StateTable
from sqlstream_operators.plan.types import quote_identifier, spelled
from sqlstream_operators.plan.widening import widens
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.identity.form import Form


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a part of a new table over an old one: SELECT `items`; those called `missing` are NULL."""

    items: tuple[str, ...]
    missing: tuple[str, ...]

    def replaced(self, wanted: Sequence[StateField], known: Mapping[str, str]) -> list[str]:
        """The items with the SQL of those that are `known` by name in the place of NULL."""
        return [
            f"CAST({known[f.name]} AS {f.type}) AS {quote_identifier(f.name)}" if f.name in known else item
            for f, item in zip(wanted, self.items, strict=True)
        ]

    @property
    def all_missing(self) -> bool:
        """Whether there are columns and none of them is there."""
        return bool(self.items) and len(self.missing) == len(self.items)


def columns_from(
    old: Stored,
    fields: Sequence[StateField],
    new: Stored,
    wanted: Sequence[StateField],
    usable: Callable[[StateField], bool] = lambda _: True,
) -> Columns:
    """Of the new columns `wanted` those that mean what one of the old `fields` means, if they are `usable`."""
    there: Mapping[Form, StateField] = old.fields(fields)
    items, missing = [], []
    for field in wanted:
        meaning = new.meaning(field)
        found = there.get(meaning) if meaning is not None and usable(field) else None
        if found is None or not widens(found.type, field.type):
            missing.append(field.name)
            text = f"CAST(NULL AS {spelled(field.type)})"
        else:
            text = quote_identifier(found.name)
            if found.type != field.type:
                text = f"CAST({text} AS {field.type})"
        items.append(f"{text} AS {quote_identifier(field.name)}")
    return Columns(tuple(items), tuple(missing))


def select(items: Sequence[str], relation: str, rest: str = "") -> str:
    """A SELECT over an old table."""
    return f"SELECT {', '.join(items)}\nFROM {quote_identifier(f'old.{relation}')}{rest}"


def merged(table: StateTable, values: Sequence[str], having: str = "count(*) > 0") -> str:
    """The rows of a new table by its keys, with these values; without keys over no rows at all there is none."""
    by = [quote_identifier(name) for name in table.key_columns]
    group = f"\nGROUP BY {', '.join(by)}" if by else ""
    return f'SELECT {", ".join([*by, *values])}\nFROM "rows"{group}\nHAVING {having}'


def merged_accumulators(table: StateTable, spec: GroupAggregateSpec | WindowAggregateSpec) -> str:
    """The same of a table of accumulators, merged as their operator merges them."""
    merges = {c.name: m for c, m in zip(spec.accumulators, spec.merge, strict=True)}
    values = [f"CAST({merges[f.name]} AS {f.type}) AS {quote_identifier(f.name)}" for f in table.value]
    return merged(table, values)


def time_of(table: StateTable) -> list[str]:
    """The time of a table that has one, as items of a SELECT."""
    return [quote_identifier(TIME)] if table.layout == "time" else []
