"""Edits of how a source is declared, between two runs: rows 18 and 37 of the edit matrix. State and positions are kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.pipeline import Planned
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.updating import Collected, batch_of, collecting
from tests.runtime.support import manifests

CUTS = [1, 2, 4]

# ------------------------------------------------------------------------------------------ columns (37)

BASE = "k INT, v BIGINT, x STRING"
#: Another declaration of the same data, and what the column `v` is called then.
COLUMNS = {
    "added": (f"{BASE}, y DOUBLE", "v"),
    "added first": (f"y DOUBLE, {BASE}", "v"),
    "dropped, as it was not used": ("k INT, v BIGINT", "v"),
    "reordered": ("x STRING, v BIGINT, k INT", "v"),
    "another type of one that is not used": ("k INT, v BIGINT, x INT", "v"),
    "renamed by a computed column": (f"{BASE}, amount AS v", "amount"),
    "a computed column beside": (f"{BASE}, double_v AS v * 2", "v"),
    "metadata beside": (f"{BASE}, f STRING METADATA FROM 'file.name'", "v"),
}
ROWS = [{"k": n % 3, "v": (n * 7) % 11, "x": str(n), "y": n / 2} for n in range(20)]
QUERY = "SELECT k, COUNT(*) AS n, SUM({v}) AS s, MAX({v}) AS m, COUNT(DISTINCT {v}) AS d FROM t GROUP BY k"


def declared(folder: Path, columns: str, v: str, format_: str, key: str = "", query: str = QUERY) -> Planned:
    (folder / "p.sql").write_text(
        f"CREATE TABLE t ({columns}{key}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = '{format_}');\n"
        f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query.format(v=v)};\n"
    )
    return plan_file(folder / "p.sql")


def write(folder: Path, format_: str) -> None:
    (folder / "in").mkdir()
    if format_ == "parquet":
        for number in range(2):
            pq.write_table(
                pa.Table.from_pylist(ROWS[number * 9 :][: 9 + 2 * number]), folder / f"in/{number}.parquet"
            )
    elif format_ == "json":
        (folder / "in/0.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:  # every fifth row goes again
        changes = [("+I", row) for row in ROWS[:10]] + [("-D", row) for row in ROWS[:10:5]]
        changes += [("+I", row) for row in ROWS[10:]]
        (folder / "in/0.json").write_text(
            "".join(json.dumps({"op": o, "data": r}) + "\n" for o, r in changes)
        )


def goes_on(folder: Path, old: Planned, new: Planned, cut: int) -> None:
    """The old text for some epochs, then the new one: no state is anything but kept, and the answer is the new query's."""
    edits = decide(old.physical, new.physical)
    assert {edit.verdict for edit in edits} == {Verdict.KEEP}
    reported: list[Diagnostic] = []
    with collecting() as collected:
        run_here(old, folder, rows_per_epoch=4, max_epochs=cut, sql=old.masked_sql)
        run_here(new, folder, rows_per_epoch=4, parallelism=3, sql=new.masked_sql, tell=reported.append)
        files = [str(file) for file in sorted((folder / "in").iterdir())]
        assert_same(collected.folded("out"), batch_of(to_duckdb(new, lambda _: files)))
    assert reported == []


@pytest.mark.sampled(14, each_value=False)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("format_", ["json", "parquet", "changelog-json"])
def test_other_columns_of_the_same_data(format_: str, name: str, cut: int, tmp_path: Path) -> None:
    write(tmp_path, format_)
    key = ", PRIMARY KEY (x) NOT ENFORCED" if "not used" not in name and format_ == "changelog-json" else ""
    columns, v = COLUMNS[name]
    old = declared(tmp_path, BASE, "v", format_, key)
    new = declared(tmp_path, columns, v, format_, key)
    goes_on(tmp_path, old, new, cut)


@pytest.mark.parametrize("columns", [f"{BASE}, y DOUBLE", "k INT, v BIGINT", "x STRING, v BIGINT, k INT"])
def test_columns_of_csv_decide_which_lines_are_rows(columns: str, tmp_path: Path) -> None:
    """Their number, places and names do: other rows may be malformed, so the state is not taken for the same."""
    for header in ("csv", "csv', 'csv.header' = 'true", "csv', 'csv.header' = 'false"):
        old, new = (declared(tmp_path, text, "v", header).physical for text in (BASE, columns))
        assert Verdict.KEEP not in {edit.verdict for edit in decide(old, new)}


