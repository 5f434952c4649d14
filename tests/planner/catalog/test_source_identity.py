"""Sources are told apart by everything that can change their rows, and by nothing that the user merely calls something."""

from __future__ import annotations

import pytest

from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream_planner.catalog.lookup_options import LOOKUP_OPTIONS
from sqlstream_planner.catalog.script import read_catalog
from sqlstream_planner.catalog.source_identity import SourceIdentity
from sqlstream_planner.identity.source import source_identity
from sqlstream_planner.sql.parse import parse_file
from tests.formats.accepted_options import ACCEPTED

FILES = "'connector' = 'filesystem', 'path' = 'data', 'format' = '{format}'"


def identity(columns: str, options: str, rest: str = "", name: str = "t") -> SourceIdentity:
    text = f"CREATE TABLE {name} ({columns}) {rest} WITH ({options})"
    table = read_catalog(parse_file(text, file="q.sql"), REGISTERED.descriptors).table(name)
    assert table is not None
    return source_identity(table, table.descriptor)


def files(format_: str, *more: str) -> str:
    return ", ".join([FILES.format(format=format_), *more])


DATAGEN = "'connector' = 'datagen', 'number-of-rows' = '10'"
OTHER_ROWS = [
    (files("json"), files("json", "'source.path.regex-pattern' = '.*a'")),
    (files("json"), files("csv")),
    (files("json"), files("json").replace("'data'", "'other'")),
    (files("json"), files("json", "'json.fail-on-missing-field' = 'true'")),
    (files("csv"), files("csv", "'csv.field-delimiter' = ';'")),
    (files("csv"), files("csv", "'csv.header' = 'true'")),
    (files("canal-json"), files("canal-json", "'canal-json.table.include' = 'x'")),
    (files("json"), files("json", "'partition.default-name' = 'none'")),
    (DATAGEN, DATAGEN.replace("10", "11")),
    (DATAGEN, f"{DATAGEN}, 'seed' = '1'"),
    (DATAGEN, f"{DATAGEN}, 'rows-per-second' = '7'"),  # it decides the rows' times
    (f"{DATAGEN}, 'fields.a.max' = '9007199254740993'", f"{DATAGEN}, 'fields.a.max' = '9007199254740992'"),
]
SAME_ROWS = [
    (files("json"), files("json", "'source.monitor-interval' = '1 s'")),
    (files("json"), files("json", "'json.ignore-parse-errors' = 'true'")),
    (files("json"), files("json", "'json.timestamp-format.standard' = 'ISO-8601'")),
    (files("json"), files("json", "'sink.parallelism' = '3'")),
    (files("json"), files("json", "'csv.field-delimiter' = ';'")),
    (files("json"), files("JSON")),
    (files("csv"), files("csv", "'csv.field-delimiter' = ',', 'csv.allow-comments' = 'FALSE'")),
    (DATAGEN, f"{DATAGEN}, 'scan.parallelism' = '2', 'rows-per-second' = '10000'"),
    (f"{DATAGEN}, 'fields.a.max' = '7'", f"'fields.a.max' = '07', {DATAGEN}"),
    (
        "'connector' = 'nexmark', 'events' = '9', 'out-of-order' = '2 s'",
        "'connector' = 'nexmark', 'out-of-order' = '2000', 'events' = '9', 'rows-per-second' = '1'",
    ),
]


@pytest.mark.parametrize(("one", "other"), OTHER_ROWS)
def test_an_option_that_can_change_the_rows_counts(one: str, other: str) -> None:
    first, second = identity("a BIGINT", one), identity("a BIGINT", other)
    assert first.text != second.text
    assert first.rows != second.rows
    assert first.column("a") != second.column("a")


@pytest.mark.parametrize(("one", "other"), SAME_ROWS)
def test_what_cannot_change_the_rows_does_not_count(one: str, other: str) -> None:
    columns = "event_type INT" if "nexmark" in one else "a BIGINT"
    assert identity(columns, one) == identity(columns, other, name="another_name")


