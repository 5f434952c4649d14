"""Values that are equal and not the same (0.0 and -0.0): what is taken back is exactly what was given."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from tests.examples import seeds
from tests.properties.in_process import run_here
from tests.properties.test_edited_answers import held

_COLUMNS = "k INT, s STRING, x DOUBLE, i INT"
#: Queries over {t} whose columns `a` and `b` show which of two equal values there is.
QUERIES = {
    "min": "SELECT s AS a, CAST(MIN(x) AS STRING) AS b FROM {t} GROUP BY s",
    "max": "SELECT s AS a, CAST(MAX(x) AS STRING) AS b FROM {t} GROUP BY s",
    "1 / min": "SELECT s AS a, CAST(1 / MIN(x) AS STRING) AS b FROM {t} GROUP BY s",
    "any value": "SELECT s AS a, CAST(ANY_VALUE(x) AS STRING) AS b FROM {t} GROUP BY s",
    "max by": "SELECT s AS a, CAST(MAX_BY(x, i) AS STRING) AS b FROM {t} GROUP BY s",
    "a list": "SELECT s AS a, CAST(ARRAY_AGG(x ORDER BY i) AS STRING) AS b FROM {t} GROUP BY s",
    "a count": "SELECT s AS a, CAST(COUNT(*) AS STRING) AS b FROM {t} GROUP BY s",
    "keys": "SELECT CAST(x AS STRING) AS a, CAST(COUNT(*) AS STRING) AS b FROM {t} GROUP BY x",
    "distinct": "SELECT CAST(x AS STRING) AS a, s AS b FROM (SELECT DISTINCT x, s FROM {t})",
    "lag": "SELECT CAST(i AS STRING) AS a, CAST(LAG(x) OVER (PARTITION BY s ORDER BY i) AS STRING) AS b FROM {t}",
    "over": "SELECT CAST(x AS STRING) AS a, CAST(MAX(x) OVER (PARTITION BY s) AS STRING) AS b FROM {t}",
    "over, by x": "SELECT CAST(x AS STRING) AS a, CAST(COUNT(*) OVER (PARTITION BY x) AS STRING) AS b FROM {t}",
    "top": "SELECT s AS a, CAST(x AS STRING) AS b FROM "
    "(SELECT s, x, ROW_NUMBER() OVER (PARTITION BY s ORDER BY i) AS r FROM {t}) WHERE r <= 2",
    "rank by x": "SELECT s AS a, CAST(x AS STRING) AS b FROM "
    "(SELECT s, x, RANK() OVER (PARTITION BY s ORDER BY x) AS r FROM {t}) WHERE r <= 2",
    "top of x": "SELECT CAST(i AS STRING) AS a, CAST(x AS STRING) AS b FROM "
    "(SELECT x, i, ROW_NUMBER() OVER (PARTITION BY x ORDER BY i) AS r FROM {t}) WHERE r <= 2",
    "last of x": "SELECT CAST(i AS STRING) AS a, CAST(x AS STRING) AS b FROM "
    "(SELECT x, i, ROW_NUMBER() OVER (PARTITION BY x ORDER BY i DESC) AS r FROM {t}) WHERE r = 1",
    "join": "SELECT CAST(c.x AS STRING) AS a, CAST(d.x AS STRING) AS b FROM {t} AS c JOIN u AS d ON c.k = d.k",
    "left join": "SELECT CAST(c.x AS STRING) AS a, CAST(d.x AS STRING) AS b FROM u AS c LEFT JOIN {t} AS d ON c.k = d.k",
    "join by x": "SELECT CAST(c.x AS STRING) AS a, CAST(d.x AS STRING) AS b FROM {t} AS c FULL JOIN u AS d ON c.x = d.x",
    "not in": "SELECT s AS a, CAST(x AS STRING) AS b FROM {t} WHERE x NOT IN (SELECT x FROM u)",
    "except": "SELECT s AS a, CAST(x AS STRING) AS b FROM (SELECT s, x FROM {t} EXCEPT ALL SELECT s, x FROM u)",
    "max of min": "SELECT CAST(MAX(m) AS STRING) AS a, '' AS b FROM (SELECT s, MIN(x) AS m FROM {t} GROUP BY s)",
    "join of min": "SELECT CAST(q.m AS STRING) AS a, CAST(u.i AS STRING) AS b FROM "
    "(SELECT s, MIN(x) AS m FROM {t} GROUP BY s) AS q JOIN u ON u.s = q.s",
}
#: Queries that give each row as it came, of which DuckDB says which of two equal values it has.
EXACT = {"lag", "top", "max by", "join", "left join"}
#: Those that may give either of two equal values.
EITHER = {"any value", "over"}
#: What is read: rows that never go, changes with a key and without one, and what is kept up to date.
FROM = {
    "append-only": "t",
    "changes": "t",
    "changes by key": "t",
    "the last": "(SELECT k, s, x, i FROM "
    "(SELECT *, ROW_NUMBER() OVER (PARTITION BY i ORDER BY k DESC) AS r FROM t) WHERE r = 1)",
}


def pipeline(query: str, kind: str) -> str:
    format_ = "changelog-json" if kind.startswith("changes") else "json"
    key = ", PRIMARY KEY (i) NOT ENFORCED" if kind == "changes by key" else ""
    files = "'connector' = 'filesystem', 'path' ="
    return (
        f"CREATE TABLE t ({_COLUMNS}{key}) WITH ({files} 't', 'format' = '{format_}');\n"
        f"CREATE TABLE u ({_COLUMNS}) WITH ({files} 'u', 'format' = 'json');\n"
        f"CREATE TABLE out WITH ({files} 'out', 'format' = 'changelog-json') AS {QUERIES[query].format(t=FROM[kind])};\n"
    )


def run(folder: Path, query: str, kind: str) -> Counter[tuple[Any, ...]]:
    """The rows of the table; raises AssertionError if one was taken back that was never given."""
    (folder / "p.sql").write_text(pipeline(query, kind))
    plan = plan_file(folder / "p.sql")
    run_here(plan, folder, sql=plan.masked_sql)
    return Counter(held(folder, ["a", "b"]))


def write(folder: Path, to: str, number: int, lines: list[dict[str, Any]]) -> None:
    (folder / to).mkdir(exist_ok=True)
    (folder / to / f"{number}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def changes(
    random_: random.Random, kind: str, step: int, there: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Some lines of a file; `there` are the rows without a key that have not gone."""
    lines = []
    for n in range(random_.randint(2, 6)):
        new = row(random_, 10 * step + n)
        if not kind.startswith("changes"):
            there.append(new)
            lines.append(new)
        elif kind == "changes by key":
            new["i"] = random_.randint(0, 5)
            lines.append({"op": random_.choice(["+I", "+I", "-D"]), "data": new})
        elif there and random_.random() < 0.4:
            lines.append({"op": "-D", "data": there.pop(random_.randrange(len(there)))})
        else:
            there.append(new)
            lines.append({"op": "+I", "data": new})
    return lines


