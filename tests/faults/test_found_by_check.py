"""What is wrong with writing a table is told when the file is checked, at the INSERT, not when it runs."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError

SQL = """
CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o (k STRING, s BIGINT{key}) {partitions} WITH ('connector' = 'filesystem', 'path' = 'out',
  'format' = '{format}'{options});
INSERT INTO o SELECT k, {value} FROM t{group};
"""
WRAPPED = ", 'debezium-json.schema-include' = 'true'"


def sql(format_: str, partitions: str = "", options: str = "", *, updates: bool = True) -> str:
    return SQL.format(
        key=", PRIMARY KEY (k) NOT ENFORCED" if updates else "",
        partitions=partitions,
        format=format_,
        options=options,
        value="SUM(v)" if updates else "v",
        group=" GROUP BY k" if updates else "",
    )


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        (sql("debezium-json", options=WRAPPED), "OPT003", "schema-include' is 'true'"),
        (sql("debezium-json", options=WRAPPED, updates=False), "OPT003", "schema-include' is 'true'"),
        (sql("debezium-json", "PARTITIONED BY (s)"), "CAT007", "could move it to another folder"),
        (sql("changelog-json", "PARTITIONED BY (s)"), "CAT007", "could move it to another folder"),
        (sql("json", "PARTITIONED BY (k, s)", updates=False), "CAT007", "BY all of its columns"),
        (sql("parquet", "PARTITIONED BY (K, S)", updates=False), "CAT007", "BY all of its columns"),
        (sql("debezium-json", "PARTITIONED BY (s, k)"), "CAT007", "BY all of its columns"),
    ],
)
def test_a_table_that_can_not_be_written(text: str, code: str, expected: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text, file="p.sql")
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code == code
    assert expected in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.line == 5


@pytest.mark.parametrize(
    "text",
    [
        sql("debezium-json", options=WRAPPED.replace("true", "false")),
        sql("debezium-json", "PARTITIONED BY (k)"),
        sql("changelog-json", "PARTITIONED BY (K)"),
        sql("changelog-json", "PARTITIONED BY (s)", updates=False),
        sql("json", "PARTITIONED BY (s)", updates=False),
    ],
)
def test_neighbours_that_can(text: str) -> None:
    plan_file(text, file="p.sql")
