"""The order in which INNER joins are made: what it follows from, what it doesn't, and that it never changes an answer."""

from __future__ import annotations

import random

import pytest

from sqlstream.connectors.registry import REGISTERED
from sqlstream_planner.batch.queries import query_of
from sqlstream_planner.bind.script import bind_script
from sqlstream_planner.catalog.script import read_catalog
from sqlstream_planner.logical import Join, Node, Scan, Sink, walk
from sqlstream_planner.rules import NORMALIZE, RULES, SETTLE, Rule, optimize
from sqlstream_planner.rules.normalize.order_joins import order_joins
from sqlstream_planner.sql.parse import parse_file
from sqlstream_planner.streaming import IntervalJoin, RegularJoin
from tests.duckdb_batch import empty_duckdb
from tests.examples import seeds

_WITH = "WITH ('connector' = 'filesystem', 'path' = '{0}', 'format' = 'json')"
#: What refers to what is said by keys alone: city -> land, shop -> city, buy -> shop and item, tag -> item.
TABLES = {
    "land": "l_id INT, l_name STRING, PRIMARY KEY (l_id) NOT ENFORCED",
    "city": "c_id INT, c_land INT, c_name STRING, PRIMARY KEY (c_id) NOT ENFORCED",
    "shop": "s_id INT, s_city INT, s_size INT, PRIMARY KEY (s_id) NOT ENFORCED",
    "item": "i_id INT, i_kind INT, i_price BIGINT, PRIMARY KEY (i_id) NOT ENFORCED",
    "buy": "b_shop INT, b_item BIGINT, b_many INT",
    "tag": "t_item INT, t_word STRING, t_many INT",
}
TIMED = f"""
CREATE TABLE e (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {_WITH.format("e")};
CREATE TABLE f (k INT, w INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {_WITH.format("f")};
"""


def planned(text: str, rules: tuple[Rule, ...], *, keys: bool = True) -> tuple[Sink, ...]:
    """Statements over the tables, after some rules; without their keys, if asked for."""
    columns = {name: c if keys else c.split(", PRIMARY")[0] for name, c in TABLES.items()}
    tables = "".join(f"CREATE TABLE {name} ({c}) {_WITH.format(name)};" for name, c in columns.items())
    script = parse_file(f"{tables}{TIMED}{text}")
    return optimize(
        bind_script(script, read_catalog(script, REGISTERED.descriptors)).roots, (*SETTLE, *rules)
    )


def out(query: str, name: str = "out") -> str:
    """A statement that writes a query's rows."""
    return f"CREATE TABLE {name} WITH ('connector' = 'blackhole') AS {query};"


def order(node: Node) -> str:
    """The tables below a node, in parentheses as they are joined."""
    while not isinstance(node, Join | RegularJoin | Scan):
        node = node.inputs[0]
    if isinstance(node, Scan):
        return node.source.name
    return f"({order(node.left)} {order(node.right)})"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # A table whose key is compared before one of which a row may find many.
        ("FROM buy, tag, shop WHERE b_many = t_many AND b_shop = s_id", "((buy shop) tag)"),
        # A table that a condition makes small is joined first, and what refers to it next.
        ("FROM buy, shop, city WHERE b_shop = s_id AND s_city = c_id AND c_name = 'x'", "(buy (shop city))"),
        # … also over an equality that only follows: what is equal to shop's key is equal to tag's column.
        (
            "FROM buy, tag, shop WHERE b_shop = t_many AND t_many = s_id AND b_item = t_item AND s_size = 3",
            "((buy shop) tag)",
        ),
        # By one key everything is joined at once, so that there is nothing to gain.
        ("FROM tag, item, buy WHERE t_item = i_id AND b_item = i_id AND b_many > 3", "((tag item) buy)"),
        # Groups have a key as well, which nobody declares.
        (
            "FROM tag JOIN buy ON t_many = b_many JOIN (SELECT b_shop AS g, COUNT(*) AS n FROM buy GROUP BY b_shop) "
            "ON g = b_shop",
            "(tag (buy buy))",
        ),
        # What many rows refer to is put together before they come.
        ("FROM buy JOIN shop ON b_shop = s_id JOIN city ON s_city = c_id", "(buy (shop city))"),
        ("FROM city JOIN shop ON s_city = c_id JOIN buy ON b_shop = s_id", "((city shop) buy)"),
        # An equality with a value of two relations comes when both are there.
        (
            "FROM buy, shop, city, tag WHERE b_shop = s_id AND s_city = c_id AND b_many + s_size = t_many",
            "((buy (shop city)) tag)",
        ),
        # Joins with an equality before all pairs, whatever is small.
        (
            "FROM land, shop, city WHERE s_city = c_id AND c_name = 'x' AND l_id < c_land",
            "(land (shop city))",
        ),
    ],
)
def test_orders(query: str, expected: str) -> None:
    [root] = planned(out(f"SELECT 1 AS one {query}"), NORMALIZE)
    assert order(root) == expected


