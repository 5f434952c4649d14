"""What a sink holds: queries that are one to it, queries that are not, and a search for two that are taken for one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.identity.form import Form, text
from sqlstream_planner.identity.sink import Holds, SinkIdentity, in_words_of, read_sink_identity
from tests.examples import seeds
from tests.formats.accepted_options import ACCEPTED
from tests.identity.meaning import Worlds
from tests.identity.test_pairs import TABLES
from tests.identity.test_soundness import SOURCES, Chain, _drawn, _mutated
from tests.properties.file_generator import COMPUTED, CONDITIONS, Chance, computed, filtered
from tests.properties.file_generator import Form as QueryForm

DUCK = "'connector' = 'duckdb', 'path' = 'out.duckdb'"


def identity(script: str) -> SinkIdentity:
    """Of the one sink of a script."""
    (sink,) = plan_file(script, file="p.sql").physical.sinks
    found = read_sink_identity(sink.identity)
    assert found is not None
    assert found.text == sink.identity
    return found


def held(query: str) -> SinkIdentity:
    return identity(f"{TABLES}CREATE TABLE o WITH ({DUCK}) AS {query};")


SAME = [
    (
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
        "SELECT q.k, n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS q",
    ),
    ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "SELECT COUNT(*) AS n, k FROM t GROUP BY k"),
    ("SELECT k, v FROM t WHERE v > 1 AND b", "SELECT k, v FROM (SELECT * FROM t WHERE b) AS q WHERE 1 < v"),
    ("SELECT k FROM t UNION ALL SELECT v FROM t", "SELECT v AS k FROM t UNION ALL SELECT k FROM t"),
    (
        "SELECT k FROM t UNION ALL (SELECT v FROM t UNION ALL SELECT k + 1 FROM t)",
        "(SELECT k + 1 AS k FROM t UNION ALL SELECT k FROM t) UNION ALL SELECT v FROM t",
    ),
    ("SELECT k, v + k AS s FROM t", "SELECT k, k + v AS s FROM t"),
]
DIFFERENT = [
    ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "SELECT k, COUNT(*) + 1 AS n FROM t GROUP BY k"),
    ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING k > 1"),
    ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "SELECT k, COUNT(*) AS m FROM t GROUP BY k"),
    ("SELECT k, v FROM t", "SELECT v AS k, k AS v FROM t"),
    ("SELECT k, v FROM t", "SELECT DISTINCT k, v FROM t"),
    ("SELECT k, v FROM t", "SELECT k, v FROM t UNION ALL SELECT k, v FROM t"),
    ("SELECT k FROM t UNION ALL SELECT v FROM t", "SELECT k FROM t UNION SELECT v FROM t"),
    ("SELECT k FROM t UNION ALL SELECT v FROM t", "SELECT k FROM t UNION ALL SELECT v FROM t WHERE v > 1"),
    ("SELECT k FROM t INTERSECT SELECT v FROM t", "SELECT v AS k FROM t EXCEPT SELECT k FROM t"),
    (
        "SELECT k, v FROM t ORDER BY v LIMIT 3",
        "SELECT k, v FROM t ORDER BY v DESC LIMIT 3",
    ),
    ("SELECT k, v FROM t ORDER BY v LIMIT 3", "SELECT k, v FROM t ORDER BY v LIMIT 4"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_queries_that_are_one_answer(one: str, other: str) -> None:
    assert held(one) == held(other)


#: The same answer in other words: it is written in the old ones where both are compared.
OTHER_WORDS = [
    ("SELECT k, v FROM t WHERE v > 4", "SELECT k, v FROM t WHERE v >= 5 AND 1 = 1"),
    ("SELECT k, v FROM t WHERE b", "SELECT k, v FROM t WHERE b = TRUE"),
    ("SELECT YEAR(ts) AS y FROM t", "SELECT EXTRACT(YEAR FROM ts) AS y FROM t"),
    ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "SELECT k, COUNT(1) AS n FROM t GROUP BY k"),
    (
        "SELECT k, SUM(v) FILTER (WHERE v > 4) AS n FROM t GROUP BY k HAVING COUNT(*) > 1",
        "SELECT k, SUM(CASE WHEN v >= 5 THEN v END) AS n FROM t GROUP BY k HAVING 2 <= COUNT(1)",
    ),
    (
        "SELECT k FROM t WHERE v > 4 UNION ALL SELECT v FROM t",
        "SELECT v AS k FROM t UNION ALL SELECT k FROM t WHERE v >= 5",
    ),
    ("SELECT k FROM t INTERSECT SELECT v FROM t", "SELECT v AS k FROM t INTERSECT SELECT k FROM t"),
    ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "SELECT k, COUNT(*) + 0 AS n FROM t GROUP BY k"),
    ("SELECT k FROM t UNION SELECT v FROM t", "SELECT v AS k FROM t UNION SELECT k FROM t"),
    ("SELECT k, v FROM t UNION SELECT v, k FROM t", "SELECT v AS k, k AS v FROM t UNION SELECT k, v FROM t"),
    (
        "SELECT k, MAX(v) AS n FROM (SELECT k, v FROM t UNION ALL SELECT v, k FROM t) GROUP BY k",
        "SELECT k, MAX(v) AS n FROM (SELECT v AS k, k AS v FROM t UNION ALL SELECT k, v FROM t) GROUP BY k",
    ),
]
OTHER_ANSWERS = [
    ("SELECT k, v FROM t WHERE v > 4", "SELECT k, v FROM t WHERE v >= 4"),
    ("SELECT k, v FROM t WHERE v > 4", "SELECT k, v FROM t WHERE v > 4 AND g IS NOT NULL"),
    ("SELECT k, x FROM t WHERE x > 4", "SELECT k, x FROM t WHERE x >= 5"),
    ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "SELECT k, COUNT(v) AS n FROM t GROUP BY k"),
    ("SELECT k FROM t EXCEPT SELECT v FROM t", "SELECT v AS k FROM t EXCEPT SELECT k FROM t"),
    (
        "SELECT k, v FROM t UNION ALL SELECT v, k FROM t WHERE b",
        "SELECT k, v FROM t WHERE b UNION ALL SELECT v, k FROM t",
    ),
    ("SELECT k, v FROM t UNION SELECT v, 7 FROM t", "SELECT v AS k, v FROM t UNION SELECT k, 7 FROM t"),
]


@pytest.mark.parametrize(("one", "other"), OTHER_WORDS)
def test_the_same_answer_in_other_words(one: str, other: str) -> None:
    assert held(one).queries != held(other).queries
    assert in_words_of(held(other), held(one)).queries == held(one).queries
    assert in_words_of(held(one), held(other)).queries == held(other).queries


@pytest.mark.parametrize(("one", "other"), [*OTHER_ANSWERS, *DIFFERENT[:2]])
def test_another_answer_stays_another(one: str, other: str) -> None:
    assert in_words_of(held(other), held(one)).queries == held(other).queries != held(one).queries


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_queries_that_are_two_answers(one: str, other: str) -> None:
    first, second = held(one), held(other)
    assert (first.queries, first.columns) != (second.queries, second.columns)


def test_views_that_read_each_other_twice_are_told_as_one_query() -> None:
    views = "CREATE VIEW w0 AS SELECT k, v FROM t UNION ALL SELECT v, k FROM t;\n" + "".join(
        f"CREATE VIEW w{n} AS SELECT k, v FROM w{n - 1} UNION ALL SELECT v, k FROM w{n - 1};\n"
        for n in range(1, 40)
    )
    found = [
        identity(f"{TABLES}{views}CREATE TABLE o WITH ({DUCK}) AS SELECT {c} FROM w39;")
        for c in ("k, v", "v AS k, k AS v")
    ]
    assert [len(i.queries) for i in found] == [1, 1]
    assert found[0].queries != found[1].queries


@pytest.mark.parametrize(
    ("query", "sink", "holds", "lasting"),
    [
        ("SELECT k FROM t", DUCK, Holds.ANSWER, True),
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", DUCK, Holds.ANSWER, False),
        ("SELECT k FROM t", "'connector' = 'filesystem', 'path' = 'o', 'format' = 'json'", Holds.ROWS, True),
        (
            "SELECT k FROM t",
            "'connector' = 'filesystem', 'path' = 'o', 'format' = 'debezium-json'",
            Holds.ANSWER,
            True,
        ),
        (
            "SELECT DISTINCT k FROM t",
            "'connector' = 'filesystem', 'path' = 'o', 'format' = 'csv'",
            Holds.ROWS,
            False,
        ),
        ("SELECT k FROM t", "'connector' = 'print'", Holds.SHOWN, True),
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "'connector' = 'print'", Holds.ANSWER, False),
        ("SELECT k FROM t", "'connector' = 'blackhole'", Holds.NOTHING, True),
        (
            "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, window_end",
            "'connector' = 'print'",
            Holds.SHOWN,
            True,
        ),
    ],
)
def test_what_rows_are_to_readers(query: str, sink: str, holds: Holds, lasting: bool) -> None:
    found = identity(f"{TABLES}CREATE TABLE o WITH ({sink}) AS {query};")
    assert (found.holds, found.lasting) == (holds, lasting)


#: Who asks a schema registry, and by which certificates: not which schema is there.
_HOW_A_REGISTRY_IS_REACHED = (
    *(f"basic-auth.{name}" for name in ("credentials-source", "user-info")),
    *(f"bearer-auth.{name}" for name in ("credentials-source", "token")),
    *(f"ssl.{store}.{name}" for store in ("keystore", "truststore") for name in ("location", "password")),
)


def test_every_option_counts_unless_its_descriptor_says_otherwise() -> None:
    """The list of those that don't is here once more, so that none gets there by accident."""
    harmless = {
        o.name
        for d in REGISTERED.descriptors
        for o in d.all_options
        if not o.changes_output and Role.SINK in o.roles and not o.name.endswith(".ignore-parse-errors")
    }
    assert harmless - ACCEPTED == {
        "auto-compaction",
        "sink.commit-interval",
        "avro.codec",
        "compaction.file-size",
        "credential",
        *(f"{prefix}json.fail-on-missing-field" for prefix in ("", "key.", "value.")),
        "parquet.compression",
        "partition.time-extractor.timestamp-formatter",
        "partition.time-extractor.timestamp-pattern",
        "print-identifier",
        "properties.*",
        "properties.bootstrap.servers",
        *(f"properties.{name}" for name in ("sasl.jaas.config", "sasl.password", "ssl.key.password")),
        *(f"properties.ssl.{name}" for name in ("keystore.key", "keystore.password", "truststore.password")),
        "sink.buffer-flush.interval",
        "sink.buffer-flush.max-rows",
        "sink.delivery-guarantee",
        "sink.parallelism",
        "sink.partition-commit.delay",
        "sink.partition-commit.policy.kind",
        "sink.partition-commit.trigger",
        "sink.partition-commit.watermark-time-zone",
        "sink.rolling-policy.check-interval",
        "sink.rolling-policy.file-size",
        "sink.rolling-policy.inactivity-interval",
        "sink.rolling-policy.rollover-interval",
        "sink.transactional-id-prefix",
        "standard-error",
        "token",
        *(
            f"{prefix}{format_}.{name}"
            for prefix in ("", "key.", "value.")
            for format_ in ("avro-confluent", "debezium-avro-confluent", "json-registry", "proto-registry")
            for name in _HOW_A_REGISTRY_IS_REACHED
        ),
    }
    assert {d.name for d in REGISTERED.descriptors if d.sink.records_epochs} == {
        "delta",
        "duckdb",
        "iceberg",
        "postgres",
    }


