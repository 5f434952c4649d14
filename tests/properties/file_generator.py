"""Random files: two or three tables, views that are used twice, and sinks over related queries, each with its judge.

A query is two texts: as our dialect has it, and as DuckDB does, written here and not by the planner. They differ in
window functions only; views have the same names in both. What ROW_NUMBER gives for ties has no judge of this kind:
such a sink is judged by the batch SQL of a file in which it stands alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tests.properties.sources import WHOLE, Source

T = TypeVar("T")
#: Aggregates of a whole-number column `{c}` whose result is a whole number, and does not depend on order.
AGGREGATES = (
    "COUNT(*)",
    "COUNT({c})",
    "CAST(SUM({c}) AS BIGINT)",
    "MIN({c})",
    "MAX({c})",
    "COUNT(DISTINCT {c})",
    "CAST(SUM(DISTINCT {c}) AS BIGINT)",
    "COUNT(*) FILTER (WHERE {c} > 1)",
    "COUNT(DISTINCT {c}) FILTER (WHERE {c} <> 2)",
    "CAST(SUM({c}) FILTER (WHERE {c} >= 1) AS BIGINT)",
)

#: Conditions on a whole-number column: some are one condition, most only look like one.
CONDITIONS = (
    "{c} < {o}",
    "{o} >= {c}",
    "{c} <> {o}",
    "{c} <= 1",
    "{c} < 2",
    "1 >= {c}",
    "NOT {c} > 1",
    "{c} = 1",
    "{c} <> 1",
    "NOT {c} = 1",
    "{c} IN (1)",
    "{c} IN (1, 2)",
    "{c} = 1 OR {c} = 2",
    "{c} BETWEEN 1 AND 2",
    "{c} >= 1 AND {c} <= 2",
    "{c} IS NOT NULL",
    "{c} IS DISTINCT FROM 1",
    "({c} = 1) IS NOT TRUE",
    "COALESCE({c}, 1) = 1",
    "COALESCE({c}, 2) = 1",
    "CAST({c} AS SMALLINT) < 2",
)
#: Whole numbers made of one.
COMPUTED = (
    "{c} + {o}",
    "{c} - {o}",
    "{c} + 1",
    "1 + {c}",
    "{c} + 2",
    "{c} - 1",
    "1 - {c}",
    "-{c}",
    "ABS({c})",
    "ABS({c} - 1)",
    "{c} % 2",
    "{c} % 3",
    "COALESCE({c}, 0)",
    "COALESCE({c}, 1)",
    "NULLIF({c}, 1)",
    "CASE WHEN {c} > 1 THEN 1 ELSE 0 END",
    "CASE WHEN {c} > 1 THEN 0 ELSE 1 END",
    "CASE WHEN {c} >= 1 THEN 1 ELSE 0 END",
    "CAST({c} AS BIGINT)",
    "CAST(CAST({c} AS DOUBLE) / 2 AS BIGINT)",
    "CAST(CAST({c} AS DECIMAL(10, 1)) * 1.5 AS BIGINT)",
    "GREATEST({c}, 1)",
    "LEAST({c}, 1)",
)


@dataclass(frozen=True)
class Query:
    """A query as both say it, and the columns that it gives by kind."""

    ours: str
    judge: str
    whole: tuple[str, ...]
    texts: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    time: str | None = None  # an event-time column over rows that the query does not take back
    ties: bool = False  # which rows are given depends on ties
    at_end: bool = False  # rows are given when windows close: only the end can be judged
    stateful: int = 0  # operators one over the other

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.whole, *self.texts, *self.arrays, *((self.time,) if self.time else ()))


@dataclass(frozen=True)
class File:
    """A file of tables, views and sinks. A sink is its name and query."""

    sources: tuple[Source, ...]
    views: tuple[tuple[str, Query], ...]
    sinks: tuple[tuple[str, Query], ...]

    def text(self, only: str | None = None) -> str:
        """The pipeline; `only` one of its sinks."""
        lines = [source.statement for source in self.sources]
        lines += [f"CREATE VIEW {name} AS {query.ours};" for name, query in self.views]
        lines += [
            f"CREATE TABLE {name} WITH ('connector' = 'blackhole') AS {query.ours};"
            for name, query in self.sinks
            if only in (None, name)
        ]
        return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------------- tables


class Chance:
    """What is drawn, by a seed: spread evenly, where a search that mutates its last example stays near it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one(self, of: Sequence[T]) -> T:
        return self._random.choice(of)

    def some(self, of: Sequence[T], least: int = 1, most: int = 3) -> list[T]:
        """Different ones, in any order."""
        return self._random.sample(of, min(len(of), self._random.randint(least, most)))

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def maybe(self, likely: float = 0.5) -> bool:
        return self._random.random() < likely


