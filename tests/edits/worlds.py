"""Random chains of edits over small worlds, carried out: whatever a plan calls exact is what a run from scratch gives.

    python -m tests.edits.worlds [CHAINS] [FIRST SEED] [WORLD]

Worlds are tables with rows that can't all be read, and pipelines with two sinks and slots; an edit fills a slot
otherwise, or goes back to a former text. Runs are killed in the middle of edits. What is printed: the share of states
that go on, and findings.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlstream.cli.main import cli
from sqlstream.planning import plan_file
from sqlstream.runtime.edits.consent import ConsentNeededError
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.properties.in_process import run_here
from tests.runtime.support import Crash, crash_at

Random = random.Random
Slots = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class World:
    """Tables and queries with slots `~name~`, each with what may stand there; `rows` are those of each folder at a step."""

    tables: str
    queries: Sequence[str]
    slots: Slots
    rows: Callable[[Random, int], Mapping[str, list[Any]]]

    def text(self, chosen: Mapping[str, str]) -> str:
        """The file with every slot filled; `out` comes first, and `more` is a second sink or none."""
        more = chosen["more"]
        sinks = [("out", chosen["query"])] + ([("more", more)] if more else [])
        if chosen["order"] == "reversed":
            sinks.reverse()
        text = self.tables + "".join(
            f"CREATE TABLE {name} WITH ('connector' = 'filesystem', 'path' = '{name}', 'format' = 'changelog-json') AS\n"
            f"{query};\n"
            for name, query in sinks
        )
        while found := re.search(r"~(\w+)~", text):
            text = text.replace(found[0], chosen[found[1]])
        return text

    @property
    def options(self) -> Slots:
        """All slots: those of the world, and which queries there are."""
        return {
            **self.slots,
            "query": self.queries,
            "more": ("", *self.queries),
            "order": ("", "", "reversed"),
        }


@dataclass
class Found:
    """What was seen of chains: verdicts about fields of states, edits by how they went, and what is wrong."""

    verdicts: Counter[str] = field(default_factory=Counter)
    edits: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def line(op: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {"op": op, "data": data}


def _bad(chosen: Random, value: Any) -> Any:
    """The value, or one that can't always be read."""
    return chosen.choice([40_000, 3_000_000_000, "x", None]) if chosen.random() < 0.12 else value


def _time(step: int, seconds: float) -> str:
    minutes = step * 20 + seconds / 60
    return f"2024-01-01 {int(minutes // 60):02d}:{int(minutes % 60):02d}:{int(seconds % 60):02d}"


def _events(chosen: Random, step: int, count: int = 8) -> list[Any]:
    rows = []
    for number in range(chosen.randint(1, count)):
        who = {"name": chosen.choice(["x", "y", None]), "age": _bad(chosen, chosen.randint(1, 5))}
        rows.append(
            {
                "id": step * 100 + number,
                "k": chosen.choice([1, 2, 3, None]),
                "g": chosen.choice(["a", "b", "ab", None]),
                "v": _bad(chosen, chosen.randint(-2, 7)),
                "w": _bad(chosen, chosen.randint(0, 3)),
                "who": chosen.choice([who, who, None]),
                "tags": chosen.choice([[1, 2], [2], [], None, [_bad(chosen, 3), 1]]),
                "ts": _time(step, chosen.randint(0, 590)),
            }
        )
    return rows


def _changes(chosen: Random, step: int) -> list[Any]:
    rows: list[Any] = []
    for _ in range(chosen.randint(1, 8)):
        id_ = chosen.randint(1, 6)
        data = {
            "id": id_,
            "k": chosen.choice([1, 2, 3, None]),
            "g": chosen.choice(["a", "b", None]),
            "v": _bad(chosen, chosen.randint(0, 7)),
            "w": _bad(chosen, chosen.randint(0, 3)),
        }
        rows.append(line(chosen.choice(["+I", "+I", "+U", "-D"]), data))
    return rows


