"""What an edit of the query does to a Delta table: reconciled, altered, replaced in one commit, or refused.

Each result is compared with DuckDB's answer of the new query over all input.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.test_edited_targets import ALTER, ALTERED, DISTINCT, POINTS, SUMS, consent
from tests.properties.in_process import run_here
from tests.runtime.loop.test_sink_edits import Job, T, answer
from tests.runtime.support import Crash, crash_at

deltalake = pytest.importorskip("deltalake")

from tests.connectors.delta.reading import compact, rows_of  # noqa: E402


@dataclass
class Table:
    """The Delta table `o` of a job."""

    job: Job

    @property
    def path(self) -> Path:
        return self.job.folder / "table"

    def rows(self, columns: str = "*") -> Counter[tuple[Any, ...]]:
        return Counter(rows_of(self.path, columns))

    def open(self) -> Any:
        return deltalake.DeltaTable(str(self.path))

    def text(self, query: str, columns: str, key: str = "k", partitions: str = "") -> str:
        declared = f", PRIMARY KEY ({key}) NOT ENFORCED" if key else ""
        by = f" PARTITIONED BY ({partitions})" if partitions else ""
        with_ = "'connector' = 'delta', 'table-path' = 'table'"
        return T + f"CREATE TABLE o ({columns}{declared}){by} WITH ({with_});\nINSERT INTO o {query};"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (1, 11, "b", 2), (2, 20, "a", 11), (3, 30, "c", 12))
    return Table(job)


KEYED = [name for name, (_, key, _) in ALTERED.items() if key]


@pytest.mark.parametrize("edit", KEYED)
def test_a_table_that_is_kept_up_to_date_is_altered_with_consent(table: Table, edit: str) -> None:
    columns, key, query = ALTERED[edit]
    job = table.job
    job.run(table.text(SUMS, "k INT, n BIGINT"))
    first = table.open().version()
    job.add((1, 12, "a", 13), (4, 5, "b", 14))
    edited = table.text(query, columns, key)
    assert consent(job, edited) == ["STA019"]
    assert table.rows("k, n") == Counter([(1, 2), (2, 1), (3, 1)])
    assert job.run(edited, accept=ALTER, parallelism=3) == "exhausted"
    assert [d.code for d in job.warnings] == ["STA017"]
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    assert table.rows(names) == answer(job, edited)
    assert table.open().version() == first + 2, "the full result is one commit, and what was new another"
    job.add((1, 13, "c", 15), (5, 5, "b", 16))
    assert job.run(edited) == "exhausted"
    assert not job.warnings
    assert table.rows(names) == answer(job, edited)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("edit", ["a column more", "a wider key", "another key and query"])
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.sampled(8)
def test_a_run_that_is_cut_off_while_it_alters_a_table(
    table: Table, edit: str, point: str, compacted: bool
) -> None:
    columns, key, query = ALTERED[edit]
    job = table.job
    job.run(table.text(SUMS, "k INT, n BIGINT"))
    job.add((1, 12, "a", 13), (4, 5, "b", 14))
    edited = table.text(query, columns, key)
    with pytest.raises(Crash):
        job.run(edited, accept=ALTER, faults=crash_at(point, 2))
    if compacted:
        compact(table.path)
    job.run(edited, accept=ALTER, parallelism=1)
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    assert table.rows(names) == answer(job, edited)


def test_the_old_query_again_after_the_edit_was_cut_off(table: Table) -> None:
    columns, key, query = ALTERED["a column more"]
    job, old = table.job, table.text(SUMS, "k INT, n BIGINT")
    job.run(old)
    with pytest.raises(Crash):
        job.run(table.text(query, columns, key), accept=ALTER, faults=crash_at("prepared", 2))
    job.add((1, 12, "a", 13))
    job.run(old)
    assert table.rows() == answer(job, old)


def test_a_table_is_reconciled_by_one_merge(table: Table) -> None:
    """Both results are in the state: what differs is merged."""
    job = table.job
    job.run(table.text(SUMS, "k INT, n BIGINT"))
    edited = table.text("SELECT k, COUNT(*) + 10 FROM t GROUP BY k HAVING COUNT(*) < 2", "k INT, n BIGINT")
    job.run(edited)
    assert [d.code for d in job.warnings] == ["STA017"]
    assert table.rows() == answer(job, edited) == Counter([(2, 11), (3, 11)])


def test_partitions_stay_when_a_table_is_altered(table: Table) -> None:
    job = table.job
    grouped = "SELECT k, MIN(s), COUNT(*){more} FROM t GROUP BY k"
    job.run(table.text(grouped.format(more=""), "k INT, s STRING, n BIGINT", partitions="s"))
    edited = table.text(
        grouped.format(more=", MAX(v)"), "k INT, s STRING, n BIGINT, m BIGINT", partitions="s"
    )
    job.run(edited, accept=ALTER)
    assert table.open().metadata().partition_columns == ["s"]
    job.add((1, 12, "A", 13), (4, 5, "b", 14))
    job.run(edited)
    assert table.rows("k, s, n, m") == answer(job, edited)


def test_a_column_that_is_left_out_is_null_and_comes_back(table: Table) -> None:
    job = table.job
    more = table.text("SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k", "k INT, n BIGINT, m BIGINT")
    less = table.text("SELECT k FROM t GROUP BY k", "k INT")
    job.run(more)
    job.run(less, accept=ALTER)
    assert table.rows("k, n, m") == Counter([(1, None, None), (2, None, None), (3, None, None)])
    between = table.text(SUMS, "k INT, n BIGINT")
    job.run(between, accept=ALTER)  # m was left out two edits ago
    assert table.rows("k, n, m") == Counter([(1, 2, None), (2, 1, None), (3, 1, None)])
    job.run(more, accept=ALTER)
    assert table.rows("k, n, m") == answer(job, more)


def test_values_of_others_are_not_lost(table: Table) -> None:
    """Replacing all rows would lose them: the edit is refused, until they are gone."""
    job = table.job
    job.run(table.text(SUMS, "k INT, n BIGINT"))
    table.open().alter.add_columns([deltalake.Field("note", deltalake.schema.PrimitiveType("string"))])
    table.open().update(updates={"note": "'mine'"}, predicate="k = 1")
    edited = table.text("SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k", "k INT, n BIGINT, m BIGINT")
    with pytest.raises(DiagnosticError) as raised:
        job.run(edited, accept=ALTER)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "STA030"
    assert "columns of others, whose values would be lost: note" in diagnostic.message
    assert table.rows("k, n, note") == Counter([(1, 2, "mine"), (2, 1, None), (3, 1, None)])
    job.add((1, 12, "a", 13), (2, 5, "b", 14))
    job.run(table.text(SUMS, "k INT, n BIGINT"))
    assert table.rows("k, n, note") == Counter([(1, 3, "mine"), (2, 2, None), (3, 1, None)])


# ------------------------------------------------------------------------------------------- rows that are added


@pytest.mark.parametrize("point", [None, *POINTS])
@pytest.mark.parametrize("key", ["", "k"])
def test_a_table_that_is_appended_to_gets_columns(table: Table, point: str | None, key: str) -> None:
    job = table.job
    if key:
        was, now = (f"SELECT k, {v} FROM t ON CONFLICT DO NOTHING" for v in ("v", "v * 2, s"))
        first = [(1, 10, None), (2, 20, None), (3, 30, None)]
    else:
        was, now = "SELECT k, v FROM t", "SELECT k, v * 2, s FROM t"
        first = [(1, 10, None), (1, 11, None), (2, 20, None), (3, 30, None)]
    job.run(table.text(was, "k INT, n BIGINT", key))
    job.add((7, 12, "x", 13))
    edited = table.text(now, "k INT, n BIGINT, s STRING", key)
    assert consent(job, edited) == ["STA019"]
    if point is not None:
        with pytest.raises(Crash):
            job.run(edited, accept=ALTER, faults=crash_at(point, 2))
        compact(table.path)
    job.run(edited, accept=ALTER)
    assert point is not None or [d.code for d in job.warnings] == ["STA016"]
    assert table.rows("k, n, s") == Counter([*first, (7, 24, "x")])
    names = [field.name for field in table.open().schema().fields]
    assert names == ["k", "n", "s"]


def test_a_column_that_differs_in_case_only(table: Table) -> None:
    job = table.job
    job.run(table.text("SELECT k, v FROM t", "k INT, n BIGINT", ""))
    table.open().alter.add_columns([deltalake.Field("S", deltalake.schema.PrimitiveType("string"))])
    with pytest.raises(DiagnosticError) as raised:
        job.run(table.text("SELECT k, v, s FROM t", "k INT, n BIGINT, s STRING", ""), accept=ALTER)
    assert any("there is `S`, and no `s`" in note for note in raised.value.diagnostics[0].notes)


@pytest.mark.parametrize("key", ["", "k"])
def test_a_wider_type_is_refused_where_rows_stay(table: Table, key: str) -> None:
    job = table.job
    once = " ON CONFLICT DO NOTHING" if key else ""
    job.run(table.text(f"SELECT k, CAST(v AS INT) FROM t{once}", "k INT, n INT", key))
    edited = table.text(f"SELECT k, v * 1000000000 FROM t{once}", "k INT, n BIGINT", key)
    (told,) = job.refused(edited)
    assert told.code == "STA015"
    assert (
        "its rows stay in files that have `n` as INTEGER, which readers may not read as BIGINT" in told.notes
    )


@pytest.mark.parametrize("point", [None, *POINTS])
@pytest.mark.parametrize("edit", DISTINCT)
@pytest.mark.sampled(8)
def test_rows_that_are_given_once_are_replaced_with_consent(
    table: Table, edit: str, point: str | None
) -> None:
    """The files of the full result are all that the table has from one commit on."""
    job = table.job
    was, now = (table.text(query, "k INT, n BIGINT", "") for query in DISTINCT[edit])
    job.add((1, 10, "a", 1))  # twice
    job.run(was)
    job.add((1, 11, "a", 13), (9, 1, "a", 13), (9, 1, "a", 14))
    assert consent(job, now) == ["STA019"]
    if point is not None:
        with pytest.raises(Crash):
            job.run(now, accept=ALTER, faults=crash_at(point, 2))
        compact(table.path)
    job.run(now, accept=ALTER)
    assert table.rows("k, n") == answer(job, now)
    job.add((1, 10, "a", 13), (5, 1, "a", 13))
    job.run(now)
    assert table.rows("k, n") == answer(job, now)


# ------------------------------------------------------------------------------------------- from one to the other


@pytest.mark.parametrize("point", [None, *POINTS])
def test_rows_that_were_added_become_a_table_by_key_and_back(table: Table, point: str | None) -> None:
    job = table.job
    added, summed = (
        table.text("SELECT k, v FROM t", "k INT, n BIGINT", ""),
        table.text(SUMS, "k INT, n BIGINT"),
    )
    job.run(added)
    deltalake.write_deltalake(
        str(table.path),
        pa.table({"k": pa.array([1], pa.int32()), "n": pa.array([7], pa.int64())}),
        mode="append",
    )
    assert consent(job, summed) == ["STA019"]
    if point is not None:
        with pytest.raises(Crash):
            job.run(summed, accept=ALTER, faults=crash_at(point, 2))
    job.run(summed, accept=ALTER)
    assert table.rows() == answer(job, summed)
    job.add((1, 12, "a", 13), (4, 5, "b", 14))
    job.run(summed)
    assert table.rows() == answer(job, summed)
    job.run(added, accept=ALTER)
    assert table.rows() == answer(job, added)


def test_a_query_that_comes_to_need_a_key_is_refused(table: Table) -> None:
    job = table.job
    job.run(table.text("SELECT k, v FROM t", "k INT, n BIGINT", ""))
    with pytest.raises(DiagnosticError) as raised:
        job.run(table.text(SUMS, "k INT, n BIGINT", ""))
    (told,) = raised.value.diagnostics
    assert told.code == "SQL070"
    assert "PRIMARY KEY (k) NOT ENFORCED" in (told.help or "")


def test_rewrite(table: Table) -> None:
    job, text = table.job, table.text(SUMS, "k INT, n BIGINT")
    job.run(text)
    with pytest.raises(DiagnosticError, match="STA026"):
        job.run(text, rewrite=frozenset({"o"}))
    shutil.rmtree(table.path)
    job.run(text, rewrite=frozenset({"o"}))
    assert table.rows() == answer(job, text)
    job.add((1, 12, "a", 13), (4, 5, "b", 14))
    job.run(text)
    assert table.rows() == answer(job, text)


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "connectors" / "delta.md").read_text()
    example, *_ = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    (tmp_path / "in").mkdir()
    bids = [(n % 7, n % 11, 1 + n % 3) for n in range(100)]
    lines = [f'{{"auction": {a}, "price": {p}, "day": "2024-01-0{d}"}}\n' for a, p, d in bids]
    (tmp_path / "in" / "1.json").write_text("".join(lines))
    source = (
        "CREATE TABLE bid (auction BIGINT, price DECIMAL(12, 2), day DATE) "
        "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
    )
    inserts = (
        "EXECUTE STATEMENT SET BEGIN\nINSERT INTO lake SELECT * FROM bid;\n"
        "INSERT INTO standing SELECT auction, COUNT(*), MAX(price) FROM bid GROUP BY auction;\nEND;\n"
    )
    run_here(plan_file(source + example + inserts, file="p.sql"), tmp_path, rows_per_epoch=30)
    found = sorted(rows_of(tmp_path / "out" / "lake", "auction, CAST(price AS INT), EXTRACT(day FROM day)"))
    assert found == sorted(bids)
    prices = {auction: [p for a, p, _ in bids if a == auction] for auction in range(7)}
    wanted = {auction: (len(all_), max(all_)) for auction, all_ in prices.items()}
    rows = rows_of(tmp_path / "out" / "standing", "auction, bids, CAST(highest AS INT)")
    assert len(rows) == len(wanted)
    assert {auction: (bids, highest) for auction, bids, highest in rows} == wanted
