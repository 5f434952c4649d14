"""Tables that are altered while their changes are read, with changes before and behind each alteration in the log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import Limits
from sqlstream_operators.duck.session import DuckSession
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_cdc.reading import SLOTS, Reading, by_key, cdc_spec, folded
from tests.connectors.postgres_server import Database
from tests.examples import examples

#: What leaves all that is declared (k, v) to be read; {n} is another number each time.
ALTERATIONS = (
    "ALTER TABLE t ADD COLUMN c{n} inet DEFAULT '::1'",
    "ALTER TABLE t ADD COLUMN c{n} text; UPDATE t SET c{n} = v",
    "ALTER TABLE t DROP COLUMN other; ALTER TABLE t ADD COLUMN other int",
    "ALTER TABLE t RENAME COLUMN other TO o{n}; ALTER TABLE t ADD COLUMN other int",
    "ALTER TABLE t ALTER COLUMN k TYPE bigint",
    "ALTER TABLE t ALTER COLUMN k TYPE int",
    "ALTER TABLE t ALTER COLUMN v TYPE varchar(100)",
    "CREATE DOMAIN word{n} AS text; ALTER TABLE t ALTER COLUMN v TYPE word{n}",
    "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (k)",
    "ALTER TABLE t RENAME TO u; UPDATE u SET v = v || '-'; ALTER TABLE u RENAME TO t",
    "ALTER TABLE t SET SCHEMA pg_catalog; ALTER TABLE pg_catalog.t SET SCHEMA public",
    "VACUUM FULL t",
    "CLUSTER t USING t_pkey",
)
IDENTITIES = ("ALTER TABLE t REPLICA IDENTITY FULL", "ALTER TABLE t REPLICA IDENTITY DEFAULT")
CHANGES = (
    "INSERT INTO t (k, v) SELECT i, 'v' || i FROM generate_series({n} * 10, {n} * 10 + 3) i",
    "UPDATE t SET v = v || '{n}' WHERE k % 3 = {n} % 3",
    "DELETE FROM t WHERE k % 5 = {n} % 5",
    "UPDATE t SET k = k + {n} * 10000 WHERE k % 7 = {n} % 7",
)
READ = ("read", "another run reads")


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.one_of(
            st.sampled_from(CHANGES), st.sampled_from((*ALTERATIONS, *IDENTITIES)), st.sampled_from(READ)
        ),
        min_size=8,
        max_size=24,
    ),
    has_key=st.booleans(),
    limit=st.sampled_from([None, 1, 5]),
)
def test_what_leaves_the_declared_columns(
    cdc: Database,
    duck: DuckSession,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[str],
    has_key: bool,
    limit: int | None,
) -> None:
    cdc.rows(SLOTS)
    cdc.rows("DROP TABLE IF EXISTS t")
    cdc.rows("CREATE TABLE t (other int, k int PRIMARY KEY, v text)")
    cdc.rows("INSERT INTO t SELECT 0, i, 'v' || i FROM generate_series(0, 9) i")
    if not has_key:
        cdc.rows(IDENTITIES[0])
    spec = cdc_spec(cdc, key=("k",) if has_key else ())
    one = Reading(spec, tmp_path_factory.mktemp("altered"), duck)
    changes, at = one.all(limits=Limits(rows=limit))
    with psycopg.connect(cdc.url, autocommit=True) as connection:
        # Of columns that are altered twice, or with VACUUM FULL, between two looks it is not known what became of the rows.
        looks = [
            one for step in steps for one in ((READ[0], step, READ[0]) if "ALTER C" in step else (step,))
        ]
        for step in [*looks, READ[1]]:
            if step in READ:
                one = one if step == READ[0] else one.again()
                more, at = one.all(at, Limits(rows=limit))
                changes += more
            elif step not in IDENTITIES or has_key:
                for sql in step.replace("{n}", str(next(_numbers))).split("; "):
                    connection.execute(sql.encode())
    there = cdc.rows("SELECT k, v FROM t")
    if has_key:
        assert set(by_key(changes).values()) == set(there)
    else:
        assert folded(changes) == Counter(there)
    one.close()


_numbers = iter(range(1, 1 << 30))


@pytest.mark.parametrize(
    ("sql", "code", "says"),
    [
        ("ALTER TABLE t DROP COLUMN v", "DAT018", "there is no `v`"),
        ("ALTER TABLE t RENAME COLUMN v TO z", "DAT018", "there is no `v`"),
        ("ALTER TABLE t ALTER COLUMN v TYPE int USING 1", "DAT018", "`v` is"),
        ("ALTER TABLE t ALTER COLUMN v TYPE text[] USING NULL", "DAT018", "`v` is"),
        ("ALTER TABLE t ALTER COLUMN k TYPE numeric", "DAT018", "`k` is"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t REPLICA IDENTITY FULL; DELETE FROM t; "
         "ALTER TABLE t ADD PRIMARY KEY (v); ALTER TABLE t REPLICA IDENTITY DEFAULT", "DAT020", "identity is (v)"),
        ("ALTER TABLE t RENAME TO u", "DAT015", "has another name"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("again", [False, True])
def test_what_does_not(
    cdc: Database, tmp_path: Path, duck: DuckSession, sql: str, code: str, says: str, again: bool
) -> None:
    """It is said before any change behind it is read, in the middle of a run and at the start of the next."""
    cdc.rows("CREATE TABLE t (other int, k int PRIMARY KEY, v text)")
    cdc.rows("INSERT INTO t VALUES (0, 0, '')")
    one = Reading(cdc_spec(cdc, key=("k",)), tmp_path, duck)
    _, at = one.all()
    cdc.rows("INSERT INTO t VALUES (0, 1, 'a')")
    for each in sql.split("; "):
        cdc.rows(each)
    if code != "DAT015":
        cdc.rows(
            "INSERT INTO t (other, k) VALUES (0, 2)"
            if "(v)" not in sql
            else "INSERT INTO t VALUES (0, 2, 'b')"
        )
    one = one.again() if again else one
    with pytest.raises(DiagnosticError) as raised:
        one.all(at)
    (found,) = raised.value.diagnostics
    assert (found.code, says in f"{found.message} {found.notes}") == (code, True), found
    assert found.help
    one.close()


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("ALTER TABLE t DROP COLUMN v, ADD COLUMN v int DEFAULT 7", "`v` is another one"),
        ("ALTER TABLE t RENAME v TO x; ALTER TABLE t RENAME w TO v", "`v` is another one"),
        ("ALTER TABLE t ALTER COLUMN v TYPE int USING v * 2", "`v` were written anew"),
        ("ALTER TABLE t ALTER COLUMN d TYPE numeric(6, 1)", "`d` were written anew"),
        ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", "`e` were renamed"),
        ("ALTER PUBLICATION {slot} SET TABLE t WHERE (k > 1)", "has not all changes of the table"),
        ("ALTER PUBLICATION {slot} DROP TABLE t; UPDATE t SET v = 2; ALTER PUBLICATION {slot} ADD TABLE t", "was altered"),
        ("ALTER PUBLICATION {slot} SET (publish = 'insert'); UPDATE t SET v = 2; "
         "ALTER PUBLICATION {slot} SET (publish = 'insert, update, delete, truncate')", "was altered"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("again", [False, True])
def test_what_the_log_does_not_say(
    cdc: Database, tmp_path: Path, duck: DuckSession, sql: str, says: str, again: bool
) -> None:
    """All rows have other values, or changes were left out, and the log describes the table as before."""
    one = _of_all_kinds(cdc, tmp_path, duck)
    _, at = one.all()
    for each in sql.split("; "):
        cdc.rows(each.format(slot=one.spec.options["slot.name"]))
    one = one.again() if again else one
    with pytest.raises(DiagnosticError) as raised:
        one.all(at)
    (found,) = raised.value.diagnostics
    assert (found.code, says in f"{found.notes}") == ("DAT015", True), found
    one.close()


def test_what_changes_no_row_goes_on(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    one = _of_all_kinds(cdc, tmp_path, duck)
    _, at = one.all()
    number = 2
    for sql in (
        "ALTER TYPE mood ADD VALUE 'calm' BEFORE 'sad'",
        "ALTER TABLE t ALTER COLUMN v SET NOT NULL, ALTER COLUMN v SET DEFAULT 3",
        "VACUUM FULL t",
        "ALTER TABLE t ADD COLUMN x timestamptz DEFAULT clock_timestamp()",
        "ALTER TABLE t ALTER COLUMN w TYPE int USING w * 2",
        "ALTER TABLE t ALTER COLUMN v TYPE bigint",
        "ANALYZE t",
        "CREATE INDEX ON t (v)",
    ):
        cdc.rows(sql)
        cdc.rows(f"INSERT INTO t (k, v, w, d, e) VALUES ({number}, 1, 1, 1, 'calm')")
        one = one.again()
        rows, at = one.all(at)
        assert [row[0] for row in rows] == [number], sql
        number += 1
    one.close()


def _of_all_kinds(cdc: Database, folder: Path, duck: DuckSession) -> Reading:
    cdc.rows("DROP TYPE IF EXISTS mood CASCADE")
    cdc.rows("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    cdc.rows("CREATE TABLE t (k int PRIMARY KEY, v int, w int, d numeric(6, 2), e mood)")
    cdc.rows("INSERT INTO t VALUES (1, 1, 1, 1, 'sad')")
    columns = {"k": "BIGINT", "v": "BIGINT", "d": "DECIMAL(6, 2)", "e": "VARCHAR"}
    return Reading(cdc_spec(cdc, schema=columns, key=("k",)), folder, duck)
