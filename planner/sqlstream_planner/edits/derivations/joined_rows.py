"""The rows that a join keeps from those that another join of the same relations keeps.

Both sides are kept whole, so that joins of another kind, with another condition, by other keys, or of fewer rows and
columns, find all their rows there: what is stored must say which key each has. Two things are not stored: columns that
the old query did not read, and rows without a key of a side that was given with its partners only.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_operators.plan.arranged_spec import ArrangeSpec
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_operators.plan.widening import widens
from sqlstream_planner.edits.derivations.conditions import narrowing
from sqlstream_planner.edits.derivations.kept_side import COUNT, SIDES, KeptSide
from sqlstream_planner.edits.derivations.parts import select
from sqlstream_planner.edits.derivations.rewritten import Rewriter
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, filtered
from sqlstream_planner.edits.verdict import Derivation, DerivedInput
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.logical import Join, Node, column
from sqlstream_planner.streaming import Arrangement, IntervalJoin, RegularJoin


def derive_joined_rows(old: Stored, wanted: Wanted) -> Derived | None:
    """The rows of both sides of the join `wanted` from those of `old`, whose sides may stand the other way round; or those
    of an arrangement from a side or another arrangement, and of a join from two arrangements.

    Of interval joins only pairs of an INNER join: whether a row of an outer one had a partner that has gone is not known.
    """
    if isinstance(wanted.state.spec, ArrangeSpec):
        return _arrangement(old, wanted, wanted.state.spec)
    if isinstance(old.spec, ArrangeSpec) and isinstance(wanted.state.spec, JoinSpec):
        return _of_arrangements(old, wanted, wanted.state.spec)
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
    needed = [KeptSide(wanted.state, wanted.state.spec, number) for number in (0, 1)]
    for places in tried:
        there = [KeptSide(old, old.spec, place) for place in places]
        inputs = [_input(was, now, wanted) for was, now in zip(there, needed, strict=True)]
        given = tuple(one for one in inputs if one is not None)
        if len(given) == len(inputs):
            reason = "the rows of both sides are kept: they are joined anew"
            return Derived(Derivation("joined rows", (), given), reason)
    return None


def _arrangement(old: Stored, wanted: Wanted, spec: ArrangeSpec) -> Derived | None:
    for was in _kept_sides(old):
        given = _input(was, KeptSide(wanted.state, spec), wanted)
        if given is not None:
            return Derived(Derivation("joined rows", (), (given,)), "the rows are kept")
    return None


def _of_arrangements(old: Stored, wanted: Wanted, spec: JoinSpec) -> Derived | None:
    """The rows of the left from `old`, and of the right from any arrangement."""
    inputs = []
    for number, states in enumerate(((old,), wanted.before)):
        now = KeptSide(wanted.state, spec, number)
        arranged = (state for state in states if isinstance(state.spec, ArrangeSpec))
        sides = (side for state in arranged for side in _kept_sides(state))
        found = next((given for was in sides if (given := _input(was, now, wanted)) is not None), None)
        if found is None:
            return None
        inputs.append(found)
    return Derived(Derivation("joined rows", (), tuple(inputs)), "the rows of both sides are kept")


def _kept_sides(old: Stored) -> Sequence[KeptSide]:
    """The relations that a state keeps whole."""
    if isinstance(old.spec, ArrangeSpec):
        return (KeptSide(old, old.spec),)
    if isinstance(old.spec, JoinSpec):
        return tuple(KeptSide(old, old.spec, number) for number in (0, 1))
    return ()


def _made_of(now: KeptSide, wanted: Wanted) -> tuple[Node, Node, Sequence[exp.Expr]]:
    """What rows are wanted: the relation, the algebra that it means, and the keys over it."""
    node = wanted.node.node
    if isinstance(node, Arrangement):
        return node.input, node.meaning, [key.expression for key in node.keys]
    assert isinstance(node, RegularJoin | IntervalJoin)
    assert isinstance(node.meaning, Join)
    keys = [(key.left, key.right)[now.number] for key in node.keys]
    return node.inputs[now.number], node.meaning.inputs[now.number], keys


def _kept_as_long(old: Stored, was: IntervalJoinSpec, new: Stored, now: IntervalJoinSpec) -> bool:
    """Whether an INNER interval join has kept all rows that another needs: of the same times, and no shorter."""
    before, after = was.bounds, now.bounds
    return (
        was.type == now.type == "inner"
        and all(
            old.attributes.get(f"{side} rows") in (None, new.attributes.get(f"{side} rows")) for side in SIDES
        )
        and old.attributes["times"] == new.attributes["times"]
        and before.left_wait_us >= after.left_wait_us
        and before.right_wait_us >= after.right_wait_us
    )


def _input(was: KeptSide, now: KeptSide, wanted: Wanted) -> DerivedInput | None:
    """What the new operator is given on one input; None if what is kept does not say it."""
    meanings = wanted.node.meanings
    node, meaning_of_node, expressions = _made_of(now, wanted)
    (base, before), (new_base, after) = filtered(was.rows), filtered(now.rows)
    if base != new_base or (was.rows_can_go and not now.rows_can_go):
        return None
    if not was.has_rows_without_key:
        # Rows with a NULL among the old keys are not there: they must have no partner in the new join, nor be given alone.
        if not was.by().keys() <= now.by().keys():
            return None
        known = {f.id: (f.type, f.nullable) for f in node.fields}
        if now.has_rows_without_key and any(infer(e, known).nullable for e in expressions):
            return None
    if was.state.forgetful and was.equal() != now.equal():
        return None
    stored = was.columns()
    rewriter = Rewriter(meanings, {m: f for m, f in stored.items() if m not in was.state.retyped})
    where = narrowing(before, after, meaning_of_node, rewriter)
    if where is None:
        return None

    items: list[str] = []
    schema = (*now.keys, *now.side.stored)
    if not schema:
        return None  # there would be rows without any column
    fields = {field.name: field for field in (*now.table.key, *now.table.value)}
    same_keys = {field.name: was.by().get(meaning) for meaning, field in now.by().items()}
    for number, wanted_column in enumerate(schema):
        is_key = number < len(expressions)
        if is_key:
            same = same_keys.get(wanted_column.name)
            if same is not None and not widens(same.type, wanted_column.type):
                same = None
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
    keys = tuple(Column(key.name, key.type, now.has_rows_without_key) for key in now.keys)
    return _rows(was, now, items, (*keys, *now.side.stored), where)


def _rows(
    was: KeptSide, now: KeptSide, items: list[str], columns: tuple[Column, ...], where: tuple[str, ...]
) -> DerivedInput:
    """Rows with how often each is there, or as often as that."""
    count = quote_identifier(was.state.fields(was.table.value)[COUNT].name)
    rest = f"\nWHERE {' AND '.join(where)}" if where else ""
    if now.rows_can_go:
        columns = (*columns, Column(WEIGHT_COLUMN, BIGINT, False))
        text = select([*items, f"{count} AS {quote_identifier(WEIGHT_COLUMN)}"], was.name, rest)
    else:
        inside = select([*items, f"{count} AS times"], was.name, rest)
        names = ", ".join(quote_identifier(c.name) for c in columns)
        text = f"SELECT {names}\nFROM (\n{inside}\n), range(times)"
    by = tuple(field.name for field in now.table.key)
    return DerivedInput((was.name,), text, columns, by, was.state.spec.state)
