"""Updating queries step by step: rows that come, change and go, and the rows of the result after each step.

Each file under `steps` has tables, queries over them, and steps. A step is a run of one epoch: the changes that it reads
(`+I`, `-U`, `+U` or `-D` and a row as JSON, with the table's name in front where there are several tables), and what
queries give after it. A query that a step does not mention gives what it gave before. Expected rows are written by
hand (in the files of `_LONG` they are what DuckDB gives for the same text over the rows that are left); the kinds of
queries are those of public test suites of streaming systems.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import collecting

STEPS = Path(__file__).parent / "steps"
#: Files with many queries, which take long.
_LONG = frozenset({"chains_of_views", "ends_of_types", "ranks_of_nested_rows", "what_is_equal"})
#: Each file runs once, the long ones in two shards, the others in one or in three.
_RUNS = [
    (f, 2 if f.stem in _LONG else 1 + 2 * (number % 2))
    for number, f in enumerate(sorted(STEPS.glob("*.txt")))
]
_CHANGE = re.compile(r"(?:(\w+) )?([+-][IUD]) (\[.*\])$")


@dataclass
class Step:
    """What one epoch reads of each table, and what queries give after it."""

    changes: dict[str, list[str]] = field(default_factory=dict)
    expected: dict[str, Rows] = field(default_factory=dict)


@dataclass
class Script:
    """A file of `steps`."""

    tables: dict[str, str] = field(default_factory=dict)
    views: list[str] = field(default_factory=list)
    queries: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path) -> Script:
        """Parse a file; a line that is nothing of it is an error."""
        script = cls()
        columns: dict[str, list[str]] = {}
        for line in file.read_text().splitlines():
            word, _, rest = line.partition(" ")
            if not line.strip() or word == "#":
                continue
            if word == "table":
                name, _, declared = rest.partition(" ")
                script.tables[name] = declared
                inner, nested = declared.strip()[1:-1], 1
                while nested:
                    inner, nested = re.subn(r"[(<][^()<>]*[)>]|PRIMARY KEY", "", inner)
                columns[name] = [c.split()[0].strip("`") for c in inner.split(",") if "NOT ENFORCED" not in c]
            elif word == "view":
                script.views.append(f"CREATE VIEW {rest};")
            elif word == "query":
                name, _, sql = rest.partition(": ")
                script.queries[name] = sql
            elif word == "step":
                script.steps.append(Step())
            elif (change := _CHANGE.match(line)) is not None:
                table = change[1] or next(iter(script.tables))
                row = dict(zip(columns[table], json.loads(change[3]), strict=True))
                message = json.dumps({"op": change[2], "data": row})
                script.steps[-1].changes.setdefault(table, []).append(message)
            else:
                name, _, rows = line.partition(":")
                assert name in script.queries, f"{file.name}: what is {line!r}?"
                script.steps[-1].expected[name] = _rows_of(rows)
        return script

    def plan(self, folder: Path) -> Planned:
        """The pipeline, over tables whose folders are empty."""
        for table in self.tables:
            (folder / table).mkdir()
        text = [
            f"CREATE TABLE {name} {declared} WITH "
            f"('connector' = 'filesystem', 'path' = '{name}', 'format' = 'changelog-json');"
            for name, declared in self.tables.items()
        ]
        text += self.views
        text += [
            f"CREATE TABLE out_{name} WITH ('connector' = 'blackhole') AS {sql};"
            for name, sql in self.queries.items()
        ]
        (folder / "pipeline.sql").write_text("\n".join(text))
        return plan_file(folder / "pipeline.sql")

    def arrive(self, folder: Path, number: int) -> None:
        """Write what a step brings; a table that nothing has come for yet has a file without rows."""
        for table in self.tables if not number else ():
            (folder / table / "000.json").touch()
        for table, lines in self.steps[number].changes.items():
            (folder / table / f"{number:03d}.json").write_text("".join(f"{line}\n" for line in lines))


def _rows_of(text: str) -> Rows:
    """JSON arrays, one after the other."""
    rows, decoder = [], json.JSONDecoder()
    while text := text.strip():
        row, end = decoder.raw_decode(text)
        rows.append(tuple(row))
        text = text[end:]
    return rows


def _plain(rows: Rows) -> Rows:
    """Rows as JSON has them: times as text, decimals as numbers."""
    return [tuple(_value(v) for v in row) for row in rows]


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list | tuple):
        return [_value(v) for v in value]
    if isinstance(value, Mapping):
        return {k: _value(v) for k, v in value.items()}
    return value


@pytest.mark.parametrize(("file", "parallelism"), _RUNS, ids=lambda value: getattr(value, "stem", None))
@pytest.mark.sampled(6)
def test_each_step_gives_the_rows_that_are_written(tmp_path: Path, file: Path, parallelism: int) -> None:
    script = Script.read(file)
    planned = script.plan(tmp_path)
    expected: dict[str, Rows] = {name: [] for name in script.queries}
    with collecting() as collected:
        for number, step in enumerate(script.steps):
            script.arrive(tmp_path, number)
            expected.update(step.expected)
            result = run_here(planned, tmp_path, parallelism=parallelism)
            assert result.epochs == (1 if step.changes or number == 0 else 0)
            for name, rows in expected.items():
                try:
                    assert_same(_plain(collected.folded(f"out_{name}")), rows)
                except AssertionError as error:
                    raise AssertionError(f"{name}, step {number + 1}: {error}") from None


@pytest.mark.parametrize("file", sorted(STEPS.glob("*.txt")), ids=lambda file: file.stem)
def test_the_referee_agrees(tmp_path: Path, file: Path) -> None:
    """What is written by hand at the end is also what DuckDB gives for the whole input."""
    script = Script.read(file)
    planned = script.plan(tmp_path)
    expected: dict[str, Rows] = {}
    for number, step in enumerate(script.steps):
        script.arrive(tmp_path, number)
        expected.update(step.expected)
    duck = to_duckdb(planned, lambda source: sorted(str(p) for p in (tmp_path / source.name).glob("*.json")))
    with empty_duckdb() as con:
        for _, view in duck.sources:
            con.execute(view)
        for name, sql in duck.sinks:
            assert_same(_plain(con.execute(sql).fetchall()), expected.get(name.removeprefix("out_"), []))
