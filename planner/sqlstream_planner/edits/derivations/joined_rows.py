"""The rows that a join keeps from those that another join of the same relations keeps.

Both sides are kept whole, so that joins of another kind, with another condition, by other keys, or of fewer rows and
columns, find all their rows there: what is stored has to say which key each has. Two things are not stored: columns that
the old query did not read, and rows without a key of a side that was given with its partners only.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_operators.plan.changelog_spec import JoinSideSpec, JoinSpec, gives_alone
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column
from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_operators.plan.widening import widens
from sqlstream_planner.edits.derivations.conditions import narrowing
from sqlstream_planner.edits.derivations.parts import select
from sqlstream_planner.edits.derivations.rewritten import Rewriter
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, filtered
from sqlstream_planner.edits.verdict import Derivation, DerivedInput
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.logical import IntervalJoin, Join, RegularJoin, column

_COUNT = form("how often")
_SIDES = ("left", "right")


def derive_joined_rows(old: Stored, wanted: Wanted) -> Derived | None:
    """The rows of both sides of the join `wanted` from those of `old`, whose sides may stand the other way round.

    Of joins in time only pairs of an INNER join: whether a row of an outer one had a partner that has gone is not known.
    """
    tried: tuple[tuple[int, int], ...]
    if isinstance(old.spec, JoinSpec) and isinstance(wanted.state.spec, JoinSpec):
        tried = ((0, 1), (1, 0))
    elif (
        isinstance(old.spec, IntervalJoinSpec)
        and isinstance(wanted.state.spec, IntervalJoinSpec)
        and _kept_as_long(old, old.spec, wanted.state, wanted.state.spec)
    ):
        tried = ((0, 1),)
    else:
        return None
    needed = [_Side(wanted.state, wanted.state.spec, number) for number in (0, 1)]
    for places in tried:
        there = [_Side(old, old.spec, place) for place in places]
        inputs = [_input(was, now, wanted) for was, now in zip(there, needed, strict=True)]
        given = tuple(one for one in inputs if one is not None)
        if len(given) == len(inputs):
            reason = "the rows of both sides are kept: they are joined anew"
            return Derived(Derivation("joined rows", (), given), reason)
    return None


def _kept_as_long(old: Stored, was: IntervalJoinSpec, new: Stored, now: IntervalJoinSpec) -> bool:
    """Whether an INNER join in time has kept all rows that another needs: of the same times, and no shorter."""
    before, after = was.bounds, now.bounds
    return (
        was.type == now.type == "inner"
        and old.attributes["times"] == new.attributes["times"]
        and before.left_wait_us >= after.left_wait_us
        and before.right_wait_us >= after.right_wait_us
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a join as a state has it."""

    state: Stored
    join: JoinSpec | IntervalJoinSpec
    number: int

    @property
    def name(self) -> str:
        return _SIDES[self.number]

    @property
    def spec(self) -> JoinSideSpec:
        return (self.join.left, self.join.right)[self.number]

    @property
    def table(self) -> StateTable:
        return self.state.spec.state.table(self.name)

    @property
    def rows(self) -> Form:
        """The relation whose rows they are."""
        rows = self.state.rows.args[self.number]
        assert isinstance(rows, Form)
        return rows

    @property
    def rows_can_go(self) -> bool:
        return bool(self.state.attributes.get(f"{self.name} rows can go"))

    @property
    def has_rows_without_key(self) -> bool:
        """Whether rows are kept that can't have a partner, as NULL is among their keys."""
        return gives_alone(self.join.type, self.name)

    def equal(self) -> dict[tuple[Form, ...], StateField]:
        """The key fields by what is equal: of this side, then of the other, and the type."""
        by_name = {field.name: field for field in self.table.key}
        found = {}
        for key in self.join.keys:
            meaning = self.state.meaning(by_name[key.name])
            if meaning is not None:
                mine, theirs, *rest = meaning.args
                sides = (mine, theirs) if self.number == 0 else (theirs, mine)
                found[tuple(f for f in (*sides, *rest) if isinstance(f, Form))] = by_name[key.name]
        return found

    def columns(self) -> dict[Form, StateField]:
        """The columns of the rows by what they mean, those among the keys included."""
        found = self.state.fields(self.table.value)
        found.pop(_COUNT, None)
        by_name = {field.name: field for field in self.table.key}
        names = zip(self.join.keys, self.spec.keys, strict=True)
        plain = {by_name[key.name].name for key, name in names if name}
        for meanings, field in self.equal().items():
            if field.name in plain:
                found.setdefault(meanings[0], field)
        return found