#: How a schema registry lets one in; which registry it is, its `url`, counts.
_REGISTRY_ACCESS = (
    *("basic-auth.credentials-source", "basic-auth.user-info"),
    *("bearer-auth.credentials-source", "bearer-auth.token"),
    *("ssl.keystore.location", "ssl.keystore.password", "ssl.truststore.location", "ssl.truststore.password"),
)


def test_every_option_counts_unless_its_descriptor_says_otherwise() -> None:
    """The list of those that don't is here once more, so that none gets there by accident."""
    harmless = {
        o.name
        for d in REGISTERED.descriptors
        for o in d.all_options
        if not o.changes_rows and not o.name.endswith((".ignore-parse-errors", ".timestamp-format.standard"))
    }
    assert harmless - ACCEPTED == {
        "source.monitor-interval",
        "source.settle-time",
        "mode",  # of delta: whether a run ends
        "updateCheckIntervalMillis",
        *(
            "username",
            "password",
        ),  # of postgres-cdc: the position has the server and the table; of postgres the password
        "driver",  # of jdbc: how it is read, not what
        *(f"scan.partition.{name}" for name in ("column", "num", "lower-bound", "upper-bound")),
        "scan.fetch-size",
        "publication.name",  # that it has all changes of the table is checked
        "streaming",  # of iceberg: whether a run ends
        "monitor-interval",
        "credential",  # of iceberg, as token: who may ask the catalog
        "token",
        "scan.parallelism",
        "rows-per-second",
        "properties.*",
        *(f"properties.{name}" for name in ("sasl.jaas.config", "sasl.password", "ssl.key.password")),
        *(f"properties.ssl.{name}" for name in ("keystore.key", "keystore.password", "truststore.password")),
        "scan.topic-partition-discovery.interval",
        *(option.name for option in LOOKUP_OPTIONS),
        *(
            f"{prefix}{format_}.{name}"
            for format_ in ("avro-confluent", "debezium-avro-confluent", "json-registry", "proto-registry")
            for prefix in ("", "key.", "value.")
            for name in _REGISTRY_ACCESS
        ),
    }
    datagen = REGISTERED.descriptors["datagen"]
    assert next(o for o in datagen.options if o.name == "rows-per-second").changes_rows


def test_a_column_is_its_physical_name_and_declared_type() -> None:
    options = files("json")
    one = identity("a INT, b STRING", options)
    assert one.column("a") == identity("b STRING, a INT, c INT", options).column("a")
    assert one.column("A") == one.column("a")
    assert one.column("a") != identity("a BIGINT", options).column("a")
    assert one.column("a") != identity("A INT", options).column("a")  # keys of JSON differ in case
    wide, narrow = "a DECIMAL(10, 2)", "a DECIMAL(10, 0)"
    assert identity(wide, options).column("a") != identity(narrow, options).column("a")
    delta = "'connector' = 'delta', 'table-path' = 'x'"
    assert identity("a INT, b STRING", delta).column("a") == identity("A INT", delta).column("a")
    parquet = files("parquet")
    assert identity("a INT", parquet).column("a") == identity("A INT", parquet).column("a")


def test_what_is_computed_and_watermarks_do_not_count() -> None:
    one = identity("a INT, ts TIMESTAMP(3), b AS a + 1, WATERMARK FOR ts AS ts", files("json"))
    other = identity("a INT, ts TIMESTAMP(3), c AS a - 1", files("json"))
    assert one == other


def test_metadata_is_known_by_its_key() -> None:
    options = files("json")
    path = identity("a INT, m STRING METADATA FROM 'file.path'", options)
    name = identity("a INT, m STRING METADATA FROM 'file.name'", options)
    again = identity("a INT, n STRING METADATA FROM 'file.path'", options)
    assert path.column("m") != name.column("m")
    assert path.column("m") == again.column("n")
    assert path.column("m") != identity("a INT, m STRING", options).column("m")


