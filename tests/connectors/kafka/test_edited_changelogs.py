"""An edit that adds a column to results in topics: what was there before is taken back without it, and given with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from tests.connectors.kafka.topics import Topics
from tests.properties.in_process import run_here

SOURCE = "CREATE TABLE i (id BIGINT, k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');\n"
SINK = """CREATE TABLE {name} (k STRING, n BIGINT{columns}, PRIMARY KEY (k) NOT ENFORCED) WITH ({connector},
  'topic' = '{topic}', 'properties.bootstrap.servers' = '{brokers}');
INSERT INTO {name} SELECT k, COUNT(*){values} FROM i GROUP BY k;
"""
UPSERTS = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
CHANGES = "'connector' = 'kafka', 'format' = 'debezium-json'"
#: What is added: from the state that is there, and from the history that is read again.
ADDED = {"kept": (", d BIGINT", ", 2 * COUNT(*)"), "read again": (", d INT", ", MAX(v)")}


def run(
    folder: Path, topics: Topics, names: dict[str, str], columns: str = "", values: str = "", **more: Any
) -> None:
    text = SOURCE + "".join(
        SINK.format(
            name=name,
            connector=connector,
            topic=names[name],
            brokers=topics.bootstrap,
            columns=columns,
            values=values,
        )
        for name, connector in (("ups", UPSERTS), ("changes", CHANGES))
    )
    (folder / "p.sql").write_text(text)
    planned = plan_file(folder / "p.sql")
    run_here(planned, folder, ends=True, sql=planned.masked_sql, **more)


@pytest.mark.parametrize("how", list(ADDED))
def test_a_column_is_added(how: str, topics: Topics, tmp_path: Path) -> None:
    columns, values = ADDED[how]
    names = {"ups": topics.create(), "changes": topics.create()}
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("id,k,v\n1,a,5\n2,a,4\n3,b,7\n")
    run(tmp_path, topics, names)
    (tmp_path / "in/b.csv").write_text("id,k,v\n4,c,1\n")
    run(tmp_path, topics, names, columns, values)
    added = {"a": 4, "b": 2, "c": 2} if how == "kept" else {"a": 5, "b": 7, "c": 1}
    counts = {"a": 2, "b": 1, "c": 1}

    latest = {
        json.loads(r.key or b"")["k"]: json.loads(r.value or b"null") for r in topics.records(names["ups"])
    }
    assert latest == {k: {"k": k, "n": n, "d": added[k]} for k, n in counts.items()}

    table: dict[str, Any] = {}
    for record in topics.records(names["changes"]):
        change = json.loads(record.value or b"")
        if change["before"] is not None:
            before = {name: value for name, value in change["before"].items() if value is not None}
            assert table.pop(before["k"]) == before, "what goes is what was there, as it was written"
        if change["after"] is not None:
            table[change["after"]["k"]] = change["after"]
    assert table == latest
