"""The golden files against SQL that a person wrote for DuckDB: nothing of our planner takes part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from sqlstream.connectors.generators.nexmark import NexmarkGenerator
from tests.golden import tpch

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "golden"

_FLIGHTS = f"""
CREATE TABLE flights AS
SELECT dep_time, origin, carrier, dep_delay, dep_delay > 15 AS late
FROM read_csv('{ROOT}/pipelines/flights/data/flights-*.csv', header = true)
WHERE dep_time IS NOT NULL
"""
_DELAYS = "count(*), count(*) FILTER (WHERE late), round(avg(dep_delay), 2), max(dep_delay)"

#: All rows of the files, cancelled flights too.
_ALL = f"read_csv('{ROOT}/pipelines/flights/data/flights-*.csv', header = true)"


def _worst(delay: str) -> str:
    """An airline's three worst flights, cut from a sorted list of all of them."""
    return f"""
        WITH f AS (SELECT *, row_number() OVER () AS id FROM {_ALL} WHERE {delay} IS NOT NULL),
        late AS (SELECT carrier, list(id ORDER BY {delay} DESC, dep_time, flight)[:3] AS ids FROM f GROUP BY carrier)
        SELECT f.carrier, list_position(ids, id), {delay}, dep_time, flight, origin, dest
        FROM f JOIN late ON f.carrier = late.carrier AND list_contains(ids, id)"""


def _flight_of_aircraft(pick: str) -> str:
    """The aircraft's flight with the least or greatest time; no aircraft leaves twice in a minute."""
    values = "{'t': dep_time, 'c': carrier, 'f': flight, 'o': origin, 'd': dest}"
    return f"""
        SELECT tailnum, v.t, v.c, v.f, v.o, v.d
        FROM (SELECT tailnum, {pick}({values}, dep_time) AS v FROM {_ALL}
              WHERE tailnum IS NOT NULL AND dep_time IS NOT NULL GROUP BY tailnum)"""


_ROUTES = f"""
    SELECT day, list_position(three, n) AS place, n.o AS origin, n.d AS dest, -n.n AS flights
    FROM (SELECT day, list_sort(list({{'n': -n, 'o': origin, 'd': dest}}))[:3] AS three
          FROM (SELECT sched_dep_time::DATE AS day, origin, dest, count(*) AS n FROM {_ALL} GROUP BY ALL)
          GROUP BY day), unnest(three) AS u(n)"""

FLIGHTS = {
    "departures/daily": f"SELECT date_trunc('day', dep_time), origin, {_DELAYS} FROM flights GROUP BY ALL",
    # A departure is in the three windows that start at its hour and at the two before it.
    "departures/rush": f"""
        SELECT hour - to_hours(back) AS s, hour - to_hours(back) + INTERVAL 3 HOUR, origin, {_DELAYS}
        FROM (SELECT *, date_trunc('hour', dep_time) AS hour FROM flights), (VALUES (0), (1), (2)) AS b(back)
        GROUP BY ALL HAVING count(*) >= 60""",
    # It counts in the windows of its day that end after it.
    "departures/day_so_far": f"""
        SELECT day, day + to_hours(upto), carrier, {_DELAYS}
        FROM (SELECT *, date_trunc('day', dep_time) AS day FROM flights), (VALUES (6), (12), (18), (24)) AS u(upto)
        WHERE dep_time < day + to_hours(upto) AND carrier IN ('UA', 'B6', 'EV', 'DL')
        GROUP BY ALL""",
    "worst_delays/worst_arrivals": _worst("arr_delay"),
    "worst_delays/worst_departures": _worst("dep_delay"),
    "worst_delays/carrier_delays": f"""
        SELECT carrier, count(*), count(*) - count(dep_time), max(dep_delay), round(avg(dep_delay), 2), max(arr_delay),
               round(sum(arr_delay) / count(arr_delay), 2)
        FROM {_ALL} GROUP BY carrier""",
    "top_routes/top_routes": _ROUTES,
    "top_routes/days_on_top": f"""
        SELECT origin, dest, count(*), sum((place = 1)::INT), max(flights) FROM ({_ROUTES}) GROUP BY ALL""",
    "aircraft/first_flights": _flight_of_aircraft("arg_min"),
    "aircraft/last_flights": _flight_of_aircraft("arg_max"),
}

