"""GROUP BY as SQL and as keys of a state: what window aggregates and group aggregates have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.aggregates.function import Accumulator, Decomposition
from sqlstream_planner.identity.form import Form, form, sort_forms
from sqlstream_planner.identity.parts import Columns, call_form, key_forms
from sqlstream_planner.identity.state import Stored
from sqlstream_planner.logical import AggregateCall, Field, Fields, sql
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.time_keys import text_of, time_of
from sqlstream_planner.sql.as_written import without_marks

#: The key that distinguishes the rows of several grouping sets, in the state.
GROUPING = "grouping_id"

#: (SQL expression, output name)
Item = tuple[str, str]


class Names:
    """Gives out names that are unique among the columns of a state, and none of those in `taken`.

    `instead` has better names for some that are taken.
    """

    def __init__(self, taken: Iterable[str], instead: Mapping[str, str] | None = None) -> None:
        self._taken = {*taken, GROUPING}
        self._instead = instead or {}

    def take(self, wanted: str) -> str:
        """`wanted`, or with a number behind it."""
        base = re.sub(r"\W+", "_", wanted).strip("_") or "column"
        base = self._instead.get(base, base)
        name, number = base, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name.lower())
        return name


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A key in the state: its column there, its meaning, and the field and expression that it comes from."""

    name: str
    meaning: Form
    field: Field
    expression: exp.Expr

    @property
    def stored(self) -> Stored:
        """The key as a field of the state."""
        return Stored(self.name, self.field.type, self.meaning)


@dataclass(frozen=True, slots=True)
class Grouping:
    """A GROUP BY: as the query has it (`fields`, `expressions`, `sets`, `grouping`), and `keys` in state order.

    `names` are the state's names of `fields`; two that mean the same have one. `set_forms` are what each grouping set
    groups by.
    """

    fields: Fields
    expressions: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    grouping: Field | None
    keys: tuple[GroupKey, ...]
    names: tuple[str, ...]
    set_forms: tuple[Form, ...]

    @classmethod
    def of(
        cls,
        fields: Fields,
        expressions: tuple[exp.Expr, ...],
        sets: tuple[tuple[int, ...], ...],
        grouping: Field | None,
        inside: Columns,
        names: Names,
    ) -> Grouping:
        """Finds the keys: each meaning once (but see `key_forms`); the grouping id is a key too.

        `inside` are the meanings of columns.
        """
        keys: dict[Form, GroupKey] = {}
        forms = key_forms(fields, expressions, grouping, inside)
        for f, expression, meaning in zip(fields, expressions, forms, strict=True):
            if meaning not in keys:
                keys[meaning] = GroupKey(names.take(f.name), meaning, f, expression)
        listed = tuple(keys[meaning].name for meaning in forms)
        if grouping is not None:
            meaning = form("grouping", *forms)
            keys[meaning] = GroupKey(GROUPING, meaning, grouping, exp.Null())
        ordered = tuple(keys[meaning] for meaning in sort_forms(keys))
        set_forms = sort_forms(form("set", *sort_forms({forms[i] for i in chosen})) for chosen in sets)
        return cls(fields, expressions, sets, grouping, ordered, listed, set_forms)

    def grouped(
        self, block: Block, leading: Sequence[Item], values: Sequence[Item]
    ) -> tuple[Block, list[Item], str | None]:
        """The block to select from, the items `leading`, keys and `values`, and the GROUP BY over all of them.

        For several grouping sets the block is a sub-select that computes them first. Without anything to group
        by the GROUP BY is None.
        """
        if len(self.sets) == 1 and self.grouping is None:
            keys = [(*time_of(block.expression(k.expression)), k.name) for k in self.keys]
            shown = [(sql(e if layout is None else text_of(e, layout)), name) for e, layout, name in keys]
            items = [*leading, *shown, *values]
            by = [str(i + 1) for i in range(len(items))]
            for i, (time, layout, _) in enumerate(keys, start=len(leading)):
                if layout is not None:
                    by[i] = sql(time)
            return block, items, ", ".join(by) or None
        plain = [k.name for k in self.keys if k.name != GROUPING]
        inner = block.nested(
            list(block.columns),
            [
                *leading,
                *(
                    (sql(block.expression(k.expression)), f"{k.name}.key")
                    for k in self.keys
                    if k.name != GROUPING
                ),
                *((text, f"{name}.value") for text, name in values),
            ],
        )
        columns = {name: quote_identifier(f"{name}.key") for name in plain}
        # The grouping id counts the keys as the query lists them; the state's are ordered by meaning.
        listed = [columns[name] for name in self.names]
        grouping = f"grouping({', '.join(listed)})" if listed else "CAST(0 AS BIGINT)"
        items = [(quote_identifier(name), name) for _, name in leading]
        items += [(grouping if k.name == GROUPING else columns[k.name], k.name) for k in self.keys]
        before = [text for text, _ in items[: len(leading)]]
        after = [quote_identifier(f"{name}.value") for _, name in values]
        items += [(text, name) for text, (_, name) in zip(after, values, strict=True)]
        sets = [
            f"({', '.join([*before, *dict.fromkeys(listed[i] for i in chosen), *after])})"
            for chosen in self.sets
        ]
        return inner, items, f"GROUPING SETS ({', '.join(sets)})"


