"""Write pipelines/shop/data/*.json: a made-up day of a shop, as Debezium would tell of its table of orders.

    python pipelines/shop/prepare_data.py

Needs only the standard library and gives the same bytes every time.

Orders come, are paid and shipped; some change their amount, some are cancelled and deleted. Event time is when an
order was placed; its last change comes at most 25 minutes after that.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

DAY = datetime(2026, 3, 2)
ORDERS = 600
FILES = 6
CUSTOMERS = {"AT": 12, "CH": 8, "DE": 30}


@dataclass(frozen=True, slots=True)
class Order:
    """A row of the table; `amount` is in cents here and in euros in the files."""

    id: int
    customer: str
    country: str
    status: str
    amount: int
    placed_at: datetime

    def image(self) -> dict[str, object]:
        """The row as Debezium gives it."""
        placed_at = self.placed_at.isoformat(timespec="seconds")
        return {**asdict(self), "amount": f"{self.amount / 100:.2f}", "placed_at": placed_at}


def history(number: int, dice: random.Random) -> list[tuple[datetime, Order | None, Order | None]]:
    """The changes of one order: when, before, after."""
    country = dice.choice(sorted(CUSTOMERS))
    placed = DAY + timedelta(seconds=int(8 * 3600 + 12 * 3600 * dice.betavariate(2, 2)))
    customer = f"{country.lower()}-{dice.randint(1, CUSTOMERS[country]):02}"
    order = Order(number, customer, country, "new", dice.randint(500, 20_000), placed)
    at = placed
    changes: list[tuple[datetime, Order | None, Order | None]] = [(at, None, order)]

    def change(after: Order | None) -> None:
        nonlocal at
        at += timedelta(seconds=dice.randint(5, 480))
        changes.append((at, order, after))

    if dice.random() < 0.15:
        corrected = replace(order, amount=order.amount + dice.randint(-400, 3_000))
        change(corrected)
        order = corrected
    if dice.random() < 0.1:
        change(None)
        return changes
    for status in ("paid", "shipped")[: dice.choice([0, 1, 2, 2])]:
        done = replace(order, status=status)
        change(done)
        order = done
    return changes


def main(target: Path) -> None:
    """Write the files into `target`."""
    dice = random.Random(2026)
    changes = [c for number in range(1, ORDERS + 1) for c in history(number, dice)]
    changes.sort(key=lambda change: change[0])
    lines = []
    for at, before, after in changes:
        op = "c" if before is None else "d" if after is None else "u"
        message = {
            "before": before.image() if before is not None else None,
            "after": after.image() if after is not None else None,
            "op": op,
            "ts_ms": int((at - datetime(1970, 1, 1)).total_seconds() * 1000),
        }
        lines.append(json.dumps(message, separators=(",", ":")) + "\n")
    size = -(-len(lines) // FILES)
    for number in range(FILES):
        part = lines[number * size : (number + 1) * size]
        (target / f"orders-{number + 1}.json").write_text("".join(part))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "data")
