"""`run` does what `plan` shows: it refuses what is refused, with the same codes, and what is exact is DuckDB's answer."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream.runtime.edits.consent import ConsentNeededError
from sqlstream.runtime.edits.savepoints.origins import named_origin
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.in_process import run_here

TABLES = """\
CREATE TABLE t (k INT, r STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o (a STRING, b BIGINT, c BIGINT{key})
WITH ({sink});
INSERT INTO o
"""
DUCK = "'connector' = 'duckdb', 'path' = 'out.duckdb'"
FILES = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'json'"
SUMS = "SELECT CAST(k AS STRING), COUNT(*), SUM(v) FROM t GROUP BY k"
PAIRS = "SELECT r, k, SUM(v) FROM t GROUP BY k, r"
ROLLED_UP = "SELECT upper(r), k % 2, SUM(v) FROM t GROUP BY upper(r), k % 2"
BEST = "SELECT r, v, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY r ORDER BY v DESC) AS rn FROM t) WHERE rn <= {}"
MINUTES = (
    "SELECT CAST(window_end AS STRING), k, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
    "GROUP BY window_start, window_end, k"
)


@dataclass(frozen=True)
class Case:
    """An edit, and how `plan` ends."""

    old: str
    new: str
    code: int = 0
    sink: str = DUCK
    new_sink: str = ""
    gone: bool = False
    accept: tuple[str, ...] = ()
    rewrite: tuple[str, ...] = ()


CASES = {
    "nothing": Case(SUMS, "SELECT CAST(x.k AS STRING) AS kk, COUNT(*), SUM(v) FROM t AS x GROUP BY k"),
    "another aggregate": Case(SUMS, SUMS.replace("SUM(v)", "MAX(v)")),
    "an average": Case(SUMS, SUMS.replace("SUM(v)", "CAST(AVG(v) AS BIGINT)")),
    "distinct values": Case(SUMS, SUMS.replace("SUM(v)", "COUNT(DISTINCT r)")),
    "having": Case(SUMS, SUMS + " HAVING COUNT(*) > 6"),
    "a filter on the key": Case(SUMS, SUMS.replace("FROM t", "FROM t WHERE k > 0")),
    "a filter on another column": Case(SUMS, SUMS.replace("FROM t", "FROM t WHERE v > 3")),
    "rolled up": Case(PAIRS, ROLLED_UP),
    "another key": Case(ROLLED_UP, PAIRS),
    "fewer": Case(BEST.format(3), BEST.format(2)),
    "more": Case(BEST.format(2), BEST.format(4)),
    "another operator": Case(SUMS, BEST.format(2), code=3),
    "another operator, accepted": Case(SUMS, BEST.format(2), accept=("alter:o",)),
    "history is gone": Case(SUMS, SUMS.replace("SUM(v)", "MAX(v)"), code=3, gone=True),
    "history is gone, accepted": Case(
        SUMS, SUMS.replace("SUM(v)", "MAX(v)"), gone=True, accept=("fresh:group_aggregate_1",)
    ),
    "history that nothing needs": Case(SUMS, SUMS + " HAVING COUNT(*) > 6", gone=True),
    "another place": Case(MINUTES, MINUTES, code=3, sink=FILES, new_sink=FILES.replace("'out'", "'out2'")),
    "another place, accepted": Case(
        MINUTES, MINUTES, sink=FILES, new_sink=FILES.replace("'out'", "'out2'"), accept=("fresh:o",)
    ),
    "another place, of which history is gone": Case(
        MINUTES,
        MINUTES,
        code=3,
        sink=FILES,
        new_sink=FILES.replace("'out'", "'out2'"),
        gone=True,
        rewrite=("o",),
    ),
    "another place, written anew": Case(
        MINUTES, MINUTES, sink=FILES, new_sink=FILES.replace("'out'", "'out2'"), rewrite=("o",)
    ),
    "a table that is not empty, written anew": Case(SUMS, SUMS, code=4, rewrite=("o",)),
    "rows become an answer": Case(MINUTES, SUMS, sink=FILES, new_sink=DUCK),
    "windows": Case(MINUTES, MINUTES.replace("COUNT(*)", "COUNT(*) * 10"), sink=FILES),
    "windows of five minutes": Case(MINUTES, MINUTES.replace("'1' MINUTE", "'5' MINUTE"), sink=FILES),
    "another aggregate of windows": Case(MINUTES, MINUTES.replace("COUNT(*)", "MAX(v)"), sink=FILES),
}


def rows(first: int, count: int) -> str:
    return "".join(
        json.dumps({"k": n % 3, "r": "ab"[n % 2], "v": n * 7 % 11, "ts": f"2026-11-22 09:{n:02}:30"}) + "\n"
        for n in range(first, first + count)
    )


def text(query: str, sink: str) -> str:
    columns = "a, c" if "rn" in query else "a" if query.startswith(SUMS[:12]) else "a, b"
    key = f", PRIMARY KEY ({columns}) NOT ENFORCED" if sink == DUCK else ""
    return TABLES.format(key=key, sink=sink) + query + ";\n"


def duckdb_answer(folder: Path, query: str) -> Counter[tuple[object, ...]]:
    with duckdb.connect() as con:
        columns = "{k: 'INT', r: 'VARCHAR', v: 'BIGINT'}"
        con.execute(f"CREATE VIEW t AS FROM read_json('{folder}/in/*.json', columns = {columns})")
        return Counter(con.execute(query.replace("STRING", "VARCHAR")).fetchall())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(4)
def test_run_does_what_plan_shows(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = CASES[name]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text(rows(0, 20))
    file = tmp_path / "p.sql"
    file.write_text(text(case.old, case.sink))
    planned = plan_file(file)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql, rows_per_epoch=7, drain=False)
    if case.gone:
        (tmp_path / "in/0.json").unlink()
    (tmp_path / "in/1.json").write_text(rows(20, 9))
    file.write_text(text(case.new, case.new_sink or case.sink))
    accepted = [word for accept in case.accept for word in ("--accept", accept)]
    accepted += [word for sink in case.rewrite for word in ("--rewrite", sink)]
    assert run_cli(["plan", str(file), "--json", *accepted]) == case.code
    shown = json.loads(capsys.readouterr().out)
    planned = plan_file(file)
    reported: list[str] = []
    code, refused = 0, []
    try:
        run_here(
            planned,
            tmp_path,
            state=".sqlstream/p",
            sql=planned.masked_sql,
            written=planned.written,
            accept=case.accept,
            rewrite=case.rewrite,
            tell=lambda warning: reported.append(warning.code),
        )
    except DiagnosticError as error:
        code, refused = error.exit_code, [d.code for d in error.diagnostics]
    assert code == case.code
    if code == 4:
        assert refused == [problem["code"] for problem in shown["problems"]]
    elif code == 3:
        assert refused == [consent["why"]["code"] for consent in shown["consents"]]
    else:
        assert reported == [warning["code"] for warning in shown["warnings"] if warning["code"] != "DAT008"]
    if code == 0 and shown["exact"] and not case.gone and case.sink == DUCK:
        with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as con:
            found = Counter(con.execute("SELECT a, b, c FROM o").fetchall())
        assert found == duckdb_answer(tmp_path, case.new)
    assert run_cli(["plan", str(file), "--json", *(accepted if code else ())]) == code
    again = json.loads(capsys.readouterr().out)
    assert again["changes"] == (code != 0)


@pytest.mark.parametrize(
    "name", ["another aggregate", "rolled up", "another operator", "history is gone", "windows"]
)
def test_a_run_from_a_savepoint_does_what_plan_shows(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tables are new, so that what is refused beside an older table is not."""
    case = CASES[name]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text(rows(0, 20))
    file = tmp_path / "p.sql"
    file.write_text(text(case.old, case.sink))
    planned = plan_file(file)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql, rows_per_epoch=7, drain=False)
    Savepoints(CheckpointStore(tmp_path / ".sqlstream/p")).create("before")
    if case.gone:
        (tmp_path / "in/0.json").unlink()
    (tmp_path / "in/1.json").write_text(rows(20, 9))
    file.write_text(text(case.new, case.sink).replace("'out", "'new"))
    state = str(tmp_path / "new_state")
    shown_code = run_cli(["plan", str(file), "--json", "--from", "before", "--state-dir", state])
    shown = json.loads(capsys.readouterr().out)
    planned = plan_file(file)
    origin = named_origin("before", str(tmp_path / ".sqlstream/p"), state)
    code = 0
    try:
        run_here(planned, tmp_path, state=state, sql=planned.masked_sql, origin=origin)
    except DiagnosticError as error:
        code = error.exit_code
    assert code == shown_code == (3 if case.gone else 0)
    if code:
        return
    assert shown["exact"] == (case.sink == DUCK)
    if shown["exact"]:
        with duckdb.connect(str(tmp_path / "new.duckdb"), read_only=True) as con:
            found = Counter(con.execute("SELECT a, b, c FROM o").fetchall())
        assert found == duckdb_answer(tmp_path, case.new)


