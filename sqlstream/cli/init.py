"""`sqlstream init`: a small project that runs."""

from __future__ import annotations

from pathlib import Path

import click

_PIPELINE = """\
-- Orders a customer in windows of one minute. Run it with: sqlstream run --drain pipelines/orders.sql

CREATE TABLE orders (
  customer STRING,
  amount DECIMAL(10, 2),
  ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'path' = '../data/orders',
  'format' = 'csv'
);

CREATE TABLE orders_per_minute (
  window_start TIMESTAMP(3),
  customer STRING,
  orders BIGINT,
  amount DECIMAL(38, 2)
) WITH ('connector' = 'print');

INSERT INTO orders_per_minute
SELECT window_start, customer, COUNT(*), SUM(amount)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, customer;
"""

_DATA = """\
customer,amount,ordered_at
ada,12.50,2024-01-01 10:00:03
bob,3.00,2024-01-01 10:00:10
ada,7.25,2024-01-01 10:00:41
bob,20.00,2024-01-01 10:01:02
ada,1.10,2024-01-01 10:00:59
cy,9.99,2024-01-01 10:02:30
"""

_GOLDEN = """\
window_start,customer,orders,amount
2024-01-01 10:00:00,ada,3,20.85
2024-01-01 10:00:00,bob,1,3.00
2024-01-01 10:01:00,bob,1,20.00
2024-01-01 10:02:00,cy,1,9.99
"""

_TESTS = """\
# sqlstream test pipelines/orders.sql
unit_tests:
  - name: orders are counted per customer and minute
    given:
      orders:
        - {customer: ada, amount: 12.50, ordered_at: 2024-01-01 10:00:03}
        - {customer: ada, amount: 1.10, ordered_at: 2024-01-01 10:00:59}
        - {customer: ada, amount: 9.99, ordered_at: 2024-01-01 10:01:00}
    expect:
      orders_per_minute:
        - {window_start: 2024-01-01 10:00:00, customer: ada, orders: 2, amount: 13.60}
        - {window_start: 2024-01-01 10:01:00, customer: ada, orders: 1, amount: 9.99}

  - name: a minute closes five seconds later, and an order of it is late then
    steps:
      - given: {orders: [{customer: ada, amount: 1.00, ordered_at: 2024-01-01 10:00:03}]}
        expect: {orders_per_minute: []}
      - given: {orders: [{customer: bob, amount: 2.00, ordered_at: 2024-01-01 10:01:05}]}
        expect: {orders_per_minute: [{customer: ada, amount: 1.00}]}
      - given: {orders: [{customer: cy, amount: 4.00, ordered_at: 2024-01-01 10:00:59}]}
        late: {orders: [{customer: cy}]}
        expect: {orders_per_minute: [{customer: ada, amount: 1.00}]}
"""

_README = """\
# {name}

    sqlstream check pipelines/orders.sql
    sqlstream test pipelines/orders.sql
    sqlstream run --drain pipelines/orders.sql
    sqlstream golden check pipelines/orders.sql
"""


@click.command(epilog="Example: sqlstream init shop")
@click.argument("name", type=click.Path(file_okay=False, path_type=Path))
def command(name: Path) -> None:
    """Make a small project that runs: a pipeline, its data, its unit tests and its golden.

    NAME is the folder to make; it must not exist or be empty.
    """
    if name.exists() and any(name.iterdir()):
        raise click.UsageError(f"{name} exists and is not empty")
    files = {
        "pipelines/orders.sql": _PIPELINE,
        "pipelines/orders.test.yaml": _TESTS,
        "data/orders/2024-01-01.csv": _DATA,
        "golden/orders/orders_per_minute.csv": _GOLDEN,
        "README.md": _README.format(name=name.name),
        ".gitignore": ".sqlstream/\n",
    }
    for path, text in files.items():
        target = name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        click.echo(f"wrote {target}")
    click.echo(f"\nNow: cd {name} && sqlstream run --drain pipelines/orders.sql")
