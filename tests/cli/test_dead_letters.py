"""`sqlstream dead-letters list` and `show`: what they say of rows that a pipeline could not use."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream.state.dead_letters import (
    MOST_REASONS,
    DeadLetterGroup,
    DeadLetterRow,
    Wanted,
    count_dead_letters,
    read_dead_letters,
)
from sqlstream.storage.manifest import RunInfo
from sqlstream.storage.run_status import RUNNING, RunStatus, write_status
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.cli.command import Command
from tests.properties.in_process import run_here
from tests.runtime.support import Crash, crash_at

TABLES = """
CREATE TABLE t (n {type}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE w (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE u (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'other', 'format' = 'csv');
CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json') AS
SELECT COUNT(*) AS c, CAST(MAX(n) AS BIGINT) AS m FROM t;
CREATE TABLE x WITH ('connector' = 'filesystem', 'path' = 'windows', 'format' = 'changelog-json') AS
SELECT window_start, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
CREATE TABLE p WITH ('connector' = 'filesystem', 'path' = 'seen', 'format' = 'changelog-json') AS
SELECT k, SUM(v) AS s FROM u GROUP BY k;
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two epochs of `a.sql`: of `t` two rows are malformed, of `w` one is and two are late, of `u` three are malformed."""
    (tmp_path / "sqlstream.toml").touch()
    (tmp_path / "in").mkdir()
    (tmp_path / "other").mkdir()
    first = [row(1, "10:00:00"), row(2, "10:05:00"), "no JSON", row(40_000, "10:05:01")]
    (tmp_path / "in" / "a.json").write_text("\n".join(first) + "\n")
    (tmp_path / "other" / "c.csv").write_bytes(b"k,v\na,1\nb,x\nc,y\nd,z\n")
    monkeypatch.chdir(tmp_path)
    run(tmp_path)
    (tmp_path / "in" / "b.json").write_text("\n".join([row(3, "10:00:01")] * 2) + "\n")
    run(tmp_path)
    return tmp_path


def row(n: int, time: str) -> str:
    return json.dumps({"n": n, "ts": f"2026-01-01 {time}"})


def run(folder: Path, type_: str = "SMALLINT", **options: Any) -> None:
    (folder / "a.sql").write_text(TABLES.format(type=type_))
    plan = plan_file(folder / "a.sql")
    run_here(plan, folder, state=".sqlstream/a", sql=plan.masked_sql, drain=False, **options)


def listed(sqlstream: Command, *arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    code, out, err = sqlstream("dead-letters", "list", *arguments, "--json")
    assert (code, err) == (0, ""), err
    return {(one["source"], one["kind"]): one for one in map(json.loads, out.splitlines())}


def shown(sqlstream: Command, *arguments: str) -> list[dict[str, Any]]:
    code, out, _ = sqlstream("dead-letters", "show", *arguments, "--json")
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_they_are_counted(project: Path, sqlstream: Command) -> None:
    found = listed(sqlstream)
    assert {key: one["rows"] for key, one in found.items()} == {
        ("t", "malformed"): 2,
        ("u", "malformed"): 3,
        ("w", "late"): 2,
        ("w", "malformed"): 1,
    }
    late, malformed = found["w", "late"], found["t", "malformed"]
    assert (late["pipeline"], late["operator"], malformed["operator"]) == ("a", "window_aggregate_1", None)
    assert (malformed["first_epoch"], malformed["last_epoch"], late["first_epoch"]) == (1, 1, 2)
    assert late["reasons"] == [{"reason": "the window was closed: the watermark is … µs", "rows": 2}]
    assert sum(one["rows"] for one in malformed["reasons"]) == 2
    for place in ("a.sql", ".sqlstream/a", ".sqlstream"):
        assert listed(sqlstream, place).keys() == found.keys()
    code, out, err = sqlstream("dead-letters", "list")
    assert (code, err) == (0, "")
    head, _, _, late_line, *rest = out.splitlines()
    assert head.split() == [
        "pipeline",
        "source",
        "kind",
        "operator",
        "rows",
        "epochs",
        "withdrawn",
        "replayed",
    ]
    assert late_line.split() == ["a", "w", "late", "window_aggregate_1", "2", "2", "0", "0"]
    assert "  2  the window was closed: the watermark is … µs" in rest


def test_they_are_shown(project: Path, sqlstream: Command) -> None:
    rows = shown(sqlstream)
    assert [(one["source"], one["kind"]) for one in rows].count(("w", "late")) == 2
    assert len({one["id"] for one in rows}) == len(rows) == 8  # also of rows that are equal
    [bad] = shown(sqlstream, "--source", "w", "--reason", "jSoN")
    assert (bad["line"], bad["row"], Path(bad["origin"]).name) == (3, "no JSON", "a.json")
    assert {one["kind"] for one in shown(sqlstream, "--kind", "late", "a.sql")} == {"late"}
    assert len(shown(sqlstream, "--operator", "window_aggregate_1")) == 2
    assert {one["epoch"] for one in shown(sqlstream, "--epoch", "2")} == {2}
    # A reason as `list` shows it.
    general = listed(sqlstream)["u", "malformed"]["reasons"][0]
    assert len(shown(sqlstream, "--source", "u", "--reason", general["reason"])) == general["rows"]
    code, out, err = sqlstream("dead-letters", "show", "--source", "u", "--limit", "1")
    assert (code, err) == (0, "there are more: --offset 1 goes on, --limit 0 shows all\n")
    assert out.splitlines()[0].startswith(f"a epoch 1: malformed row of u  {project}/other/c.csv, line 3  [")
    assert out.splitlines()[-1] == "  | b,x"
    assert shown(sqlstream, "--limit", "2", "--offset", "1") == rows[1:3]
    most = "99999999999999999999"
    assert shown(sqlstream, "--offset", most) == []
    assert shown(sqlstream, "--limit", most) == rows
    assert sqlstream("dead-letters", "show", "--kind", "failed") == (
        0,
        "",
        "there are no dead-letter rows of these\n",
    )


def test_of_a_pipeline_without_any(project: Path, sqlstream: Command) -> None:
    (project / "empty").mkdir()
    assert sqlstream("dead-letters", "list", "empty")[0] == 4
    code, out, _ = sqlstream("dead-letters", "show", "nowhere", "--json")
    assert (code, json.loads(out)["diagnostics"][0]["code"]) == (4, "STA033")
    for file in (project / ".sqlstream/a/dead-letter").iterdir():
        file.unlink()
    assert sqlstream("dead-letters", "list") == (0, "there are no dead-letter rows\n", "")
    assert sqlstream("dead-letters", "show") == (0, "", "there are no dead-letter rows\n")


def test_what_an_edit_withdraws(project: Path, sqlstream: Command) -> None:
    before = {one["id"] for one in shown(sqlstream, "--source", "u")}
    run(project, "INT")
    found = listed(sqlstream)["t", "malformed"]
    assert (found["rows"], found["withdrawn"], found["first_epoch"]) == (1, 2, 3)
    gone = shown(sqlstream, "--withdrawn")
    assert [(one["source"], one["epoch"], one["withdrawn_in"]) for one in gone] == [("t", 1, 3)] * 2
    assert {one["id"] for one in shown(sqlstream, "--source", "u")} == before
    _, out, _ = sqlstream("dead-letters", "show", "--withdrawn")
    assert out.splitlines()[0].partition("  [")[0].endswith("a.json, line 3, withdrawn in epoch 3")


@pytest.mark.parametrize("step", ["published", "committed", "prepared"])
def test_a_run_that_was_killed(step: str, project: Path, sqlstream: Command) -> None:
    """What an epoch had and withdrew is seen once it is published, though it is not put in place yet."""
    with pytest.raises(Crash):
        run(project, "INT", faults=crash_at(step, 3))
    store = CheckpointStore(".sqlstream/a")
    seen = {(g.source, g.kind): (g.rows, g.withdrawn) for g in count_dead_letters(store)}
    assert seen["t", "malformed"] == ((2, 0) if step == "prepared" else (1, 2))
    run(project, "INT")
    after = {(g.source, g.kind): (g.rows, g.withdrawn) for g in count_dead_letters(store)}
    assert after["t", "malformed"] == (1, 2)
    assert len(list(read_dead_letters(store, Wanted(withdrawn=True)))) == 2


def test_mended_rows_are_replayed(project: Path, sqlstream: Command) -> None:
    code, out, _ = sqlstream("dead-letters", "show", "a.sql", "--source", "u", "--json")
    letters = project / "letters.jsonl"
    letters.write_text(out.replace('"b,x"', '"b,2"'))
    command = ("dead-letters", "replay", "a.sql", "--from", "letters.jsonl")
    code, out, err = sqlstream(*command)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "1 mended row will be read once, by the next run or the one that watches the files",
        "2 rows as before: not replayed",
    ]
    code, out, _ = sqlstream(*command, "--json")
    assert (code, json.loads(out)) == (0, {"replayed": [], "replayed_before": 1, "unchanged": 2})
    run(project)
    found = [json.loads(line) for file in sorted((project / "seen").glob("*.json")) for line in file.open()]
    assert [one["data"] for one in found] == [{"k": "a", "s": 1}, {"k": "b", "s": 2}]
    assert (listed(sqlstream)["u", "malformed"]["rows"], listed(sqlstream)["u", "malformed"]["replayed"]) == (
        2,
        1,
    )
    [row] = shown(sqlstream, "--replayed")
    assert (row["row"], "replayed_us" in row) == ("b,x", True)
    assert ", replayed 20" in sqlstream("dead-letters", "show", "--replayed")[1].splitlines()[0]


def test_what_can_not_be_replayed(project: Path, sqlstream: Command) -> None:
    command = ("dead-letters", "replay", "a.sql", "--from", "letters.jsonl", "--json")
    for content, what in (
        ("{", "line 1 is no JSON"),
        ('{"row": "x"}', "line 1 is no row of"),
        ('\n{"id": "x"}\n{"id": "x"}', "line 3 is the row x once more"),
        ('{"id": "x", "row": "y"}', "1 row can't be replayed"),
    ):
        (project / "letters.jsonl").write_text(content)
        code, out, _ = sqlstream(*command)
        assert code == 1
        [diagnostic] = json.loads(out)["diagnostics"]
        assert (diagnostic["code"], what in diagnostic["message"]) == ("DAT017", True)
    code, out, _ = sqlstream(*command, "--state-dir", "nowhere")
    assert (code, json.loads(out)["diagnostics"][0]["code"]) == (4, "STA020")
    me = RunInfo("x", socket.gethostname(), os.getpid(), "now")
    store = CheckpointStore(".sqlstream/a")
    store.put("run.lock", json.dumps({**me.to_json(), "beats": 0}).encode())
    code, out, _ = sqlstream(*command)
    assert (code, json.loads(out)["diagnostics"][0]["code"]) == (4, "STA002")
    write_status(store, RunStatus(me, "a", RUNNING, 0))
    assert sqlstream(*command)[0] == 1
    assert store.exists("run.lock")


def test_reasons_are_bounded() -> None:
    group = DeadLetterGroup("t", "malformed", "")
    for n in range(2 * MOST_REASONS):
        group.add(DeadLetterRow(str(n), {"epoch": 1, "kind": "malformed", "reason": f"r{chr(0x4E00 + n)}"}))
    assert (group.rows, len(group.reasons), group.other_reasons) == (
        2 * MOST_REASONS,
        MOST_REASONS,
        MOST_REASONS,
    )