NEW_SINK = """
CREATE TABLE rows_of_t (k INT, v BIGINT) WITH ({sink});
INSERT INTO rows_of_t SELECT k, v FROM t WHERE v > 3;
"""
NEW_ANSWER = """
CREATE TABLE latest (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'latest.duckdb');
INSERT INTO latest SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS rn FROM t WHERE v > 2)
WHERE rn = 1;
"""


@pytest.mark.parametrize("gone", [False, True])
def test_a_new_sink_that_is_in_no_state(
    gone: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`plan` says how much is read again for it; or, where that is gone, what to agree to, as `run` does."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text(rows(0, 20))
    file = tmp_path / "p.sql"
    file.write_text(text(SUMS, DUCK))
    planned = plan_file(file)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
    if gone:
        (tmp_path / "in/0.json").unlink()
    (tmp_path / "in/1.json").write_text(rows(20, 9))
    file.write_text(text(SUMS, DUCK) + NEW_SINK.replace("{sink}", FILES))
    assert run_cli(["plan", str(file), "--json"]) == (3 if gone else 0)
    shown = json.loads(capsys.readouterr().out)
    [sink] = [s for s in shown["sinks"] if s["name"] == "rows_of_t"]
    planned = plan_file(file)
    if gone:
        assert [c["accept"] for c in shown["consents"]] == ["fresh:rows_of_t"]
        assert not shown["exact"]
        with pytest.raises(ConsentNeededError) as caught:
            run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
        assert [c.accept for c in caught.value.consents] == ["fresh:rows_of_t"]
        assert "--accept fresh:rows_of_t" in (caught.value.diagnostics[0].help or "")
        assert not (tmp_path / "out").exists()
        accept = ["fresh:rows_of_t"]
        assert run_cli(["plan", str(file), "--accept", accept[0]]) == 0
        run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql, accept=accept)
        wanted = tmp_path / "in/1.json"
    else:
        assert [(r["source"], r["rows"]) for r in sink["reads"]] == [("t", 20)]
        assert shown["exact"]
        run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
        wanted = tmp_path / "in/*.json"
    with duckdb.connect() as con:
        query = "SELECT k, v FROM read_json('{}')"
        found = con.execute(query.format(tmp_path / "out/*.json")).fetchall()
        expected = con.execute(f"{query.format(wanted)} WHERE v > 3").fetchall()
    assert Counter(found) == Counter(expected)


