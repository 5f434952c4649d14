"""`sqlstream sql` over a topic: what is there now, with the records that can't be read reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from tests.connectors.kafka.topics import Topics


def test_a_topic_is_sampled(topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = topics.create()
    topics.produce(topic, [b'{"a": 1}', b'{"a": 2}', b"nonsense", b'{"a": 3}'])
    file = tmp_path / "p.sql"
    file.write_text(
        f"""CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
          'properties.bootstrap.servers' = '{topics.bootstrap}', 'scan.startup.mode' = 'earliest-offset');
        CREATE TABLE o (a INT) WITH ('connector' = 'print');
        INSERT INTO o SELECT a FROM t;"""
    )
    assert run_cli(["sql", str(file), "--format", "csv", "-c", "SELECT SUM(a) AS s FROM t"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "s\n6\n"
    assert "1 row that can't be read is left out" in shown.err
