"""Iceberg tables whose files are in real servers of object stores, and whose catalog is a database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from tests.object_stores.faulty_proxy import Fault, proxy_of
from tests.object_stores.store_server import StoreServer
from tests.object_stores.stores import KINDS, running
from tests.properties.in_process import run_here

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    yield from running(request)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (k) NOT ENFORCED"])
def test_rows_there_and_back(server: StoreServer, tmp_path: Path, key: str) -> None:
    """Written and read by epochs while requests fail; no file says who logs in."""
    (tmp_path / "in").mkdir()
    count = 0

    def choose(method: str, path: str, before: int) -> Fault:
        nonlocal count
        count += 1
        return (Fault.BUSY, Fault.RESET)[count // 9 % 2] if not count % 9 else Fault.NONE

    with proxy_of(server) as proxy:
        proxy.choose = choose
        options = (
            "'connector' = 'iceberg', 'catalog-type' = 'sql', 'uri' = 'sqlite:///catalog.db', "
            f"'warehouse' = '{server.uri(f'lake-{len(key)}', port=proxy.port)}', 'catalog-table' = 'o'"
        )
        for number in range(2):
            lines = "".join(f'{{"k": {k}, "v": "x"}}\n' for k in range(number * 50, number * 50 + 50))
            (tmp_path / "in" / f"{number}.json").write_text(lines)
            into = (
                "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
                f"CREATE TABLE o (k INT, v STRING{key}) WITH ({options});\n"
                f"INSERT INTO o SELECT k, {'MAX(v) AS v FROM t GROUP BY k' if key else 'v FROM t'};\n"
            )
            run_here(plan_file(into, file=str(tmp_path / "p.sql")), tmp_path, rows_per_epoch=30)
            back = (
                f"CREATE TABLE o (k INT, v STRING) WITH ({options});\n"
                "CREATE TABLE n (k INT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');\n"
                "INSERT INTO n SELECT k FROM o;\n"
            )
            if not key:
                run_here(plan_file(back, file=str(tmp_path / "q.sql")), tmp_path, state="back")
        if key:
            run_here(plan_file(back, file=str(tmp_path / "q.sql")), tmp_path, state="back")
    assert count > 40
    found = [json.loads(line)["k"] for one in (tmp_path / "out").rglob("part-*") for line in one.open()]
    assert sorted(found) == list(range(100))
    for one in tmp_path.rglob("*"):
        assert not one.is_file() or server.secret.encode() not in one.read_bytes()