INTS = ("SMALLINT", "INT", "BIGINT")
_FILES = "WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')"
JSON, CHANGES = _FILES.replace("{format}", "json"), _FILES.replace("{format}", "changelog-json")
CONDITIONS = ("TRUE", "v > 1", "v >= 2", "k = 1", "k IN (1, 2)", "g <> 'a'", "w < 3 AND v > 0", "v + w > 3")
CALLS = (
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "MIN(v)",
    "MAX(w)",
    "MAX(v) FILTER (WHERE w > 0)",
    "MAX(v) FILTER (WHERE NOT w <= 0)",
    "MAX(CASE WHEN w > 0 THEN v END)",
    "COUNT(DISTINCT v)",
    "COUNT(DISTINCT w) FILTER (WHERE v > 1)",
    "COUNT(DISTINCT CASE WHEN v >= 2 THEN w END)",
    "AVG(v)",
    "SUM(w) FILTER (WHERE v > 1)",
    "MEDIAN(v)",
    "LIST_SUM(LIST_SORT(ARRAY_AGG(v)))",
    "LENGTH(STRING_AGG(g, ',' ORDER BY g))",
    "MAX(ABS(v))",
    "MAX(v + 0)",
)
KEYS = ("k", "g", "k, g", "v % 2", "COALESCE(k, 0)", "k, w")
WORDS = {
    "three": ("CAST(~x~ AS BIGINT) AS a, CAST(~y~ AS BIGINT) AS b, CAST(~z~ AS BIGINT) AS c",),
    "c": CONDITIONS,
    "d": CONDITIONS,
    "x": CALLS,
    "y": CALLS,
    "z": CALLS,
    "keys": KEYS,
    "v": INTS,
    "w": INTS,
}
GROUPED = "SELECT ~three~ FROM {rows} WHERE ~c~ GROUP BY ~keys~"
TOP = (
    "SELECT CAST(v AS BIGINT) AS a, CAST(k AS BIGINT) AS b, CAST(~rank~ AS BIGINT) AS c FROM (SELECT *, ROW_NUMBER() OVER "
    "(PARTITION BY g ORDER BY v DESC, id) AS rn FROM {rows} WHERE ~d~) WHERE rn <= ~limit~"
)
DISTINCT = (
    "SELECT CAST(k AS BIGINT) AS a, CAST(v AS BIGINT) AS b, CAST(0 AS BIGINT) AS c "
    "FROM {rows} WHERE ~c~ GROUP BY k, v"
)

