"""The changes of a table: a snapshot, then transactions, each once, however reading is cut into epochs and runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sqlstream.connectors.api import Limits
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.postgres_cdc.reading import Reading, by_key, cdc_spec, folded
from tests.connectors.postgres_server import Database


@pytest.mark.parametrize("full", [False, True], ids=["key", "full"])
def test_a_snapshot_and_then_changes(cdc: Database, tmp_path: Path, duck: DuckSession, full: bool) -> None:
    cdc.rows("CREATE TABLE t (k bigint PRIMARY KEY, other int, v text)")
    if full:
        cdc.rows("ALTER TABLE t REPLICA IDENTITY FULL")
    cdc.rows("INSERT INTO t SELECT i, i, 'v' || i FROM generate_series(1, 10) i")
    one = Reading(cdc_spec(cdc, key=() if full else ("k",)), tmp_path, duck)
    rows, at = one.all()
    assert sorted(rows) == [(k, f"v{k}", "+I") for k in range(1, 11)]
    cdc.rows("INSERT INTO t VALUES (11, 0, NULL), (12, 0, '')")
    cdc.rows("UPDATE t SET v = 'new' WHERE k <= 2")
    cdc.rows("UPDATE t SET k = 100 WHERE k = 3")
    cdc.rows("DELETE FROM t WHERE k = 4")
    more, at = one.again().all(at)
    if full:
        assert more == [
            *((11, None, "+I"), (12, "", "+I"), (1, "v1", "-U"), (1, "new", "+U"), (2, "v2", "-U")),
            *((2, "new", "+U"), (3, "v3", "-U"), (100, "v3", "+U"), (4, "v4", "-D")),
        ]
        assert folded(rows + more) == Counter(cdc.rows("SELECT k, v FROM t"))
    else:
        assert more == [
            *((11, None, "+I"), (12, "", "+I"), (1, "new", "+U"), (2, "new", "+U")),
            *((3, None, "-D"), (100, "v3", "+U"), (4, None, "-D")),
        ]
        assert sorted(by_key(rows + more).values()) == sorted(cdc.rows("SELECT k, v FROM t"))
    assert one.again().all(at)[0] == []


def test_epochs_end_with_transactions(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    cdc.rows("CREATE TABLE t (k bigint PRIMARY KEY, v text)")
    one = Reading(cdc_spec(cdc, key=("k",)), tmp_path, duck)
    _, at = one.all()
    for first in range(0, 40, 4):
        cdc.rows(f"INSERT INTO t SELECT i, 'x' FROM generate_series({first}, {first + 3}) i")
    found = [[k for k, _, _ in epoch.rows] for epoch in one.epochs(at, Limits(rows=3)) if epoch.splits]
    assert found == [list(range(first, first + 4)) for first in range(0, 40, 4)]