def test_a_new_answer_whose_history_is_gone_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its state could begin now by consent; then the table has the answer over what comes from now on, and is told so."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text(rows(0, 20))
    file = tmp_path / "p.sql"
    file.write_text(text(SUMS, DUCK))
    planned = plan_file(file)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
    (tmp_path / "in/0.json").unlink()
    (tmp_path / "in/1.json").write_text(rows(20, 9))
    file.write_text(text(SUMS, DUCK) + NEW_ANSWER)
    code = run_cli(["plan", str(file), "--json"])
    shown = json.loads(capsys.readouterr().out)
    planned = plan_file(file)
    with pytest.raises(DiagnosticError) as caught:
        run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
    assert caught.value.exit_code == code != 0
    assert not (tmp_path / "latest.duckdb").exists()
    accept = [c["accept"] for c in shown["consents"]]
    assert code == (3 if accept else 4)
    if accept:
        run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql, accept=accept)
        with duckdb.connect(str(tmp_path / "latest.duckdb"), read_only=True) as con:
            found = Counter(con.execute("SELECT k, v FROM latest").fetchall())
        with duckdb.connect() as con:
            query = f"SELECT k, min(v) FROM read_json('{tmp_path}/in/1.json') WHERE v > 2 GROUP BY k"
            assert found == Counter(con.execute(query).fetchall())


NEW_CHANGES = """
CREATE TABLE changes (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'debezium-json');
INSERT INTO changes SELECT k, v FROM t UNION ALL SELECT k, COUNT(*) FROM t GROUP BY k;
"""


def test_a_new_changelog_whose_history_is_gone_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would take back rows that it was never given."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text(rows(0, 20))
    file = tmp_path / "p.sql"
    file.write_text(text(SUMS, DUCK))
    planned = plan_file(file)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
    (tmp_path / "in/0.json").unlink()
    (tmp_path / "in/1.json").write_text(rows(20, 9))
    file.write_text(text(SUMS, DUCK) + NEW_CHANGES)
    assert run_cli(["plan", str(file), "--json"]) == 4
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert problem["code"] == "DAT008"
    assert any("is not in the state, and can't be had without it" in note for note in problem["notes"])
    planned = plan_file(file)
    with pytest.raises(DiagnosticError, match="DAT008") as caught:
        run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
    assert caught.value.exit_code == 4
    assert not (tmp_path / "out").exists()


def test_plan_says_what_was_drained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text(rows(0, 20))
    file = tmp_path / "p.sql"
    file.write_text(text(MINUTES, FILES))
    planned = plan_file(file)
    for drain, reported in ((False, False), (True, True)):
        run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql, drain=drain)
        assert run_cli(["plan", str(file)]) == 0
        shown = capsys.readouterr().out
        assert ("t was drained: its new rows are late for windows up to 2026-11-22 09:" in shown) == reported
        exact = (
            "The result is exact for what was read before the drain." if reported else "The result is exact."
        )
        assert shown.rstrip().endswith(exact)