WORLDS: Mapping[str, World] = {
    "cdc": World(
        "CREATE TABLE ~name~ (id INT, k INT, g STRING, v ~v~, w ~w~, PRIMARY KEY (id) NOT ENFORCED) "
        + CHANGES.format(path="c")
        + ";\n",
        [q.replace("{rows}", "~name~") for q in (GROUPED, TOP, DISTINCT)],
        {**WORDS, "name": ("t", "u"), "rank": ("rn", "0", "w"), "limit": ("1", "2", "3")},
        lambda chosen, step: {"c": _changes(chosen, step)},
    ),
    "nested": World(
        "CREATE TABLE t (id INT, k INT, g STRING, v ~v~, w INT, who ROW<name STRING, age ~w~>, tags ARRAY<~v~>) "
        + JSON.format(path="t")
        + ";\n",
        (
            GROUPED.replace("{rows}", "t"),
            GROUPED.replace("{rows}", "(SELECT id, k, who.name AS g, who.age AS v, w FROM t) AS s"),
            GROUPED.replace(
                "{rows}", "(SELECT id, k, g, x AS v, w FROM t CROSS JOIN UNNEST(tags) AS u (x)) AS s"
            ),
            TOP.replace(
                "{rows}",
                "(SELECT id, k, g, x AS v, who.age AS w FROM t CROSS JOIN UNNEST(tags) AS u (x)) AS s",
            ),
            "SELECT CAST(COUNT(*) AS BIGINT) AS a, CAST(MAX(who.age) AS BIGINT) AS b, CAST(MAX(tags[1]) AS BIGINT) AS c "
            "FROM t WHERE ~c~ GROUP BY who.~field~",
        ),
        {**WORDS, "rank": ("rn", "0", "w"), "limit": ("1", "2", "3"), "field": ("name", "NAME", "age")},
        lambda chosen, step: {"t": _events(chosen, step)},
    ),
    "joins": World(
        "CREATE TABLE t (id INT, k INT, g STRING, v ~v~, w INT) "
        + JSON.format(path="t")
        + ";\nCREATE TABLE r (id INT, k INT, g STRING, v INT, w ~w~, PRIMARY KEY (id) NOT ENFORCED) "
        + CHANGES.format(path="c")
        + ";\n",
        (
            "SELECT CAST(x.v AS BIGINT) AS a, CAST(y.w AS BIGINT) AS b, CAST(COALESCE(x.k, y.k) AS BIGINT) AS c "
            "FROM t AS x ~kind~ JOIN (SELECT * FROM r WHERE ~d~) AS y ON x.k = y.k ~more_on~",
            "SELECT ~three~ FROM (SELECT x.id, x.k, x.g, "
            "x.v, y.w FROM t AS x ~kind~ JOIN r AS y ON x.k = y.k ~more_on~) AS s WHERE ~c~ GROUP BY ~keys~",
            GROUPED.replace("{rows}", "t"),
            GROUPED.replace("{rows}", "r"),
        ),
        {
            **WORDS,
            "kind": ("", "LEFT", "RIGHT", "FULL"),
            "more_on": ("", "AND x.v > y.v", "AND y.w > 0", "AND x.g = y.g"),
        },
        lambda chosen, step: {"t": _events(chosen, step), "c": _changes(chosen, step)},
    ),
    "union": World(
        "CREATE TABLE t (id INT, k INT, g STRING, v ~v~, w INT) "
        + JSON.format(path="t")
        + ";\nCREATE TABLE r (id INT, k INT, g STRING, v INT, w ~w~) "
        + JSON.format(path="r")
        + ";\n",
        (
            GROUPED.replace(
                "{rows}",
                "(SELECT id, k, g, v, w FROM ~first~ UNION ALL SELECT id, k, g, v, w FROM ~second~) AS s",
            ),
            GROUPED.replace(
                "{rows}",
                "(SELECT id, k, g, v, w FROM t WHERE ~d~ UNION ALL SELECT id, k, g, v, w FROM r) AS s",
            ),
            TOP.replace(
                "{rows}",
                "(SELECT id, k, g, v, w FROM ~first~ UNION ALL SELECT id, k, g, v, w FROM ~second~) AS s",
            ),
            "SELECT CAST(v AS BIGINT) AS a, CAST(0 AS BIGINT) AS b, CAST(0 AS BIGINT) AS c "
            "FROM (SELECT v FROM ~first~ ~set~ SELECT v FROM ~second~) AS s",
        ),
        {
            **WORDS,
            "first": ("t", "r"),
            "second": ("r", "t"),
            "set": ("UNION", "INTERSECT", "EXCEPT"),
            "rank": ("rn", "0", "w"),
            "limit": ("1", "2", "3"),
        },
        lambda chosen, step: {"t": _events(chosen, step), "r": _events(chosen, step)},
    ),
    "one source": World(
        "CREATE TABLE t (id INT, k INT, g STRING, v ~v~, w INT) "
        + JSON.format(path="t")
        + ";\nCREATE TABLE r (id INT, k INT, g STRING, v ~w~, w ~w~) "
        + JSON.format(path="t")
        + ";\n",
        (
            GROUPED.replace("{rows}", "t"),
            GROUPED.replace("{rows}", "r"),
            TOP.replace("{rows}", "~first~"),
            "SELECT CAST(x.v AS BIGINT) AS a, CAST(y.n AS BIGINT) AS b, CAST(0 AS BIGINT) AS c FROM t AS x "
            "LEFT JOIN (SELECT k, COUNT(*) AS n FROM ~first~ WHERE ~d~ GROUP BY k) AS y ON x.k = y.k",
        ),
        {**WORDS, "first": ("t", "r"), "rank": ("rn", "0", "w"), "limit": ("1", "2", "3")},
        lambda chosen, step: {"t": _events(chosen, step)},
    ),
    "time": World(
        "CREATE TABLE t (id INT, k INT, g STRING, v ~v~, w ~w~, ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE) " + JSON.format(path="t") + ";\n",
        (
            "SELECT ~three~ FROM TABLE(SESSION(TABLE t "
            "PARTITION BY k, DESCRIPTOR(ts), INTERVAL '~gap~' MINUTE)) WHERE ~c~ "
            "GROUP BY window_start, window_end, k EMIT CHANGES",
            "SELECT ~three~ FROM TABLE(TUMBLE(TABLE t, "
            "DESCRIPTOR(ts), INTERVAL '~gap~' MINUTE)) WHERE ~c~ GROUP BY window_start, window_end, ~keys~ EMIT CHANGES",
            "SELECT ~three~ FROM TABLE(HOP(TABLE t, "
            "DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '~size~' MINUTE)) WHERE ~c~ "
            "GROUP BY window_start, window_end, ~keys~ EMIT CHANGES",
            "SELECT ~three~ FROM t WHERE ~c~ GROUP BY DATE_TRUNC('~unit~', ts), k",
            "SELECT CAST(v AS BIGINT) AS a, CAST(SUM(w) OVER (PARTITION BY k ORDER BY v, id) AS BIGINT) AS b, "
            "CAST(~lag~(v) OVER (PARTITION BY k ORDER BY v, id) AS BIGINT) AS c FROM t WHERE ~d~",
            GROUPED.replace("{rows}", "t"),
        ),
        {
            **WORDS,
            "gap": ("2", "5", "10"),
            "size": ("10", "15", "20"),
            "unit": ("minute", "hour", "day"),
            "lag": ("LAG", "LEAD", "FIRST_VALUE", "MAX"),
        },
        lambda chosen, step: {"t": _events(chosen, step)},
    ),
    "lookups": World(
        "CREATE TABLE t (id INT, k INT, g STRING, v ~v~, w ~w~, p AS PROCTIME()) "
        + JSON.format(path="t")
        + ";\nCREATE TABLE d (k INT, g STRING, n INT) "
        + JSON.format(path="d")
        + ";\n",
        (
            "SELECT ~three~ FROM (SELECT x.id, x.k, d.g, x.v, "
            "d.n AS w FROM t AS x ~kind~ JOIN d FOR SYSTEM_TIME AS OF x.p ON x.k = d.k) AS s WHERE ~c~ GROUP BY ~keys~",
            TOP.replace(
                "{rows}",
                "(SELECT x.id, x.k, d.g, x.v, d.n AS w FROM t AS x ~kind~ JOIN d FOR SYSTEM_TIME AS OF x.p "
                "ON x.k = d.k) AS s",
            ),
            GROUPED.replace("{rows}", "t"),
        ),
        {**WORDS, "kind": ("", "LEFT"), "rank": ("rn", "0", "w"), "limit": ("1", "2", "3")},
        lambda chosen, step: {
            "t": _events(chosen, step),
            **(
                {}
                if step
                else {
                    "d": [{"k": 1, "g": "a", "n": 1}, {"k": 2, "g": "b", "n": 5}, {"k": 2, "g": None, "n": 2}]
                }
            ),
        },
    ),
}


