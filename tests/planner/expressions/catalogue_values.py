"""The values of calls over the rows of catalogue_calls.py: what a pipeline gives, and what DuckDB does.

Values are compared as DuckDB's text of them: -0.0, NaN, far times and 39 digits are what they are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path

import duckdb

from sqlstream.planning import plan_file
from sqlstream_operators.plan.spec import WEIGHT_COLUMN
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.pipeline import Planned
from tests.planner.expressions.catalogue_calls import ROWS, database
from tests.planner.expressions.catalogue_calls import some as sample
from tests.planner.expressions.test_catalogue_walk import Planned as Call
from tests.planner.expressions.test_catalogue_walk import planned as planned_call
from tests.planner.expressions.test_catalogue_walk import tried
from tests.planner.expressions.typing_referee import COLUMNS
from tests.properties.in_process import run_here
from tests.properties.updating import Collected, collecting

#: Columns that Parquet would change.
_AS_TEXT = frozenset({"hu", "iv"})
#: What DuckDB raises; where it cuts its message in the middle of a character, Python can't read it.
_ERRORS = (duckdb.Error, UnicodeDecodeError)
_NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)")

#: An operator that the dialect does not have: `+ list`.
_NO_CALL = frozenset({"(+(li))"})
#: docs/sql/types.md: an INTERVAL is kept in nanoseconds, and the sum that an AVG of decimals needs in 38 digits.
_TOO_LARGE = ("an INTERVAL of more than", "does not fit in DECIMAL(38)")

Answer = list[tuple[str | None, ...]]


#: How many different rows there are; the last is NULLs.
COUNT = len(ROWS["bo"]) + 1


@dataclass(frozen=True)
class Dealt:
    """A row of `t`: what it is grouped by, two numbers that tell rows apart, and whose values it has (0 to COUNT)."""

    key: int
    number: int
    version: int
    row: int


@dataclass
class Values:
    """Rows in a DuckDB (table `t`) and in a file of `folder`, over which calls are run both ways.

    Beside the columns of `COLUMNS` and those of `Dealt` they have `moment`, a second later each. A call is run over
    those keys for which DuckDB does not fail.
    """

    folder: Path
    rows: Sequence[Dealt]
    keys: tuple[int, ...] = field(init=False)
    con: duckdb.DuckDBPyConnection = field(init=False)
    runs: int = 0
    _known: dict[str, dict[str, tuple[tuple[int, ...], Answer]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._open()
        self.keys = tuple(k for (k,) in self.con.sql("SELECT DISTINCT key FROM t ORDER BY ALL").fetchall())
        names = ", ".join(f"{n}::VARCHAR AS {n}" if n in _AS_TEXT else n for n in COLUMNS)
        (self.folder / "in").mkdir()
        self.con.execute(
            f"COPY (SELECT key, number, version, moment, {names} FROM t ORDER BY moment) TO '{self.folder}/in/0.parquet'"
        )

    def _open(self) -> None:
        self.con = database()
        self.con.execute("ALTER TABLE t RENAME TO ordinary")
        dealt = ", ".join(
            f"({place}, {d.key}, {d.number}, {d.version}, {d.row})" for place, d in enumerate(self.rows)
        )
        self.con.execute(
            "CREATE TABLE t AS SELECT key, number, version, "
            "TIMESTAMP '2024-01-01' + INTERVAL (place) SECOND AS moment, v.* EXCLUDE (i) "
            f"FROM (VALUES {dealt}) AS d (place, key, number, version, i) "
            "JOIN (SELECT row_number() OVER () - 1 AS i, * FROM tn) AS v USING (i) ORDER BY place"
        )

    @property
    def declared(self) -> str:
        """`t`, as a pipeline has it."""
        stored = ", ".join(f"{n} {'VARCHAR' if n in _AS_TEXT else type_}" for n, type_ in COLUMNS.items())
        shown = ", ".join(f"CAST({n} AS {COLUMNS[n]}) AS {n}" if n in _AS_TEXT else n for n in COLUMNS)
        return (
            f"CREATE TABLE stored (key INT, number INT, version INT, moment TIMESTAMP(3), {stored},\n"
            "WATERMARK FOR moment AS moment) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');\n"
            f"CREATE VIEW t AS SELECT key, number, version, moment, {shown} FROM stored;\n"
        )

    def close(self) -> None:
        self.con.close()

    # ------------------------------------------------------------------------------------------------ DuckDB

    def theirs(self, query: str, calls: Sequence[str], keys: Sequence[int]) -> list[Answer]:
        """What DuckDB gives for each call: rows of the key and the value, sorted. Raises duckdb.Error."""
        items = ", ".join(f"({call}) AS z{n}" for n, call in enumerate(calls))
        sql = query.format(items=items, keys=", ".join(map(str, keys)))
        return self._answers(sql, len(calls))

    def _answers(self, sql: str, count: int) -> list[Answer]:
        texts = ", ".join(f"z{n}::VARCHAR" for n in range(count))
        found = self.con.sql(f"SELECT key::VARCHAR, {texts} FROM ({sql})").fetchall()
        return [_sorted((row[0], row[n + 1]) for row in found) for n in range(count)]

    def answered(self, query: str, calls: Mapping[str, str]) -> dict[str, tuple[tuple[int, ...], Answer]]:
        """Each call (-> how DuckDB spells it) that DuckDB answers: for which keys, and what it gives for them."""
        found = self._known.setdefault(query, {})
        calls = {call: spelled for call, spelled in calls.items() if call not in found}
        # UNNEST beside others gives their rows again.
        alone = {call: spelled for call, spelled in calls.items() if "unnest" in spelled}
        for call, spelled in alone.items():
            found.update(self._answered(query, [(call, spelled)]))
        listed = [(call, spelled) for call, spelled in calls.items() if call not in alone]
        for start in range(0, len(listed), 32):
            found.update(self._answered(query, listed[start : start + 32]))
        return found

    def _answered(
        self, query: str, calls: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[str, tuple[tuple[int, ...], Answer]]]:
        try:
            answers = self.theirs(query, [spelled for _, spelled in calls], self.keys)
        except _ERRORS as error:
            self._after(error)
            if len(calls) == 1:
                yield from self._of_some_keys(query, *calls[0])
                return
            middle = len(calls) // 2
            yield from self._answered(query, calls[:middle])
            yield from self._answered(query, calls[middle:])
        else:
            yield from ((call, (self.keys, a)) for (call, _), a in zip(calls, answers, strict=True))

    def _of_some_keys(
        self, query: str, call: str, spelled: str
    ) -> Iterator[tuple[str, tuple[tuple[int, ...], Answer]]]:
        keys, answer = [], []
        for key in self.keys:
            try:
                [rows] = self.theirs(query, [spelled], [key])
            except duckdb.BinderException:
                return
            except _ERRORS as error:
                self._after(error)
            else:
                keys.append(key)
                answer += rows
        if keys:
            yield call, (tuple(keys), _sorted(answer))

    def _after(self, error: Exception) -> None:
        """Some values are fatal to DuckDB, which then answers nothing more."""
        if isinstance(error, duckdb.FatalException):
            self.con.close()
            self._open()

    # ------------------------------------------------------------------------------------------ the pipeline

    def planned(self, query: str, calls: Sequence[str], keys: Sequence[int]) -> Planned:
        """A pipeline that gives the calls. Raises DiagnosticError."""
        items = ", ".join(f"({call}) AS z{n}" for n, call in enumerate(calls))
        text = query.format(items=items, keys=", ".join(map(str, keys)))
        file = self.folder / "p.sql"
        file.write_text(f"{self.declared}CREATE TABLE out WITH ('connector' = 'blackhole') AS {text};\n")
        return plan_file(file)

    def ours(self, planned: Planned, rows_per_epoch: int | None) -> list[Answer]:
        """What the pipeline gives for each call, in the end."""
        self.runs += 1
        with collecting() as collected:
            run_here(planned, self.folder, state=f"state-{self.runs}", rows_per_epoch=rows_per_epoch)
        return self._folded(collected, planned)

    def batch(self, planned: Planned) -> list[Answer]:
        """What the referee's SQL gives for each call."""
        script = to_duckdb(planned, lambda _: [f"{self.folder}/in/0.parquet"])
        self.con.begin()
        try:
            self.con.execute("ALTER TABLE t RENAME TO of_duckdb")
            for _, view in script.sources:
                self.con.execute(view)
            return self._answers(script.sinks[0][1], len(planned.physical.sinks[0].schema) - 1)
        finally:
            self.con.rollback()

    def _folded(self, collected: Collected, planned: Planned) -> list[Answer]:
        [sink] = planned.physical.sinks
        # Arrow has HUGEINT as decimals.
        texts = ", ".join(f"{c.name}::{c.type}::VARCHAR" for c in sink.schema)
        totals: dict[tuple[str | None, ...], int] = defaultdict(int)
        for table in collected.tables.get("out", []):
            self.con.register("given", table)
            weight = WEIGHT_COLUMN if WEIGHT_COLUMN in table.column_names else "1"
            for *row, times in self.con.sql(f"SELECT {texts}, {weight} FROM given").fetchall():
                totals[tuple(row)] += times
            self.con.unregister("given")
        assert all(times >= 0 for times in totals.values()), "rows were taken back that were not given"
        rows = [row for row, times in totals.items() for _ in range(times)]
        return [_sorted((row[0], row[n]) for row in rows) for n in range(1, len(sink.schema))]