def _input(was: _Side, now: _Side, wanted: Wanted) -> DerivedInput | None:
    """What the new operator is given on one input; None if what is kept does not say it."""
    join, meanings = wanted.node.node, wanted.node.meanings
    assert isinstance(join, RegularJoin | IntervalJoin)
    assert isinstance(join.meaning, Join)
    node = join.inputs[now.number]
    expressions = [(key.left, key.right)[now.number] for key in join.keys]
    (base, before), (new_base, after) = filtered(was.rows), filtered(now.rows)
    if base != new_base or (was.rows_can_go and not now.rows_can_go):
        return None
    if not was.has_rows_without_key:
        # Rows with a NULL among the old keys are not there: they must have no partner in the new join, nor be given alone.
        if not {m[0] for m in was.equal()} <= {m[0] for m in now.equal()}:
            return None
        known = {f.id: (f.type, f.nullable) for f in node.fields}
        if now.has_rows_without_key and any(infer(e, known).nullable for e in expressions):
            return None
    if was.state.forgetful and was.equal().keys() != now.equal().keys():
        return None
    stored = was.columns()
    rewriter = Rewriter(meanings, {m: f for m, f in stored.items() if m not in was.state.retyped})
    where = narrowing(before, after, join.meaning.inputs[now.number], rewriter)
    if where is None:
        return None

    items: list[str] = []
    schema = (*now.join.keys, *now.spec.stored)
    if not schema:
        return None  # there would be rows without any column
    fields = {field.name: field for field in (*now.table.key, *now.table.value)}
    same_keys = {field.name: was.equal().get(meaning) for meaning, field in now.equal().items()}
    for number, wanted_column in enumerate(schema):
        is_key = number < len(expressions)
        if is_key:
            same = same_keys.get(wanted_column.name)
        else:
            meaning = now.state.meaning(fields[wanted_column.name])
            same = stored.get(meaning) if meaning is not None else None
        if same is not None:
            text = quote_identifier(same.name) if widens(same.type, wanted_column.type) else None
        elif is_key:
            text = rewriter.key_sql(expressions[number], node)
        else:
            text = rewriter.sql(column(wanted_column.name), node)
        if text is None:
            return None
        items.append(f"CAST({text} AS {wanted_column.type}) AS {quote_identifier(wanted_column.name)}")
        if is_key and not now.has_rows_without_key:
            where = (*where, f"({text}) IS NOT NULL")
    keys = tuple(Column(key.name, key.type, now.has_rows_without_key) for key in now.join.keys)
    return _rows(was, now, items, (*keys, *now.spec.stored), where)


def _rows(
    was: _Side, now: _Side, items: list[str], columns: tuple[Column, ...], where: tuple[str, ...]
) -> DerivedInput:
    """Rows with how often each is there, or as often as that."""
    count = quote_identifier(was.state.fields(was.table.value)[_COUNT].name)
    rest = f"\nWHERE {' AND '.join(where)}" if where else ""
    if now.rows_can_go:
        columns = (*columns, Column(WEIGHT_COLUMN, BIGINT, False))
        text = select([*items, f"{count} AS {quote_identifier(WEIGHT_COLUMN)}"], was.name, rest)
    else:
        inside = select([*items, f"{count} AS times"], was.name, rest)
        names = ", ".join(quote_identifier(c.name) for c in columns)
        text = f"SELECT {names}\nFROM (\n{inside}\n), range(times)"
    return DerivedInput((was.name,), text, columns, tuple(field.name for field in now.table.key))
