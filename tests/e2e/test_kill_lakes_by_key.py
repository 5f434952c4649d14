"""Drivers that are killed at each point of an epoch and at steps, with tables of lakes that are kept up to date by key."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.killing import POINTS, Killer, Order, steps_within
from tests.e2e.test_kill_tables import EXPECTED, SQL, _expected, _input

deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.kill

from tests.connectors.delta import reading as delta  # noqa: E402
from tests.connectors.iceberg import tables as iceberg  # noqa: E402

_COLUMNS = {
    "per_key": ("k", "n", "total", "kinds"),
    "passed": ("k", "v"),
    "by_kinds": ("kinds", "keys", "most"),
}


@dataclass(frozen=True)
class Lake:
    """Options of a table, whose name is in `{name}`, and what others do in a folder with one of a name."""

    options: str
    compact: Callable[[Path, str], object]
    rows: Callable[[Path, str, Sequence[str]], list[tuple[Any, ...]]]


def _compact_delta(folder: Path, name: str) -> None:
    if deltalake.DeltaTable.is_deltatable(str(folder / "out" / name)):
        delta.compact(folder / "out" / name)


def _compact_iceberg(folder: Path, name: str) -> None:
    if (folder / "lake").exists() and iceberg.catalog(folder).table_exists(("db", name)):
        iceberg.compact(folder, name)


LAKES = {
    "delta": Lake(
        "'connector' = 'delta', 'table-path' = 'out/{name}'",
        _compact_delta,
        lambda folder, name, columns: delta.rows_of(folder / "out" / name, ", ".join(columns)),
    ),
    "iceberg": Lake(
        iceberg.OPTIONS,
        _compact_iceberg,
        lambda folder, name, columns: iceberg.rows_of(folder, columns, name),
    ),
}


@pytest.mark.parametrize("lake", LAKES)
def test_tables_are_right_after_kills_at_points_and_steps(lake: str, tmp_path: Path) -> None:
    """Between the runs somebody else compacts them; one of them has partitions that rows move between."""
    kind = LAKES[lake]
    rng = random.Random(20261128)
    _input(tmp_path, rng)
    sink = re.compile(r"CREATE TABLE (per_key|passed|by_kinds|top_keys) \((.*)\)(\s)WITH \(.*\);")
    options = kind.options.format(name=r"\1") + ", 'sink.commit-interval' = '300 ms'"
    text = sink.sub(rf"CREATE TABLE \1 (\2)\3WITH ({options});", SQL)
    text = text.replace(
        "top_keys (k INT, total BIGINT)", "top_keys (k INT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED)"
    )
    text = text.replace("(k) NOT ENFORCED)\nWITH", "(k) NOT ENFORCED)\nPARTITIONED BY (kinds) WITH", 1)
    assert text.count(f"'{lake}'") == len(EXPECTED)
    assert f"PARTITIONED BY (kinds) WITH ({kind.options.format(name='per_key')}" in text
    (tmp_path / "pipeline.sql").write_text(text)
    order = Order(str(tmp_path), rows_per_epoch=150, parallelism=2)
    with Killer.running(tmp_path) as killer:
        for shards, point in enumerate(POINTS):
            killer.kill(replace(order, parallelism=1 + shards % 3, point=point))
            for name in EXPECTED:
                kind.compact(tmp_path, name)
        first = killer.run(replace(order, point="collected", counted=True))
        assert first.killed, first.errors
        for step in steps_within(rng, first.steps, 5):
            killer.kill(replace(order, step=step))
        killer.finish(order)
    for name, query in EXPECTED.items():
        found = Counter(kind.rows(tmp_path, name, _COLUMNS.get(name, ("k", "total"))))
        assert found
        assert found == _expected(tmp_path, query), name
