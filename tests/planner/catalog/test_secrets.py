"""Passwords are in no plan and in nothing that is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan import plan_json
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.catalog.options import BOTH, OptionDef, ValueKind
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, render
from sqlstream_planner.explain import plan as explain
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.text.masking import masked_source, shown_options

SQL = """
CREATE TABLE o (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1'); -- not {password}!
CREATE TABLE t (id BIGINT) WITH (
  'connector' = 'postgres', 'url' = 'postgresql://u:{encoded}@h/db?password={password}', 'password' = '{password}'
);
CREATE TABLE f (v INT) WITH ('connector' = 'filesystem', 'path' = 's3://key:{password}@bucket/x', 'format' = 'json');
INSERT INTO t SELECT id FROM o UNION ALL SELECT v FROM f;
"""
PASSWORDS = ["S3CRET", "it''s", "a:b@c", "${secret:t.password}", "postgres"]


def planned(password: str) -> Planned:
    return plan_file(SQL.format(password=password, encoded=_encoded(password)), file="p.sql")


def _encoded(password: str) -> str:
    """As an address of PostgreSQL's must have it."""
    return password.replace("@", "%40")


@pytest.mark.parametrize("password", ["S3CRET", "a:b@c"])
@pytest.mark.parametrize(
    "show",
    [
        explain.explain_text,
        explain.explain_json,
        explain.explain_mermaid,
        lambda p: to_duckdb(p).text,
        lambda p: plan_json.to_text(p.physical),
        lambda p: p.masked_sql,
        lambda p: repr(p.physical),
        lambda p: repr(p.secrets),
    ],
)
def test_nothing_that_is_made_of_a_file_has_a_password(show: object, password: str) -> None:
    assert callable(show)
    shown = show(planned(password))
    assert isinstance(shown, str)
    assert password not in shown


@pytest.mark.parametrize("password", PASSWORDS)
def test_connectors_get_what_is_written(password: str) -> None:
    found = planned(password)
    plain = password.replace("''", "'")
    sink = found.secrets.resolved(found.physical.sinks[0])
    assert sink.options == {
        "url": f"postgresql://u:{_encoded(plain)}@h/db?password={plain}",
        "password": plain,
    }
    source = next(s for s in found.physical.sources if s.name == "f")
    assert found.secrets.resolved(source).options["path"] == f"s3://key:{plain}@bucket/x"


def test_another_password_is_the_same_plan() -> None:
    one, other = planned("one"), planned("another")
    assert one.physical == other.physical
    assert one.masked_sql == other.masked_sql
    assert one.secrets != other.secrets


def test_what_is_kept_of_the_sql_is_still_the_same_plan() -> None:
    """Also where a password is a word that stands elsewhere."""
    for password in PASSWORDS:
        found = planned(password)
        again = plan_file(found.masked_sql, file="p.sql")
        assert again.physical.states == found.physical.states
        assert [s.identity for s in again.physical.sources] == [s.identity for s in found.physical.sources]
        assert again.masked_sql == found.masked_sql


def test_a_password_that_is_not_known_is_told_by_table_and_option() -> None:
    with pytest.raises(DiagnosticError) as caught:
        Secrets().resolved(planned("x").physical.sinks[0])
    [found] = caught.value.diagnostics
    assert found.code == "OPT007"
    assert "of `t`" in found.message


def test_what_is_no_password_is_shown() -> None:
    physical = json.loads(explain.explain_json(planned("S3CRET")))["physical"]
    assert physical["sinks"][0]["options"]["url"] == "postgresql://u:***@h/db?password=***"


def test_an_option_called_like_a_password_must_be_a_secret() -> None:
    option = OptionDef("sasl.password", ValueKind.STRING, "")
    with pytest.raises(ValueError, match="called like a secret"):
        ConnectorDescriptor("c", "", BOTH, (option,))


@pytest.mark.parametrize(
    "line",
    [
        "'password' = 'S3CRET', 'usrname' = 'u'",
        "'pasword' = 'S3CRET'",
        "'ssl.keystore-password' = 'S3CRET'",
        "'password'\n  = 'S3CRET'",
        "'url' = 'postgresql://u:S3CRET@h/db'",
        "'url' = 'jdbc:postgresql://h/db?user=u&password=S3CRET'",
        "'password' = '{{ env_var(\"PW\", \"S3CRET\") }}'",
    ],
)
def test_the_line_of_a_mistake_has_stars_for_a_password(line: str) -> None:
    text = f"CREATE TABLE t (a INT) WITH ({line});"
    assert len(masked_source(text)) == len(text)
    for number in range(1, text.count("\n") + 2):
        shown = render(Diagnostic("OPT002", "no such option", Span("p.sql", number, 1)), text)
        assert "S3CRET" not in shown


def test_a_variable_is_no_password() -> None:
    text = "'password' = '{{ env_var(\"DB_PASSWORD\") }}', 'connector' = 'postgres'"
    assert masked_source(text) == text


@pytest.mark.parametrize(
    "value",
    ["postgresql://h:5432/db", "s3://bucket/a@b:c", "data/a:b@c", "postgresql://u@h/db?sslmode=require"],
)
def test_addresses_without_a_password_stay(value: str) -> None:
    assert shown_options({"url": value}) == {"url": value}
    assert masked_source(f"'url' = '{value}'") == f"'url' = '{value}'"


def test_a_mistake_beside_a_password_is_told_without_it(tmp_path: Path) -> None:
    text = SQL.replace("'password' = '{password}'", "'pasword' = '{password}'").format(
        password="S3CRET", encoded="S3CRET"
    )
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text, file="p.sql")
    shown = "".join(render(d, text) + str(d.to_json()) for d in caught.value.diagnostics)
    assert "did you mean 'password'?" in shown
    assert "S3CRET" not in shown


LOOKED_UP = """
CREATE TABLE t (k INT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE d (k INT, name STRING, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'postgres', 'url' = 'postgresql://u:{encoded}@h/db', 'password' = '{password}', 'table-name' = '{table}'
);
CREATE TABLE o WITH ('connector' = 'print') AS
SELECT d.name, COUNT(*) AS n FROM t JOIN d FOR SYSTEM_TIME AS OF t.p ON t.k = d.k GROUP BY d.name;
"""


def test_state_behind_a_lookup_join_does_not_depend_on_the_password() -> None:
    def states(password: str, table: str = "names") -> list[str]:
        text = LOOKED_UP.format(password=password, encoded=_encoded(password), table=table)
        return [state.state_id for state in plan_file(text, file="p.sql").physical.states]

    assert len(states("one")) == 1
    assert states("one") == states("an@other") == states("it''s")
    assert states("one") != states("one", "other_names")