def _sorted(rows: Iterator[tuple[str | None, ...]] | Answer) -> Answer:
    return sorted(rows, key=lambda row: [(text is not None, text or "") for text in row])


def same(one: Answer, other: Answer, *, nearly: bool = False) -> bool:
    """Equal; `nearly`: numbers in the texts to a relative 1e-9, and 0.0 is -0.0."""
    if one == other:
        return True
    return nearly and len(one) == len(other) and all(map(_near, one, other))


def _near(one: tuple[str | None, ...], other: tuple[str | None, ...]) -> bool:
    for a, b in zip(one, other, strict=True):
        if a == b:
            continue
        if a is None or b is None or _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
            return False
        for x, y in zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True):
            # NaN is NaN: the sign that DuckDB shows says nothing.
            if (
                x != y
                and {x, y} != {"nan", "-nan"}
                and not isclose(float(x), float(y), rel_tol=1e-9, abs_tol=1e-12)
            ):
                return False
    return True


def in_parts(
    values: Values, query: str, calls: Sequence[str], keys: Sequence[int]
) -> Iterator[tuple[Sequence[str], Planned]]:
    """Pipelines that give all of `calls` that are not refused."""
    try:
        planned = values.planned(query, calls, keys)
    except DiagnosticError:
        if len(calls) > 1:
            middle = len(calls) // 2
            yield from in_parts(values, query, calls[:middle], keys)
            yield from in_parts(values, query, calls[middle:], keys)
    else:
        yield calls, planned