def held(folder: Path) -> Counter[str]:
    """What the messages of a sink add up to."""
    found: Counter[str] = Counter()
    for file in sorted(folder.glob("*.json")):
        for text in file.read_text().splitlines():
            message = json.loads(text)
            row = json.dumps(message["data"], sort_keys=True)
            found[row] += 1 if message["op"] in ("INSERT", "+I", "UPDATE_AFTER", "+U") else -1
            assert found[row] >= 0, f"{file.name} takes back what was not given: {text}"
    return +found


def from_scratch(folder: Path, sql: str, inputs: Sequence[str]) -> dict[str, Counter[str]]:
    with tempfile.TemporaryDirectory() as name:
        other = Path(name)
        for folder_of in inputs:
            shutil.copytree(folder / folder_of, other / folder_of)
        plan = planned(other, sql)
        run_here(plan, other, sql=plan.masked_sql, drain=False)
        return {sink.name: held(other / sink.name) for sink in plan.physical.sinks}


def planned(folder: Path, sql: str) -> Planned:
    (folder / "p.sql").write_text(sql)
    return plan_file(folder / "p.sql")


def printed_by_plan(folder: Path, *more: str) -> dict[str, Any]:
    """What `sqlstream plan --json` says."""
    out = io.StringIO()
    arguments = ["plan", str(folder / "p.sql"), "--state-dir", str(folder / "state"), "--json", *more]
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        cli.main(arguments, standalone_mode=False)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def edited(
    chosen: Random, world: World, slots: Mapping[str, str], former: list[Mapping[str, str]]
) -> Mapping[str, str]:
    """Other slots, of which one that the text has is filled otherwise; or what stood before."""
    if len(former) > 1 and chosen.random() < 0.15:
        return chosen.choice(former)
    text = world.text(slots)
    for _ in range(20):
        name = chosen.choice([*world.options, "query", "more"])
        other = {**slots, name: chosen.choice(world.options[name])}
        if chosen.random() < 0.2:
            name = chosen.choice(list(world.options))
            other[name] = chosen.choice(world.options[name])
        if world.text(other) != text:
            return other
    return slots


