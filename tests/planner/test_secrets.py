from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner import explain
from sqlstream_planner.secrets import shown_options

SQL = """
CREATE TABLE o (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
CREATE TABLE t (id BIGINT) WITH (
  'connector' = 'postgres', 'url' = 'postgresql://u:S3CRET@h/db?password=S3CRET', 'password' = 'S3CRET'
);
INSERT INTO t SELECT id FROM o;
"""


@pytest.mark.parametrize("show", [explain.explain_text, explain.explain_json, explain.explain_mermaid])
def test_no_explanation_shows_a_password(tmp_path: Path, show: object) -> None:
    file = tmp_path / "p.sql"
    file.write_text(SQL)
    planned = plan_file(file)
    assert planned.physical.sinks[0].options["password"] == "S3CRET"  # the plan that runs has it
    assert callable(show)
    assert "S3CRET" not in show(planned)


def test_what_is_no_password_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "p.sql"
    file.write_text(SQL)
    (sink,) = json.loads(explain.explain_json(plan_file(file)))["physical"]["sinks"]
    assert sink["options"]["url"] == "postgresql://u:***@h/db?password=***"


@pytest.mark.parametrize(
    "value",
    ["postgresql://h:5432/db", "s3://bucket/a@b:c", "data/a:b@c", "postgresql://u@h/db?sslmode=require"],
)
def test_addresses_without_a_password_stay(value: str) -> None:
    assert shown_options({"url": value}) == {"url": value}
