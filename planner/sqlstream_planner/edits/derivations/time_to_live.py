"""Times to live that are added: what is there counts as touched at the time of the edit.

So nothing is forgotten earlier than it would be if the time to live had always been there, and at the latest one time to
live after the edit. A time to live that changes goes on with the times that are kept, one that is taken away leaves them.
"""

from __future__ import annotations

from sqlstream_operators.plan.changelog_normalize_spec import ChangelogNormalizeSpec
from sqlstream_operators.plan.first_row_spec import FirstRowSpec
from sqlstream_operators.plan.state_schema import TIME, StateTable
from sqlstream_operators.plan.state_ttl import AT, EXPIRY, TOUCHED, granularity_us
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.keys import KeyMap
from sqlstream_planner.edits.derivations.parts import columns_from, select
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.edits.verdict import NOW_US, Derivation, DerivedTable

REASON = "what is there counts as touched now"


def derive_time_to_live(old: Stored, wanted: Wanted) -> Derived | None:
    """The last row of each key, or the keys that came, with a time to live that they had not."""
    was, now = old.spec, wanted.state.spec
    for kind in (ChangelogNormalizeSpec, FirstRowSpec):
        if not isinstance(was, kind) or not isinstance(now, kind):
            continue
        if was.ttl_us is not None or now.ttl_us is None:
            return None
        if old.operator != wanted.state.operator or old.rows != wanted.state.rows:
            return None
        table = now.state.tables[0]
        keys, values = (
            columns_from(old, part, wanted.state, wanted_part)
            for part, wanted_part in (
                (was.state.tables[0].key, table.key),
                (was.state.tables[0].value, table.value),
            )
        )
        if keys.missing or values.missing or old.keys().keys() != wanted.state.keys().keys():
            return None
        read = was.state.tables[0].name
        first = DerivedTable(table.name, (read,), select([*keys.items, *values.items], read))
        more = times_of(wanted.state, first, None, None)
        return Derived(
            Derivation("time to live", (first, *more)),
            "",
            {(t.table, c): REASON for t in more for c in (*now.state.table(t.table).key_columns, AT)},
        )
    return None


def times_of(
    new: Stored, first: DerivedTable, old: Stored | None, keys: KeyMap | None
) -> tuple[DerivedTable, ...]:
    """The tables that a time to live needs, for the keys of `first`; none if the new state has none.

    They are those of `old`, if it has them, by `keys`; else all keys were touched now.
    """
    touched, expiry = new.table(TOUCHED), new.table(EXPIRY)
    if touched is None or expiry is None:
        return ()
    if old is not None and keys is not None and old.table(TOUCHED) is not None:
        return tuple(_kept(table, keys, column) for table, column in ((touched, AT), (expiry, TIME)))
    ttl_us = new.spec.ttl_us
    assert ttl_us is not None
    now = f"CAST({NOW_US} - {NOW_US} % {granularity_us(ttl_us)} AS BIGINT)"
    return tuple(_touched(table, first, column, now) for table, column in ((touched, AT), (expiry, TIME)))


def _kept(table: StateTable, keys: KeyMap, column: str) -> DerivedTable:
    """The times that are kept; of several keys that become one, the last."""
    rows = keys.select((), [f"{quote_identifier(AT)} AS {quote_identifier(column)}"], TOUCHED)
    return DerivedTable(table.name, (TOUCHED,), rows, None if keys.adds_nothing else _last(table, column))


def _touched(table: StateTable, first: DerivedTable, column: str, now: str) -> DerivedTable:
    """All keys of `first`, with the time of the edit in `column`."""
    listed = ", ".join(
        [*(quote_identifier(f.name) for f in table.key), f"{now} AS {quote_identifier(column)}"]
    )
    rows = f"SELECT DISTINCT {listed}\nFROM (\n{first.rows}\n) AS t"
    return DerivedTable(table.name, first.reads, rows, _last(table, column))


def _last(table: StateTable, column: str) -> str:
    """The last of several times of a key."""
    name, by = quote_identifier(column), [quote_identifier(f.name) for f in table.key]
    listed = ", ".join([*by, f"max({name}) AS {name}"])
    return f'SELECT {listed}\nFROM "rows"' + (
        f"\nGROUP BY {', '.join(by)}" if by else "\nHAVING count(*) > 0"
    )
