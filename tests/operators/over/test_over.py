"""OVER after every epoch against DuckDB's window functions over the rows so far; what it reads for a few changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.operators.over import neighbourhood
from sqlstream_operators.operators.over.over import Over
from sqlstream_operators.plan.over_spec import (
    BY_PEER,
    BY_ROW,
    COPY,
    POSITION,
    ROW,
    ROWS,
    SORT,
    OverCall,
    OverSpec,
    Reach,
)
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.top_n_spec import Ordering
from sqlstream_operators.plan.types import BIGINT, BLOB, VARCHAR
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.memory import MemoryShardStore
from tests.examples import examples

DUCK = DuckSession()
COLUMNS = (Column("p", BIGINT), Column("o", BIGINT), Column("v", BIGINT), Column("s", VARCHAR))
NAMES = [c.name for c in COLUMNS]

Row = tuple[Any, ...]
Change = tuple[Row, int]

#: A call, its type, how far it reaches (None: all), and the same with its window for DuckDB.
BY = "PARTITION BY p ORDER BY o DESC NULLS FIRST"
ALL = f"{BY}, v ASC NULLS FIRST, s ASC NULLS FIRST"
CALLS = {
    "sum": (
        f"sum(v) OVER ({BY_ROW} ROWS 2 PRECEDING)",
        BIGINT,
        Reach(2, 0),
        f"sum(v) OVER ({ALL} ROWS 2 PRECEDING)",
    ),
    "around": (
        f"count(*) OVER ({BY_ROW} ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
        BIGINT,
        Reach(1, 2),
        f"count(*) OVER ({ALL} ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
    ),
    "lag": (f"lag(s, 1) OVER ({BY_ROW})", VARCHAR, Reach(1, 0), f"lag(s, 1) OVER ({ALL})"),
    "lead": (f"lead(v, 2) OVER ({BY_ROW})", BIGINT, Reach(0, 2), f"lead(v, 2) OVER ({ALL})"),
    "groups": (
        f"sum(v) OVER ({BY_PEER} GROUPS 1 PRECEDING EXCLUDE CURRENT ROW)",
        BIGINT,
        Reach(1, 0),
        f"sum(v) OVER ({BY} GROUPS 1 PRECEDING EXCLUDE CURRENT ROW)",
    ),
    "this": (f"max(s) OVER ({BY_ROW} ROWS CURRENT ROW)", VARCHAR, Reach(0, 0), "s"),
    "first": (
        f"first_value(s ORDER BY {POSITION}) OVER {BY_PEER}",
        VARCHAR,
        None,
        f"first_value(s) OVER ({ALL})",
    ),
    "number": (f"row_number() OVER {BY_ROW}", BIGINT, None, f"row_number() OVER ({ALL})"),
    "rank": (f"rank() OVER {BY_PEER}", BIGINT, None, f"rank() OVER ({BY})"),
}
BOUNDED = [name for name, call in CALLS.items() if call[2] is not None]


def spec(names: Sequence[str], *, retracting: bool = True) -> OverSpec:
    calls = tuple(OverCall(Column(f"f_{n}", CALLS[n][1]), CALLS[n][0], CALLS[n][2]) for n in names)
    given = tuple(c.column for c in calls)
    table = StateTable.of(
        ROWS,
        "key",
        key=[StateField("p", BIGINT, "p")],
        sub_key=[StateField(SORT, BLOB, "0"), StateField(ROW, BLOB, "1"), StateField(COPY, BIGINT, "2")],
        value=[StateField(c.name, c.type, c.name) for c in (*COLUMNS[1:], *given)],
    )
    order = (Ordering("o", descending=True, nulls_first=True),)
    state = StateSchema("s", "over", "", (table,))
    return OverSpec(state, COLUMNS, ("p",), order, calls, (*COLUMNS, *given), retracting)


def table(changes: Sequence[Change]) -> pa.Table:
    columns = {c.name: [row[n] for row, _ in changes] for n, c in enumerate(COLUMNS)}
    types = [pa.int64(), pa.int64(), pa.int64(), pa.string()]
    arrays = [pa.array(columns[n], type_) for n, type_ in zip(NAMES, types, strict=True)]
    weights = pa.array([w for _, w in changes], pa.int64())
    return pa.table([*arrays, weights], names=[*NAMES, WEIGHT_COLUMN])


class Run:
    """The operator with its state, and what it gave, folded."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.spec = spec(names)
        self.store = MemoryShardStore(self.spec.state, 0, 1, 16)
        self.there: Counter[Row] = Counter()
        self.given: Counter[Row] = Counter()

    def context(self) -> OperatorContext:
        return OperatorContext(0, 1, 16, Watermarks(), self.store, DUCK)

    def epoch(self, changes: Sequence[Change]) -> dict[str, int]:
        result = Over(self.spec).process([table(changes)], self.context())
        self.store.commit()
        for row, weight in changes:
            self.there[row] += weight
        seen = set()
        for values in result.output.to_pylist():
            weight = values.pop(WEIGHT_COLUMN)
            row = tuple(values.values())
            assert weight
            assert row not in seen, "a row stands twice in one epoch's changes"
            seen.add(row)
            self.given[row] += weight
        assert min(self.given.values(), default=0) >= 0
        return dict(result.metrics)

    def expected(self) -> Counter[Row]:
        rows = [row for row, n in self.there.items() for _ in range(n)]
        with duckdb.connect(config={"threads": 1}) as con:
            con.execute("CREATE TABLE t (p BIGINT, o BIGINT, v BIGINT, s VARCHAR)")
            if rows:
                con.register("given", table([(row, 1) for row in rows]))
                con.execute(f"INSERT INTO t SELECT {', '.join(NAMES)} FROM given")
            listed = ", ".join(CALLS[n][3] for n in self.names)
            return Counter(con.sql(f"SELECT *, {listed} FROM t").fetchall())

    def check(self) -> None:
        expected = self.expected()
        assert +self.given == expected
        answer = Over(self.spec).answer(self.context())
        found = Counter({tuple(r.values())[:-1]: r[WEIGHT_COLUMN] for r in answer.to_pylist()})
        assert found == expected