@pytest.mark.parametrize("password", ["'password' = 'a1'", "'username' = 'me', 'password' = 'b2'"])
def test_no_password_is_in_it(password: str) -> None:
    sink = f"'connector' = 'postgres', 'url' = 'postgresql://me:secret3@host/db', {password}"
    written = identity(f"{TABLES}CREATE TABLE o WITH ({sink}) AS SELECT k FROM t;").text
    assert not any(secret in written for secret in ("a1", "b2", "secret3"))
    path = "'connector' = 'filesystem', 'path' = 's3://key:secret4@bucket/out', 'format' = 'json'"
    written = identity(f"{TABLES}CREATE TABLE o WITH ({path}) AS SELECT k FROM t;").text
    assert "secret4" not in written
    assert "bucket/out" in written


# ------------------------------------------------------------------------------------------------- by search

Identify = Callable[[SinkIdentity], object]


def _topped(chance: Chance, chain: Chain) -> Chain:
    """The chain, often with a filter or a computed column over its last form."""
    below = chain.below(9)
    if not below.whole or chance.maybe(0.3):
        return chain
    column = chance.one(below.whole)
    other = chance.one(below.whole)
    if chance.maybe():
        top = QueryForm(filtered, {"where": chance.one(CONDITIONS).format(c=column, o=other)})
    else:
        top = QueryForm(computed, {"expression": chance.one(COMPUTED).format(c=column, o=other)})
    return replace(chain, forms=(*chain.forms, top))


