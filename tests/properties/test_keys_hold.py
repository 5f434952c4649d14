"""Keys that the planner takes for unique are: whatever projections are between a query's rows and a table's PRIMARY KEY."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from tests.examples import seeds

TABLES = """CREATE TABLE t (k STRING, j STRING NOT NULL, n BIGINT NOT NULL, m INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE c (k STRING, n BIGINT, v DECIMAL(10, 2), PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'debezium-json');
"""
KIND = {
    "s": "STRING",
    "i": "INT",
    "b": "BIGINT",
    "t": "TIMESTAMP(3)",
    "z": "TIMESTAMP_LTZ(3)",
    "d": "DATE",
    "h": "DECIMAL(38, 2)",
}
WINDOWS = (
    "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)",
    "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)",
    "SESSION(TABLE t PARTITION BY j, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
)
#: What a column of a kind may be given as, and of which kind that is.
ITEMS = {
    "s": [("COALESCE({0}, '')", "s"), ("UPPER({0})", "s"), ("{0} || 'x'", "s")],
    "i": [("CAST({0} AS BIGINT)", "b"), ("COALESCE({0}, 0)", "i"), ("NULLIF({0}, 3)", "i")],
    "b": [("CAST({0} AS INT)", "i"), ("CAST({0} AS DECIMAL(38, 2))", "h"), ("{0} + 1", "b"), ("COALESCE({0}, 0)", "b")],
    "t": [
        *(("CAST({0} AS TIMESTAMP_LTZ(3))", "z"), ("CAST({0} AS TIMESTAMP_LTZ)", "z"), ("CAST({0} AS DATE)", "d")),
        *(("{0} + INTERVAL '1' MINUTE", "t"), ("DATE_TRUNC('hour', {0})", "t"), ("DATE_FORMAT({0}, 'HH:mm')", "s")),
        ("COALESCE({0}, TIMESTAMP '2024-01-01 00:00:00')", "t"),
    ],
    "z": [("CAST({0} AS TIMESTAMP)", "t"), ("{0} - INTERVAL '1' HOUR", "z")],
    "d": [("CAST({0} AS TIMESTAMP(3))", "t")],
    "h": [],
}  # fmt: skip
#: The kinds of a table's columns that take a column of another one, without a CAST.
ASSIGNED = {"t": "z", "z": "t", "i": "b", "d": "t"}
Columns = list[tuple[str, str]]


def rows(chosen: random.Random) -> tuple[str, Columns]:
    """A query, and its columns with their kinds."""
    window = chosen.choice(WINDOWS)
    bounds = [("window_start", "t"), ("window_end", "t")]
    match chosen.randrange(7):
        case 0 | 1:
            keys = [
                *bounds,
                ("j", "s"),
                *chosen.sample([("k", "s"), ("n", "b"), ("window_time", "t")], chosen.randrange(3)),
            ]
            names = ", ".join(name for name, _ in keys)
            return f"SELECT {names}, COUNT(*) AS x FROM TABLE({window}) GROUP BY {names}", [*keys, ("x", "b")]
        case 2:
            made = "TUMBLE_START(ts, INTERVAL '1' MINUTE) AS a, TUMBLE_END(ts, INTERVAL '1' MINUTE) AS e"
            return (
                f"SELECT {made}, j, COUNT(*) AS x FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), j",
                [("a", "t"), ("e", "t"), ("j", "s"), ("x", "b")],
            )
        case 3:
            group, kind = chosen.choice([("CAST(ts AS DATE)", "d"), ("n % 3", "b"), ("COALESCE(k, '')", "s")])
            return f"SELECT {group} AS g, j, COUNT(*) AS x FROM t GROUP BY {group}, j", [
                ("g", kind),
                ("j", "s"),
                ("x", "b"),
            ]
        case 4:
            first = "SELECT *, ROW_NUMBER() OVER (PARTITION BY j, n ORDER BY ts) AS rn FROM t"
            return f"SELECT j, n, m, ts FROM ({first}) WHERE rn = 1", [
                ("j", "s"),
                ("n", "b"),
                ("m", "i"),
                ("ts", "t"),
            ]
        case 5:
            best = "SELECT *, ROW_NUMBER() OVER (PARTITION BY j ORDER BY m DESC) AS rn FROM t"
            return f"SELECT j, rn, m FROM ({best}) WHERE rn <= 3", [("j", "s"), ("rn", "b"), ("m", "i")]
    sums = "SELECT k, COUNT(*) AS s FROM t GROUP BY k"
    return f"SELECT c.k, c.n, b.s FROM c LEFT JOIN ({sums}) AS b ON c.k = b.k", [
        ("k", "s"),
        ("n", "b"),
        ("s", "b"),
    ]


def projected(chosen: random.Random, query: str, columns: Columns, level: int) -> tuple[str, Columns]:
    """Most of a query's columns, some as something else."""
    given: Columns = []
    items = []
    taken = chosen.sample(columns, chosen.randint(max(1, len(columns) - 1), len(columns)))
    for number, (name, kind) in enumerate(taken):
        item, to = chosen.choice([("{0}", kind), ("{0}", kind), ("CAST({0} AS STRING)", "s"), *ITEMS[kind]])
        given.append((f"x{level}_{number}", to))
        items.append(f"{item.format(name)} AS {given[-1][0]}")
    return f"SELECT {', '.join(items)} FROM ({query}) AS q{level}", given


def pipeline(seed: int) -> str:
    chosen = random.Random(seed)
    query, columns = rows(chosen)
    for level in range(chosen.randrange(4)):
        query, columns = projected(chosen, query, columns, level)
    kinds = [ASSIGNED.get(kind, kind) if chosen.random() < 0.2 else kind for _, kind in columns]
    names = [f"s{number}" for number in range(len(columns))]
    declared = ", ".join(f"{name} {KIND[kind]}" for name, kind in zip(names, kinds, strict=True))
    key = ", ".join(chosen.sample(names, max(chosen.randint(1, len(names)) for _ in range(2))))
    zone = "SET 'table.local-time-zone' = 'Europe/Berlin';\n" if chosen.random() < 0.15 else ""
    sink = f"CREATE TABLE o ({declared}, PRIMARY KEY ({key}) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'o.db');\n"
    return f"{zone}{TABLES}{sink}INSERT INTO o {query};\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Rows of the tables: few values, and times of a night in which clocks are set back in Berlin."""
    folder, chosen = tmp_path_factory.mktemp("keys"), random.Random(5)
    evenings = [datetime(2024, 10, 27), datetime(2024, 10, 27, 2), datetime(2024, 1, 1)]
    read = [
        {"k": chosen.choice(["a", "b", "", "x", None]), "j": chosen.choice(["a", "b", ""]), "n": chosen.randrange(5),
         "m": chosen.choice([None, 0, 1, 2]),
         "ts": str(chosen.choice(evenings) + timedelta(seconds=chosen.randrange(7200)))}
        for _ in range(400)
    ]  # fmt: skip
    changes = [
        {"op": "c", "before": None, "after": {"k": k, "n": len(k), "v": 1}} for k in ("a", "b", "", "x")
    ]
    found = {}
    for name, lines in (("t", read), ("c", changes)):
        file = folder / f"{name}.json"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found[name] = [str(file)]
    return found


def repeated_keys(text: str, files: dict[str, list[str]]) -> int | None:
    """How many keys the result has twice, NULLs in none; None: the planner refuses the key."""
    try:
        planned = plan_file(text)
    except DiagnosticError as error:
        if {d.code for d in error.diagnostics} <= {"SQL071", "SQL073"}:
            return None
        raise
    script = to_duckdb(planned, lambda spec: files[spec.name])
    key = [f'"{name}"' for name in planned.physical.sinks[0].primary_key]
    known = " AND ".join(f"{name} IS NOT NULL" for name in key)
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        for _, view in script.sources:
            con.execute(view)
        result = script.sinks[0][1]
        twice = f"SELECT {', '.join(key)} FROM ({result}) WHERE {known} GROUP BY ALL HAVING COUNT(*) > 1"
        [(number,)] = con.execute(f"SELECT COUNT(*) FROM ({twice})").fetchall()
    return int(number)


@pytest.mark.search
def test_a_key_that_is_accepted_is_unique(files: dict[str, list[str]]) -> None:
    """No query ends in an error of ours either: rules must not lose a key on the way."""
    accepted, tried = 0, seeds(150)
    for seed in tried:
        text = pipeline(seed)
        repeated = repeated_keys(text, files)
        assert not repeated, text
        accepted += repeated is not None
    assert accepted >= len(tried) // 10


def test_there_is_a_query_of_each_kind() -> None:
    made = [pipeline(seed) for seed in range(120)]
    assert all(
        any(window in text for text in made) for window in (*WINDOWS, "TUMBLE_START", "rn <= 3", "LEFT JOIN")
    )
    assert any("Europe/Berlin" in text for text in made)