@pytest.mark.parametrize(
    "query", ["SELECT * FROM t", "SELECT amount, k FROM t", "SELECT t.amount AS a, v FROM t"]
)
def test_a_computed_column_that_is_another_name(query: str, tmp_path: Path) -> None:
    write(tmp_path, "json")
    planned = declared(tmp_path, f"amount AS v, {BASE}", "v", "json", query=query)
    with collecting() as collected:
        run_here(planned, tmp_path)
        rows = collected.folded("out")
    wanted: dict[str, list[tuple[Any, ...]]] = {
        "SELECT * FROM t": [(r["v"], r["k"], r["v"], r["x"]) for r in ROWS],
        "SELECT amount, k FROM t": [(r["v"], r["k"]) for r in ROWS],
        "SELECT t.amount AS a, v FROM t": [(r["v"], r["v"]) for r in ROWS],
    }
    assert_same(rows, wanted[query])
    assert_same(rows, batch_of(to_duckdb(planned, lambda _: [str(tmp_path / "in/0.json")])))


# ------------------------------------------------------------------------------------ watermark delay (18)

START = datetime(2024, 1, 1, 10)
#: Seconds at which rows come: out of order, some of them late by one of the delays.
SECONDS = [0, 4, 12, 7, 21, 3, 26, 14, 33, 19, 41, 25, 52, 47, 30, 60, 38, 71]
SIZE = 10


def windows(folder: Path, delay: int) -> Planned:
    (folder / "p.sql").write_text(
        "CREATE TABLE t (n INT, ts TIMESTAMP(3), "
        f"WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND) "
        "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        "CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT window_start, COUNT(*) AS c, SUM(n) AS s "
        f"FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{SIZE}' SECOND)) GROUP BY window_start, window_end;\n"
    )
    return plan_file(folder / "p.sql")


