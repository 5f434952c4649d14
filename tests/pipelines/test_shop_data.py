"""The shop's changes are what prepare_data.py makes, and its goldens are what they come to, worked out in Python."""

from __future__ import annotations

import csv
import json
import runpy
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHOP = ROOT / "pipelines" / "shop"
GOLDEN = ROOT / "golden" / "shop" / "orders"


def remaining() -> list[dict[str, Any]]:
    """The orders that are left when all changes were applied."""
    orders: dict[int, dict[str, Any]] = {}
    for path in sorted((SHOP / "data").glob("*.json")):
        for message in map(json.loads, path.read_text().splitlines()):
            before, after = message["before"], message["after"]
            assert orders.get((before or after)["id"]) == before
            if after is None:
                del orders[before["id"]]
            else:
                orders[after["id"]] = after
    return list(orders.values())


def golden(name: str) -> list[dict[str, str]]:
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_script_makes_the_same_bytes(tmp_path: Path) -> None:
    runpy.run_path(str(SHOP / "prepare_data.py"))["main"](tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in (SHOP / "data").glob("*.json")}


def test_what_each_hour_took() -> None:
    hours: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for order in remaining():
        hour = datetime.fromisoformat(order["placed_at"]).replace(minute=0, second=0)
        hours[str(hour), order["country"]].append(order)
    expected = [
        {
            "window_start": hour,
            "country": country,
            "orders": str(len(found)),
            "unpaid": str(sum(order["status"] == "new" for order in found)),
            "amount": str(sum(Decimal(order["amount"]) for order in found)),
            "largest": str(max(Decimal(order["amount"]) for order in found)),
        }
        for (hour, country), found in sorted(hours.items())
    ]
    assert golden("hours") == expected


def test_the_best_customers() -> None:
    amounts: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for order in remaining():
        amounts[order["country"], order["customer"]].append(Decimal(order["amount"]))
    expected = []
    for country in sorted({country for country, _ in amounts}):
        customers = [(-sum(found), who, len(found)) for (c, who), found in amounts.items() if c == country]
        for place, (amount, who, orders) in enumerate(sorted(customers)[:3], 1):
            row = (country, place, who, orders, -amount)
            expected.append(
                dict(zip(("country", "place", "customer", "orders", "amount"), map(str, row), strict=True))
            )
    assert golden("best_customers") == expected