_SMALL = (None, 0, 1, 2, 3)
_TEXTS = ("a", "b", None)


def _log(chance: Chance, most: int) -> list[dict[str, Any]]:
    return [
        {
            "k": chance.one(_SMALL),
            "v": chance.one(_SMALL),
            "s": chance.one(_TEXTS),
            "xs": chance.one(
                [None, [], [chance.one(_SMALL)], [chance.one(_SMALL), chance.one(_SMALL)], [1, 1, 2]]
            ),
            "ts": f"2024-01-01 00:00:{chance.number(0, 59):02d}",
        }
        for _ in range(chance.number(0, most))
    ]


def _changes(chance: Chance) -> list[tuple[str, dict[str, Any]]]:
    """Rows come, change and go; only what is there is changed."""
    there: dict[int, dict[str, Any]] = {}
    made: list[tuple[str, dict[str, Any]]] = []
    for _ in range(chance.number(0, 12)):
        id_ = chance.number(1, 4)
        row = {"id": id_, "k": chance.one(_SMALL), "w": chance.one(_SMALL), "s": chance.one(_TEXTS)}
        if id_ in there:
            if chance.maybe():
                made.append(("-D", there.pop(id_)))
                continue
            made += [("-U", there[id_]), ("+U", row)]
        else:
            made.append(("+I", row))
        there[id_] = row
    return made


def sources(chance: Chance) -> tuple[Source, ...]:
    """A log, and one or two of: the same files with other options or types, another log, a changelog."""
    columns = {"k": "INT", "v": "BIGINT", "s": "STRING", "xs": "ARRAY<INT>", "ts": "TIMESTAMP(3)"}
    log = Source("t", "log", columns, {f"{n}.json": _log(chance, 9) for n in range(2)}, time="ts")
    other_type = chance.one(["STRING", "DECIMAL(10, 1)", "INT"])
    typed = {"k": "SMALLINT", "v": other_type, "xs": "ARRAY<INT>", "ts": "TIMESTAMP(3)"}
    more = [
        replace(log, name="half", matching=chance.one([".*/0.json", ".*/1.json", ".*/[01].json"])),
        replace(log, name="typed", columns=typed),
        replace(log, name="again"),
        Source("u", "other", {"v": "INT", "k": "INT", "s": "STRING"}, {"0.json": _log(chance, 9)}),
        Source(
            "c",
            "changes",
            {"id": "INT", "k": "INT", "w": "BIGINT", "s": "STRING"},
            {"0.json": _changes(chance)},
            changelog=True,
            key="id" if chance.maybe() else None,
        ),
    ]
    return (log, *chance.some(more, 1, 2))


def scan(source: Source) -> Query:
    """All columns of a table that queries are made of."""
    whole, texts = source.of_type(*WHOLE), source.of_type("STRING")
    return table_of(source.name, Query("", "", whole, texts, source.of_type("ARRAY<INT>"), source.time))


def table_of(name: str, of: Query) -> Query:
    """A query's columns from the table or view `name`."""
    text = f"SELECT {', '.join(of.columns)} FROM {name}"
    return replace(of, ours=text, judge=text)


# ------------------------------------------------------------------------------------------------------ queries


@dataclass(frozen=True)
class Form:
    """A kind of query over one input with its parameters: the same form with some others is a related query."""

    build: Callable[..., Query]
    parameters: dict[str, Any] = field(default_factory=dict)

    def over(self, below: Query) -> Query:
        return self.build(below, **self.parameters)


def _over(below: Query, ours: str, **change: Any) -> Query:
    """`ours` with {q} for the input, and the same text for the judge."""
    return replace(
        below,
        ours=ours.replace("{q}", f"({below.ours})"),
        judge=ours.replace("{q}", f"({below.judge})"),
        **change,
    )


