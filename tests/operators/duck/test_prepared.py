"""Prepared queries give what the session gives without them, whatever was asked before, and keep nothing of the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.duck.prepared import MOST_BYTES, MOST_ROWS, PreparedQueries
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import HUGEINT, VARCHAR, parse_type
from tests.examples import examples

_NAMES = ("a", "B", "b", 'a "b"')
#: Of views: they read the others, and may hide none that they read.
_VIEW_NAMES = ("v", "V", 'a "b"')
_QUERIES = (
    'SELECT * FROM "a" ORDER BY ALL',
    'SELECT x, y FROM "b" WHERE x > 1 ORDER BY x, y',
    'SELECT count(*) AS n, sum(x) AS s, min(y) AS m FROM "A"',
    'SELECT l.x AS x, r.y AS y FROM "a" AS l LEFT JOIN "b" AS r ON l.x = r.x AND l.y < r.y ORDER BY ALL',
    'SELECT x / (x - 2) AS d, CAST(y AS INTEGER) AS i FROM "a" ORDER BY ALL',
    'SELECT * FROM "a ""b""" ORDER BY ALL',
    "SELECT x, to_days(CAST(x AS INTEGER)) AS days, y::ENUM('1', '2') AS e FROM \"a\" ORDER BY ALL",
    "SELECT GETVARIABLE('sqlstream_clock') AS at, * FROM \"a\" ORDER BY ALL",
    "SELECT 1 AS one",
    'SELECT v.x, v.y, b.y AS z FROM v LEFT JOIN "b" ON b.x = v.x ORDER BY ALL',
)
_VIEWS = ('SELECT * FROM "a"', 'SELECT x + 1 AS x, y FROM "b"', "SELECT 3 AS x, '1' AS y")
_X: tuple[tuple[pa.DataType, str], ...] = (
    (pa.int64(), "BIGINT"),
    (pa.decimal128(38, 0), "HUGEINT"),
    (pa.float64(), "DOUBLE"),
)


@st.composite
def _tables(draw: st.DrawFn) -> tuple[pa.Table, tuple[Column, ...]]:
    type_, name = draw(st.sampled_from(_X))
    rows = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["1", "2", "z", None])), max_size=4))
    columns = {
        "x": pa.array([x for x, _ in rows], pa.int64()).cast(type_),
        "y": pa.array([y for _, y in rows], pa.string()),
    }
    return pa.table(columns), (Column("x", parse_type(name)), Column("y", VARCHAR))


_STEPS = st.one_of(
    st.tuples(st.just("register"), st.sampled_from(_NAMES), _tables()),
    st.tuples(st.just("view"), st.sampled_from(_VIEW_NAMES), st.sampled_from(_VIEWS)),
    st.tuples(st.just("drop"), st.sampled_from((*_NAMES, *_VIEW_NAMES)), st.none()),
    st.tuples(st.just("reset"), st.none(), st.none()),
    st.tuples(st.just("clock"), st.integers(1, 9), st.none()),
    *[st.tuples(st.just("query"), st.sampled_from(_QUERIES), st.none() | _tables())] * 4,
)


def _done(duck: DuckSession, step: tuple[Any, Any, Any]) -> object:
    """What a step gives, as something to compare."""
    what, name, value = step
    match what:
        case "register":
            duck.register(name, *value)
        case "view":
            duck.view(name, value)
        case "drop":
            duck.drop(name)
        case "reset":
            duck.reset()
        case "clock":
            duck.in_epoch(name, "seed")
        case _:
            try:
                rows, columns = duck.query_typed(name, {"a": value[0]} if value is not None else None)
            except DataError as error:
                return str(error), error.sql
            return rows.schema, rows.to_pylist(), columns
    return None


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(_STEPS, min_size=3, max_size=14))
def test_a_session_that_prepares_gives_what_one_gives_that_does_not(
    steps: list[tuple[Any, Any, Any]],
) -> None:
    plain, prepares = DuckSession(), DuckSession(prepares=True)
    try:
        for step in [*steps, *steps]:
            assert _done(prepares, step) == _done(plain, step), step
    finally:
        plain.close()
        prepares.close()


