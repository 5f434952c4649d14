"""datagen: Flink's options for every type, deterministic by row number, errors that name the option."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.connectors.generators.datagen import DatagenGenerator
from sqlstream_operators.plan.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INTEGER,
    INTERVAL,
    JSON,
    NULL,
    SMALLINT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TINYINT,
    UUID,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)
from sqlstream_planner.diagnostics import DiagnosticError
from tests.examples import examples

BASE_US = 1_704_067_200_000_000

PINNED: list[tuple[Any, ...]] = [
    (-2223714109836598280, Decimal("338489.29"), "d965fe", [-121, -59, 126]),
    (4521200008923784292, Decimal("119707.25"), "036f50", [-77, 8, 105]),
]

SCALARS = (
    BOOLEAN,
    TINYINT,
    SMALLINT,
    INTEGER,
    BIGINT,
    HUGEINT,
    SqlType(Kind.UTINYINT),
    SqlType(Kind.USMALLINT),
    SqlType(Kind.UINTEGER),
    SqlType(Kind.UBIGINT),
    FLOAT,
    DOUBLE,
    decimal(4, 1),
    decimal(18, 0),
    decimal(38, 10),
    VARCHAR,
    BLOB,
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    INTERVAL,
    UUID,
    JSON,
)
TYPES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(array),
        st.tuples(st.sampled_from(SCALARS), inner).map(lambda kv: map_of(*kv)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda fields: struct(*((f"f{i}", field) for i, field in enumerate(fields)))
        ),
    ),
    max_leaves=4,
)


def make(type_: SqlType, count: int = 2000, **options: str) -> list[Any]:
    """The values of one column `x`; options without `fields.x.`, with _ for - and __ for a dot."""
    named = {
        "fields.x." + name.replace("__", ".").replace("_", "-"): value for name, value in options.items()
    }
    table = DatagenGenerator((("x", type_),), named).generate(0, count)
    table.validate(full=True)
    values: list[Any] = table["x"].to_pylist()
    return values


def refused(schema: tuple[tuple[str, SqlType], ...], options: Mapping[str, str]) -> tuple[str, str]:
    with pytest.raises(DiagnosticError) as caught:
        DatagenGenerator(schema, options)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code, f"{diagnostic.message} / {diagnostic.help}"


@settings(max_examples=examples(30), deadline=None)
@given(
    types=st.lists(TYPES, min_size=1, max_size=4),
    null_rate=st.sampled_from(["0", "0.3", "1"]),
    first=st.one_of(st.integers(0, 1000), st.integers(0, 1 << 50)),
    count=st.integers(0, 40),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    seed=st.integers(-3, 3),
)
def test_any_split_of_a_range_gives_the_same_rows(
    types: list[SqlType], null_rate: str, first: int, count: int, cuts: list[int], seed: int
) -> None:
    schema = tuple((f"c{i}", type_) for i, type_ in enumerate(types))
    options = {f"fields.{name}.null-rate": null_rate for name, _ in schema} | {"seed": str(seed)}
    generator = DatagenGenerator(schema, options)
    whole = generator.generate(first, count)
    whole.validate(full=True)
    assert whole.num_rows == count
    assert whole.schema == generator.schema
    edges = [0, *sorted(min(cut, count) for cut in cuts), count]
    parts = [generator.generate(first + a, b - a) for a, b in pairwise(edges)]
    # As Python values, because Arrow's equality ignores what lies beneath a null.
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()
    if null_rate == "1":
        assert all(value is None for row in whole.to_pylist() for value in row.values())


@settings(max_examples=examples(12), deadline=None)
@given(type_=TYPES)
def test_duckdb_reads_every_type_as_declared(type_: SqlType) -> None:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    rows = DatagenGenerator((("x", type_),), {}).generate(0, 5)
    connection.register("rows", rows)
    assert connection.execute(f"SELECT count(x::{type_}) FROM rows").fetchone() == (5,)
    # These three travel as DECIMAL or VARCHAR; everything else is of the declared type without a cast.
    if not any(name in str(type_) for name in ("HUGEINT", "UUID", "JSON")):
        same = connection.execute(f"SELECT typeof(x) = typeof(NULL::{type_}) FROM rows LIMIT 1")
        assert same.fetchone() == (True,)


def test_blocks_join_without_a_seam() -> None:
    generator = DatagenGenerator((("a", BIGINT), ("b", VARCHAR)), {"fields.b.length": "5000"})
    whole = generator.generate(0, 30_000).combine_chunks()
    for row in (0, 13_421, 13_422, 29_999):
        assert generator.generate(row, 1).equals(whole.slice(row, 1))


def test_pinned_rows() -> None:
    schema = (("id", BIGINT), ("price", decimal(8, 2)), ("who", VARCHAR), ("tags", array(TINYINT)))
    generator = DatagenGenerator(schema, {"seed": "42", "fields.who.length": "6"})
    assert [tuple(row.values()) for row in generator.generate(10, 2).to_pylist()] == PINNED


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        (TINYINT, "-3", "3"),
        (INTEGER, "7", "7"),
        (BIGINT, "-9223372036854775808", "9223372036854775807"),
        (SqlType(Kind.UBIGINT), "18446744073709551614", "18446744073709551615"),
        (HUGEINT, "-99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
        (decimal(5, 2), "-1.25", "2.5"),
        (decimal(38, 0), "18446744073709551616", "18446744073709551620"),
    ],
)
def test_exact_bounds_are_reached_and_kept(type_: SqlType, low: str, high: str) -> None:
    values = [Decimal(value) for value in make(type_, 20_000, min=low, max=high)]
    step = Decimal(1).scaleb(-(type_.scale or 0))
    assert Decimal(low) <= min(values) <= max(values) <= Decimal(high)
    if (Decimal(high) - Decimal(low)) / step < 400:
        assert len(set(values)) == (Decimal(high) - Decimal(low)) / step + 1
    else:
        assert len(set(values)) > 19_900


@pytest.mark.parametrize(
    ("type_", "largest"), [(FLOAT, 3.4028234663852886e38), (DOUBLE, 1.7976931348623157e308)]
)
def test_floats(type_: SqlType, largest: float) -> None:
    values = make(type_, min="-1.5", max="2")
    assert -1.5 <= min(values) < -1.4 < 1.9 < max(values) <= 2
    assert 0 <= min(make(type_)) <= max(make(type_)) <= largest
    whole = make(type_, min=str(-largest), max=str(largest))
    assert min(whole) < -largest / 2
    assert max(whole) > largest / 2


def test_default_ranges_are_those_of_the_type() -> None:
    assert (min(make(TINYINT, 5000)), max(make(TINYINT, 5000))) == (-128, 127)
    assert min(make(INTEGER)) < -2_000_000_000 < 2_000_000_000 < max(make(INTEGER))
    assert 0 <= min(make(decimal(3, 1))) < 1
    assert Decimal("99") < max(make(decimal(3, 1))) <= Decimal("99.9")
    assert set(make(BOOLEAN)) == {True, False}


def test_text_lengths() -> None:
    assert {len(value) for value in make(VARCHAR, 50)} == {100}
    assert {len(value) for value in make(VARCHAR, 50, length="0")} == {0}
    assert {len(value) for value in make(VARCHAR, length="5", var_len="true")} == {1, 2, 3, 4, 5}
    assert {len(value) for value in make(BLOB, length="3", var_len="true")} == {1, 2, 3}
    assert set("".join(make(VARCHAR))) == set("0123456789abcdef")
    assert {len(value) for value in make(JSON, 5, length="4")} == {6}
    assert len(set(make(UUID))) == 2000


@pytest.mark.parametrize(
    "type_", [BIGINT, VARCHAR, struct(("a", INTEGER)), array(INTEGER), map_of(INTEGER, DATE)]
)
def test_null_rate(type_: SqlType) -> None:
    nulls = sum(value is None for value in make(type_, 10_000, null_rate="0.25"))
    # Five standard deviations of a binomial with n = 10,000 and p = 1/4 are 217.
    assert abs(nulls - 2500) < 217
    assert None not in make(type_)


def test_nested_options() -> None:
    type_ = struct(("a", TINYINT), ("b", array(map_of(TINYINT, VARCHAR))))
    values = make(
        type_,
        a__min="5",
        a__max="6",
        b__length="2",
        b__element__length="4",
        b__element__null_rate="0.5",
        b__element__key__min="0",
        b__element__key__max="2",
        b__element__value__length="1",
    )
    assert {value["a"] for value in values} == {5, 6}
    assert {len(value["b"]) for value in values} == {2}
    maps = [entry for value in values for entry in value["b"]]
    assert 0.45 < sum(entry is None for entry in maps) / len(maps) < 0.55
    kept = [dict(entry) for entry in maps if entry is not None]
    assert {len(entry) for entry in kept} == {1, 2, 3}
    assert all(len(entry) == len(dict(entry)) for entry in maps if entry is not None)
    assert {key for entry in kept for key in entry} == {0, 1, 2}
    assert {len(text) for entry in kept for text in entry.values()} == {1}


def test_map_keys_are_distinct_for_any_type_of_key() -> None:
    for key in (BOOLEAN, array(BOOLEAN), struct(("a", BOOLEAN))):
        maps = make(map_of(key, BIGINT), 200, length="9")
        keys = [[repr(k) for k, _ in entry] for entry in maps]
        assert all(len(found) == len(set(found)) for found in keys)
        assert max(len(found) for found in keys) > 1


def test_elements_differ_and_null_structs_have_null_fields() -> None:
    assert sum(len(set(value)) == 3 for value in make(array(INTEGER))) > 1990
    connection = duckdb.connect()
    connection.register(
        "rows",
        DatagenGenerator((("x", struct(("a", INTEGER))),), {"fields.x.null-rate": "0.5"}).generate(0, 500),
    )
    assert connection.execute("SELECT count(x.a) = count(x), count(x) < 400 FROM rows").fetchone() == (
        True,
        True,
    )


def test_time_follows_the_rate_from_the_base() -> None:
    schema = (("t", TIMESTAMP), ("z", TIMESTAMPTZ), ("d", DATE), ("c", TIME))
    options = {"base-time": "1969-12-31 23:59:59.5", "rows-per-second": "4"}
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", DatagenGenerator(schema, options).generate(0, 4))
    assert connection.execute(
        "SELECT epoch_us(t), epoch_us(z), d::VARCHAR, c::VARCHAR FROM rows"
    ).fetchall() == [
        (-500_000, -500_000, "1969-12-31", "23:59:59.5"),
        (-250_000, -250_000, "1969-12-31", "23:59:59.75"),
        (0, 0, "1970-01-01", "00:00:00"),
        (250_000, 250_000, "1970-01-01", "00:00:00.25"),
    ]


@pytest.mark.parametrize("base", ["2024-01-01 00:00:00", "2024-01-01T02:00:00+02:00", "2024-01-01"])
def test_base_time_forms(base: str) -> None:
    assert DatagenGenerator((("t", TIMESTAMP),), {"base-time": base}).base_time_us == BASE_US


@pytest.mark.parametrize(
    ("max_past", "ms"), [("3", 3), ("2 s", 2000), ("1 min", 60_000), ("500 us", 1), ("0", 0)]
)
def test_max_past(max_past: str, ms: int) -> None:
    options = {"fields.t.max-past": max_past}
    times = DatagenGenerator((("t", TIMESTAMP),), options).generate(0, 4000)["t"].cast(pa.int64()).to_pylist()
    back = [(BASE_US + row // 10 * 1000 - time) // 1000 for row, time in enumerate(times)]
    assert all(time % 1000 == 0 for time in times)
    assert min(back) == 0 if ms <= 2000 else min(back) >= 0
    assert (max(back) == ms - 1) if 0 < ms < 10 else max(back) <= max(ms - 1, 0)
    assert max(back) >= ms * 0.99 - 1


def test_intervals_are_in_milliseconds() -> None:
    connection = duckdb.connect()
    schema = (("x", INTERVAL),)
    options = {"fields.x.min": "-86400001", "fields.x.max": "86400001"}
    connection.register("rows", DatagenGenerator(schema, options).generate(0, 2000))
    low, high = connection.execute("SELECT min(epoch(x)), max(epoch(x)) FROM rows").fetchall()[0]
    assert -86400.001 <= low < -86000
    assert 86000 < high <= 86400.001


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (TINYINT, [-1, 0, 1]),
        (BIGINT, [-1, 0, 1]),
        (HUGEINT, [Decimal(-1), Decimal(0), Decimal(1)]),
        (FLOAT, [-1.0, 0.0, 1.0]),
        (DOUBLE, [-1.0, 0.0, 1.0]),
        (decimal(3, 1), [Decimal("-1.0"), Decimal("0.0"), Decimal("1.0")]),
        (decimal(38, 20), [Decimal("-1"), Decimal("0"), Decimal("1")]),
        (VARCHAR, ["-1", "0", "1"]),
        (BLOB, [b"\xff" * 8, b"\0" * 8, b"\0" * 7 + b"\1"]),
    ],
)
def test_sequences(type_: SqlType, expected: list[Any]) -> None:
    generator = DatagenGenerator(
        (("x", type_),), {"fields.x.kind": "sequence", "fields.x.start": "-1", "fields.x.end": "1"}
    )
    assert generator.total_rows() == 3
    assert generator.generate(0, 3)["x"].to_pylist() == expected
    assert generator.generate(1, 2)["x"].to_pylist() == expected[1:]
    assert generator.generate(3, 0).num_rows == 0
    with pytest.raises(ValueError, match="of a table of 3"):
        generator.generate(2, 2)


def test_total_rows() -> None:
    schema = (("a", BIGINT), ("b", VARCHAR))
    sequence = {"fields.a.kind": "sequence", "fields.a.start": "10", "fields.a.end": "19"}
    other = {"fields.b.kind": "sequence", "fields.b.start": "1", "fields.b.end": "4"}
    assert DatagenGenerator(schema, {}).total_rows() is None
    assert DatagenGenerator(schema, {"number-of-rows": "7"}).total_rows() == 7
    assert DatagenGenerator(schema, sequence).total_rows() == 10
    assert DatagenGenerator(schema, sequence | {"number-of-rows": "7"}).total_rows() == 7
    assert DatagenGenerator(schema, sequence | other).total_rows() == 4
    assert DatagenGenerator(schema, {"number-of-rows": "0"}).generate(0, 0).num_rows == 0


def test_fields_with_equal_settings_and_other_seeds_differ() -> None:
    table = DatagenGenerator((("a", BIGINT), ("b", BIGINT)), {}).generate(0, 100)
    assert not table["a"].equals(table["b"])
    assert not table["a"].equals(DatagenGenerator((("a", BIGINT),), {"seed": "1"}).generate(0, 100)["a"])
    assert table["a"].equals(
        DatagenGenerator((("a", BIGINT),), {"connector": "datagen"}).generate(0, 100)["a"]
    )


@pytest.mark.parametrize(
    ("type_", "options", "code", "says"),
    [
        (BIGINT, {"fields.x.length": "3"}, "OPT020", "no option `fields.x.length`"),
        (BIGINT, {"fields.x.mni": "3"}, "OPT020", "did you mean `fields.x.min`?"),
        (BIGINT, {"fields.y.min": "3"}, "OPT020", "no option `fields.y.min`"),
        (BIGINT, {"fields.x.start": "3"}, "OPT020", "no option `fields.x.start`"),
        (map_of(BIGINT, BIGINT), {"fields.x.key.null-rate": "0.5"}, "OPT020", "`fields.x.key.null-rate`"),
        (struct(("a", BIGINT)), {"fields.x.a.kind": "sequence"}, "OPT020", "`fields.x.a.kind`"),
        (BIGINT, {"fields.x.kind": "serial"}, "OPT021", "one of random, sequence"),
        (BIGINT, {"fields.x.min": "a"}, "OPT021", "`fields.x.min` can't be 'a': it is not a whole number"),
        (TINYINT, {"fields.x.max": "128"}, "OPT021", "within -128 … 127"),
        (BIGINT, {"fields.x.min": "3", "fields.x.max": "2"}, "OPT021", "above `fields.x.max`, 2"),
        (DOUBLE, {"fields.x.max": "nan"}, "OPT021", "must be within"),
        (decimal(3, 1), {"fields.x.max": "0.25"}, "OPT021", "does not fit DECIMAL(3, 1)"),
        (decimal(3, 1), {"fields.x.max": "100"}, "OPT021", "does not fit DECIMAL(3, 1)"),
        (decimal(3, 1), {"fields.x.max": "inf"}, "OPT021", "does not fit DECIMAL(3, 1)"),
        (decimal(3, 1), {"fields.x.max": "x"}, "OPT021", "not a number"),
        (VARCHAR, {"fields.x.length": "-1"}, "OPT021", "`fields.x.length` can't be '-1'"),
        (VARCHAR, {"fields.x.var-len": "yes"}, "OPT021", "one of true, false"),
        (BIGINT, {"fields.x.null-rate": "1.5"}, "OPT021", "`fields.x.null-rate`"),
        (BIGINT, {"fields.x.null-rate": "-0.5"}, "OPT021", "within 0 … 1"),
        (TIMESTAMP, {"fields.x.max-past": "soon"}, "OPT021", "not a duration"),
        (BIGINT, {"number-of-rows": "-1"}, "OPT021", "`number-of-rows`"),
        (BIGINT, {"rows-per-second": "0"}, "OPT021", "`rows-per-second`"),
        (BIGINT, {"base-time": "today"}, "OPT021", "`base-time`"),
        (BIGINT, {"seed": "x"}, "OPT021", "`seed`"),
        (BIGINT, {"fields.x.kind": "sequence", "fields.x.start": "1"}, "OPT021", "`fields.x.end` is missing"),
        (
            BIGINT,
            {"fields.x.kind": "sequence", "fields.x.start": "2", "fields.x.end": "1"},
            "OPT021",
            "below `fields.x.start`, 2",
        ),
        (
            decimal(3, 2),
            {"fields.x.kind": "sequence", "fields.x.start": "2", "fields.x.end": "10"},
            "OPT021",
            "within -9 … 9",
        ),
        (
            DATE,
            {"fields.x.kind": "sequence", "fields.x.start": "2", "fields.x.end": "10"},
            "OPT022",
            "can't make sequence values of DATE (`x`)",
        ),
        (NULL, {}, "OPT022", "can't make random values of NULL (`x`)"),
    ],
)
def test_mistakes_are_named(type_: SqlType, options: dict[str, str], code: str, says: str) -> None:
    found, message = refused((("x", type_),), options)
    assert found == code
    assert says in message