def filtered(below: Query, *, where: str) -> Query:
    return _over(below, f"SELECT {', '.join(below.columns)} FROM {{q}} AS f WHERE {where}")


def computed(below: Query, *, expression: str) -> Query:
    """One column more."""
    name = f"z{1 + max((int(c[1:]) for c in below.columns if c[0] == 'z'), default=-1)}"
    items = [*below.columns, f"{expression} AS {name}"]
    return _over(below, f"SELECT {', '.join(items)} FROM {{q}} AS z", whole=(*below.whole, name))


def renamed(below: Query, *, prefix: str) -> Query:
    """The same rows under other names."""
    names = {c: f"{prefix}{n}" for n, c in enumerate(below.columns)}
    items = ", ".join(f"{c} AS {name}" for c, name in names.items())
    return _over(
        below,
        f"SELECT {items} FROM {{q}} AS n",
        whole=tuple(names[c] for c in below.whole),
        texts=tuple(names[c] for c in below.texts),
        arrays=tuple(names[c] for c in below.arrays),
        time=names[below.time] if below.time else None,
    )


def grouped(below: Query, *, keys: Sequence[str], calls: Sequence[str], having: str | None) -> Query:
    items = [f"{k} AS g{n}" for n, k in enumerate(keys)] + [f"{c} AS a{n}" for n, c in enumerate(calls)]
    tail = f" GROUP BY {', '.join(keys)}" if keys else ""
    tail += f" HAVING {having}" if having else ""
    return _over(
        below,
        f"SELECT {', '.join(items)} FROM {{q}} AS g{tail}",
        whole=(
            *(f"g{n}" for n, k in enumerate(keys) if k in below.whole),
            *(f"a{n}" for n in range(len(calls))),
        ),
        texts=tuple(f"g{n}" for n, k in enumerate(keys) if k in below.texts),
        arrays=(),
        time=None,
        stateful=below.stateful + 1,
    )


def distinct(below: Query, *, columns: Sequence[str]) -> Query:
    return _over(
        below,
        f"SELECT DISTINCT {', '.join(columns)} FROM {{q}} AS d",
        whole=tuple(c for c in columns if c in below.whole),
        texts=tuple(c for c in columns if c in below.texts),
        arrays=(),
        time=None,
        stateful=below.stateful + 1,
    )


def ranked(
    below: Query,
    *,
    function: str,
    partition: Sequence[str],
    order: Sequence[tuple[str, str]],
    condition: str,
    payload: Sequence[str],
    shown: bool,
) -> Query:
    """The rows of a partition up to a rank; `payload` are the columns given, `order` columns and directions."""
    terms = ", ".join(f"{column}{direction}" for column, direction in order)
    by = f"PARTITION BY {', '.join(partition)} " if partition else ""
    rank = f"n{below.stateful}"
    given = [*payload, *([rank] if shown else [])]
    inner = f"SELECT {', '.join(below.columns)}, {function}() OVER ({by}ORDER BY {terms}) AS {rank} FROM {{q}} AS i"
    return _over(
        below,
        f"SELECT {', '.join(given)} FROM ({inner}) AS o WHERE {rank} {condition}",
        whole=(*(c for c in payload if c in below.whole), *([rank] if shown else [])),
        texts=tuple(c for c in payload if c in below.texts),
        arrays=(),
        time=None,
        ties=below.ties or function == "ROW_NUMBER",
        stateful=below.stateful + 1,
    )


def limited(
    below: Query, *, columns: Sequence[str], order: Sequence[tuple[str, str]], limit: int, offset: int
) -> Query:
    terms = ", ".join(f"{column}{direction}" for column, direction in order)
    tail = f" OFFSET {offset}" if offset else ""
    return _over(
        below,
        f"SELECT {', '.join(columns)} FROM {{q}} AS l ORDER BY {terms} LIMIT {limit}{tail}",
        whole=tuple(c for c in columns if c in below.whole),
        texts=tuple(c for c in columns if c in below.texts),
        arrays=(),
        time=None,
        ties=True,
        stateful=below.stateful + 1,
    )