@dataclass(frozen=True)
class Asked:
    """A query of calls, its epochs, and what DuckDB says of each: for which keys, and what (None: ask the referee)."""

    values: Values
    query: str
    wanted: Mapping[str, tuple[tuple[int, ...], Answer | None]]
    rows_per_epoch: int | None = None
    nearly: bool = False

    def differences(self, calls: Sequence[str], *, at_once: int) -> tuple[list[str], int]:
        """What differs, and how many calls were compared."""
        by_keys: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for call in calls:
            if call in self.wanted:
                by_keys[self.wanted[call][0]].append(call)
        wrong: list[str] = []
        count = 0
        for keys, some in by_keys.items():
            for start in range(0, len(some), at_once):
                for part, planned in in_parts(self.values, self.query, some[start : start + at_once], keys):
                    count += len(part)
                    wrong += self._wrong(part, planned, keys)
        return wrong, count

    def _wrong(self, calls: Sequence[str], planned: Planned, keys: tuple[int, ...]) -> Iterator[str]:
        try:
            answers = self.values.ours(planned, self.rows_per_epoch)
        except DiagnosticError as error:
            if len(calls) > 1:
                for call in calls:
                    yield from self._wrong([call], self.values.planned(self.query, [call], keys), keys)
            elif not any(text in str(error) for text in _TOO_LARGE):
                yield f"{calls[0]} for {keys}: {error}"
            return
        requested = [self.wanted[call][1] for call in calls]
        batch = self.values.batch(planned) if None in requested else answers
        for call, answer, duckdbs, referees in zip(calls, answers, requested, batch, strict=True):
            expected = duckdbs if duckdbs is not None else referees
            if not same(answer, expected, nearly=self.nearly):
                yield f"{call} for {keys} gives {answer}, DuckDB {expected}"


def known(aggregates: bool, one_of: int) -> Iterator[Call]:
    """Of one in so many of the calls that the walk tries: what is planned and has a type that a column can have."""
    named = dict(tried(aggregates=aggregates))
    for call in sample([*named], one_of):
        each = planned_call(call, named[call])
        if isinstance(each.typed, TypedExpr) and each.typed.type.is_known and each.call not in _NO_CALL:
            yield each