def test_without_a_header_positions_decide() -> None:
    options = files("csv", "'csv.header' = 'false'")
    one = identity("a INT, b INT", options)
    assert one.column("a") == identity("x INT, y INT", options).column("x")
    assert one.column("a") != identity("b INT, a INT", options).column("a")
    assert one.rows != identity("a INT, b INT, c INT", options).rows  # a row of two fields is malformed there


@pytest.mark.parametrize("header", [(), ("'csv.header' = 'true'",)])
def test_where_there_may_be_a_header_names_and_positions_count(header: tuple[str, ...]) -> None:
    options = files("csv", *header)
    one = identity("a INT, b INT", options)
    assert one.column("a") != identity("b INT, a INT", options).column("a")
    assert one.column("a") != identity("x INT, b INT", options).column("x")
    assert one.rows != identity("a INT, c INT", options).rows
    assert one.column("a") == identity("A INT, B INT", options).column("a")


def test_a_partition_column_is_not_one_of_the_file() -> None:
    options, partitioned = files("json"), "PARTITIONED BY (a)"
    one = identity("a INT, b INT", options, partitioned)
    assert one.column("a") != identity("a INT, b INT", options).column("a")
    csv = files("csv", "'csv.header' = 'false'")
    assert identity("a INT, b INT", csv, partitioned).column("b")["position"] == 0


def test_the_key_of_changes_counts_and_no_other() -> None:
    key = "a INT, b INT, PRIMARY KEY (a) NOT ENFORCED"
    assert identity(key, files("json")) == identity("a INT, b INT", files("json"))
    assert identity(key, files("debezium-json")) != identity("a INT, b INT", files("debezium-json"))


def test_a_password_does_not_count_and_is_not_there() -> None:
    one = identity("a INT", files("json").replace("'data'", "'s3://key:one@bucket/x'"))
    other = identity("a INT", files("json").replace("'data'", "'s3://key:two@bucket/x'"))
    assert one == other
    assert "one" not in one.text


TABLES = """
CREATE TABLE {name} ({columns}, k INT) WITH ({options});
CREATE TABLE out_{name} (k INT, n BIGINT) WITH ('connector' = 'print');
"""


@pytest.mark.parametrize(
    ("columns", "options"),
    [(("v INT", "v INT"), pair) for pair in OTHER_ROWS if "fields." not in pair[0]]
    + [
        (("v INT", "v DECIMAL(10, 2)"), (files("json"), files("json"))),
        (("v INT", "w INT"), (files("csv"), files("csv"))),
        (
            ("v STRING METADATA FROM 'file.path'", "v STRING METADATA FROM 'file.name'"),
            (files("json"), files("json")),
        ),
    ],
)
def test_aggregates_over_sources_that_differ_are_two(
    columns: tuple[str, str], options: tuple[str, str]
) -> None:
    text = ""
    for name, declared, given in zip("tu", columns, options, strict=True):
        text += TABLES.format(name=name, columns=declared, options=given)
        column = declared.split()[0]
        text += f"INSERT INTO out_{name} SELECT k, COUNT(DISTINCT {column}) FROM {name} GROUP BY k;\n"
    plan = plan_file(text, file="p.sql").physical
    ids = {state.state_id for state in plan.states}
    assert len(ids) == 4, "one aggregate, and one of its values, for each table"


def test_positions_are_kept_under_the_identity_and_not_the_name() -> None:
    text = "CREATE TABLE {} (a INT) WITH ({}); SELECT a FROM {};"
    [one] = plan_file(text.format("t", files("json"), "t"), file="p.sql").physical.sources
    [other] = plan_file(text.format("u", files("json"), "u"), file="p.sql").physical.sources
    assert one.identity == other.identity != ""
    assert one.identity == '{"connector":"filesystem","options":{"format":"json","path":"data"},"version":1}'
