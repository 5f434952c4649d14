"""What differs between what a sink held and what it is to hold, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlstream_planner.diagnostics import counted
from sqlstream_planner.edits.differences import row_differences
from sqlstream_planner.explain.meaning import meaning_text
from sqlstream_planner.identity.form import Argument, Form, walk
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
        texts = [d.text for d in row_differences(rows, new_rows)]
        yield (
            "; ".join(texts)
            or "its rows are those of other sources, or are grouped, ranked or put together in another way"
        )
    had, have = [*map(_words, conditions.args)], [*map(_words, new_conditions.args)]
    yield from (f"its rows met the condition {text}" for text in had if text not in have)
    yield from (f"its rows must meet the condition {text}" for text in have if text not in had)
    ranked, now_ranked = _ranked(conditions, columns), _ranked(new_conditions, new_columns)
    if ranked is not None and now_ranked is not None:
        yield from (f"among the rows that are ranked, {d.text}" for d in row_differences(ranked, now_ranked))
    held = dict(zip(before, columns.args, strict=True))
    for name, found in zip(now, new_columns.args, strict=True):
        if name in held and held[name] != found:
            was, is_ = _words(held[name]), _words(found)
            same = f"its column `{name}` is {is_}, of other rows or other types"
            yield same if was == is_ else f"its column `{name}` was {was} and is {is_}"


def _ranked(*parts: Form) -> Form | None:
    """The rows among which a rank counts; None if nothing is ranked."""
    over = next((f for f in walk(*parts) if f.op == "over"), None)
    rows = None if over is None else over.args[1]
    return rows if isinstance(rows, Form) else None


def query_parts(query: Form) -> tuple[Form, Form, Form]:
    """The rows of a query, the conditions that they meet, and what its columns hold."""
    rows, conditions, columns = query.args
    assert isinstance(rows, Form)
    assert isinstance(conditions, Form)
    assert isinstance(columns, Form)
    return rows, conditions, columns


def _words(meaning: Argument) -> str:
    return meaning_text(meaning) if isinstance(meaning, Form) else str(meaning)
