"""What differs between what a sink held and what it is to hold, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlstream_planner.diagnostics import counted
from sqlstream_planner.explain.meaning import meaning_text
from sqlstream_planner.identity.form import Argument, Form
from sqlstream_planner.identity.sink import Holds, SinkIdentity


def place_changes(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    """What differs between where and how two sinks are written."""
    before, now = ({**i.destination, **i.destination.get("options", {})} for i in (old, new))
    for key in sorted(before.keys() | now.keys()):
        if key != "options" and before.get(key) != now.get(key):
            yield f"{key} was {_shown(before.get(key))} and is {_shown(now.get(key))}"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"({', '.join(value)})"
    return "not set" if value is None else f"'{value}'"


def table_changes(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    """What differs between how two tables are declared."""
    before, now = dict(old.columns), dict(new.columns)
    for name, type_ in before.items():
        if name not in now:
            yield f"it had the column `{name}` {type_}"
        elif now[name] != type_:
            yield f"its column `{name}` was {type_} and is {now[name]}"
    for name, type_ in now.items():
        if name not in before:
            yield f"its column `{name}` {type_} is new"
    if old.columns != new.columns and sorted(old.columns) == sorted(new.columns):
        yield f"its columns were in the order {', '.join(before)}, and are in the order {', '.join(now)}"
    if old.ordered != new.ordered:
        yield "whether the order of its columns counts is another"
    if old.primary_key != new.primary_key and Holds.ANSWER in (old.holds, new.holds):
        yield f"its PRIMARY KEY was {_key(old)} and is {_key(new)}"


def _key(identity: SinkIdentity) -> str:
    return f"({', '.join(identity.primary_key)})" if identity.primary_key else "none"


def answer_changes(old: SinkIdentity, new: SinkIdentity) -> Iterator[str]:
    """What differs between the queries of two identities, in words; nothing if they are one."""
    if old.conflict != new.conflict:
        yield f"ON CONFLICT was {old.conflict or 'not needed'} and is {new.conflict or 'not needed'}"
    before, now = Counter(old.queries), Counter(new.queries)
    left, made = list((before - now).elements()), list((now - before).elements())
    if len(left) == len(made) == 1:
        yield from _query_changes(left[0], made[0], [n for n, _ in old.columns], [n for n, _ in new.columns])
    elif left or made:
        yield (
            f"of the queries whose rows are put together in it, {counted(len(left), 'query')} "
            f"of before is gone, and {counted(len(made), 'query')} is new"
        ).replace("querys", "queries")


def _query_changes(old: Form, new: Form, before: list[str], now: list[str]) -> Iterator[str]:
    (rows, conditions, columns), (new_rows, new_conditions, new_columns) = query_parts(old), query_parts(new)
    if rows != new_rows:
        yield "its rows are those of other sources, or are grouped, ranked or put together in another way"
    for condition in conditions.args:
        if condition not in new_conditions.args:
            yield f"its rows had to meet the condition {_words(condition)}"
    for condition in new_conditions.args:
        if condition not in conditions.args:
            yield f"its rows have to meet the condition {_words(condition)}"
    held = dict(zip(before, columns.args, strict=True))
    for name, found in zip(now, new_columns.args, strict=True):
        if name in held and held[name] != found:
            yield f"its column `{name}` was {_words(held[name])} and is {_words(found)}"


def query_parts(query: Form) -> tuple[Form, Form, Form]:
    """The rows of a query, the conditions that they meet, and what its columns hold."""
    rows, conditions, columns = query.args
    assert isinstance(rows, Form)
    assert isinstance(conditions, Form)
    assert isinstance(columns, Form)
    return rows, conditions, columns


def _words(meaning: Argument) -> str:
    return meaning_text(meaning) if isinstance(meaning, Form) else str(meaning)