_ORDER = "STRUCT(id BIGINT, customer VARCHAR, country VARCHAR, status VARCHAR, amount DECIMAL(10, 2), placed_at TIMESTAMP)"
#: What is left of the orders: the last image of each, unless it went.
_ORDERS = f"""
CREATE VIEW orders AS
SELECT unnest(last.image) FROM (
  SELECT max_by({{'image': after}}, place) AS last
  FROM (SELECT *, row_number() OVER () AS place
        FROM read_json('{ROOT}/pipelines/shop/data/orders-*.json', columns = {{'before': '{_ORDER}', 'after': '{_ORDER}'}}))
  GROUP BY coalesce(before.id, after.id))
WHERE last.image IS NOT NULL
"""

SHOP = {
    "orders/open_orders": """
        SELECT country, status, count(*), min(placed_at), sum(amount) FROM orders
        WHERE status IN ('new', 'paid') GROUP BY ALL""",
    "orders/best_customers": """
        SELECT country, place, best[place].who, best[place].n, -best[place].a
        FROM (SELECT country, list_sort(list({'a': -amount, 'who': customer, 'n': n}))[:3] AS best
              FROM (SELECT country, customer, sum(amount) AS amount, count(*) AS n FROM orders GROUP BY ALL)
              GROUP BY country), (VALUES (1), (2), (3)) AS p(place)""",
    "orders/hours": """
        SELECT date_trunc('hour', placed_at), country, count(*), sum((status = 'new')::INT), sum(amount), max(amount)
        FROM orders GROUP BY ALL""",
}

_RANGES = ("true", "price < 10000", "price BETWEEN 10000 AND 999999", "price > 999999")
_COUNTS = ", ".join(f"sum(CASE WHEN {r} THEN 1 ELSE 0 END)" for r in _RANGES)


def _distinct(column: str) -> str:
    return ", ".join(f"len(list_distinct(list(CASE WHEN {r} THEN {column} END)))" for r in _RANGES)