def row(random_: random.Random, i: int) -> dict[str, Any]:
    x = random_.choice([0.0, -0.0, 0.0, -0.0, 1.5, -1.0])
    return {"k": random_.randint(0, 1), "s": random_.choice("ab"), "x": x, "i": i}


@pytest.mark.sampled(8, each_value=False)
@pytest.mark.parametrize("kind", FROM)
@pytest.mark.parametrize("query", QUERIES)
def test_runs_and_edits(query: str, kind: str, tmp_path: Path) -> None:
    """File by file, then edited to another query and back: as a run over all files at once."""
    for seed in seeds(1):
        random_ = random.Random(f"{seed} {query} {kind}")
        folder, whole = tmp_path / f"{seed}", tmp_path / f"{seed}-whole"
        folder.mkdir()
        whole.mkdir()
        there: list[dict[str, Any]] = []
        others: list[dict[str, Any]] = []
        found: Counter[tuple[Any, ...]] = Counter()
        for step in range(3):
            lines = changes(random_, kind, step, there)
            more = [row(random_, 100 + step)] if random_.random() < 0.7 else []
            others += more
            for to in (folder, whole):
                write(to, "t", step, lines)
                write(to, "u", step, more)
            if step == 1:
                run(folder, "a count" if query != "a count" else "max", kind)
            found = run(folder, query, kind)
        assert found == run(whole, query, kind) or query in EITHER
        if query in EXACT and kind in ("append-only", "changes"):
            assert found == batch(query, there, others)


def batch(query: str, rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as con:
        for name, given in (("t", rows), ("u", others)):
            con.execute(f"CREATE TABLE {name} ({_COLUMNS})")
            for one in given:
                con.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", list(one.values()))
        return Counter(con.execute(f"SELECT a, b FROM ({QUERIES[query].format(t='t')})").fetchall())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query", ["MIN(x)", "MAX(x)"])
@pytest.mark.parametrize("first", [0.0, -0.0])
def test_a_table_without_a_key(query: str, first: float, tmp_path: Path) -> None:
    def text(of: str) -> str:
        return (
            "CREATE TABLE t (k STRING, x DOUBLE) WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');\n"
            "CREATE TABLE out (k STRING, m STRING) WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
            f"INSERT INTO out SELECT k, CAST({of} AS STRING) FROM t GROUP BY k;\n"
        )

    def ran(of: str) -> list[tuple[Any, ...]]:
        (tmp_path / "p.sql").write_text(text(of))
        plan = plan_file(tmp_path / "p.sql")
        run_here(plan, tmp_path, sql=plan.masked_sql)
        with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as con:
            rows: list[tuple[Any, ...]] = con.execute("FROM out").fetchall()
            return rows

    least = "-0.0" if query == "MIN(x)" else "0.0"
    write(tmp_path, "t", 0, [{"k": "a", "x": first}])
    assert ran(query) == [("a", str(first))]
    write(tmp_path, "t", 1, [{"k": "a", "x": -first}])
    assert ran(query) == [("a", least)]
    assert ran("COUNT(*)") == [("a", "2")]
    assert ran(query) == [("a", least)]
    write(tmp_path, "t", 2, [{"k": "a", "x": -5.0 if query == "MIN(x)" else 5.0}])
    assert ran(query) == [("a", "-5.0" if query == "MIN(x)" else "5.0")]
