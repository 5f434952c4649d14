"""What is wrong with a declared table on Kafka beyond the names and values of single options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.kafka.offsets import read_offsets
from sqlstream_planner.catalog.options import wrong_value
from sqlstream_planner.diagnostics import Diagnostic, did_you_mean

if TYPE_CHECKING:
    from sqlstream_operators.plan.spec import SinkSpec
    from sqlstream_planner.catalog.descriptor import Settings
    from sqlstream_planner.sql.statements import CreateTable, Option

_GROUP = "properties.group.id"


def wrong_table(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """What is wrong with a table on `kafka`."""
    given = _by_key(table)
    yield from _wrong_topic(table, given)
    yield from _one_of(table, given, "format", "value.format")
    if table.primary_key is not None and not _has_changes(settings):
        yield Diagnostic(
            "OPT003",
            f"`{table.name}` has a PRIMARY KEY, and records of its format never replace others",
            table.primary_key.span,
            help="leave the PRIMARY KEY out, or use 'connector' = 'upsert-kafka'",
        )
    for one, other in (("key.format", "key.fields"), ("key.fields", "key.format")):
        if one in given and other not in given:
            yield _missing(table, other, f"`{one}` means nothing without it")
    if "key.fields" in given:
        yield from _wrong_keys(table, settings, given["key.fields"])
    yield from _wrong_prefix(table, settings, _fields(settings))
    yield from _wrong_scan(table, settings, given)
    partitioner = given.get("sink.partitioner")
    if partitioner is not None and partitioner.value.strip().lower() not in (
        "default",
        "fixed",
        "round-robin",
    ):
        yield _wrong(partitioner, "'default', 'fixed' or 'round-robin': classes of Java can't be loaded")


def wrong_upsert_table(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """What is wrong with a table on `upsert-kafka`."""
    given = _by_key(table)
    yield from _wrong_topic(table, given)
    if table.primary_key is None:
        yield Diagnostic(
            "OPT004",
            f"`{table.name}` has no PRIMARY KEY, which the connector 'upsert-kafka' needs",
            table.name_span,
            notes=("its columns are the keys of records: the last record of a key is a row",),
            help="add PRIMARY KEY (…) NOT ENFORCED after the columns",
        )
    else:
        yield from _wrong_prefix(table, settings, table.primary_key.columns)
    yield from _wrong_scan(table, settings, given)


def wrong_sink(sink: SinkSpec) -> Diagnostic | None:
    """What is wrong with writing a table; None: nothing is."""
    if "topic-pattern" in sink.options or len(key_fields(sink.options.get("topic", ""))) != 1:
        return Diagnostic(
            "OPT003",
            f"`{sink.name}` is written, so it needs one topic",
            notes=("several topics, and `topic-pattern`, are for tables that are read",),
            help="write 'topic' = '…' with one name",
        )
    for name, key in sink.metadata:
        if key not in ("timestamp", "headers"):
            return Diagnostic(
                "CAT008",
                f"the metadata `{key}` can't be written: column `{name}` of `{sink.name}`",
                notes=("timestamp and headers can be written",),
                help=f"write `{name}` … METADATA FROM '{key}' VIRTUAL",
            )
    return None


def key_fields(text: str) -> tuple[str, ...]:
    """The names in `key.fields`.

    >>> key_fields("a; b")
    ('a', 'b')
    """
    return tuple(name.strip() for name in text.split(";") if name.strip())


def _fields(settings: Settings) -> tuple[str, ...]:
    return key_fields(str(settings.get("key.fields", "")))


def _by_key(table: CreateTable) -> dict[str, Option]:
    return {option.key: option for option in table.options}


def _has_changes(settings: Settings) -> bool:
    from sqlstream.connectors.kafka.shared_options import PLAIN_FORMATS

    chosen = settings.get("format", settings.get("value.format"))
    return chosen is not None and all(f.name != chosen for f in PLAIN_FORMATS)


def _wrong_topic(table: CreateTable, given: Mapping[str, Option]) -> Iterator[Diagnostic]:
    yield from _one_of(table, given, "topic", "topic-pattern")
    if "topic" in given and not key_fields(given["topic"].value):
        yield _wrong(given["topic"], "the name of a topic, or several, separated by ;")
    if "topic-pattern" in given:
        try:
            re.compile(given["topic-pattern"].value)
        except re.error as error:
            yield _wrong(given["topic-pattern"], f"a regular expression ({error})")


def _wrong_keys(table: CreateTable, settings: Settings, option: Option) -> Iterator[Diagnostic]:
    from sqlstream_planner.sql.statements import PhysicalColumn  # not in tasks, where this is loaded, too

    names = [c.name for c in table.columns if isinstance(c, PhysicalColumn)]
    fields = key_fields(option.value)
    if not fields or len(set(fields)) != len(fields):
        yield _wrong(option, "names of columns, each once, separated by ;")
    for name in fields:
        if name not in names:
            near = did_you_mean(name, names)
            yield Diagnostic(
                "OPT003",
                f"`key.fields`: `{table.name}` has no column `{name}`",
                option.value_span,
                notes=("columns: " + ", ".join(names),),
                help=f"did you mean '{near}'?" if near else None,
            )
    if len(fields) == len(names) and settings.get("value.fields-include") == "EXCEPT_KEY":
        yield _wrong(option, "fewer columns: with 'EXCEPT_KEY' none would be left for values")


def _wrong_prefix(table: CreateTable, settings: Settings, fields: tuple[str, ...]) -> Iterator[Diagnostic]:
    option = _by_key(table).get("key.fields-prefix")
    if option is None or not option.value:
        return
    if settings.get("value.fields-include") != "EXCEPT_KEY":
        yield Diagnostic(
            "OPT003",
            "`key.fields-prefix` needs 'value.fields-include' = 'EXCEPT_KEY'",
            option.key_span,
            notes=("values would have the key's columns, too, under names that only this table has",),
            help="add 'value.fields-include' = 'EXCEPT_KEY'",
        )
    for name in fields:
        if not name.startswith(option.value) or name == option.value:
            yield Diagnostic(
                "OPT003",
                f"the key's column `{name}` does not begin with the prefix '{option.value}'",
                option.value_span,
                help=f"call it `{option.value}{name}`",
            )


def _wrong_scan(table: CreateTable, settings: Settings, given: Mapping[str, Option]) -> Iterator[Diagnostic]:
    for what in ("scan.startup", "scan.bounded"):
        mode = settings.get(f"{what}.mode")
        at = given.get(f"{what}.mode")
        for wanted, option in (("specific-offsets", "specific-offsets"), ("timestamp", "timestamp-millis")):
            name = f"{what}.{option}"
            if mode == wanted and name not in given:
                yield _missing(table, name, f"'{what}.mode' = '{wanted}' goes by it", at)
            elif mode != wanted and name in given:
                yield Diagnostic(
                    "OPT003",
                    f"`{name}` means something with '{what}.mode' = '{wanted}' alone",
                    given[name].key_span,
                    help=f"write '{what}.mode' = '{wanted}', or leave it out",
                )
        offsets = given.get(f"{what}.specific-offsets")
        if offsets is not None and mode == "specific-offsets":
            try:
                read_offsets(offsets.value)
            except ValueError as error:
                yield _wrong(offsets, str(error))
            topics = key_fields(given["topic"].value) if "topic" in given else ()
            if len(topics) != 1:
                yield _wrong(offsets, "another mode: offsets are those of a single 'topic'")
        if mode == "group-offsets" and _GROUP not in given and at is not None:
            yield _missing(table, _GROUP, f"'{what}.mode' = 'group-offsets' begins where this group is", at)


def _one_of(table: CreateTable, given: Mapping[str, Option], one: str, other: str) -> Iterator[Diagnostic]:
    if one in given and other in given:
        yield Diagnostic(
            "OPT003", f"`{one}` and `{other}` say the same thing", given[other].key_span, help="leave one out"
        )
    elif one not in given and other not in given:
        yield _missing(table, one, f"`{other}` will do, too")


def _missing(table: CreateTable, option: str, why: str, at: Option | None = None) -> Diagnostic:
    return Diagnostic(
        "OPT004",
        f"`{table.name}` needs the option `{option}`",
        table.options_span if at is None else at.value_span,
        notes=(why,),
        help=f"add '{option}' = '…'",
    )


def _wrong(option: Option, accepted: str) -> Diagnostic:
    return wrong_value("OPT003", option.key, option.value, accepted, option.value_span)