#: Query -> events, events a second, start, SQL over `bid`.
_WINNING = (
    'SELECT a.id, a."itemName", a.category, a.seller, a.expires, b.bidder, b.price, b."dateTime" AS bid_time FROM bid b '
    'JOIN auction a ON a.id = b.auction WHERE b."dateTime" >= a."dateTime" AND b."dateTime" <= a.expires '
    'QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b."dateTime") = 1'
)
NEXMARK = {
    "q3/local_items": (
        5000,
        200,
        0,
        "SELECT name, city, state, auction.id FROM person, auction WHERE person.id = seller AND category = 10 "
        "AND (state = 'OR' OR state = 'ID' OR state = 'CA')",
    ),
    "q4/category_prices": (
        5000,
        200,
        0,
        f"SELECT category, avg(price) AS average FROM ({_WINNING}) GROUP BY category",
    ),
    # The ten by their numbers in the list of all that the seller sold.
    "q6/seller_prices": (
        5000,
        200,
        0,
        f"WITH sold AS (SELECT id, seller, price, bid_time, row_number() OVER (PARTITION BY seller ORDER BY "
        f"bid_time, id) AS n "
        f"FROM (SELECT * FROM ({_WINNING}))) SELECT a.id, a.seller, a.price, a.bid_time, avg(b.price) FROM sold a "
        f"JOIN sold b "
        "ON a.seller = b.seller AND b.n BETWEEN a.n - 9 AND a.n GROUP BY a.id, a.seller, a.price, a.bid_time",
    ),
    "q9/winning_bids": (5000, 200, 0, _WINNING),
    "q10/bid_log": (
        1500,
        10,
        0,
        """SELECT auction, bidder, price, "dateTime", extra, left(CAST("dateTime" AS VARCHAR), 10),
           substr(CAST("dateTime" AS VARCHAR), 12, 2) || substr(CAST("dateTime" AS VARCHAR), 15, 2) FROM bid""",
    ),
    "q20/expanded_bids": (
        5000,
        200,
        0,
        'SELECT auction, bidder, price, channel, bid."dateTime" AS bid_time, "itemName", "initialBid", reserve, expires, '
        "seller, category FROM bid, auction WHERE category = 10 AND auction = id",
    ),
    "q5/hot_items": (
        20000,
        200,
        0,
        """SELECT auction, count(*) AS num, s, s + INTERVAL 10 SECOND
           FROM (SELECT auction, time_bucket(INTERVAL 2 SECOND, "dateTime") - to_seconds(back) AS s
                 FROM bid, (VALUES (0), (2), (4), (6), (8)) AS b(back))
           GROUP BY auction, s QUALIFY num = max(num) OVER (PARTITION BY s)""",
    ),
    "q7/highest_bids": (
        20000,
        200,
        0,
        """SELECT auction, price, bidder, "dateTime" AS bid_time, extra
           FROM bid AS b, (SELECT time_bucket(INTERVAL 10 SECOND, "dateTime") AS s, max(price) AS p FROM bid GROUP BY s)
           WHERE price = p AND epoch_us("dateTime") - epoch_us(s) BETWEEN 0 AND 10000000""",
    ),
    "q8/new_sellers": (
        20000,
        200,
        0,
        """SELECT DISTINCT p.id, name, s, s + INTERVAL 10 SECOND
           FROM (SELECT *, time_bucket(INTERVAL 10 SECOND, "dateTime") AS s FROM person) AS p, auction AS a
           WHERE seller = p.id AND a."dateTime" >= s AND a."dateTime" < s + INTERVAL 10 SECOND""",
    ),
    "q0/bids": (1000, 200, 0, 'SELECT auction, bidder, price, "dateTime", extra FROM bid'),
    "q1/bids_in_euros": (
        1000,
        200,
        0,
        'SELECT auction, bidder, (price * 908)::DECIMAL(23, 3) / 1000, "dateTime", extra FROM bid',
    ),
    "q2/some_bids": (20000, 200, 0, "SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    "q4_max/category_averages": (
        20000,
        200,
        0,
        """SELECT 10 + auction % 5, sum(price) / count(*), count(*)
           FROM bid AS b WHERE NOT EXISTS (
             FROM bid AS o WHERE o.auction = b.auction AND (o.price, o.rowid) > (b.price, b.rowid))
           GROUP BY 1""",
    ),
    "q5_counts/bid_counts": (
        4000,
        200,
        0,
        """SELECT s, s + INTERVAL 10 SECOND, auction, count(*)
           FROM (SELECT auction, time_bucket(INTERVAL 2 SECOND, "dateTime") - to_seconds(back) AS s
                 FROM bid, (VALUES (0), (2), (4), (6), (8)) AS b(back))
           GROUP BY ALL""",
    ),
    "q5_most/most_bids": (
        20000,
        200,
        0,
        """SELECT s, s + INTERVAL 10 SECOND, max(num), count(*)
           FROM (SELECT s, auction, count(*) AS num
                 FROM (SELECT auction, time_bucket(INTERVAL 2 SECOND, "dateTime") - to_seconds(back) AS s
                       FROM bid, (VALUES (0), (2), (4), (6), (8)) AS b(back))
                 GROUP BY ALL)
           GROUP BY s""",
    ),
    "q7_max/highest_bid": (
        20000,
        200,
        0,
        """SELECT time_bucket(INTERVAL 10 SECOND, "dateTime") AS s, s + INTERVAL 10 SECOND, max(price), count(*)
           FROM bid GROUP BY s""",
    ),
    # A bid begins a session where none of the bidder's is up to 10 seconds before, and one ends it where none is after;
    # the n-th that begins one and the n-th that ends one are of the same.
    "q11/bids_per_session": (
        20000,
        200,
        0,
        """WITH times AS (SELECT bidder, "dateTime" AS t, count(*) AS n FROM bid GROUP BY ALL),
           firsts AS (SELECT bidder, t, row_number() OVER (PARTITION BY bidder ORDER BY t) AS s FROM times AS a
             WHERE NOT EXISTS (FROM times AS o
               WHERE o.bidder = a.bidder AND o.t < a.t AND o.t >= a.t - INTERVAL 10 SECOND)),
           lasts AS (SELECT bidder, t, row_number() OVER (PARTITION BY bidder ORDER BY t) AS s FROM times AS a
             WHERE NOT EXISTS (FROM times AS o
               WHERE o.bidder = a.bidder AND o.t > a.t AND o.t <= a.t + INTERVAL 10 SECOND))
           SELECT bidder, sum(n)::BIGINT, f.t, l.t + INTERVAL 10 SECOND
           FROM firsts AS f JOIN lasts AS l USING (bidder, s) JOIN times USING (bidder)
           WHERE times.t BETWEEN f.t AND l.t GROUP BY bidder, f.t, l.t""",
    ),
    "q12/bids_per_bidder": (
        20000,
        200,
        0,
        """SELECT bidder, count(*), time_bucket(INTERVAL 10 SECOND, "dateTime") AS s, s + INTERVAL 10 SECOND
           FROM bid GROUP BY bidder, s""",
    ),
    "q13/bids_with_value": (
        1000,
        200,
        0,
        f"""SELECT auction, bidder, price, "dateTime" AS bid_time, side.value
           FROM bid, read_csv('{ROOT}/pipelines/nexmark/data/side_input.csv', header = true) AS side
           WHERE side.key = auction - auction // 100 * 100""",
    ),
    "q14/large_bids": (
        7500,
        1,
        6 * 3600 + 30 * 60,
        """SELECT auction, bidder, euros,
                  list_extract(['nightTime', 'otherTime', 'dayTime'],
                               CASE WHEN h < 7 OR h > 19 THEN 1 WHEN h IN (7, 19) THEN 2 ELSE 3 END),
                  "dateTime", extra, len(regexp_extract_all(extra, 'c'))
           FROM (SELECT *, price * 0.908 AS euros, date_part('hour', "dateTime") AS h FROM bid)
           WHERE euros > 1000000 AND euros < 50000000""",
    ),
    "q15/bid_statistics": (
        20000,
        200,
        0,
        f"""SELECT "dateTime"::DATE::VARCHAR AS day, {_COUNTS}, {_distinct("bidder")}, {_distinct("auction")}
            FROM bid GROUP BY day""",
    ),
    "q16/channel_statistics": (
        3000,
        200,
        0,
        f"""SELECT channel, "dateTime"::DATE::VARCHAR AS day, left(max("dateTime")::TIME::VARCHAR, 5),
                   {_COUNTS}, {_distinct("bidder")}, {_distinct("auction")}
            FROM bid GROUP BY channel, day""",
    ),
    "q17/auction_statistics": (
        5000,
        200,
        0,
        f"""SELECT auction, "dateTime"::DATE::VARCHAR AS day, {_COUNTS},
                   min(price), max(price), sum(price) / count(*), sum(price)
            FROM bid GROUP BY auction, day""",
    ),
    # Bids of one time are in the order of their columns.
    "q18/last_bids": (
        1000,
        200,
        0,
        """SELECT b.* FROM bid AS b WHERE NOT EXISTS (
             FROM bid AS o WHERE o.auction = b.auction AND o.bidder = b.bidder AND (o."dateTime" > b."dateTime" OR
               o."dateTime" = b."dateTime" AND
               (o.price, o.channel, o.url, o.extra) < (b.price, b.channel, b.url, b.extra)))""",
    ),
    "q19/top_bids": (
        2000,
        200,
        0,
        """SELECT b.*, 1 + (
             SELECT count(*) FROM bid AS o WHERE o.auction = b.auction AND (o.price > b.price OR o.price = b.price AND
               (o.bidder, o.channel, o.url, o."dateTime", o.extra) < (b.bidder, b.channel, b.url, b."dateTime", b.extra)))
             AS place
           FROM bid AS b WHERE place <= 10""",
    ),
    "q21/bids_with_channel": (
        1000,
        200,
        0,
        """SELECT * FROM (
             SELECT auction, bidder, price, channel,
                    coalesce(map {'apple': '0', 'google': '1', 'facebook': '2', 'baidu': '3'}[lower(channel)],
                             nullif(split_part(split_part(url, '&channel_id=', 2), '&', 1), '')) AS channel_id
             FROM bid)
           WHERE channel_id IS NOT NULL""",
    ),
    "q22/bid_directories": (
        1000,
        200,
        0,
        """SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6)
           FROM bid""",
    ),
}
#: The side table does not change, so that it does not matter when a bid looks at it.
NEXMARK["q13_lookup/bids_with_value"] = NEXMARK["q13/bids_with_value"]


