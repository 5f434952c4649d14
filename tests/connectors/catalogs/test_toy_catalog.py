"""To add a type of catalog is to write and register it; the page of catalogs describes each type with its options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqlstream.connectors.catalogs import CATALOG_TYPES, CatalogType
from sqlstream.planning import plan_file
from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.catalog.foreign.descriptor import (
    CatalogDef,
    CatalogDescriptor,
    FoundColumn,
    FoundTable,
)
from sqlstream_planner.catalog.options import OptionDef, ValueKind
from tests.connectors.catalogs.stores import in_delta
from tests.connectors.postgres_server import Database

PAGE = Path(__file__).parents[3] / "docs/catalogs.md"
TOY = CatalogDescriptor(
    "toy",
    "numbers",
    (OptionDef("up-to", ValueKind.INTEGER, "the last number", required=True),),
    default_database=lambda settings: "numbers",
    databases="folders",
)


class Toy:
    """All of the catalog."""

    def __init__(self, catalog: CatalogDef, base_dir: str) -> None:
        self._end = str(catalog.settings["up-to"])

    def databases(self) -> list[str]:
        return ["numbers"]

    def tables(self, database: str) -> list[str]:
        return ["small"]

    def describe(self, database: str, table: str) -> FoundTable | None:
        if (database, table) != ("numbers", "small"):
            return None
        return FoundTable(
            database, table, "datagen", {"number-of-rows": self._end}, (FoundColumn("n", BIGINT),)
        )


def test_a_type_that_is_written_and_registered() -> None:
    types = CATALOG_TYPES.with_type(CatalogType(TOY, Toy))
    text = "CREATE CATALOG toy WITH ('type' = 'toy', 'up-to' = '3'); USE CATALOG toy; SELECT n FROM small;"
    (source,) = plan_file(text, catalogs=types.catalogs(".")).physical.sources
    assert (source.name, source.connector) == ("toy.numbers.small", "datagen")
    assert source.options == {"number-of-rows": "3"}


def test_two_types_of_one_name_and_an_option_that_is_called_like_a_secret() -> None:
    with pytest.raises(ValueError, match="called like a secret"):
        CatalogDescriptor("x", "x", (OptionDef("password", ValueKind.STRING, ""),), lambda _: "d", "d")
    assert (
        len(
            CATALOG_TYPES.with_type(CatalogType(TOY, Toy)).with_type(CatalogType(TOY, Toy)).catalogs("").names
        )
        == 5
    )


@pytest.mark.parametrize("descriptor", [*CATALOG_TYPES.catalogs("")], ids=lambda d: d.name)
def test_every_option_is_described_and_no_other(descriptor: CatalogDescriptor) -> None:
    section = (
        PAGE.read_text().partition(f"The options of `{descriptor.name}`:")[2].partition("\n\n| option")[2]
    )
    rows = [re.split(r" ?\| ?", line.lstrip("| ")) for line in section.splitlines()[2:]]
    described = {}
    for row in rows:
        if len(row) < 4:
            break
        described[row[0].strip("`")] = (row[1], row[2].strip("`"))
    expected = {
        o.name: (o.kind.value, "required" if o.required else o.default or "") for o in descriptor.options
    }
    assert described == expected


def test_the_examples_of_the_page_are_planned(database: Database, tmp_path: Path) -> None:
    database.rows(
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount int, ordered_at timestamptz)"
    )
    in_delta(tmp_path)
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    text = "\n".join(blocks).replace("postgresql://localhost:5432/bank", database.url)
    text = text.replace(", 'username' = 'etl'", "").replace("'tables/'", "'delta/'")
    text = text.replace("lake.sales.large_orders", "lake.sales.totals").replace(
        "SELECT id, customer, amount", "SELECT customer, amount, id"
    )
    file = tmp_path / "p.sql"
    file.write_text(
        f"{text}\nINSERT INTO copy_of_orders SELECT id, customer, amount, ordered_at FROM orders_cdc;\n"
        "INSERT INTO lake.sales.totals SELECT k, amount, id FROM new_orders;"
    )
    planned = plan_file(file)
    assert {s.connector for s in planned.physical.sources} == {"postgres", "postgres-cdc", "delta"}
    assert {s.name for s in planned.physical.sinks} == {"lake.sales.totals", "copy_of_orders"}
