"""docs/sql/ and docs/running/: every example is planned, and what selects gives what DuckDB gives.

An example is a block `sql`, or a cell of a column that is called *example*; the tables it reads are those of docs/sql.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.epoch_values import clock_settings
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.updating import collecting, fetched

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "sql.md", *sorted((DOCS / "sql").glob("*.md"))]
FUNCTIONS = [DOCS / "functions.md", DOCS / "functions/duckdb.md"]
SETTINGS = [DOCS / "running.md", *sorted((DOCS / "running").glob("*.md"))]
_BLOCK = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TABLES = _BLOCK.findall(PAGES[0].read_text(encoding="utf-8"))[0].partition("INSERT INTO")[0]
_QUERY = re.compile(r"(SELECT|WITH|PIVOT|UNPIVOT)\b")
#: Examples that read other tables, or a clock that DuckDB's answer does not have.
_ELSEWHERE = re.compile(r"LOCALTIMESTAMP|PROCTIME\(\)|NOW\(\)|credits|clicks")


def blocks(page: Path) -> list[str]:
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return found[1:] if page == PAGES[0] else found


def cells(page: Path) -> Iterator[str]:
    """The code in the columns that are called *example*."""
    column: int | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            column = None
            continue
        row = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        if column is None:
            column = row.index("example") if "example" in row else -1
        elif column >= 0 and row[column].startswith("`"):
            yield row[column].strip("`").replace("\\|", "|")


def queries(page: Path) -> list[str]:
    """The SELECTs among the examples, one by one."""
    statements = [s for block in blocks(page) for s in _without_comments(block).split(";")]
    return [
        s.strip() for s in [*statements, *cells(page)] if _QUERY.match(s.strip()) and not _ELSEWHERE.search(s)
    ]


def _without_comments(text: str) -> str:
    return re.sub(r"--.*", "", text)


def write(folder: Path) -> None:
    """Orders, payments of most of them, and changes of customers."""
    orders = [
        {
            "id": n,
            "customer": ("ada", "bob", "cy", None)[n * 7 % 4],
            "region": ("north", "south")[n % 2],
            "amount": n * 5 % 13,
            "tags": ["a", "ab", "b"][: n % 4],
            "ordered_at": f"2024-01-01 00:{n // 4:02}:{n % 4 * 15:02}",
        }
        for n in range(40)
    ]
    payments = [
        {"order_id": n, "paid": n * 5 % 13 + n % 3, "paid_at": o["ordered_at"]}
        for n, o in enumerate(orders)
        if n % 5
    ]
    customers = [
        {"op": "+I", "data": {"customer": name, "city": "Ulm", "credit": 5}} for name in ("ada", "bob", "cy")
    ]
    customers += [
        {"op": "-U", "data": {"customer": "bob", "city": "Ulm", "credit": 5}},
        {"op": "+U", "data": {"customer": "bob", "city": "Bonn", "credit": 7}},
        {"op": "-D", "data": {"customer": "cy", "city": "Ulm", "credit": 5}},
    ]
    for name, rows in (("orders", orders), ("payments", payments), ("customers", customers)):
        (folder / name).mkdir()
        (folder / name / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("page", [*PAGES, *FUNCTIONS, *SETTINGS], ids=lambda p: p.name)
def test_every_example_is_planned(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.sql"
    refused = []
    run = queries(page)
    for example in [*blocks(page), *cells(page)]:
        if example.strip().rstrip(";") in run:
            continue  # the next test runs it
        if not re.search(r"\b(INSERT|SELECT|PIVOT|UNPIVOT)\b", example):
            example = f"{example.rstrip().rstrip(';')};\nSELECT id FROM orders;"
        elif re.match(r"CREATE VIEW", example):
            example = f"{example};\nSELECT * FROM large;"
        file.write_text(f"{_TABLES}\n{example}", encoding="utf-8")
        try:
            plan_file(file)
        except DiagnosticError as error:
            refused.append(f"{example}\n{error}")
    assert refused == []


@pytest.mark.parametrize("page", [*PAGES, *FUNCTIONS], ids=lambda p: p.name)
def test_every_select_gives_what_duckdb_gives(page: Path, tmp_path: Path) -> None:
    examples_of_page = queries(page)
    if not examples_of_page:
        return
    write(tmp_path)
    head = "".join(s + ";\n" for s in ("CREATE TYPE size AS ENUM ('small', 'large')",))
    sinks = (
        f"CREATE TABLE o{n} WITH ('connector' = 'blackhole') AS {q};\n"
        for n, q in enumerate(examples_of_page)
    )
    (tmp_path / "p.sql").write_text(_TABLES + head + "".join(sinks), encoding="utf-8")
    plan = plan_file(tmp_path / "p.sql")
    with collecting() as collected:
        run_here(plan, tmp_path, parallelism=1, rows_per_epoch=50)
    script = to_duckdb(plan, lambda source: [str(tmp_path / source.name / "0.json")])
    with empty_duckdb() as con:
        con.execute(clock_settings(None))
        for _, view in script.sources:
            con.execute(view)
        for sink, text in script.sinks:
            expected = fetched(con, text)
            example = examples_of_page[int(sink.removeprefix("o"))]
            assert expected, f"the example gives nothing: {example}"
            try:
                assert_same(collected.folded(sink), expected)
            except AssertionError as error:
                raise AssertionError(f"{example}: {error}") from error