@pytest.mark.parametrize(
    "query",
    [
        # A time to live forgets by what touches either side.
        "SELECT /*+ STATE_TTL('buy' = '1 d', 'shop' = '1 d', 'city' = '1 d') */ b_many FROM buy "
        "JOIN shop ON b_shop = s_id JOIN city ON s_city = c_id AND c_name = 'x'",
        # Outer joins keep their place, and so does what is joined to their rows.
        "SELECT b_many FROM buy LEFT JOIN shop ON b_shop = s_id JOIN city ON s_city = c_id AND c_name = 'x'",
    ],
)
def test_what_keeps_its_order(query: str) -> None:
    [root] = planned(out(query), NORMALIZE)
    assert order(root) == "((buy shop) city)"


def test_a_bound_in_time_is_not_lost() -> None:
    """e and f in time keep what the watermark has not passed; each of them with the small table would keep all."""
    times = "e.v = f.w AND f.ts BETWEEN e.ts AND e.ts + INTERVAL '1' HOUR"
    text = f"SELECT v FROM e, f, city WHERE {times} AND c_id = f.k AND c_name = 'x'"
    assert any(isinstance(node, IntervalJoin) for node in walk(planned(out(text), RULES)))


def test_without_keys_and_conditions_nothing_is_known() -> None:
    query = "SELECT b_many FROM buy, shop, city, land WHERE b_shop = s_id AND s_city = c_id AND c_land = l_id"
    [root] = planned(out(query), NORMALIZE, keys=False)
    assert order(root) == "(((buy shop) city) land)"


def test_other_statements_take_no_part() -> None:
    query = out("SELECT b_many FROM buy, shop, city WHERE b_shop = s_id AND s_city = c_id AND c_name = 'x'")
    others = [
        out("SELECT s_id FROM shop, city WHERE s_city = c_id", "first"),
        out(
            "SELECT b_many FROM buy, shop, city, item WHERE b_shop = s_id AND s_city = c_id AND i_id = b_item",
            "second",
        ),
    ]
    [alone] = planned(query, NORMALIZE)
    for text in (f"{query}{''.join(others)}", f"{''.join(others)}{query}"):
        assert [order(r) for r in planned(text, NORMALIZE) if r.sink.name == "out"] == [order(alone)]


def _query(dice: random.Random) -> str:
    """A random query of three to six relations, most of which equalities connect."""
    relations = [(dice.choice(list(TABLES)), f"r{n}") for n in range(dice.choice((3, 4, 4, 5, 6)))]
    columns = {
        name: [c.split()[0] for c in text.split(", PRIMARY")[0].split(", ") if "STRING" not in c]
        for name, text in TABLES.items()
    }

    def value(n: int) -> str:
        name, alias = relations[n]
        return f"{alias}.{dice.choice(columns[name])}"

    terms = []
    for n in range(1, len(relations)):
        for _ in range(dice.choice((1, 1, 1, 2))):
            other = value(dice.randrange(n))
            terms.append(
                dice.choice(("{} = {}", "{1} = {0}", "{} = {} + 1", "{} = {}", "{} < {}")).format(
                    value(n), other
                )
            )
    for _ in range(dice.randrange(3)):
        n = dice.randrange(len(relations))
        terms.append(f"{value(n)} {dice.choice(('= 1', 'IN (1, 2)', '> 2', 'IS NOT NULL', '<> 3'))}")
    dice.shuffle(terms)
    shown = ", ".join(f"{value(n)} AS x{n}" for n in range(len(relations)))
    return f"SELECT {shown} FROM {', '.join(f'{name} AS {a}' for name, a in relations)} WHERE {' AND '.join(terms)}"


def test_no_order_changes_an_answer() -> None:
    """Random joins of keys that are none: nothing holds a table to the PRIMARY KEY that it declares."""
    changed = 0
    without = tuple(rule for rule in NORMALIZE if rule is not order_joins)
    with empty_duckdb() as con:
        for number, (name, text) in enumerate(TABLES.items()):
            listed = text.split(", PRIMARY")[0]
            con.execute(f"CREATE TABLE {name} ({listed})")
            values = ", ".join(
                "'x'" if "STRING" in c else f"nullif((i * {3 + at + number}) % {4 + at}, 3)"
                for at, c in enumerate(listed.split(", "))
            )
            con.execute(f"INSERT INTO {name} SELECT {values} FROM range(7) AS r(i)")
        for seed in seeds(15):
            query = _query(random.Random(seed))
            [root], [written] = planned(out(query), NORMALIZE), planned(out(query), without)
            changed += order(root) != order(written)
            expected = con.execute(f"SELECT *, COUNT(*) FROM ({query}) GROUP BY ALL ORDER BY ALL").fetchall()
            found = f"SELECT *, COUNT(*) FROM ({query_of(root)}) GROUP BY ALL ORDER BY ALL"
            assert con.execute(found).fetchall() == expected, query
    assert changed > 7
