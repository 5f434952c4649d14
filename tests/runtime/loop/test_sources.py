"""Several sources: they progress together, one may end before the other, and a restart changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import Diagnostic

SQL = """
CREATE TABLE a (ts TIMESTAMP(3), k STRING, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'a', 'format' = 'json');
CREATE TABLE b (ts TIMESTAMP(3), k STRING, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'b', 'format' = 'json');
CREATE TABLE counts (k STRING, n BIGINT, window_end TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
CREATE VIEW both_of_them AS SELECT ts, k FROM a UNION ALL SELECT ts, k FROM b;
INSERT INTO counts SELECT k, COUNT(*), window_end
FROM TABLE(TUMBLE(TABLE both_of_them, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
"""


def write(folder: Path, name: str, seconds: list[int], file: str = "1.json") -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    rows = [
        json.dumps({"ts": f"2026-01-01 00:{s // 60:02}:{s % 60:02}", "k": f"{name}{s % 3}"}) for s in seconds
    ]
    (folder / name / file).write_text("".join(f"{row}\n" for row in rows))


def run(
    folder: Path,
    reports: list[EpochReport] | None = None,
    epochs: int | None = None,
    *,
    drain: bool = True,
    sql: str = SQL,
    tell: Callable[[Diagnostic], None] = lambda warning: None,
) -> RunResult:
    return run_pipeline(
        RunRequest(
            plan_file(sql, file="p.sql").physical,
            state_dir=folder / "state",
            local_dir=folder / "cache",
            base_dir=folder,
            parallelism=2,
            max_rows_per_epoch=12,
            runner=InProcessRunner(),
            on_epoch=(lambda report: None) if reports is None else reports.append,
            max_epochs=epochs,
            sync=False,
            drain=drain,
            tell=tell,
        )
    )


def visible(folder: Path) -> Counter[str]:
    return Counter(line for f in (folder / "out").glob("*.json") for line in f.read_text().splitlines())


def letters(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for file in (folder / "state" / "dead-letter").glob("*"):
        for line in file.read_text().splitlines():
            letter = json.loads(line)
            found[f"{letter['source']} {letter['event_time']} {letter['window_end']}"] += 1
    return found


def expected(*tables: tuple[str, list[int]]) -> Counter[str]:
    counts: Counter[tuple[str, int]] = Counter(
        (f"{name}{s % 3}", s // 10 * 10 + 10) for name, seconds in tables for s in seconds
    )
    return Counter(
        json.dumps(
            {"k": k, "n": n, "window_end": f"2026-01-01 00:{end // 60:02}:{end % 60:02}"},
            separators=(",", ":"),
        )
        for (k, end), n in counts.items()
    )


def normal(lines: Counter[str]) -> Counter[tuple[object, ...]]:
    """Rows whatever the format of their timestamps."""
    out: Counter[tuple[object, ...]] = Counter()
    for line, n in lines.items():
        row = json.loads(line)
        out[row["k"], row["n"], row["window_end"].replace("T", " ")[:19]] += n
    return out


@pytest.mark.parametrize("short", ["a", "b"])
def test_a_source_that_ends_first_holds_nobody_back_and_restarts_change_nothing(
    tmp_path: Path, short: str
) -> None:
    seconds = {"a": list(range(120)), "b": list(range(120))}
    seconds[short] = list(range(20))
    for name in ("whole", "restarted"):
        for table, times in seconds.items():
            write(tmp_path / name, table, times)
    reports: list[EpochReport] = []
    assert run(tmp_path / "whole", reports).outcome == "exhausted"
    for _ in range(100):
        if run(tmp_path / "restarted", epochs=1).outcome != "stopped":
            break
    assert normal(visible(tmp_path / "whole")) == normal(expected(*seconds.items()))
    assert visible(tmp_path / "restarted") == visible(tmp_path / "whole")
    assert letters(tmp_path / "restarted") == letters(tmp_path / "whole") == Counter()
    # Windows close while the longer source is still read, long after the shorter one has ended.
    assert sum(bool(report.rows_written["counts"]) for report in reports) > 3
    assert all(report.state_rows < 30 for report in reports)


def test_new_files_of_one_source_after_it_was_drained(tmp_path: Path) -> None:
    write(tmp_path, "a", list(range(40)))
    write(tmp_path, "b", list(range(100)))
    run(tmp_path)
    first = visible(tmp_path)
    # a has been counted up to 40 s and b up to 100 s: everything up to 100 s is closed for both, and that is told.
    write(tmp_path, "a", [50, 99, 100, 101], "2.json")
    reported: list[Diagnostic] = []
    result = run(tmp_path, tell=reported.append)
    assert [(d.code, d.message) for d in reported] == [("DAT011", "source `a` was drained and has new rows")]
    assert "up to 2026-01-01 00:01:39" in reported[0].notes[0]
    assert result.rows_read == {"a": 4, "b": 0}
    assert result.dead_letters == {"late": 2}
    assert visible(tmp_path) - first == visible(tmp_path) - first
    new = normal(visible(tmp_path)) - normal(first)
    assert new == normal(expected(("a", [100, 101])))
    assert run(tmp_path).outcome == "nothing new"


def test_new_files_of_one_source_after_the_end_of_what_was_there(tmp_path: Path) -> None:
    """The end of what is there is not the end of time: the source that is behind holds windows open for its next files."""
    write(tmp_path, "a", list(range(40)))
    write(tmp_path, "b", list(range(100)))
    run(tmp_path, drain=False)
    assert normal(visible(tmp_path)) == normal(expected(("a", list(range(30))), ("b", list(range(30)))))
    assert run(tmp_path, drain=False).outcome == "nothing new"
    write(tmp_path, "a", [50, 99, 100, 101], "2.json")
    result = run(tmp_path, drain=False)
    assert result.rows_read == {"a": 4, "b": 0}
    run(tmp_path)
    whole = expected(("a", [*range(40), 50, 99, 100, 101]), ("b", list(range(100))))
    assert normal(visible(tmp_path)) == normal(whole)
    assert letters(tmp_path) == Counter()
    assert run(tmp_path).outcome == run(tmp_path, drain=False).outcome == "nothing new"


def test_a_bounded_source_steps_aside_where_the_run_goes_on(tmp_path: Path) -> None:
    """Nothing more comes of it in this run: it does not hold back a source that is watched, for ever."""
    watched = "'path' = 'a', 'source.monitor-interval' = '1 s', 'source.settle-time' = '0 s'"
    sql = SQL.replace("'path' = 'a'", watched)
    write(tmp_path, "a", list(range(120)))
    write(tmp_path, "b", list(range(20)))
    run(tmp_path, drain=False, sql=sql, epochs=12)
    closed = {end for _, _, end in normal(visible(tmp_path))}
    assert {"2026-01-01 00:00:20", "2026-01-01 00:01:00", "2026-01-01 00:01:30"} <= closed
    assert "2026-01-01 00:02:00" not in closed
    assert letters(tmp_path) == Counter()


def test_a_watched_source_ends_when_it_is_drained(tmp_path: Path) -> None:
    watched = "'path' = 'a', 'source.monitor-interval' = '1 s', 'source.settle-time' = '0 s'"
    sql = SQL.replace("'path' = 'a'", watched)
    write(tmp_path, "a", list(range(40)))
    write(tmp_path, "b", list(range(20)))
    assert run(tmp_path, sql=sql).outcome == "exhausted"
    assert normal(visible(tmp_path)) == normal(expected(("a", list(range(40))), ("b", list(range(20)))))
