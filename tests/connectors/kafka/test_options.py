"""What is wrong with a table on Kafka is told by `check`, at its place."""

from __future__ import annotations

import pytest

from sqlstream.connectors.kafka.client import made
from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError

_TABLE = """CREATE TABLE t (k STRING, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'localhost:1',
  'key.format' = '{key}', 'value.format' = '{value}'{more}
);
CREATE TABLE o WITH ('connector' = 'print') AS SELECT k, v FROM t;
"""


@pytest.mark.parametrize(
    ("key", "value", "needed"),
    [
        ("json", "protobuf", ["value.protobuf.message-class-name", "value.protobuf.descriptor-set"]),
        ("avro-confluent", "json", ["key.avro-confluent.url"]),
        ("proto-registry", "json-registry", ["key.proto-registry.url", "value.json-registry.url"]),
        ("raw", "avro", []),
    ],
)
def test_what_a_format_needs_is_asked_for(key: str, value: str, needed: list[str]) -> None:
    text = _TABLE.format(key=key, value=value, more="")
    if not needed:
        plan_file(text, file="p.sql")
        return
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text, file="p.sql")
    found = caught.value.diagnostics
    assert {d.code for d in found} == {"OPT004"}
    wanted = {f"the chosen format needs the option `{name}`" for name in needed}
    assert {d.message for d in found} == wanted
    assert all(d.span is not None and d.span.line == 1 for d in found)


def test_with_what_it_needs_it_is_fine() -> None:
    more = ", 'value.avro-confluent.url' = 'http://localhost:2'"
    plan_file(_TABLE.format(key="raw", value="avro-confluent", more=more), file="p.sql")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("properties.bootstrap.server", True),
        ("properties.boostrap.servers", True),
        ("properties.security.protocol", False),
        ("properties.group.id", False),
    ],
)
def test_a_property_that_is_misspelled_is_pointed_at(written: str, meant: bool) -> None:
    """A property is passed to the client as it is, so only the one that is missing is known."""
    text = "CREATE TABLE t (v INT) WITH (\n'connector' = 'kafka', 'topic' = 'a', 'format' = 'json',\n"
    with pytest.raises(DiagnosticError) as caught:
        plan_file(
            f"{text}'{written}' = 'x');\nCREATE TABLE o (v INT) WITH ('connector' = 'print');\n"
            "INSERT INTO o SELECT v FROM t;",
            file="p.sql",
        )
    (found,) = caught.value.diagnostics
    assert found.message == "the connector 'kafka' needs the option `properties.bootstrap.servers`"
    assert (found.help == f"write it instead of '{written}'") == meant
    assert found.span is not None
    assert (found.span.line == 3) == meant


@pytest.mark.parametrize("option", ["avro.codec", "csv.header"])
def test_options_of_files_are_none_of_records(option: str) -> None:
    name, _ = option.split(".")
    text = _TABLE.format(key="raw", value=name, more=f", 'value.{option}' = 'true'")
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text, file="p.sql")
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == (
        "OPT002",
        f"the connector 'upsert-kafka' has no option `value.{option}`",
    )


_TOLD = """CREATE TABLE t (id INT, x STRING METADATA FROM '{key}' VIRTUAL) WITH (
  'connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'localhost:1', {format}
);
CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT id, x FROM t;
"""


@pytest.mark.parametrize(
    ("key", "format_"),
    [
        ("value.source.table", "'format' = 'debezium-json'"),
        ("value.database", "'value.format' = 'canal-json'"),
        ("value.table", "'format' = 'Maxwell-JSON'"),
        ("topic", "'format' = 'json'"),
    ],
)
def test_metadata_of_the_format_of_values(key: str, format_: str) -> None:
    plan_file(_TOLD.format(key=key, format=format_), file="p.sql")


@pytest.mark.parametrize(
    ("key", "format_", "listed"),
    [
        (
            "value.tabel",
            "'format' = 'canal-json'",
            "timestamp-type, value.database, value.table, value.sql-type",
        ),
        ("value.table", "'format' = 'json'", "timestamp, timestamp-type"),
        ("key.table", "'format' = 'canal-json'", "value.table"),
    ],
)
def test_unknown_metadata_names_what_there_is(key: str, format_: str, listed: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        plan_file(_TOLD.format(key=key, format=format_), file="p.sql")
    [found] = caught.value.diagnostics
    assert (found.code, found.message) == ("CAT008", f"the connector 'kafka' has no metadata `{key}`")
    assert listed in found.notes[0]
    if key == "value.tabel":
        assert found.help == "write METADATA FROM 'value.table'"


@pytest.mark.parametrize(
    ("formats", "option", "instead"),
    [
        (
            "'value.format' = 'csv', 'value.csv.array-element-delimiter' = ','",
            "value.csv.array-element-delimiter",
            "[1, 2]",
        ),
        (
            "'format' = 'canal-json', 'canal-json.table.include' = '(?=x)'",
            "canal-json.table.include",
            "look-around",
        ),
    ],
)
def test_values_that_a_format_refuses_are_refused_in_topics_too(
    formats: str, option: str, instead: str
) -> None:
    with pytest.raises(DiagnosticError) as caught:
        plan_file(_TOLD.format(key="topic", format=formats), file="p.sql")
    [found] = caught.value.diagnostics
    assert found.code == "OPT003"
    assert f"`{option}`" in found.message
    assert instead in str(found.help)


def test_a_topic_that_is_written_has_no_wrapped_messages() -> None:
    text = """CREATE TABLE t (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
CREATE TABLE o WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'localhost:1',
  'format' = 'debezium-json', 'debezium-json.schema-include' = 'true') AS SELECT id FROM t;
"""
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text, file="p.sql")
    [found] = caught.value.diagnostics
    assert found.message.startswith(
        "option 'debezium-json.schema-include' is 'true', which a table that is written"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("sasl.mechanism", "PLIAN"), ("security.protocol", "SASLPLAIN"), ("fetch.max.bytez", "1")],
)
def test_what_librdkafka_refuses_is_named(name: str, value: str) -> None:
    from confluent_kafka.admin import AdminClient

    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", name: value}
    with pytest.raises(DiagnosticError) as raised:
        made(AdminClient, config)
    (found,) = raised.value.diagnostics
    assert (found.code, found.message) == ("OPT003", f"the property `properties.{name}` can't be used")
