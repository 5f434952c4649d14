"""Write pipelines/tpch/data: the eight tables of TPC-H, far smaller than its smallest scale.

    python pipelines/tpch/prepare_data.py

Needs only the standard library and gives the same bytes every time. It is not TPC-H's own dbgen: the columns and their
relations are those of the specification, their values come from fewer choices, so that each of its queries, with the
parameters that the specification validates with, finds some of some two thousand rows. Each table is in files whose names
sort in the order in which a shop would write them: orders and their items by their date.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
#: Nation -> region, in the order of their keys.
NATIONS = {
    "ALGERIA": 0, "ARGENTINA": 1, "BRAZIL": 1, "CANADA": 1, "EGYPT": 4, "ETHIOPIA": 0, "FRANCE": 3, "GERMANY": 3,
    "INDIA": 2, "INDONESIA": 2, "IRAN": 4, "IRAQ": 4, "JAPAN": 2, "JORDAN": 4, "KENYA": 0, "MOROCCO": 0,
    "MOZAMBIQUE": 0, "PERU": 1, "CHINA": 2, "ROMANIA": 3, "SAUDI ARABIA": 4, "VIETNAM": 2, "RUSSIA": 3,
    "UNITED KINGDOM": 3, "UNITED STATES": 1,
}  # fmt: skip
#: Where suppliers and customers are more often than elsewhere: the queries ask for them.
HOMES = ("FRANCE", "GERMANY", "CANADA", "SAUDI ARABIA", "BRAZIL", "INDIA", "CHINA", "JAPAN")
SUPPLIERS, PARTS, CUSTOMERS, ORDERS = 24, 60, 90, 360
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
MODES = ("AIR", "AIR REG", "FOB", "MAIL", "RAIL", "SHIP", "TRUCK")
INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
TYPES = (
    "ECONOMY ANODIZED STEEL",
    "LARGE BRUSHED BRASS",
    "MEDIUM POLISHED TIN",
    "PROMO PLATED BRASS",
    "STANDARD BRUSHED STEEL",
)
BRANDS = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
CONTAINERS = ("SM CASE", "MED BOX", "MED BAG", "LG CASE", "JUMBO PKG")
SIZES = (3, 5, 9, 14, 15, 19, 23, 36, 45, 49)
COLORS = ("forest", "green", "ivory", "lace", "navy")
FIRST, LAST, TODAY = date(1992, 1, 1), date(1998, 8, 2), date(1995, 6, 17)

Row = Sequence[object]


def money(cents: int) -> str:
    """An amount as the files have it."""
    return f"{cents / 100:.2f}"


def nation(dice: random.Random) -> int:
    """The key of where somebody is."""
    names = list(NATIONS)
    return names.index(dice.choice(HOMES)) if dice.random() < 0.7 else dice.randrange(len(names))


def phone(dice: random.Random, key: int) -> str:
    """A number in the nation with this key."""
    return f"{key + 10}-{dice.randint(100, 999)}-{dice.randint(100, 999)}-{dice.randint(1000, 9999)}"


def price(part: int) -> int:
    """The retail price of a part in cents, by the specification's formula."""
    return 90000 + part // 10 % 20001 + 100 * (part % 1000)


def tables(dice: random.Random) -> dict[str, tuple[list[Row], int]]:
    """Table -> its rows, without a header, and over how many files they are spread."""
    region: list[Row] = list(enumerate(REGIONS))
    nations: list[Row] = [(key, name, NATIONS[name]) for key, name in enumerate(NATIONS)]
    supplier: list[Row] = []
    for key in range(1, SUPPLIERS + 1):
        home = nation(dice)
        comment = "Customer Complaints" if key % 8 == 0 else "quick deliveries"
        balance = money(dice.randint(-99999, 999999))
        supplier.append(
            (key, f"Supplier#{key:09}", f"street {key}", home, phone(dice, home), balance, comment)
        )
    part: list[Row] = []
    partsupp: list[Row] = []
    sold_by: dict[int, list[int]] = {}
    for key in range(1, PARTS + 1):
        brand = dice.choice(BRANDS)
        colors = " ".join(dice.sample(COLORS, 2))
        part.append(
            (key, colors, f"Manufacturer#{brand[6]}", brand, dice.choice(TYPES), dice.choice(SIZES), dice.choice(CONTAINERS),
             money(price(key)))
        )  # fmt: skip
        sold_by[key] = sorted(dice.sample(range(1, SUPPLIERS + 1), 4))
        partsupp += [(key, s, dice.randint(1, 99), money(dice.randint(100, 100000))) for s in sold_by[key]]
    customer: list[Row] = []
    for key in range(1, CUSTOMERS + 1):
        home = nation(dice)
        balance, segment = money(dice.randint(-99999, 999999)), dice.choice(SEGMENTS)
        customer.append(
            (key, f"Customer#{key:09}", f"street {key}", home, phone(dice, home), balance, segment)
        )
    buyers = [key for key in range(1, CUSTOMERS + 1) if key % 3]
    orders: list[Row] = []
    lineitem: list[Row] = []
    days = sorted(dice.randrange((LAST - FIRST).days) for _ in range(ORDERS))
    for number, day in enumerate(days, 1):
        ordered, key = FIRST + timedelta(days=day), number * 4 - dice.randrange(4)
        large = number % 45 == 0
        total, statuses = 0, set()
        for line in range(1, (7 if large else dice.randint(1, 5)) + 1):
            item = dice.randint(1, PARTS)
            quantity = dice.randint(46, 50) if large else dice.randint(1, 30)
            cents, discount, tax = quantity * price(item), dice.randint(0, 10), dice.randint(0, 8)
            shipped = ordered + timedelta(days=dice.randint(1, 121))
            committed = ordered + timedelta(days=dice.randint(30, 90))
            received = shipped + timedelta(days=dice.randint(1, 30))
            returned = dice.choice("RA") if received <= TODAY else "N"
            status = "O" if shipped > TODAY else "F"
            statuses.add(status)
            total += cents * (100 + tax) * (100 - discount) // 10000
            amounts = (quantity, money(cents), money(discount), money(tax))
            how = (dice.choice(INSTRUCTIONS), dice.choice(MODES))
            seller = dice.choice(sold_by[item])
            lineitem.append(
                (key, item, seller, line, *amounts, returned, status, shipped, committed, received, *how)
            )
        status = statuses.pop() if len(statuses) == 1 else "P"
        comment = "special packing requests" if number % 7 == 0 else "carefully packed"
        buyer, priority, clerk = dice.choice(buyers), dice.choice(PRIORITIES), f"Clerk#{number % 10:09}"
        orders.append((key, buyer, status, money(total), ordered, priority, clerk, 0, comment))
    return {
        "region": (region, 1),
        "nation": (nations, 1),
        "supplier": (supplier, 2),
        "part": (part, 2),
        "partsupp": (partsupp, 2),
        "customer": (customer, 2),
        "orders": (orders, 4),
        "lineitem": (lineitem, 4),
    }


def written(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def main(target: Path) -> None:
    """Write the files into `target`, each table in a folder of its own."""
    for name, (rows, files) in tables(random.Random(227)).items():
        size = -(-len(rows) // files)
        for number in range(files):
            written(target / name / f"{number + 1}.csv", rows[number * size : (number + 1) * size])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "data")
