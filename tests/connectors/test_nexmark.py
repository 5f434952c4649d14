"""Nexmark: deterministic by event number, its proportions, its hot keys, its disorder, its pruning."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.connectors.generators.nexmark import (
    AUCTION,
    BID,
    DEFAULT_BASE_TIME_US,
    PERSON,
    NexmarkGenerator,
)
from sqlstream.connectors.generators.nexmark_columns import COLUMNS
from sqlstream.connectors.generators.randomness import numbers
from tests.examples import examples

NAMES = [
    name
    for column, type_ in COLUMNS
    for name in (column, *(f"{column}.{field}" for field, _ in type_.fields))
]

PINNED_PERSON = (1020, "Paul White", "8050 0264 4561 2036", "ID")
PINNED_AUCTION = (1060, 1085, 26871, 10)
PINNED_BID = (1000, 1011, 11966126, "Apple", "https://www.nexmark.com/enz/dot/wdxl/item.htm?query=1")


def events(
    count: int, columns: Sequence[str], generator: NexmarkGenerator | None = None
) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("events", (generator or NexmarkGenerator(seed=1)).generate(0, count, columns))
    return connection


def one(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[object, ...]:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return tuple(row)


@settings(max_examples=examples(15), deadline=None)
@given(
    first=st.one_of(st.integers(0, 2000), st.integers(0, 1 << 55)),
    count=st.integers(0, 300),
    cuts=st.lists(st.integers(0, 300), max_size=4),
    disorder=st.sampled_from([0, 1, 1500, 10_000_000]),
    seed=st.integers(-5, 5),
)
def test_any_split_of_a_range_gives_the_same_rows(
    first: int, count: int, cuts: list[int], disorder: int, seed: int
) -> None:
    generator = NexmarkGenerator(seed=seed, out_of_order_us=disorder)
    edges = [0, *sorted(min(cut, count) for cut in cuts), count]
    parts = [generator.generate(first + a, b - a) for a, b in pairwise(edges)]
    whole = generator.generate(first, count)
    whole.validate(full=True)
    assert whole.num_rows == count
    assert pa.concat_tables(parts).equals(whole)


def test_a_range_over_several_blocks_equals_its_events_one_by_one() -> None:
    generator = NexmarkGenerator(seed=3, out_of_order_us=5000)
    columns = ["event_type", "person.emailAddress", "auction.reserve", "bid.url", "dateTime"]
    whole = generator.generate(65_000, 70_000, columns).combine_chunks()
    for event in (65_000, 65_535, 65_536, 99_999, 130_535, 130_536, 134_999):
        assert generator.generate(event, 1, columns).equals(whole.slice(event - 65_000, 1))


@settings(max_examples=80, deadline=None)
@given(
    first=st.integers(0, 10_000), count=st.integers(0, 120), names=st.sets(st.sampled_from(NAMES), min_size=1)
)
def test_pruning_is_a_projection(first: int, count: int, names: set[str]) -> None:
    generator = NexmarkGenerator(seed=2, out_of_order_us=3000)
    full = generator.generate(first, count).combine_chunks()
    expected = {}
    for column, type_ in COLUMNS:
        fields = [f for f, _ in type_.fields if column in names or f"{column}.{f}" in names]
        if fields:
            struct = full[column].combine_chunks()
            children = [struct.field(f) for f in fields]
            mask = pc.is_null(struct)
            expected[column] = pa.StructArray.from_arrays(children, fields, mask=mask)
        elif column in names:
            expected[column] = full[column]
    assert generator.generate(first, count, sorted(names)).equals(pa.table(expected))


def test_schema_is_the_declared_one() -> None:
    connection = duckdb.connect()
    table = NexmarkGenerator().generate(0, 100)
    connection.register("events", table)
    described = connection.execute("DESCRIBE events").fetchall()
    declared = connection.execute(
        "DESCRIBE SELECT " + ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in COLUMNS)
    ).fetchall()
    assert [row[:2] for row in described] == [row[:2] for row in declared]
    assert table.schema.field("dateTime").type == pa.timestamp("us")


def test_pinned_events() -> None:
    rows = NexmarkGenerator(seed=7).generate(1000, 5).to_pylist()
    assert [row["event_type"] for row in rows] == [PERSON, AUCTION, AUCTION, AUCTION, BID]
    person, auction, bid = rows[0]["person"], rows[1]["auction"], rows[4]["bid"]
    assert (person["id"], person["name"], person["creditCard"], person["state"]) == PINNED_PERSON
    assert (auction["id"], auction["initialBid"], auction["reserve"], auction["category"]) == PINNED_AUCTION
    assert (bid["auction"], bid["bidder"], bid["price"], bid["channel"], bid["url"]) == PINNED_BID


def test_proportions_and_ids() -> None:
    connection = events(50_000, ["event_type", "person.id", "auction.id", "bid.auction"])
    kinds = (
        "SELECT list(c ORDER BY event_type) FROM (SELECT event_type, count(*) AS c FROM events GROUP BY 1)"
    )
    assert one(connection, kinds) == ([1000, 3000, 46_000],)
    structs = (
        "SELECT count(person), count(auction), count(bid), count(person.id), count(bid.auction) FROM events"
    )
    assert one(connection, structs) == (1000, 3000, 46_000, 1000, 46_000)
    ids = """SELECT min(person.id), max(person.id), count(DISTINCT person.id),
                    min(auction.id), max(auction.id), count(DISTINCT auction.id) FROM events"""
    assert one(connection, ids) == (1000, 1999, 1000, 1000, 3999, 3000)


def test_hot_auctions_bidders_sellers_and_channels() -> None:
    connection = duckdb.connect()
    columns = ["bid.auction", "bid.bidder", "bid.channel", "auction.seller"]
    # A million events on: the 1000 active people and 100 auctions in flight are all there.
    table = NexmarkGenerator(seed=1).generate(1_000_000, 200_000, columns)
    connection.register("table_", table.append_column("n", pa.array(np.arange(1_000_000, 1_200_000))))
    connection.execute(
        "CREATE TABLE events AS SELECT *, n // 50 AS person, (n // 50) * 3 + 2 AS newest FROM table_"
    )
    bids = """
        SELECT avg((bid.auction = 1000 + newest // 100 * 100)::INT),
               avg((bid.bidder = 1001 + person // 100 * 100)::INT),
               avg((bid.channel IN ('Google', 'Facebook', 'Baidu', 'Apple'))::INT),
               bool_and(bid.auction BETWEEN 1000 + newest - 100 AND 1000 + newest + 10),
               bool_and(bid.bidder BETWEEN 1000 + person - 999 AND 1000 + person + 10),
               count(DISTINCT bid.channel)
        FROM events WHERE bid IS NOT NULL"""
    hot_auction, hot_bidder, hot_channel, auctions_near, bidders_near, channels = one(connection, bids)
    # A bid that is not for the hot auction still finds it by chance, one time in 111; a bidder, one in 1010.
    assert hot_auction == pytest.approx(0.5 + 0.5 / 111, abs=0.006)
    assert hot_bidder == pytest.approx(0.75 + 0.25 / 1010, abs=0.006)
    assert hot_channel == pytest.approx(0.5, abs=0.006)
    assert (auctions_near, bidders_near, channels) == (True, True, 10_004)
    sellers = """
        SELECT avg((auction.seller = 1000 + person // 100 * 100)::INT),
               bool_and(auction.seller BETWEEN 1000 + person - 999 AND 1000 + person + 10)
        FROM events WHERE auction IS NOT NULL"""
    hot_seller, sellers_near = one(connection, sellers)
    assert hot_seller == pytest.approx(0.75, abs=0.02)
    assert sellers_near is True


def test_the_first_events_refer_only_to_ids_from_1000() -> None:
    connection = events(2000, ["bid.auction", "bid.bidder", "auction.seller"])
    assert one(connection, "SELECT min(bid.auction), min(bid.bidder), min(auction.seller) FROM events") == (
        1000,
        1000,
        1000,
    )


def test_prices_are_log_uniform() -> None:
    connection = events(200_000, ["bid.price", "auction.initialBid", "auction.reserve"])
    decades = "SELECT histogram(floor(log10(bid.price))::INT) FROM events WHERE bid IS NOT NULL"
    (seen,) = one(connection, decades)
    assert isinstance(seen, dict)
    # 184,000 bids over six decades; a price of exactly 10^8 is possible but rare.
    assert all(abs(seen[decade] - 184_000 / 6) < 800 for decade in range(2, 8))
    bounds = """SELECT min(bid.price) >= 100, max(bid.price) <= 100_000_000,
                       bool_and(auction.reserve > auction.initialBid) FROM events"""
    assert one(connection, bounds) == (True, True, True)


def test_texts_have_the_expected_shape() -> None:
    connection = events(50_000, ["person", "auction", "bid"])
    url = r"https://www\.nexmark\.com(/[a-z]{3,4}){3}/item\.htm\?query=1(&channel_id=\d+)?"
    for ok in (
        r"regexp_full_match(person.emailAddress, '[a-z]{3,6}@[a-z]{3,4}\.com')",
        r"regexp_full_match(person.creditCard, '(\d{4} ){3}\d{4}')",
        "regexp_full_match(person.extra, '[a-z]{100,149}')",
        "regexp_full_match(auction.itemName, '([a-z]([a-z ]{0,17}[a-z])?)?')",
        "auction.category BETWEEN 10 AND 14",
        "auction.expires > auction.dateTime",
        f"regexp_full_match(bid.url, '{url}')",
        "regexp_full_match(bid.extra, '[a-z]{54,80}')",
        "bid.channel LIKE 'channel-%' OR NOT contains(bid.url, 'channel_id')",
    ):
        assert one(connection, f"SELECT bool_and({ok}) FROM events") == (True,), ok
    # A channel has one URL, and nine in ten of the numbered channels carry an id in it.
    urls = """SELECT max(c) FROM (SELECT count(DISTINCT bid.url) AS c FROM events
                                  WHERE bid IS NOT NULL GROUP BY bid.channel)"""
    assert one(connection, urls) == (1,)
    with_id = """SELECT avg(contains(bid.url, 'channel_id')::INT) FROM events
                 WHERE bid.channel LIKE 'channel-%'"""
    assert one(connection, with_id)[0] == pytest.approx(0.9, abs=0.02)


def test_event_time_follows_the_rate() -> None:
    generator = NexmarkGenerator(base_time_us=-5_000_000, rate=4)
    times = generator.generate(0, 9, ["dateTime"])["dateTime"].cast(pa.int64()).to_pylist()
    assert times == [-5_000_000 + 250_000 * i for i in range(9)]
    inner = events(5000, ["person.dateTime", "auction.dateTime", "bid.dateTime", "dateTime"])
    same = "SELECT bool_and(coalesce(person.dateTime, auction.dateTime, bid.dateTime) = dateTime) FROM events"
    assert one(inner, same) == (True,)


@settings(max_examples=80, deadline=None)
@given(
    first=st.integers(0, 1 << 50),
    rate=st.sampled_from([1, 7, 1000, 10_000, 3_000_000]),
    bound=st.one_of(st.integers(0, 3000), st.integers(0, 100_000_000)),
    base=st.integers(-(1 << 50), 1 << 50),
)
def test_disorder_is_bounded_so_that_no_row_is_late(first: int, rate: int, bound: int, base: int) -> None:
    ordered = NexmarkGenerator(base_time_us=base, rate=rate).event_times_us(numbers(first, 500))
    assert (np.diff(ordered) >= 0).all()
    assert ordered[0] == (base + first * 1_000_000 // rate) // 1000 * 1000
    displaced = NexmarkGenerator(base_time_us=base, rate=rate, out_of_order_us=bound).event_times_us(
        numbers(first, 500)
    )
    assert (displaced % 1000 == 0).all()
    assert (displaced <= ordered).all()
    if bound > 0:
        # Strictly above the watermark that the rows before it allow: Flink counts a row at the watermark as
        # late.
        assert (displaced > np.maximum.accumulate(displaced) - bound).all()
        assert (displaced > ordered - bound).all()
    else:
        assert (displaced == ordered).all()


def test_disorder_uses_its_bound() -> None:
    generator = NexmarkGenerator(out_of_order_us=2_000_000)
    back = NexmarkGenerator().event_times_us(numbers(0, 50_000)) - generator.event_times_us(
        numbers(0, 50_000)
    )
    assert back.min() == 0
    assert back.max() == 1_999_000
    assert abs(back.mean() - 999_500) < 15_000
    assert (np.diff(generator.event_times_us(numbers(0, 50_000))) < 0).mean() > 0.4


def test_seeds_differ_and_a_copy_does_not() -> None:
    columns = ["bid.price"]
    first = NexmarkGenerator(seed=1).generate(0, 100, columns)
    assert not first.equals(NexmarkGenerator(seed=2).generate(0, 100, columns))
    assert first.equals(pickle.loads(pickle.dumps(NexmarkGenerator(seed=1))).generate(0, 100, columns))


def test_defaults() -> None:
    times = NexmarkGenerator().generate(0, 10_001, ["dateTime"])["dateTime"].cast(pa.int64())
    assert times[0].as_py() == DEFAULT_BASE_TIME_US
    assert times[10_000].as_py() == DEFAULT_BASE_TIME_US + 1_000_000


@pytest.mark.parametrize(
    ("columns", "message"),
    [(["price"], "no column 'price'"), (["bid.id"], "no column 'bid.id'"), ([], "at least one")],
)
def test_wrong_columns_are_refused(columns: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NexmarkGenerator().generate(0, 1, columns)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="rate"):
        NexmarkGenerator(rate=0)
    with pytest.raises(ValueError, match="out-of-order"):
        NexmarkGenerator(out_of_order_us=-1)
    with pytest.raises(ValueError, match="outside"):
        NexmarkGenerator().generate(-1, 5)