@dataclass(frozen=True, slots=True)
class Kept:
    """An accumulator in the state: where it comes from (call and position) and its name there."""

    name: str
    call: AggregateCall
    position: int
    accumulator: Accumulator
    meaning: Form

    @property
    def stored(self) -> Stored:
        """The accumulator as a field of the state."""
        return Stored(self.name, self.accumulator.type, self.meaning)

    @property
    def merge(self) -> str:
        """The expression that merges several of it."""
        merged = self.accumulator.merge.format(f=quote_identifier(self.name))
        return f"CAST({merged} AS {self.accumulator.type})"


def keep(
    calls: Iterable[AggregateCall],
    decompose: Callable[[AggregateCall], Decomposition],
    inside: Columns,
    names: Names,
) -> tuple[tuple[Kept, ...], dict[str, str]]:
    """The accumulators of `calls`, each meaning once, in the state's order; and the calls' values by field id."""
    kept: dict[Form, Kept] = {}
    decompositions = []
    for call in calls:
        decomposition = decompose(call)
        meanings = [_meaning(call, a, inside) for a in decomposition.accumulators]
        decompositions.append((call, decomposition, meanings))
        for position, (accumulator, meaning) in enumerate(
            zip(decomposition.accumulators, meanings, strict=True)
        ):
            if meaning not in kept:
                kept[meaning] = Kept("", call, position, accumulator, meaning)
    ordered = tuple(replace(kept[m], name=names.take(_hint(kept[m]))) for m in sort_forms(kept))
    name_of = {k.meaning: k.name for k in ordered}
    finals = {
        call.field.id: decomposition.final.format(*(quote_identifier(name_of[m]) for m in meanings))
        for call, decomposition, meanings in decompositions
    }
    return ordered, finals


def within(call: AggregateCall, block: Block) -> AggregateCall:
    """The call with its expressions in terms of a block's source."""
    return replace(
        call,
        arguments=tuple(block.expression(a) for a in call.arguments),
        filter=block.expression(call.filter) if call.filter is not None else None,
        order_by=tuple((block.expression(e), d, n) for e, d, n in call.order_by),
    )


def _meaning(call: AggregateCall, accumulator: Accumulator, inside: Columns) -> Form:
    """What an accumulator holds: it says so itself, of arguments, filter and, where it matters, order."""
    arguments = call.arguments[:1] if accumulator.of_first else call.arguments
    # Whichever function it is of: AVG keeps the SUM and COUNT that SUM and COUNT would keep.
    over = replace(call, name="", arguments=arguments, distinct=False)
    return form("accumulator", accumulator.meaning, str(accumulator.type), call_form(over, inside))


def _hint(kept: Kept) -> str:
    plain = (without_marks(a) for a in kept.call.arguments)
    arguments = "_".join(c.name for a in plain for c in a.find_all(exp.Column))[:24]
    return f"{kept.accumulator.meaning}_{arguments}" if arguments else kept.accumulator.meaning


def column_hint(expression: exp.Expr) -> str:
    """A name for people of what an expression computes."""
    found = without_marks(expression).find(exp.Column)
    return found.name if found is not None else "value"