FRAUD = {
    "suspects/suspects": (
        3000,
        200,
        0,
        """SELECT bidder, len(prices), list_min(prices), list_max(prices)
           FROM (SELECT bidder, list(price) AS prices FROM bid GROUP BY bidder) WHERE len(prices) > 4""",
    ),
}

_ANSWER = r"answer\('(\w+)'"
#: Query and its table -> SQL.
TPCH = {
    f"{query}/{re.findall(_ANSWER, (tpch.PIPELINES / f'{query}.sql').read_text())[0]}": sql
    for query, sql in tpch.QUERIES.items()
}

_NAMES = {
    *(f"fraud/{q}" for q in FRAUD),
    *(f"flights/{s}" for s in FLIGHTS),
    *(f"shop/{s}" for s in SHOP),
    *(f"nexmark/{q}" for q in NEXMARK),
    *(f"tpch/{q}" for q in TPCH),
}


Databases = Callable[[object, Callable[[duckdb.DuckDBPyConnection], object]], duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def duck() -> Iterator[Databases]:
    """Gives the database of some rows, which are loaded when they are asked for first."""
    with ExitStack() as stack:
        loaded: dict[object, duckdb.DuckDBPyConnection] = {}

        def database(
            rows: object, load: Callable[[duckdb.DuckDBPyConnection], object]
        ) -> duckdb.DuckDBPyConnection:
            if rows not in loaded:
                connection = stack.enter_context(duckdb.connect())
                connection.execute("SET TimeZone = 'UTC'")
                load(connection)
                loaded[rows] = connection
            return loaded[rows]

        yield database


def assert_equals_golden(duck: duckdb.DuckDBPyConnection, sql: str, golden: str, shown: str = "*") -> None:
    file = GOLDEN / f"{golden}.csv"
    duck.execute(f"CREATE OR REPLACE TABLE computed AS {sql}")
    (rows,) = duck.execute("SELECT count(*) FROM computed").fetchall()[0]
    assert rows > 0
    duck.execute("CREATE OR REPLACE TABLE kept AS SELECT * FROM computed LIMIT 0")
    duck.execute(f"COPY kept FROM '{file}' (HEADER true)")
    for one, other in (("computed", "kept"), ("kept", "computed")):
        left = duck.execute(
            f"SELECT {shown} FROM {one} EXCEPT ALL SELECT {shown} FROM {other} LIMIT 5"
        ).fetchall()
        assert left == [], f"only in {one}"


@pytest.mark.parametrize("sink", FLIGHTS)
def test_flights(duck: Databases, sink: str) -> None:
    database = duck("flights", lambda connection: connection.execute(_FLIGHTS))
    assert_equals_golden(database, FLIGHTS[sink], f"flights/{sink}")


@pytest.mark.parametrize("sink", SHOP)
def test_shop(duck: Databases, sink: str) -> None:
    database = duck("shop", lambda connection: connection.execute(_ORDERS))
    assert_equals_golden(database, SHOP[sink], f"shop/{sink}")


@pytest.mark.parametrize(
    "query", [*(f"nexmark/{query}" for query in NEXMARK), *(f"fraud/{query}" for query in FRAUD)]
)
def test_nexmark(duck: Databases, query: str) -> None:
    folder, _, name = query.partition("/")
    events, rate, start_s, sql = {"nexmark": NEXMARK, "fraud": FRAUD}[folder][name]
    database = duck(
        (events, rate, start_s), lambda connection: load_nexmark(connection, events, rate, start_s)
    )
    assert_equals_golden(database, sql, query)


def load_nexmark(duck: duckdb.DuckDBPyConnection, events: int, rate: int, start_s: int) -> None:
    generator = NexmarkGenerator(
        seed=0,
        base_time_us=1_704_067_200_000_000 + start_s * 1_000_000,
        rate=rate,
        out_of_order_us=4_000_000,
    )
    duck.register("events", generator.generate(0, events))
    duck.execute(
        'CREATE TABLE bid AS SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, "dateTime", bid.extra '
        "FROM events WHERE bid IS NOT NULL"
    )
    for table in ("auction", "person"):
        duck.execute(f"CREATE TABLE {table} AS SELECT unnest({table}) FROM events WHERE {table} IS NOT NULL")


@pytest.mark.parametrize("query", TPCH)
def test_tpch(duck: Databases, query: str) -> None:
    database = duck("tpch", tpch.load)
    # The last digits of an average depend on how it is added up.
    averages = "* REPLACE (round(avg_qty, 9) AS avg_qty, round(avg_price, 9) AS avg_price, round(avg_disc, 9) AS avg_disc)"
    assert_equals_golden(database, TPCH[query], f"tpch/{query}", averages if query.startswith("q1/") else "*")


def test_every_golden_file_has_sql_of_its_own() -> None:
    kept = {str(f.relative_to(GOLDEN).with_suffix("")) for f in GOLDEN.rglob("*.csv")}
    assert kept == _NAMES