def unnested(below: Query, *, arrays: Sequence[tuple[str, bool]], kept: Sequence[str]) -> Query:
    """Elements of arrays, of one of them perhaps twice; an array is its column and whether rows without elements stay."""
    joins, elements = [], []
    first = 1 + max((int(c[1:]) for c in below.columns if c[0] == "e"), default=-1)
    for n, (array, outer) in enumerate(arrays, first):
        elements.append(f"e{n}")
        join = "LEFT JOIN" if outer else "CROSS JOIN"
        joins.append(f"{join} UNNEST(b.{array}) AS u{n} ({elements[-1]}){' ON TRUE' if outer else ''}")
    items = ", ".join([*(f"b.{c}" for c in kept), *elements])
    return _over(
        below,
        f"SELECT {items} FROM {{q}} AS b {' '.join(joins)}",
        whole=(*(c for c in kept if c in below.whole), *elements),
        texts=tuple(c for c in kept if c in below.texts),
        arrays=tuple(c for c in kept if c in below.arrays),
        time=below.time if below.time in kept else None,
    )


def together(below: Query, *, other: Query, operator: str) -> Query:
    """A set operation over the first columns of both."""
    width = min(len(below.whole), len(other.whole), 2)
    texts = []
    for which in ("ours", "judge"):
        sides = []
        for side in (below, other):
            items = ", ".join(f"CAST({c} AS BIGINT) AS c{n}" for n, c in enumerate(side.whole[:width]))
            sides.append(f"SELECT {items} FROM ({getattr(side, which)}) AS x")
        texts.append(f" {operator} ".join(sides))
    return Query(
        texts[0],
        texts[1],
        tuple(f"c{n}" for n in range(width)),
        ties=below.ties or other.ties,
        at_end=below.at_end or other.at_end,
        stateful=max(below.stateful, other.stateful) + 1,
    )


def windowed(
    below: Query,
    *,
    view: str | None,
    kind: str,
    step: int,
    size: int,
    offset: int,
    keys: Sequence[str],
    calls: Sequence[str],
    early: bool,
) -> Query:
    """Aggregates over the windows of a view (or table), or of the query itself; seconds."""
    lengths = {"TUMBLE": [size], "HOP": [step, size], "CUMULATE": [step, size]}[kind]
    intervals = ", ".join(f"INTERVAL '{n}' SECOND" for n in [*lengths, *([offset] if offset else [])])
    given = f"TABLE {view}" if view else f"({below.ours})"
    rows = view or f"({below.judge}) AS w0"
    table = f"TABLE({kind}({given}, DESCRIPTOR({below.time}), {intervals}))"
    items = ["window_start", "window_end", *(f"{k} AS g{n}" for n, k in enumerate(keys))]
    items += [f"{c} AS a{n}" for n, c in enumerate(calls)]
    group = ", ".join(["window_start", "window_end", *keys])
    text = f"SELECT {', '.join(items)} FROM {{w}} GROUP BY {group}"
    return Query(
        text.replace("{w}", table) + (" EMIT CHANGES" if early else ""),
        text.replace(
            "{w}",
            f"({_windows(rows, below.time or '', kind, step, size, offset)}) AS w",
        ),
        (*(f"g{n}" for n, k in enumerate(keys) if k in below.whole), *(f"a{n}" for n in range(len(calls)))),
        ties=below.ties,
        at_end=not early,
        stateful=below.stateful + 1,
    )


