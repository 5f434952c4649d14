"""A prefix of real servers of object stores as a catalog of Delta tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.connectors.delta.library import place_and_options
from sqlstream.planning import plan_file
from sqlstream_operators.state.places import below
from sqlstream_planner.diagnostics import DiagnosticError
from tests.object_stores.store_server import StoreServer
from tests.object_stores.stores import KINDS, running
from tests.properties.in_process import run_here

deltalake = pytest.importorskip("deltalake")


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    yield from running(request)


def test_tables_below_a_prefix(server: StoreServer, tmp_path: Path) -> None:
    lake = server.uri("lake")
    for name, count in (("top", 1), ("sales/orders", 3), ("sales/copies", 0)):
        place, options = place_and_options(below(lake, name))
        rows = pa.table({"k": pa.array(range(count), pa.int64())})
        deltalake.write_deltalake(place, rows, storage_options=options)
    file = tmp_path / "p.sql"
    created = f"CREATE CATALOG lake WITH ('type' = 'delta', 'path' = '{lake}');\n"
    text = "INSERT INTO lake.sales.copies SELECT k FROM lake.Sales.orders UNION ALL SELECT k FROM lake.`default`.top"
    file.write_text(created + text)
    planned = plan_file(file)
    run_here(planned, tmp_path)
    place, options = place_and_options(below(lake, "sales/copies"))
    there = deltalake.DeltaTable(place, storage_options=options).to_pyarrow_table()
    assert sorted(there.column("k").to_pylist()) == [0, 0, 1, 2]
    assert server.secret not in planned.masked_sql
    for wrong, expected in (("sales.ordrs", "`copies`, `orders`"), ("sale.orders", "`default`, `sales`")):
        file.write_text(f"{created}SELECT k FROM lake.{wrong}")
        with pytest.raises(DiagnosticError) as raised:
            plan_file(file)
        [found] = raised.value.diagnostics
        assert found.code == "SQL013"
        assert expected in found.notes[0]
        assert server.secret not in str(found)
