"""Runs a pipeline in this process, cut into epochs at random, and gives what it and DuckDB's batch say."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream_operators.codec.exchange import Message
from sqlstream_planner.batch.to_duckdb import DuckDBScript, to_duckdb
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here

Row = Mapping[str, Any]
Rows = list[tuple[Any, ...]]

DECLARATIONS = """
CREATE TABLE t (
  k INT, s STRING, v BIGINT, d DECIMAL(10, 2), x DOUBLE, b BOOLEAN, a ARRAY<INT>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');
"""


@dataclass(frozen=True)
class Pipeline:
    """A pipeline over `t` in a folder of its own, whose queries write to the Parquet sinks `out_1`, `out_2` …"""

    folder: Path
    planned: Planned
    #: The referee's SQL by the input's files: a test asks for sink after sink.
    _scripts: dict[tuple[str, ...], DuckDBScript] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def create(
        cls, folder: Path, queries: Sequence[str], files: Sequence[Sequence[Row]], *, delay: int
    ) -> Pipeline:
        (folder / "input").mkdir(parents=True)
        for number, rows in enumerate(files):
            lines = [json.dumps(r, default=str, ensure_ascii=False) for r in rows]
            (folder / "input" / f"{number:03d}.json").write_text("".join(f"{line}\n" for line in lines))
        sinks = "".join(
            f"CREATE TABLE out_{n} WITH ('connector' = 'filesystem', 'path' = 'out_{n}', 'format' = 'parquet') AS {q};\n"
            for n, q in enumerate(queries, 1)
        )
        text = DECLARATIONS.format(delay=delay) + sinks
        (folder / "pipeline.sql").write_text(text)
        return cls(folder, plan_file(folder / "pipeline.sql"))

    def run(
        self,
        *,
        rows_per_epoch: int | None = None,
        parallelism: int = 2,
        seed: int = 0,
        state: str = "state",
        on_epoch: Callable[[EpochReport], None] = lambda report: None,
        max_epochs: int | None = None,
    ) -> RunResult:
        """Run to the end (or for `max_epochs`); blobs reach each stage in an order drawn from `seed`."""

        def shuffled(messages: list[Message]) -> list[Message]:
            random.Random(seed).shuffle(messages)
            return messages

        return run_here(
            self.planned,
            self.folder,
            state=state,
            parallelism=parallelism,
            rows_per_epoch=rows_per_epoch,
            shuffle=shuffled,
            on_epoch=on_epoch,
            max_epochs=max_epochs,
        )

    def output(self, sink: int = 1) -> Rows:
        """What the sink's committed files hold."""
        folder = self.folder / f"out_{sink}"
        if not list(folder.glob("*.parquet")):
            return []
        with empty_duckdb() as con:
            return _fetch(con, f"SELECT * FROM read_parquet('{folder}/*.parquet')")

    def expected(self, sink: int = 1) -> Rows:
        """What DuckDB's batch SQL gives over all input."""
        files = tuple(str(f) for f in sorted((self.folder / "input").glob("*.json")))
        if files not in self._scripts:
            self._scripts[files] = to_duckdb(self.planned, lambda _: list(files))
        script = self._scripts[files]
        with empty_duckdb() as con:
            for _, view in script.sources:
                con.execute(view)
            return _fetch(con, script.sinks[sink - 1][1])

    def dead_letters(self) -> list[dict[str, Any]]:
        """All dead letters of all epochs."""
        files = sorted((self.folder / "state" / "dead-letter").glob("*.jsonl"))
        return [json.loads(line) for f in files for line in f.read_text().splitlines()]


def _fetch(con: duckdb.DuckDBPyConnection, sql: str) -> Rows:
    return [tuple(r) for r in con.execute(sql).fetchall()]


def assert_same(actual: Rows, expected: Rows) -> None:
    """The two are equal as multisets; floats to a relative 1e-9, and NaN is NaN."""
    if Counter(map(repr, actual)) == Counter(map(repr, expected)):
        return  # to order rows costs more than the run that gave them; what has the same text is the same
    ours, theirs = sorted(actual, key=_order), sorted(expected, key=_order)
    assert len(ours) == len(theirs), f"{len(ours)} rows, expected {len(theirs)}\n{_difference(ours, theirs)}"
    alike: dict[Any, Rows] = {}
    for row in theirs:
        alike.setdefault(_order(row), []).append(row)
    for row in ours:
        # Rows that differ in floats alone have no order: any that is the same will do.
        left = alike.get(_order(row), [])
        place = next((n for n, other in enumerate(left) if _same(row, other)), None)
        assert place is not None, f"\n got {row}\nwant {left[:5]}\n{_difference(ours, theirs)}"
        del left[place]


def _difference(ours: Rows, theirs: Rows) -> str:
    extra = [r for r in ours if r not in theirs][:5]
    missing = [r for r in theirs if r not in ours][:5]
    return f"extra {extra}\nmissing {missing}"


def _order(value: Any) -> Any:
    """A total order that does not look at the digits of floats."""
    if isinstance(value, tuple | list):
        return (4, tuple(_order(v) for v in value))
    if isinstance(value, float):
        return (3, "")
    if value is None:
        return (0, "")
    if isinstance(value, dict):
        return (5, tuple((str(k), _order(v)) for k, v in value.items()))
    if isinstance(value, datetime):
        return (2, value.isoformat())
    if isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite()):
        return (1, Fraction(value))  # 3 is 3.00, whatever its type
    return (6, repr(value))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (
            math.isnan(one) and math.isnan(other)
        )
    return bool(one == other)