def _numbers(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


_SUM = "SELECT sum(x) AS s FROM t"


def test_a_query_is_kept_for_other_rows_of_the_same_columns() -> None:
    prepared = PreparedQueries(())
    sums = []
    for values in ((1, 2), (5,), (), (7, 7)):
        found = prepared.run(_SUM, {"t": _numbers(*values)})
        assert found is not None
        sums.append(found[0].column("s")[0].as_py())
    assert sums == [3, 5, None, 14]
    assert len(prepared) == 1
    assert prepared.run(_SUM, {"t": pa.table({"x": [0.5]})}) is not None
    assert prepared.run(_SUM, {"u": _numbers(1), "t": "SELECT x + 1 AS x FROM u"}) is not None
    assert prepared.run(_SUM, {"u": _numbers(1), "t": "SELECT x + 2 AS x FROM u"}) is not None
    assert len(prepared) == 4
    prepared.close()


def test_the_least_recently_used_query_goes() -> None:
    prepared = PreparedQueries((), most=3)
    for number in (0, 1, 2, 0, 3, 4, 0):
        found = prepared.run(f"SELECT x + {number} AS x FROM t", {"t": _numbers(10)})
        assert found is not None
        assert found[0].column("x").to_pylist() == [10 + number]
        assert len(prepared) <= 3
    prepared.close()
    assert len(prepared) == 0


def test_order_does_not_depend_on_whether_a_query_was_kept() -> None:
    """A plan made for other numbers of rows would build its table of the other side of the join."""
    sql = "SELECT a.x AS x, b.y AS y FROM a JOIN b ON a.x = b.x"
    many = pa.table({"x": [n % 7 for n in range(900)]})
    few = pa.table({"x": [3, 1, 2, 3], "y": [0, 1, 2, 3]})
    one = pa.table({"x": [3]})
    more = pa.table({"x": [n % 5 for n in range(800)], "y": list(range(800))})
    kept, fresh = PreparedQueries(()), PreparedQueries(())
    assert kept.run(sql, {"a": one, "b": more}) is not None
    again, anew = kept.run(sql, {"a": many, "b": few}), fresh.run(sql, {"a": many, "b": few})
    assert again is not None
    assert anew is not None
    assert again[0].equals(anew[0])
    kept.close()
    fresh.close()


@pytest.mark.parametrize(
    ("sql", "relations"),
    [
        pytest.param("SELECT 1 AS one", {}, id="no relation"),
        pytest.param("SELECT getvariable('v') AS v, x FROM t", {"t": _numbers(1)}, id="the epoch"),
        pytest.param("SELECT GetVariable('v') AS v, x FROM t", {"t": _numbers(1)}, id="in other letters"),
        pytest.param(
            "SELECT * FROM v", {"t": _numbers(1), "v": "SELECT getvariable('v') AS v FROM t"}, id="in a view"
        ),
        pytest.param(_SUM, {"t": _numbers(*range(MOST_ROWS + 1))}, id="many rows"),
        pytest.param(_SUM, {"t": _numbers(*range(MOST_ROWS)), "u": _numbers(1)}, id="many in all"),
        pytest.param("SELECT s FROM t", {"t": pa.table({"s": ["x" * MOST_BYTES]})}, id="many bytes"),
        pytest.param("SELECT x / (x - 1 / 0) FROM u", {"t": _numbers(1)}, id="an unknown name"),
        pytest.param("SELECT error('no') FROM t", {"t": _numbers(1)}, id="what fails"),
    ],
)
def test_what_is_not_prepared(sql: str, relations: dict[str, pa.Table | str]) -> None:
    prepared = PreparedQueries(())
    assert prepared.run(sql, relations) is None
    assert len(prepared) == 0
    prepared.close()


def test_a_file_is_read_anew_in_each_query(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    duck = DuckSession(prepares=True)
    for value in (1, 2):
        file.write_text(json.dumps({"x": value}))
        read = f"read_json('{file}', columns = {{x: 'BIGINT'}})"
        found = duck.query(f"SELECT f.x + t.x AS x FROM {read} AS f, t", {"t": _numbers(10)})
        assert found.column("x").to_pylist() == [10 + value]
        duck.view("f", f"SELECT * FROM {read}")
        found = duck.query("SELECT f.x + t.x AS x FROM f, t", {"t": _numbers(20)})
        assert found.column("x").to_pylist() == [20 + value]
    duck.close()


def test_rows_that_fail_are_told_as_without_it_and_the_next_ones_are_right() -> None:
    prepares, plain = DuckSession(prepares=True), DuckSession()
    sql = "SELECT\n  CAST(x AS TINYINT) AS x\nFROM t"
    for values in ((1,), (1000,), (2,)):
        told = []
        for duck in (prepares, plain):
            try:
                told.append(duck.query(sql, {"t": _numbers(*values)}).to_pylist())
            except DataError as error:
                told.append([str(error)])
        assert told[0] == told[1]
    prepares.close()
    plain.close()


def test_types_that_arrow_loses_come_back() -> None:
    duck = DuckSession(prepares=True)
    rows = pa.table({"x": pa.array([1, 2], pa.decimal128(38, 0))})
    for _ in range(2):
        duck.register("t", rows, (Column("x", HUGEINT),))
        assert duck.query("SELECT typeof(x) AS t FROM t LIMIT 1").column("t").to_pylist() == ["HUGEINT"]
        found, columns = duck.query_typed("SELECT x + 1 AS x, TIMETZ '10:00:00+02' AS z FROM t ORDER BY x")
        assert [str(column.type) for column in columns] == ["HUGEINT", "TIME WITH TIME ZONE"]
        assert found.column("z").to_pylist() == ["10:00:00+02", "10:00:00+02"]
    duck.close()


def test_nothing_of_the_rows_is_kept() -> None:
    prepared = PreparedQueries(())
    before = pa.total_allocated_bytes()
    for _ in range(2):
        rows = pa.table({"x": pa.array([b"x" * 1000] * 1000)})
        assert prepared.run("SELECT count(x) AS n FROM t", {"t": rows}) is not None
        del rows
    assert pa.total_allocated_bytes() - before < 100_000
    prepared.close()


def test_what_else_there_is_does_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text('{"x": 1}')
    duck = DuckSession(prepares=True)
    for other in (f"SELECT * FROM read_json('{file}')", "SELECT * FROM nothing"):
        duck.view("other", other)
        assert duck.query('SELECT "X" FROM "A ""b"""', {'a "B"': _numbers(4)}).column("x").to_pylist() == [4]
    duck.close()