def add(folder: Path, name: str, seconds: Sequence[int], first: int = 0) -> None:
    (folder / "in").mkdir(exist_ok=True)
    rows = [{"n": first + n, "ts": str(START + timedelta(seconds=s))} for n, s in enumerate(seconds)]
    (folder / f"in/{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def model(seconds: Sequence[int], delays: Sequence[int], closed: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Windows by their start in s: rows and the sum of their numbers, one row per epoch.

    The watermark is the greatest time less the delay that held when the row was read; it never goes back. `closed` is up
    to where windows were given before each row for another reason.
    """
    found: dict[int, list[int]] = {}
    mark = -1000
    for n, (second, delay) in enumerate(zip(seconds, delays, strict=True)):
        mark = max(mark, closed[n])
        start = second // SIZE * SIZE
        if start + SIZE > mark:
            found.setdefault(start, []).append(n)
        mark = max(mark, second - delay)
    return {start: (len(rows), sum(rows)) for start, rows in found.items()}


def given(collected: Collected) -> dict[int, tuple[int, int]]:
    rows: list[tuple[Any, ...]] = collected.folded("out")
    starts = Counter(row[0] for row in rows)
    assert set(starts.values()) == {1}, "a window was given twice"
    return {int((start - START).total_seconds()): (int(c), int(s)) for start, c, s in rows}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("cut", [1, 4, 7, 11, 15])
@pytest.mark.parametrize(("before", "after"), [(5, 20), (20, 5), (5, 0), (0, 30), (15, 15)])
def test_another_delay_of_the_watermark(before: int, after: int, cut: int, tmp_path: Path) -> None:
    add(tmp_path, "0", SECONDS)
    old, new = windows(tmp_path, before), windows(tmp_path, after)
    assert {edit.verdict for edit in decide(old.physical, new.physical)} == {Verdict.KEEP}
    reported: list[Diagnostic] = []
    with collecting() as collected:
        run_here(old, tmp_path, rows_per_epoch=1, tasks=1, max_epochs=cut, sql=old.masked_sql)
        run_here(
            new, tmp_path, rows_per_epoch=1, tasks=1, parallelism=3, sql=new.masked_sql, tell=reported.append
        )
        delays = [before] * cut + [after] * (len(SECONDS) - cut)
        assert given(collected) == model(SECONDS, delays, [-1000] * len(SECONDS))
    assert reported == []


@pytest.mark.parametrize(("before", "after"), [(5, 20), (20, 5), (0, 30)])
def test_windows_that_the_end_of_the_input_has_given_stay_given(
    before: int, after: int, tmp_path: Path
) -> None:
    """A run to the end of its input gives every window; rows that come for one of these later are late."""
    first, later = SECONDS[:10], [36, 44, 39, 41, 58, 22]
    add(tmp_path, "0", first)
    with collecting() as collected:
        old = windows(tmp_path, before)
        run_here(old, tmp_path, rows_per_epoch=1, tasks=1, sql=old.masked_sql)
        add(tmp_path, "1", later, first=len(first))
        new = windows(tmp_path, after)
        run_here(new, tmp_path, rows_per_epoch=1, tasks=1, sql=new.masked_sql)
        end = max(first) // SIZE * SIZE + SIZE
        closed = [-1000] * len(first) + [end] * len(later)
        assert given(collected) == model(
            [*first, *later], [before] * len(first) + [after] * len(later), closed
        )


# -------------------------------------------------------------------------------------------- wider types (10)


def test_what_a_file_has_behind_a_declared_type_is_read_again(tmp_path: Path) -> None:
    """A Parquet file may have DOUBLE where FLOAT is declared: what was read as a FLOAT says nothing of it as a DOUBLE."""
    (tmp_path / "in").mkdir()
    values = {"k": [n % 3 for n in range(20)], "v": [n / 10 for n in range(20)]}
    pq.write_table(pa.table(values), tmp_path / "in/0.parquet")

    def of(type_: str) -> Planned:
        (tmp_path / "p.sql").write_text(
            f"CREATE TABLE t (k INT, v {type_}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');\n"
            "CREATE TABLE out (k INT, n BIGINT, m DOUBLE, PRIMARY KEY (k) NOT ENFORCED) "
            "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
            "INSERT INTO out SELECT k, COUNT(*), MAX(v) FROM t GROUP BY k;\n"
        )
        return plan_file(tmp_path / "p.sql")

    old, new = of("FLOAT"), of("DOUBLE")
    [edit] = decide(old.physical, new.physical, new.state_nodes)
    assert edit.verdict is Verdict.BACKFILL
    run_here(old, tmp_path, rows_per_epoch=4, max_epochs=3, sql=old.masked_sql)
    run_here(new, tmp_path, rows_per_epoch=4, sql=new.masked_sql)
    with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as con:
        assert sorted(con.sql("SELECT * FROM out").fetchall()) == [(0, 7, 1.8), (1, 7, 1.9), (2, 6, 1.7)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "MAX(v)", "COUNT(DISTINCT v)"])
@pytest.mark.parametrize("delay", [1, 30])
def test_another_delay_holds_from_the_next_row_on(aggregate: str, delay: int, tmp_path: Path) -> None:
    """Also where the edit reads the history again: no row is late by a watermark that was never given."""

    def text(delay: int, aggregate: str) -> Planned:
        (tmp_path / "p.sql").write_text(
            "CREATE TABLE t (v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - "
            f"INTERVAL '{delay}' SECOND) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
            "CREATE TABLE out WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json') AS "
            f"SELECT window_start, {aggregate} AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
            "INTERVAL '10' SECOND)) GROUP BY window_start, window_end;\n"
        )
        return plan_file(tmp_path / "p.sql")

    (tmp_path / "in").mkdir()
    for number, seconds in enumerate([(0, 5, 25), (6, 9, 3), (27, 40, 59)]):
        lines = (json.dumps({"v": s, "ts": f"2024-01-01 00:00:{s:02}"}) + "\n" for s in seconds)
        (tmp_path / f"in/{number}.json").write_text("".join(lines))
    old, new = text(20, "COUNT(*)"), text(delay, aggregate)
    run_here(old, tmp_path, sql=old.masked_sql, rows_per_epoch=3, max_epochs=1)
    before = last_manifest(tmp_path)
    run_here(new, tmp_path, sql=new.masked_sql, rows_per_epoch=3, max_epochs=0)
    run_here(new, tmp_path, sql=new.masked_sql, rows_per_epoch=3, max_epochs=1)
    after = last_manifest(tmp_path)
    assert after["sources"][0]["seen"] >= before["sources"][0]["seen"]
    assert not after["dead_letters"]
    assert after["tally"][0] == 0
    run_here(new, tmp_path, sql=new.masked_sql, rows_per_epoch=3, **ENDS)
    rows = [
        json.loads(line) for f in (tmp_path / "out").glob("*.json") for line in f.read_text().splitlines()
    ]
    first = {"COUNT(*)": 5, "MAX(v)": 9, "COUNT(DISTINCT v)": 5}[aggregate]
    assert {"window_start": "2024-01-01 00:00:00", "n": first} in rows


def last_manifest(folder: Path) -> dict[str, Any]:
    return max(manifests(folder / "state").items())[1]


#: What closes the windows that are open at the end of the input.
ENDS: dict[str, Any] = {"drain": True}
