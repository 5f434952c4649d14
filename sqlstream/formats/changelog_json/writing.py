"""Changes as JSON messages, with their kind, as SQL over the columns of the table and KIND_COLUMN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlstream.formats.json.writing import object_text, object_value
from sqlstream.formats.options import flag, iso_timestamps
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.spec import KIND_COLUMN, Column
from sqlstream_operators.plan.types import quote_literal

_GOES = f"{KIND_COLUMN} IN ('-U', '-D')"


@dataclass(frozen=True, slots=True)
class _Message:
    """The keys of a message: SELECT items of a row's `value`, and the text of one that has no NULLs from its `text`."""

    items: Callable[[str], Sequence[tuple[str, str]]]
    without_nulls: Callable[[str], str]


def _debezium_items(value: str) -> Sequence[tuple[str, str]]:
    """`{"before": …, "after": …, "op": …}`; as in Flink an update is two messages, a `d` and a `c`."""
    return (
        ("before", f"CASE WHEN {_GOES} THEN {value} END"),
        ("after", f"CASE WHEN NOT {_GOES} THEN {value} END"),
        ("op", f"CASE WHEN {_GOES} THEN 'd' ELSE 'c' END"),
    )


def _debezium_text(text: str) -> str:
    gone, there = (
        f"""'{{"before":' || {text} || ',"op":"d"}}'""",
        f"""'{{"after":' || {text} || ',"op":"c"}}'""",
    )
    return f"CASE WHEN {_GOES} THEN {gone} ELSE {there} END"


def _named(op: str, *, gone: str, there: str, several: bool = False) -> _Message:
    """`{"data": …, "type": …}`: the row, in an array with `several`, and one of two names of what became of it."""
    name = f"CASE WHEN {_GOES} THEN {quote_literal(gone)} ELSE {quote_literal(there)} END"
    opened, closed = ("[", "]") if several else ("", "")
    return _Message(
        lambda value: (("data", f"[{value}]" if several else value), (op, name)),
        lambda text: f"""'{{"data":{opened}' || {text} || '{closed},"{op}":"' || {name} || '"}}'""",
    )


_MESSAGES: Mapping[str, _Message] = {
    "debezium-json": _Message(_debezium_items, _debezium_text),
    # The kinds as they are.
    "changelog-json": _Message(
        lambda value: (("data", value), ("op", KIND_COLUMN)),
        lambda text: f"""'{{"data":' || {text} || ',"op":"' || {KIND_COLUMN} || '"}}'""",
    ),
    "canal-json": _named("type", gone="DELETE", there="INSERT", several=True),
    "maxwell-json": _named("type", gone="delete", there="insert"),
}


def message_items(format_: str, columns: Sequence[Column], options: Mapping[str, str]) -> list[str]:
    """SELECT items of the keys of a message."""
    value = object_value(columns, iso=iso_timestamps(options, format_))
    return [f"{sql} AS {key}" for key, sql in _message(format_).items(value)]


def message_text(format_: str, columns: Sequence[Column], options: Mapping[str, str]) -> str:
    """SQL of the text of a message."""
    iso = iso_timestamps(options, format_)
    if flag(options, f"{format_}.encode.ignore-null-fields"):
        return _message(format_).without_nulls(object_text(columns, iso=iso, without_nulls=True))
    items = _message(format_).items(object_value(columns, iso=iso))
    return f"CAST(to_json(struct_pack({', '.join(f'{key} := {sql}' for key, sql in items)})) AS VARCHAR)"


def _message(format_: str) -> _Message:
    if format_ not in _MESSAGES:
        raise InternalError(f"{format_} is no format of changes that can be written")
    return _MESSAGES[format_]