def _windows(view: str, time: str, kind: str, step: int, size: int, offset: int) -> str:
    """Each row once for each of its windows, in DuckDB, worked out from the definition of the windows."""
    at = f"(epoch_us({time}) // 1000000 - {offset})"
    if kind == "CUMULATE":
        start = f"{at} // {size} * {size} + {offset}"
        end = f"{start} + {step} * (i + 1)"
        count = size // step
    else:
        slide = size if kind == "TUMBLE" else step
        start = f"{at} // {slide} * {slide} + {offset} - i * {slide}"
        end = f"{start} + {size}"
        count = -(-size // slide)
    bounded = f"SELECT *, {start} AS s_, {end} AS e_ FROM {view}, range({count}) AS n(i)"
    return (
        "SELECT *, make_timestamp(s_ * 1000000) AS window_start, make_timestamp(e_ * 1000000) AS window_end "
        f"FROM ({bounded}) AS b WHERE s_ <= epoch_us({time}) // 1000000 AND epoch_us({time}) // 1000000 < e_"
    )


# ------------------------------------------------------------------------------------------------- how they are drawn

_DIRECTIONS = ("", " DESC", " NULLS FIRST", " DESC NULLS FIRST")
_HAVINGS = (None, "COUNT(*) >= 2", "COUNT(*) < 3")
_FUNCTIONS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_CONDITIONS = ("= 1", "<= 2", "<= 3", "BETWEEN 2 AND 3")


def _filled(chance: Chance, templates: Sequence[str], below: Query) -> str:
    """One of the templates with columns in it."""
    return chance.one(templates).format(c=chance.one(below.whole), o=chance.one(below.whole))


def _order(chance: Chance, below: Query) -> list[tuple[str, str]]:
    return [(column, chance.one(_DIRECTIONS)) for column in chance.some(below.whole, 1, 2)]


def _calls(chance: Chance, below: Query) -> list[str]:
    return [chance.one(AGGREGATES).format(c=chance.one(below.whole)) for _ in range(chance.number(1, 3))]


def draw_form(chance: Chance, below: Query) -> Form:
    """A form that can stand over a query."""
    flat = (*below.whole, *below.texts)
    kinds = ["group", "group", "top", "top", "limit", "distinct", "filter", "compute"]
    kinds += ["unnest"] * 3 if below.arrays else []
    kinds += ["group"] * 3 if len([c for c in below.columns if c[0] == "e"]) > 1 else []
    match chance.one(kinds):
        case "group":
            keys, calls = chance.some(flat, 0, 2), _calls(chance, below)
            return Form(grouped, {"keys": keys, "calls": calls, "having": chance.one(_HAVINGS)})
        case "top":
            return Form(
                ranked,
                {
                    "function": chance.one(_FUNCTIONS),
                    "partition": chance.some(flat, 0, 1),
                    "order": _order(chance, below),
                    "condition": chance.one(_CONDITIONS),
                    "payload": chance.some(flat),
                    "shown": chance.maybe(),
                },
            )
        case "limit":
            return Form(
                limited,
                {
                    "columns": chance.some(flat),
                    "order": _order(chance, below),
                    "limit": chance.number(1, 3),
                    "offset": chance.one([0, 0, 1]),
                },
            )
        case "distinct":
            return Form(distinct, {"columns": chance.some(flat)})
        case "filter":
            return Form(filtered, {"where": _filled(chance, CONDITIONS, below)})
        case "compute":
            return Form(computed, {"expression": _filled(chance, COMPUTED, below)})
    arrays = [(chance.one(below.arrays), chance.maybe()) for _ in range(chance.number(1, 2))]
    return Form(unnested, {"arrays": arrays, "kept": chance.some(below.columns)})


def draw_window(chance: Chance, view: str | None, below: Query) -> Form:
    step = chance.one([3, 5])
    return Form(
        windowed,
        {
            "view": view,
            "kind": chance.one(["TUMBLE", "HOP", "CUMULATE"]),
            "step": step,
            "size": step * chance.number(1, 4),
            "offset": chance.one([0, 0, 1, 5]),
            "keys": chance.some((*below.whole, *below.texts), 0, 1),
            "calls": _calls(chance, below),
            "early": chance.maybe(),
        },
    )


def _exchanged(value: Any, names: Mapping[str, str]) -> Any:
    """The value of a parameter with other names of columns in it."""
    if isinstance(value, str):
        return re.sub(r"\b[a-z]\w*\b", lambda found: names.get(found[0], found[0]), value)
    if isinstance(value, list | tuple):
        return type(value)(_exchanged(item, names) for item in value)
    return value


def _other_call(chance: Chance, call: str, below: Query) -> str:
    """The same aggregate of another column, with or without DISTINCT, or another one of the same column."""
    match chance.one(["column", "distinct", "function"]):
        case "column":
            return str(_exchanged(call, {c: chance.one(below.whole) for c in below.whole}))
        case "distinct":
            return (
                call.replace("DISTINCT ", "")
                if "DISTINCT" in call
                else re.sub(r"\((?=[a-z])", "(DISTINCT ", call, count=1)
            )
    column = next((c for c in below.whole if re.search(rf"\b{c}\b", call)), below.whole[0])
    return chance.one(AGGREGATES).format(c=column)


def related(chance: Chance, form: Form, below: Query) -> Form:
    """The form with one parameter that is another, or with two columns exchanged, or as it is."""
    changed = dict(form.parameters)
    if len(below.whole) > 1 and chance.maybe(0.3):
        one, other = chance.some(below.whole, 2, 2)
        names = {one: other, other: one}
        return replace(
            form, parameters={k: v if k == "view" else _exchanged(v, names) for k, v in changed.items()}
        )
    name = chance.one([*changed, "nothing"])
    flat = (*below.whole, *below.texts)
    match name:
        case "payload" | "columns":
            changed[name] = chance.some(flat)
        case "order":
            turned = [(column, chance.one(_DIRECTIONS)) for column, _ in changed[name]]
            changed[name] = chance.one([turned, _order(chance, below), changed[name][::-1]])
        case "having":
            changed[name] = chance.one(_HAVINGS)
        case "calls":
            first, *others = changed[name]
            swapped = [_other_call(chance, first, below), *others]
            changed[name] = chance.one(
                [changed[name][::-1], [first], _calls(chance, below), swapped, swapped]
            )
        case "keys" | "partition":
            changed[name] = chance.one([changed[name][::-1], chance.some(flat, 0, 1)])
        case "where":
            changed[name] = _filled(chance, CONDITIONS, below)
        case "expression":
            changed[name] = _filled(chance, COMPUTED, below)
        case "limit":
            changed[name] = chance.number(1, 3)
        case "offset":
            changed[name] = chance.number(0, 5)
        case "condition":
            changed[name] = chance.one(_CONDITIONS)
        case "function":
            changed[name] = chance.one(_FUNCTIONS)
        case "shown" | "early":
            changed[name] = not changed[name]
        case "arrays":
            changed[name] = [(array, chance.maybe()) for array, _ in changed[name]]
        case "size":
            changed[name] = changed["step"] * chance.number(1, 4)
        case "kind":
            changed[name] = chance.one(["TUMBLE", "HOP", "CUMULATE"])
        case "kept":
            changed[name] = chance.some(below.columns)
    return replace(form, parameters=changed)


def _view(
    chance: Chance, number: int, views: Sequence[tuple[str, Query]], known: Mapping[str, Query]
) -> Query:
    """A query over a table or a view; over the last view as often as over any other."""
    name = views[-1][0] if views and chance.maybe() else chance.one(sorted(known))
    below = table_of(name, known[name])
    kind = chance.one(["form", "form", "form", "rename", "twice"])
    if kind == "twice" or below.stateful > 2:
        second = chance.one(sorted(known)) if chance.maybe() else name
        operator = chance.one(["UNION ALL", "UNION", "EXCEPT", "INTERSECT ALL"])
        return together(below, other=table_of(second, known[second]), operator=operator)
    if kind == "rename":
        return renamed(below, prefix=f"r{number}_")
    return draw_form(chance, below).over(below)


def generated_file(seed: int) -> File:
    """Two or three tables, up to three views over them and over each other, and sinks in groups of related queries."""
    chance = Chance(seed)
    tables = sources(chance)
    known: dict[str, Query] = {source.name: scan(source) for source in tables}
    views: list[tuple[str, Query]] = []
    for number in range(chance.number(0, 3)):
        made = _view(chance, number, views, known)
        if made.whole:
            views.append((f"view_{number}", made))
            known[f"view_{number}"] = made
    sinks: list[Query] = []
    for _ in range(chance.number(1, 2)):
        name = views[-1][0] if views and chance.maybe() else chance.one(sorted(known))
        below = table_of(name, known[name])
        if below.arrays and chance.maybe(0.7):
            array = chance.one(below.arrays)
            twice = [(array, chance.maybe()), (array, chance.maybe())]
            below = unnested(below, arrays=twice, kept=chance.some((*below.whole, *below.texts)))
        form = draw_window(chance, name, below) if below.time and chance.maybe() else draw_form(chance, below)
        sinks.append(form.over(below))
        sinks += [related(chance, form, below).over(below) for _ in range(chance.number(1, 2))]
        # The same form over another table, if that has the columns.
        other = chance.one(sorted(known))
        if set(below.columns) <= set(known[other].columns) and "view" not in form.parameters:
            same = replace(table_of(other, known[other]), whole=below.whole, texts=below.texts)
            sinks.append(form.over(same))
    return File(tables, tuple(views), tuple((f"out_{n}", query) for n, query in enumerate(sinks)))
