"""Nexmark's auction site: people, auctions and bids, each event a function of the seed and its number.

Nexmark (Tucker, Tufte, Papadimos and Maier, 2002) as Apache Beam and Flink run it: of every 50 events the
first is a person, the next 3 are auctions and 46 are bids; ids start at 1000; half of the bids go to the
newest auction whose number is a multiple of 100, three quarters come from one bidder and three quarters of
the auctions from one seller in each 100 people; prices are log-uniform over six decades. Unlike those, it
can be checked: event time starts at a given instant and no clock or generator state is involved.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.generators import arrays, clock
from sqlstream.connectors.generators.nexmark_columns import COLUMNS
from sqlstream.connectors.generators.randomness import (
    F64,
    I64,
    U64,
    Bytes,
    characters,
    happens,
    numbers,
    stream_key,
    uniform_ints,
    words,
)

#: 2024-01-01 00:00:00 UTC in µs.
DEFAULT_BASE_TIME_US = 1_704_067_200_000_000

PERSON, AUCTION, BID = 0, 1, 2
EVENTS_PER_CYCLE = 50
AUCTIONS_PER_CYCLE = 3
FIRST_ID = 1000

_HOT_EVERY = 100
_AUCTIONS_IN_FLIGHT = 100
_ACTIVE_PEOPLE = 1000
_ID_LEAD = 10
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_BLOCK_ROWS = 1 << 16

_CITIES = pa.array(
    [
        "Phoenix",
        "Los Angeles",
        "San Francisco",
        "Boise",
        "Portland",
        "Bend",
        "Redmond",
        "Seattle",
        "Kent",
        "Cheyenne",
    ]
)
_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_FIRST_NAMES = (
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Deiter",
    "Walter",
)
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_NAMES = pa.array([f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES])
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_OTHER_CHANNELS = 10_000

_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_LETTERS_AND_SPACE = _LETTERS * 12 + b" " * 26  # one character in 13 is a space
_DIGITS = b"0123456789"

# Prices are round(100 * 10^(6u)) for a uniform u. pow() differs in its last bit from CPU to CPU, so the curve
# is a table (rounded far above that bit) with straight lines between its points: at most 2e-6 off, and the
# same everywhere.
_PRICE_STEPS = 1 << 12
_PRICE_CURVE: F64 = np.array(
    [round(100.0 * 10.0 ** (6.0 * i / _PRICE_STEPS), 4) for i in range(_PRICE_STEPS + 1)]
)


@dataclass(frozen=True, slots=True)
class _Events:
    """Events of one kind in one block: their numbers, which cycle of 50 each is in, and its place there."""

    numbers: U64
    cycle: I64
    place: I64
    times_ms: I64


@dataclass(frozen=True, slots=True)
class NexmarkGenerator:
    """Makes any range of Nexmark's events.

    `rate` is events per second of event time. With `out_of_order_us` > 0 an event's time is moved back by a
    random amount that is *less* than this bound (µs, cut to milliseconds), so that a watermark of `dateTime`
    minus the bound makes no row late. Event n's undisplaced time is base_time_us + n / rate, cut to
    milliseconds. Raises ValueError for a rate below 1 or a negative bound.
    """

    seed: int = 0
    base_time_us: int = DEFAULT_BASE_TIME_US
    rate: int = 10_000
    out_of_order_us: int = 0

    def __post_init__(self) -> None:
        if self.rate < 1:
            raise ValueError(f"rate: {self.rate} events per second; needs 1 or more")
        if self.out_of_order_us < 0:
            raise ValueError(f"out-of-order: {self.out_of_order_us} µs; needs 0 or more")

    def generate(self, first_event: int, count: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Events first_event, first_event + 1, …: `count` rows in the order of their numbers.

        `columns` names what is needed, whole columns (`bid`) or fields (`bid.auction`), all if None. Only
        that is made. A struct keeps its place and has only the named fields, so `bid.auction` still means
        the same in SQL; columns and fields come in the order of `COLUMNS`. Structs are null in events of
        another kind. Raises ValueError for names that don't exist, no names, or numbers outside 0 … 2^63.
        """
        wanted = _wanted(columns)
        blocks = [
            self._block(numbers(start, min(_BLOCK_ROWS, first_event + count - start)), wanted)
            for start in range(first_event, first_event + count, _BLOCK_ROWS)
        ]
        return pa.concat_tables(blocks) if blocks else self._block(numbers(first_event, count), wanted)

    def event_times_us(self, event_numbers: U64) -> I64:
        """The event times of these events in µs since 1970 (whole milliseconds)."""
        return self._times_ms(event_numbers) * 1000

    def _times_ms(self, event_numbers: U64) -> I64:
        times = clock.times_ms(event_numbers, self.base_time_us, self.rate)
        if self.out_of_order_us > 0:
            most = -(-self.out_of_order_us // 1000) - 1
            times -= uniform_ints(stream_key(self.seed, "displacement"), event_numbers, 0, most)
        return times

    def _block(self, event_numbers: U64, wanted: Mapping[str, tuple[str, ...]]) -> pa.Table:
        number = event_numbers.astype(np.int64)
        cycle, place = number // EVENTS_PER_CYCLE, number % EVENTS_PER_CYCLE
        kinds = (place >= 1).astype(np.int32) + (place > AUCTIONS_PER_CYCLE)
        needs_time = any(
            name == "dateTime" or {"dateTime", "expires"} & set(parts) for name, parts in wanted.items()
        )
        times = self._times_ms(event_numbers) if needs_time else number
        made: dict[str, pa.Array] = {}
        for name, parts in wanted.items():
            if name == "event_type":
                made[name] = arrays.fixed(kinds.astype(np.int32), pa.int32())
            elif name == "dateTime":
                made[name] = arrays.fixed(times * 1000, arrays.TIMESTAMP)
            else:
                kind, makers = _KINDS[name]
                present = kinds == kind
                rows = np.flatnonzero(present)
                events = _Events(event_numbers[rows], cycle[rows], place[rows], times[rows])
                # Field values lie densely, one for each event of the kind; taking a null index spreads them
                # out and makes them null where the struct is.
                spread = pa.array(np.cumsum(present) - 1, mask=~present)
                children = [makers[part](self, events).take(spread) for part in parts]
                made[name] = arrays.structs(list(parts), children, present, len(number))
        return pa.table(made)

    def _key(self, *tags: str) -> int:
        return stream_key(self.seed, *tags)


def _wanted(columns: Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    """What to make: column -> its fields (none for a column that is no struct), in the order of `COLUMNS`."""
    known = {name: tuple(field for field, _ in type_.fields) for name, type_ in COLUMNS}
    if columns is None:
        return known
    parts_of: dict[str, set[str]] = {}
    for column in columns:
        name, _, part = column.partition(".")
        if name not in known or (part and part not in known[name]):
            raise ValueError(f"nexmark has no column {column!r}")
        parts_of.setdefault(name, set()).update([part] if part else known[name])
    if not parts_of:
        raise ValueError("nexmark: name at least one column (the cheapest is 'event_type')")
    return {
        name: tuple(part for part in parts if part in parts_of[name])
        for name, parts in known.items()
        if name in parts_of
    }


_Maker = Callable[[NexmarkGenerator, _Events], pa.Array]


def _ids(values: I64) -> pa.Array:
    return arrays.fixed(values + FIRST_ID, pa.int64())


def _bigints(values: I64) -> pa.Array:
    return arrays.fixed(values, pa.int64())


def _text(
    generator: NexmarkGenerator, events: _Events, tag: str, shortest: int, longest: int, alphabet: bytes
) -> pa.Array:
    """Random strings of shortest to longest characters."""
    lengths = uniform_ints(generator._key(tag, "length"), events.numbers, shortest, longest)
    return arrays.variable(
        characters(generator._key(tag), events.numbers, lengths, alphabet), lengths, pa.string()
    )


def _choice(generator: NexmarkGenerator, events: _Events, tag: str, options: pa.Array) -> pa.Array:
    return options.take(pa.array(uniform_ints(generator._key(tag), events.numbers, 0, len(options) - 1)))


def _price(generator: NexmarkGenerator, events: _Events, tag: str) -> I64:
    drawn = words(generator._key(tag), events.numbers)
    step = (drawn >> np.uint64(52)).astype(np.int64)
    between = ((drawn >> np.uint64(12)) & np.uint64((1 << 40) - 1)).astype(np.float64) * 2.0**-40
    low = _PRICE_CURVE[step]
    return np.rint(low + (_PRICE_CURVE[step + 1] - low) * between).astype(np.int64)


def _active_person(generator: NexmarkGenerator, events: _Events, tag: str) -> I64:
    """One of the last 1000 people, or one of the next 10, who is not there yet."""
    active = np.minimum(events.cycle + 1, _ACTIVE_PEOPLE)
    drawn = uniform_ints(generator._key(tag), events.numbers, 0, active + (_ID_LEAD - 1))
    return events.cycle + 1 - active + drawn


def _times(generator: NexmarkGenerator, events: _Events) -> pa.Array:
    return arrays.fixed(events.times_ms * 1000, arrays.TIMESTAMP)


def _person_email(generator: NexmarkGenerator, events: _Events) -> pa.Array:
    user = _text(generator, events, "person.email.user", 3, 6, _LETTERS)
    host = _text(generator, events, "person.email.host", 3, 4, _LETTERS)
    return pc.binary_join_element_wise(user, pc.binary_join_element_wise(host, "com", "."), "@")


def _person_card(generator: NexmarkGenerator, events: _Events) -> pa.Array:
    digits = characters(generator._key("person.creditCard"), events.numbers, 16, _DIGITS).reshape(-1, 4, 4)
    groups: Bytes = np.full((len(digits), 4, 5), ord(" "), dtype=np.uint8)
    groups[:, :, :4] = digits
    text = np.ascontiguousarray(groups.reshape(-1, 20)[:, :19]).reshape(-1)
    return arrays.variable(text, np.full(len(digits), 19, dtype=np.int64), pa.string())


def _auction_expires(generator: NexmarkGenerator, events: _Events) -> pa.Array:
    # An auction stays open until about as many auctions as are in flight have been opened after it.
    events_ahead = _AUCTIONS_IN_FLIGHT * EVENTS_PER_CYCLE // AUCTIONS_PER_CYCLE
    horizon_ms = max(events_ahead * 1000 // generator.rate, 1)
    open_ms = 1 + uniform_ints(generator._key("auction.expires"), events.numbers, 0, horizon_ms * 2 - 1)
    return arrays.fixed((events.times_ms + open_ms) * 1000, arrays.TIMESTAMP)


def _auction_seller(generator: NexmarkGenerator, events: _Events) -> pa.Array:
    hot = uniform_ints(generator._key("auction.seller.hot"), events.numbers, 0, 3) > 0
    anyone = _active_person(generator, events, "auction.seller")
    return _ids(np.where(hot, events.cycle // _HOT_EVERY * _HOT_EVERY, anyone))


def _bid_auction(generator: NexmarkGenerator, events: _Events) -> pa.Array:
    newest = events.cycle * AUCTIONS_PER_CYCLE + AUCTIONS_PER_CYCLE - 1
    hot = uniform_ints(generator._key("bid.auction.hot"), events.numbers, 0, 1) > 0
    oldest = np.maximum(newest - _AUCTIONS_IN_FLIGHT, 0)
    anyone = uniform_ints(generator._key("bid.auction"), events.numbers, oldest, newest + _ID_LEAD)
    return _ids(np.where(hot, newest // _HOT_EVERY * _HOT_EVERY, anyone))


def _bid_bidder(generator: NexmarkGenerator, events: _Events) -> pa.Array:
    hot = uniform_ints(generator._key("bid.bidder.hot"), events.numbers, 0, 3) > 0
    anyone = _active_person(generator, events, "bid.bidder")
    return _ids(np.where(hot, events.cycle // _HOT_EVERY * _HOT_EVERY + 1, anyone))


def _bid_channel_number(generator: NexmarkGenerator, events: _Events) -> pa.Array:
    hot = uniform_ints(generator._key("bid.channel.hot"), events.numbers, 0, 1) > 0
    famous = uniform_ints(generator._key("bid.channel.famous"), events.numbers, 0, len(_HOT_CHANNELS) - 1)
    other = uniform_ints(generator._key("bid.channel"), events.numbers, 0, _OTHER_CHANNELS - 1)
    return pa.array(np.where(hot, famous, other + len(_HOT_CHANNELS)))


@functools.lru_cache(maxsize=8)
def _channels(seed: int) -> tuple[pa.Array, pa.Array]:
    """The names and the URLs of all channels, the four hot ones first: a constant of the seed."""
    names = [*_HOT_CHANNELS, *(f"channel-{i}" for i in range(_OTHER_CHANNELS))]
    counters = numbers(0, len(names))
    folders = []
    for folder in range(3):
        lengths = uniform_ints(stream_key(seed, "url", folder, "length"), counters, 3, 4)
        text = characters(stream_key(seed, "url", folder), counters, lengths, _LETTERS)
        folders.append(arrays.variable(text, lengths, pa.string()).to_pylist())
    has_id = happens(stream_key(seed, "url", "has id"), counters, 0.9).tolist()
    urls = []
    for i in range(len(names)):
        url = f"https://www.nexmark.com/{folders[0][i]}/{folders[1][i]}/{folders[2][i]}/item.htm?query=1"
        channel = i - len(_HOT_CHANNELS)
        if channel >= 0 and has_id[i]:
            reversed_bits = int(f"{channel:032b}"[::-1], 2)
            url += f"&channel_id={min(reversed_bits, (1 << 32) - reversed_bits)}"
        urls.append(url)
    return pa.array(names), pa.array(urls)


_PERSON: Mapping[str, _Maker] = MappingProxyType(
    {
        "id": lambda g, e: _ids(e.cycle),
        "name": lambda g, e: _choice(g, e, "person.name", _NAMES),
        "emailAddress": _person_email,
        "creditCard": _person_card,
        "city": lambda g, e: _choice(g, e, "person.city", _CITIES),
        "state": lambda g, e: _choice(g, e, "person.state", _STATES),
        "dateTime": _times,
        "extra": lambda g, e: _text(g, e, "person.extra", 100, 149, _LETTERS),
    }
)
_AUCTION: Mapping[str, _Maker] = MappingProxyType(
    {
        "id": lambda g, e: _ids(e.cycle * AUCTIONS_PER_CYCLE + e.place - 1),
        "itemName": lambda g, e: pc.utf8_trim_whitespace(
            _text(g, e, "auction.item", 3, 19, _LETTERS_AND_SPACE)
        ),
        "description": lambda g, e: pc.utf8_trim_whitespace(
            _text(g, e, "auction.description", 3, 99, _LETTERS_AND_SPACE)
        ),
        "initialBid": lambda g, e: _bigints(_price(g, e, "auction.initialBid")),
        "reserve": lambda g, e: _bigints(
            _price(g, e, "auction.initialBid") + _price(g, e, "auction.reserve")
        ),
        "dateTime": _times,
        "expires": _auction_expires,
        "seller": _auction_seller,
        "category": lambda g, e: _bigints(
            _FIRST_CATEGORY + uniform_ints(g._key("auction.category"), e.numbers, 0, _CATEGORIES - 1)
        ),
        "extra": lambda g, e: _text(g, e, "auction.extra", 312, 467, _LETTERS),
    }
)
_BID: Mapping[str, _Maker] = MappingProxyType(
    {
        "auction": _bid_auction,
        "bidder": _bid_bidder,
        "price": lambda g, e: _bigints(_price(g, e, "bid.price")),
        "channel": lambda g, e: _channels(g.seed)[0].take(_bid_channel_number(g, e)),
        "url": lambda g, e: _channels(g.seed)[1].take(_bid_channel_number(g, e)),
        "dateTime": _times,
        "extra": lambda g, e: _text(g, e, "bid.extra", 54, 80, _LETTERS),
    }
)
_KINDS: Mapping[str, tuple[int, Mapping[str, _Maker]]] = MappingProxyType(
    {"person": (PERSON, _PERSON), "auction": (AUCTION, _AUCTION), "bid": (BID, _BID)}
)