def chain(world: World, seed: int, folder: Path, found: Found, steps: int = 6) -> None:
    """Run one chain; what is wrong is added to `found`."""
    chosen = Random(seed)
    slots: Mapping[str, str] = {name: chosen.choice(options) for name, options in world.options.items()}
    former: list[Mapping[str, str]] = []
    inexact: set[str] = set()
    inputs: set[str] = set()
    number = 0
    for step in range(steps):
        if not step or chosen.random() < 0.5:
            for name, rows in world.rows(chosen, step).items():
                (folder / name).mkdir(exist_ok=True)
                (folder / name / f"{step:03d}.json").write_text(
                    "".join(json.dumps(row) + "\n" for row in rows)
                )
                inputs.add(name)
        other = edited(chosen, world, slots, former) if step else slots
        try:
            plan = planned(folder, world.text(other))
        except DiagnosticError as error:
            found.edits[f"not SQL: {error.diagnostics[0].code}"] += 1
            if not step:
                return
            other, plan = slots, planned(folder, world.text(slots))
        reported = printed_by_plan(folder)
        if not reported.get("ok", True) or reported["exit_code"]:
            problems = reported.get("diagnostics") or reported["problems"] or reported["warnings"]
            found.edits["refused: " + ",".join(sorted({d["code"] for d in problems}))] += 1
            other, plan = slots, planned(folder, world.text(slots))
            reported = printed_by_plan(folder)
            if not reported.get("ok", True) or reported["exit_code"]:
                found.wrong.append(f"seed {seed} step {step}: the former text is refused: {reported}")
                return
        elif step:
            found.edits["exact" if reported["exact"] else "not exact"] += 1
            if world.text(other) != world.text(slots):
                found.verdicts.update(s["verdict"] for s in reported["states"] if s["verdict"] != "DROP")
        named = {name for text in reported["results"] for name in re.findall(r"`(\w+)`", text)}
        sinks = {sink.name for sink in plan.physical.sinks}
        if not reported["exact"]:
            inexact |= (named & sinks) or sinks
        parallelism = chosen.randint(1, 3)
        rows_per_epoch = chosen.choice([3, 100])
        slots = other
        former.append(slots)
        if chosen.random() < 0.3:
            point = chosen.choice(
                ["backfilled", "adapted", "planned", "run", "prepared", "published", "committed"]
            )
            with contextlib.suppress(Crash, ConsentNeededError):
                run_here(
                    plan, folder, sql=plan.masked_sql, drain=False, parallelism=parallelism,
                    rows_per_epoch=rows_per_epoch, faults=crash_at(point, number + chosen.randint(0, 2)),
                )  # fmt: skip
        try:
            result = run_here(
                plan, folder, sql=plan.masked_sql, drain=False, parallelism=parallelism, rows_per_epoch=rows_per_epoch
            )  # fmt: skip
        except ConsentNeededError:
            # Reading the history again has shown that rows can't be read which were counted: nothing was changed.
            found.edits["asked by the run"] += 1
            if len(former) < 2:
                return
            former.pop()
            slots = former[-1]
            continue
        number = max(number, getattr(result, "last_epoch", 0) or 0)
        wanted = from_scratch(folder, world.text(slots), sorted(inputs))
        for sink, rows_wanted in wanted.items():
            if sink not in inexact and held(folder / sink) != rows_wanted:
                had = held(folder / sink)
                found.wrong.append(
                    f"seed {seed} step {step} sink {sink}: extra {had - rows_wanted} missing {rows_wanted - had}"
                )
                return
        for sink in {"out", "more"} - wanted.keys():
            if (folder / sink).exists():
                inexact.add(sink)  # it is left as it is, and may come back


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for name, world in WORLDS.items():
        if len(sys.argv) > 3 and sys.argv[3] != name:
            continue
        found = Found()
        for seed in range(first, first + count):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    chain(world, seed, Path(folder), found)
                except Exception as error:
                    found.wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
        goes_on = found.verdicts["KEEP"] + found.verdicts["ADAPT"]
        print(
            f"{name}: {goes_on / max(1, found.verdicts.total()):.1%} {dict(found.verdicts)} {dict(found.edits)}"
        )
        for text in found.wrong:
            print(f"  {text[:1500]}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