_rows = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, *range(8)]),
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, "", "a", "b"]),
)
_weights = st.sampled_from([-2, -1, -1, 1, 1, 1, 2])
_epochs = st.lists(st.lists(st.tuples(_rows, _weights), max_size=12), max_size=5)


@settings(max_examples=examples(10), deadline=None)
@given(
    st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=3, unique=True), _epochs, st.integers(0, 2)
)
@example(["number"], [[((1, 1, 1, "a"), -1)], [((1, 1, 1, "a"), 2)], [((1, 1, 1, "a"), 1)]], 0)
def test_random_changes(names: list[str], epochs: list[list[Change]], slack: int) -> None:
    before, neighbourhood._SLACK = neighbourhood._SLACK, slack
    try:
        run = Run(names)
        for changes in epochs:
            run.epoch(changes)
            run.check()
    finally:
        neighbourhood._SLACK = before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", BOUNDED)
def test_a_long_partition(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes far apart, side by side, and at both ends; many equals."""
    monkeypatch.setattr(neighbourhood, "_SLACK", seed)
    pick = random.Random(seed)
    run = Run([name])
    rows = [(1, n // (1 + 4 * (seed == 2)), pick.randrange(3), pick.choice("ab")) for n in range(200)]
    run.epoch([(row, 1) for row in rows])
    for _ in range(4):
        gone = pick.sample(sorted(+run.there), 6)
        at = pick.randrange(180)
        side = [row for row in rows[at : at + 5] if run.there[row] > 0]
        new = [(1, pick.randrange(-2, 203), pick.randrange(3), pick.choice("ab")) for _ in range(6)]
        run.epoch([*((row, -1) for row in dict.fromkeys([*gone, *side])), *((row, 1) for row in new)])
        run.check()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BOUNDED)
def test_a_few_changes_read_a_few_rows(name: str) -> None:
    run = Run([name])
    run.epoch([((1, n, n % 7, "a"), 1) for n in range(20_000)])
    metrics = run.epoch([((1, n * 1_999, 9, "b"), 1) for n in range(10)])
    assert metrics["read_rows"] < 10 * 60
    run.check()


def test_a_partition_that_nothing_touches_is_not_read() -> None:
    run = Run(["number"])
    run.epoch([((n, 1, 1, "a"), 1) for n in range(50)])
    assert run.epoch([((7, 2, 1, "a"), 1)])["read_rows"] == 1


def test_what_goes_leaves_no_state() -> None:
    run = Run(["sum"])
    rows = [((1, n, 1, "a"), 1) for n in range(5)]
    run.epoch(rows)
    assert run.epoch([(row, -1) for row, _ in rows])["state_rows_removed"] == 5
    assert not run.store.has_rows()


def test_changes_are_refused_where_rows_are_promised_to_stay() -> None:
    appended = spec(["sum"], retracting=False)
    store = MemoryShardStore(appended.state, 0, 1, 16)
    with pytest.raises(InternalError, match="the plan says append-only"):
        Over(appended).process(
            [table([((1, 1, 1, "a"), 1)])], OperatorContext(0, 1, 16, Watermarks(), store, DUCK)
        )
