"""Names of tables of catalogs, over catalogs in memory: what they mean, what is asked, and where mistakes are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.planning import with_functions
from sqlstream_planner.catalog.foreign.resolve import resolve
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.pipeline import Planned, plan_file
from sqlstream_planner.sql.parse import parse_file
from sqlstream_planner.sql.statements import InsertInto
from sqlstream_planner.testing import CONNECTORS
from tests.planner.catalog.fake_catalogs import TABLES, Fakes

HEAD = (
    "CREATE CATALOG bank WITH ('type' = 'fake', 'password' = 'geheimnis');\n"
    "CREATE CATALOG lake WITH ('type' = 'fake');\n"
    "CREATE TABLE own (id BIGINT) WITH ('connector' = 'rows');\n"
    "CREATE TABLE out (id BIGINT) WITH ('connector' = 'print');\n"
)
OUT = "INSERT INTO default_catalog.default_database.out "


@pytest.fixture(autouse=True)
def functions() -> None:
    with_functions()


def plan(text: str, fakes: Fakes | None = None) -> Planned:
    return plan_file(HEAD + text, file="q.sql", connectors=CONNECTORS, catalogs=(fakes or Fakes()).catalogs())


def sources(text: str) -> list[str]:
    return sorted(s.name for s in plan(text).physical.sources)


def mistakes(text: str, fakes: Fakes | None = None) -> list[Diagnostic]:
    with pytest.raises(DiagnosticError) as raised:
        plan(text, fakes)
    return list(raised.value.diagnostics)


def at(text: str, found: Diagnostic) -> str:
    """The text that the caret shows."""
    assert found.span is not None
    line = (HEAD + text).split("\n")[found.span.line - 1]
    return line[found.span.column - 1 : found.span.column - 1 + found.span.length]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT INTO out SELECT id FROM bank.public.orders", ["bank.public.orders"]),
        ("INSERT INTO out SELECT id FROM BANK.PUBLIC.ORDERS", ["bank.public.orders"]),
        ("INSERT INTO out SELECT id FROM bank.public.rates", ["bank.public.Rates"]),
        ("INSERT INTO out SELECT x FROM bank.public.`a.b`", ["bank.public.`a.b`"]),
        ('INSERT INTO out SELECT x FROM bank."public".Twice', ["bank.public.Twice"]),
        ("INSERT INTO out SELECT id FROM default_catalog.default_database.own", ["own"]),
        ("INSERT INTO out SELECT id FROM default_database.own", ["own"]),
        (f"USE CATALOG bank; {OUT} SELECT id FROM orders", ["bank.public.orders"]),
        (f"USE CATALOG bank; {OUT} SELECT id FROM ledger.orders", ["bank.ledger.orders"]),
        (f"USE CATALOG bank; USE ledger; {OUT} SELECT id FROM orders", ["bank.ledger.orders"]),
        (f"USE bank.Ledger; {OUT} SELECT id FROM orders", ["bank.ledger.orders"]),
        (f"USE bank.ledger; USE CATALOG lake; {OUT} SELECT id FROM orders", ["lake.public.orders"]),
        ("USE CATALOG bank; USE CATALOG default_catalog; INSERT INTO out SELECT id FROM own", ["own"]),
        ("USE default_catalog.default_database; INSERT INTO out SELECT id FROM own", ["own"]),
        # A view is read as it was created.
        (
            "USE bank.ledger; CREATE VIEW default_catalog.default_database.v AS SELECT id FROM orders; "
            "USE CATALOG default_catalog; INSERT INTO out SELECT id FROM v",
            ["bank.ledger.orders"],
        ),
        # A CTE comes first, except in itself and before it.
        (f"USE CATALOG bank; {OUT} WITH orders AS (SELECT id FROM rates) SELECT id FROM orders", ["bank.public.Rates"]),
        (f"USE CATALOG bank; {OUT} WITH orders AS (SELECT id FROM orders) SELECT id FROM orders", ["bank.public.orders"]),
        (
            f"USE CATALOG bank; {OUT} SELECT id FROM (WITH orders AS (SELECT id FROM rates) SELECT id FROM orders) "
            "UNION ALL SELECT id FROM orders",
            ["bank.public.Rates", "bank.public.orders"],
        ),
        (
            "INSERT INTO out WITH own AS (SELECT id FROM own) SELECT id FROM default_catalog.default_database.own",
            ["own"],
        ),
        # Sub-queries, windows and set operations.
        (
            "INSERT INTO out SELECT id FROM own WHERE id IN (SELECT id FROM bank.public.rates)",
            ["bank.public.Rates", "own"],
        ),
        (
            "CREATE TABLE w (WATERMARK FOR at AS at) LIKE bank.public.orders; INSERT INTO out SELECT count(*) FROM "
            "TABLE(TUMBLE(TABLE default_catalog.default_database.w, DESCRIPTOR(at), INTERVAL '1' DAY)) "
            "GROUP BY window_start, window_end",
            ["w"],
        ),
        # The same names in two catalogs, one table twice, and names before columns.
        (
            "INSERT INTO out SELECT a.id FROM bank.public.orders a JOIN lake.public.orders b ON a.id = b.id "
            "JOIN bank.public.orders c ON a.id = c.id",
            ["bank.public.orders", "lake.public.orders"],
        ),
        ("INSERT INTO out SELECT bank.public.orders.id FROM bank.public.orders", ["bank.public.orders"]),
        (
            "INSERT INTO out SELECT bank.public.rates.id FROM bank.public.rates WHERE Bank.Public.Rates.rate > rates.id",
            ["bank.public.Rates"],
        ),
    ],
)  # fmt: skip
def test_what_a_name_means(text: str, expected: list[str]) -> None:
    assert sources(text) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "code", "where", "expected"),
    [
        ("INSERT INTO out SELECT id FROM bank.public.oders", "SQL013", "bank.public.oders", "`bank.public.orders`"),
        ("INSERT INTO out SELECT id FROM bank.publc.orders", "SQL013", "bank.publc.orders", "`bank.public.orders`"),
        ("INSERT INTO out SELECT id FROM bnk.public.orders", "SQL013", "bnk.public.orders", "`bank.public.orders`"),
        ("INSERT INTO out SELECT id FROM bank.orders", "SQL013", "bank.orders", "`bank.public.orders`"),
        ("INSERT INTO out SELECT id FROM nowhere.own", "SQL013", "nowhere.own", "write own"),
        ("INSERT INTO out SELECT id FROM a.b.c.d", "SQL013", "a.b.c.d", "a catalog, a database and a table"),
        ("INSERT INTO bank.public.nothing SELECT 1", "SQL013", "bank.public.nothing", "`public` has `orders`"),
        (f"USE CATALOG bank; {OUT} SELECT id FROM oders", "SQL013", "oders", "did you mean `orders`"),
        (f"USE CATALOG bank; {OUT} SELECT id FROM ledgr.lines", "SQL013", "ledgr.lines", "did you mean `ledger.lines`"),
        (f"USE CATALOG bank; {OUT} SELECT id FROM own", "SQL013", "own", "`default_catalog.default_database.own`"),
        ("CREATE TABLE l LIKE bank.public.oders; SELECT 1", "SQL013", "LIKE bank.public.oders", "`bank.public.orders`"),
        ("USE CATALOG bnk; SELECT 1", "CAT014", "bnk", "did you mean `bank`"),
        ("USE bank; SELECT 1", "CAT014", "bank", "write USE CATALOG bank"),
        ("USE bank.leger; SELECT 1", "CAT014", "bank.leger", "did you mean `ledger`"),
        ("USE CATALOG bank; USE lake; SELECT 1", "CAT014", "lake", "write USE CATALOG lake"),
        ("INSERT INTO out SELECT x FROM bank.public.TWICE", "CAT015", "bank.public.TWICE", "`Twice`, `twice`"),
        (
            "INSERT INTO out SELECT a.x FROM bank.public.Twice a JOIN bank.public.twice b ON a.x = b.x",
            "CAT015",
            "bank.public.twice b",
            "differ only by case",
        ),
        ("INSERT INTO out SELECT 1 FROM bank.public.blind", "CAT015", "bank.public.blind", "`place`: it is point"),
        ("INSERT INTO out SELECT place FROM bank.public.orders", "SQL010", "place", "left out: it is point"),
        ("INSERT INTO out SELECT id FROM bank.public.cases", "SQL010", "id", "differs from it only by case"),
        ("INSERT INTO out SELECT __kind FROM bank.public.cases", "SQL010", "__kind", "adds a column of this name"),
        (
            "CREATE TABLE l LIKE bank.public.orders; INSERT INTO out SELECT place FROM l",
            "SQL010",
            "place",
            "`l` has a column `place`",
        ),
        (
            "CREATE TABLE l (b INT) WITH ('connector' = 'changes') LIKE bank.public.orders; SELECT 1",
            "CAT011",
            "LIKE bank.public.orders",
            "write LIKE bank.public.orders (EXCLUDING OPTIONS)",
        ),
        ("CREATE TABLE bank.public.t (a INT) WITH ('connector' = 'rows'); SELECT 1", "CAT009", "bank.public.t", "write t"),
        ("USE CATALOG bank; CREATE TEMPORARY VIEW v AS SELECT 1; SELECT 1", "CAT009", "v", "USE CATALOG default_catalog"),
        ("CREATE TABLE `a.b` (a INT) WITH ('connector' = 'rows'); SELECT 1", "CAT009", "`a.b`", "write a_b"),
        ("CREATE CATALOG BANK WITH ('type' = 'fake'); SELECT 1", "CAT013", "BANK", "declared twice"),
        ("CREATE CATALOG x WITH ('type' = 'fke'); SELECT 1", "OPT001", "'fke'", "did you mean 'fake'"),
        ("CREATE CATALOG x WITH ('type' = 'jdbc'); SELECT 1", "OPT001", "'jdbc'", "known from Flink"),
        ("CREATE CATALOG x; SELECT 1", "OPT004", "x", "WITH ('type' = '…')"),
        ("CREATE CATALOG x WITH ('type' = 'fake', 'ulr' = 'y'); SELECT 1", "OPT002", "'ulr'", "did you mean 'url'"),
        ("CREATE CATALOG x WITH ('type' = 'fake', 'mode' = 'c'); SELECT 1", "OPT003", "'c'", "'a', 'b'"),
        ("CREATE CATALOG x WITH ('type' = 'fake', 'url' = 'y', 'url' = 'z'); SELECT 1", "OPT005", "'url'", "twice"),
        ("INSERT INTO bank.public.orders SELECT * FROM bank.public.orders", "SQL017", None, "both read and written"),
        (
            "INSERT INTO bank.public.orders (id) SELECT id FROM own",
            "SQL052",
            "bank.public.orders",
            "`amount` of `bank.public.orders` is NOT NULL",
        ),
    ],
)  # fmt: skip
def test_mistakes(text: str, code: str, where: str | None, expected: str) -> None:
    [found] = mistakes(text)
    assert found.code == code
    assert expected in "\n".join((found.message, *found.notes, found.help or ""))
    if where is not None:
        assert at(text, found) == where


def test_places_in_macros() -> None:
    text = "{% macro from(name) %}\nSELECT id FROM bank.public.{{ name }}{% endmacro %}\nINSERT INTO out {{ from('oders') }}"
    [found] = mistakes(text)
    assert found.span is not None
    assert found.span.line == HEAD.count("\n") + 2
    assert found.span.column == len("SELECT id FROM ") + 1


def test_each_table_is_asked_for_once_and_no_other() -> None:
    fakes = Fakes()
    plan(
        "CREATE VIEW v AS SELECT id FROM bank.public.orders; CREATE TABLE l LIKE bank.public.orders;\n"
        "INSERT INTO out SELECT v.id FROM v JOIN bank.public.orders o ON v.id = o.id JOIN l ON l.id = o.id;\n"
        "INSERT INTO lake.public.orders SELECT id, 1, at FROM bank.public.orders;",
        fakes,
    )
    assert fakes.asked == [("bank", "describe", "public", "orders"), ("lake", "describe", "public", "orders")]


def test_a_catalog_that_nothing_names_is_not_asked() -> None:
    fakes = Fakes(away=frozenset({"bank", "lake"}))
    plan("USE CATALOG bank; USE CATALOG default_catalog; INSERT INTO out SELECT id FROM own", fakes)
    assert fakes.asked == []


def test_a_catalog_that_is_away_is_reported_once_and_the_rest_is_checked() -> None:
    fakes = Fakes(away=frozenset({"bank"}))
    text = (
        "INSERT INTO out SELECT nothing FROM bank.public.orders; INSERT INTO out SELECT x FROM bank.public.rates;\n"
        "INSERT INTO out SELECT id FROM lake.public.rates JOIN bank.public.orders USING (id);\n"
        "INSERT INTO bank.public.x SELECT idd FROM own; CREATE TABLE l LIKE bank.public.x; INSERT INTO out SELECT a FROM l;"
    )
    away, unknown = mistakes(text, fakes)
    assert (away.code, at(text, away)) == ("ENV006", "bank.public.orders")
    assert away.message == "bank is away, said ***"
    assert (unknown.code, at(text, unknown)) == ("SQL010", "idd")
    with pytest.raises(DiagnosticError) as raised:
        plan("INSERT INTO out SELECT id FROM bank.public.orders", fakes)
    assert raised.value.exit_code == 5
    [found] = mistakes("USE bank.ledger; INSERT INTO lines SELECT 1", fakes)
    assert found.code == "ENV006"


def test_a_mistake_in_a_catalog_is_the_only_one() -> None:
    text = "CREATE CATALOG x WITH ('type' = 'fke'); USE x.y; INSERT INTO z SELECT a FROM x.y.t; USE CATALOG x; FROM t"
    assert [d.code for d in mistakes(text)] == ["OPT001"]


def test_what_is_declared() -> None:
    made = plan("INSERT INTO bank.public.orders SELECT id, rate, NULL FROM lake.public.rates")
    (sink,) = made.physical.sinks
    assert [(c.name, str(c.type), c.nullable) for c in sink.schema] == [
        ("id", "BIGINT", False),
        ("amount", "DECIMAL(10,2)", False),
        ("at", "TIMESTAMP", True),
    ]
    assert (sink.name, sink.primary_key, sink.options) == ("bank.public.orders", ("id",), {"count": "3"})


def test_a_plan_is_that_of_the_declaration() -> None:
    """Nothing but names differs, so state and identities are the same."""
    query = "INSERT INTO out SELECT count(*) FROM {} GROUP BY amount"
    named = plan(query.format("bank.public.orders"))
    written = plan(
        "CREATE TABLE o (id BIGINT NOT NULL, amount DECIMAL(10, 2) NOT NULL, at TIMESTAMP, PRIMARY KEY (id) NOT ENFORCED) "
        f"WITH ('connector' = 'rows', 'count' = '3'); {query.format('o')}"
    )
    assert [s.identity for s in named.physical.sources] == [s.identity for s in written.physical.sources]
    assert [s.state_id for s in named.physical.states] == [s.state_id for s in written.physical.states]
    assert [s.identity for s in named.physical.sinks] == [s.identity for s in written.physical.sinks]


def test_no_password_is_in_what_is_kept() -> None:
    made = plan("-- not geheimnis\nINSERT INTO out SELECT id FROM bank.public.orders")
    assert "geheimnis" not in made.masked_sql
    assert "'password' = '***'" in made.masked_sql
    assert "geheimnis" not in repr(made.physical)
    assert "geheimnis" not in repr(made.catalog)


def test_if_not_exists() -> None:
    assert sources(
        "CREATE CATALOG IF NOT EXISTS bank WITH ('type' = 'fake'); SELECT id FROM bank.public.rates"
    ) == ["bank.public.Rates"]


@given(
    st.lists(
        st.one_of(
            st.sampled_from(["USE CATALOG bank", "USE CATALOG lake", "USE CATALOG default_catalog"]),
            st.sampled_from(["USE bank.ledger", "USE lake.public", "USE bank.public"]),
            st.sampled_from(
                [
                    "orders",
                    "ledger.orders",
                    "lake.public.orders",
                    "default_catalog.default_database.own",
                    "own",
                ]
            ),
        ),
        max_size=8,
    )
)
def test_any_order_of_use(steps: Sequence[str]) -> None:
    """Against a model: a name is filled up with what is in use."""
    text, expected = HEAD, []
    catalog, database = "default_catalog", "default_database"
    for step in steps:
        if step.startswith("USE CATALOG"):
            catalog = step.split()[-1]
            database = "default_database" if catalog == "default_catalog" else "public"
        elif step.startswith("USE"):
            catalog, database = step.split()[-1].split(".")
        else:
            parts = step.split(".")
            expected.append(".".join([catalog, database, step][: 3 - len(parts)] + parts))
            step = f"INSERT INTO default_catalog.default_database.out SELECT 1 FROM {step}"
        text += f"{step};\n"
    script, found = resolve(parse_file(text), Fakes().catalogs())
    inserts = [s for s in script.statements if isinstance(s, InsertInto)]
    names = [s.query.args["from_"].this for s in inserts]
    for name, wanted in zip(names, expected, strict=True):
        there = ".".join(part.name for part in name.parts)
        prefix, _, last = wanted.rpartition(".")
        if prefix == "default_catalog.default_database":
            assert there == last
        elif last in TABLES.get(prefix.split(".")[1], {}) and prefix.split(".")[0] in ("bank", "lake"):
            assert there == wanted
        else:
            assert there.lower().replace("`", "") in {b.replace("`", "") for b in found.broken}