def _answers(worlds: Worlds) -> Iterator[tuple[SinkIdentity, str, str]]:
    """Identities of sinks, with the query as the planner and as DuckDB has it."""
    for seed in seeds(30):
        chance = Chance(seed)
        chain = _topped(chance, _drawn(chance))
        for each in (chain, *(_mutated(chance, chain) for _ in range(7))) if chain.forms else ():
            query = each.below(len(each.forms))
            columns = all(each.below(n).whole for n in range(len(each.forms) + 1))
            if not columns or query.ties or not worlds.fits(query.judge):
                continue
            script = f"{each.source.statement}\nCREATE TABLE o WITH ({DUCK}) AS {query.ours};"
            try:
                yield identity(script), script, query.judge
            except DiagnosticError:  # `v` is no number there, or a window's rows go
                continue


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    return Worlds(SOURCES)


@pytest.fixture(scope="module")
def answers(worlds: Worlds) -> list[tuple[SinkIdentity, str, str]]:
    return list(_answers(worlds))


def _mistaken(
    answers: list[tuple[SinkIdentity, str, str]], worlds: Worlds, identify: Identify
) -> list[tuple[str, str]]:
    """Pairs of scripts that are one by `identify`, and whose queries DuckDB answers in two ways."""
    groups: dict[object, dict[str, str]] = defaultdict(dict)
    for found, script, judge in answers:
        groups[identify(found)].setdefault(judge, script)
    mistaken = []
    for same in groups.values():
        (first, one), *others = same.items()
        mistaken += [(one, other) for sql, other in others if worlds.table(sql) != worlds.table(first)]
    return mistaken


def test_one_identity_is_one_answer(answers: list[tuple[SinkIdentity, str, str]], worlds: Worlds) -> None:
    assert len({a.text for a, _, _ in answers}) < len({judge for *_, judge in answers})
    mistaken = _mistaken(answers, worlds, lambda found: found.text)
    one, other = min(mistaken, default=("", ""), key=lambda pair: len(pair[0]) + len(pair[1]))
    assert not mistaken, f"{len(mistaken)} pairs, such as\n{one}\nand\n{other}"


@pytest.mark.parametrize("left_out", ["rows", "conditions", "columns"])
def test_the_search_finds_what_an_identity_leaves_out(
    left_out: str, answers: list[tuple[SinkIdentity, str, str]], worlds: Worlds
) -> None:
    place = ["rows", "conditions", "columns"].index(left_out)

    def crippled(found: SinkIdentity) -> object:
        parts = [[text(a) for a in q.args if isinstance(a, Form)] for q in found.queries]
        return (found.columns, tuple(tuple(p[:place] + p[place + 1 :]) for p in parts))

    assert _mistaken(answers, worlds, crippled)
