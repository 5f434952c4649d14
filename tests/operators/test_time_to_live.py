"""State with a time to live, for each operator: as if each key had a state of its own that is thrown away in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.operators.time_to_live import TimeToLive
from sqlstream_operators.plan.changelog_normalize_spec import ChangelogNormalizeSpec
from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.first_row_spec import FirstRowSpec
from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec, MultisetSpec
from sqlstream_operators.plan.join_spec import JoinSideSpec, JoinSpec
from sqlstream_operators.plan.operator_spec import Forgets
from sqlstream_operators.plan.over_spec import OverCall, OverSpec
from sqlstream_operators.plan.schema import KIND_COLUMN, WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.spec import SPECS as REGISTERED
from sqlstream_operators.plan.state_schema import Layout, StateField, StateSchema, StateTable
from sqlstream_operators.plan.state_ttl import EXPIRY, TOUCHED, granularity_us, with_ttl
from sqlstream_operators.plan.top_n_spec import DeduplicateSpec, Ordering, TopNSpec
from sqlstream_operators.plan.types import BIGINT, BLOB, VARCHAR
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.memory import MemoryShardStore
from tests.examples import examples

P, V = Column("p", VARCHAR), Column("v", BIGINT)
ROWS: Schema = (P, V)
SECOND = 1_000_000
DUCK = DuckSession()
Keyed = (
    GroupAggregateSpec
    | DistinctValuesSpec
    | TopNSpec
    | DeduplicateSpec
    | ChangelogNormalizeSpec
    | FirstRowSpec
    | JoinSpec
    | OverSpec
)
Row = tuple[str | None, int, int]


def table(
    name: str, *, key: Sequence[Column], sub: Sequence[Column] = (), value: Sequence[Column] = ()
) -> StateTable:
    def fields(columns: Sequence[Column]) -> list[StateField]:
        return [StateField(c.name, c.type, f"{place} {c.name}") for place, c in enumerate(columns)]

    layout: Layout = "key"
    return StateTable.of(name, layout, key=fields(key), sub_key=fields(sub), value=fields(value))


def state(*tables: StateTable) -> StateSchema:
    return StateSchema("s", "test", "test", tables)


COUNT, SORT, DIGEST = Column("count", BIGINT), Column("sort", BLOB), Column("row", BLOB)
GROUP = GroupAggregateSpec(
    state=state(
        table("acc", key=[P], value=[Column("n", BIGINT)]), table("low", key=[P], sub=[V], value=[COUNT])
    ),
    keys=(P,),
    accumulators=(Column("n", BIGINT),),
    merge=("CAST(coalesce(sum(n), 0) AS BIGINT)",),
    emit="SELECT p, n, lo FROM merged",
    output=(P, Column("n", BIGINT), Column("lo", BIGINT)),
    presence="n",
    multisets=(MultisetSpec("low", (V,), "first", (Column("lo", BIGINT),), ("min(v)",)),),
)
DISTINCT = DistinctValuesSpec(
    state=state(table("seen", key=[P, V], value=[Column("f", BIGINT)])),
    keys=(P,),
    values=(V,),
    flags=("f",),
    retracting=True,
    emit='SELECT p, v, CAST("f.after" AS BIGINT) - CAST("f.before" AS BIGINT) AS d FROM changed',
    output=(P, V, Column("d", BIGINT)),
)
TOP = TopNSpec(
    state(table("rows", key=[P], sub=[SORT, DIGEST], value=[COUNT, V])),
    ROWS,
    ("p",),
    (Ordering("v", descending=True),),
    "row_number",
    2,
    0,
    None,
    ROWS,
    retracting=True,
)
ROW = state(table("row", key=[P], value=[V]))
FIRST = DeduplicateSpec(ROW, ROWS, ("p",), (Ordering("v"),), ROWS)
CHANGELOG = ChangelogNormalizeSpec(ROW, ("p",), ROWS, ROWS)
KEEP = FirstRowSpec(state(table("row", key=[P])), ("p",), ROWS, ROWS)
SHORT = replace(
    TOP,
    state=state(StateTable("rows", "list", TOP.state.tables[0].key, (), (StateField("v", BIGINT, "v"),))),
    retracting=False,
)
W = Column("w", BIGINT)
JOIN = JoinSpec(
    state(
        table("left", key=[P], sub=[DIGEST], value=[COUNT, V]),
        table("right", key=[P], sub=[DIGEST], value=[COUNT, W]),
    ),
    "full",
    (P,),
    JoinSideSpec((V,), ("",), retracting=True),
    JoinSideSpec((W,), ("",), retracting=True),
    None,
    (V, W),
)
TOTAL = Column("total", BIGINT)
OVER = OverSpec(
    state(
        table(
            "rows",
            key=[P],
            sub=[Column("__sort", BLOB), Column("__row", BLOB), Column("__copy", BIGINT)],
            value=[V, TOTAL],
        )
    ),
    ROWS,
    ("p",),
    (Ordering("v"),),
    (OverCall(TOTAL, "CAST(sum(v) OVER __by_row AS BIGINT)"),),
    (*ROWS, TOTAL),
    retracting=True,
)
APPENDED = ("short_top_n", "deduplicate", "first_row")


def name_of(spec: Keyed) -> str:
    """The kind, where Top-N over append-only rows is one of its own."""
    return "short_top_n" if isinstance(spec, TopNSpec) and not spec.retracting else spec.kind


SPECS: dict[str, Keyed] = {
    name_of(s): s for s in (GROUP, DISTINCT, TOP, SHORT, FIRST, CHANGELOG, KEEP, JOIN, OVER)
}


def test_every_operator_that_may_forget_is_here() -> None:
    forgetting = {spec.kind for spec in REGISTERED if issubclass(spec, Forgets)}
    assert {spec.kind for spec in SPECS.values()} == forgetting


def inputs(kind: str, rows: Sequence[Row]) -> list[pa.Table]:
    """The operator's inputs: append-only rows where it takes nothing else."""
    columns: dict[str, Any] = {"p": pa.array([p for p, _, _ in rows], pa.string())}
    keys = pa.table(columns)
    rows_ = keys.append_column("v", pa.array([v for _, v, _ in rows], pa.int64()))
    weights = pa.array([w for _, _, w in rows], pa.int64())
    match kind:
        case "group_aggregate":
            return [keys.append_column("n", weights), rows_.append_column(WEIGHT_COLUMN, weights)]
        case "distinct_values":
            return [rows_.append_column("f", weights)]
        case "top_n" | "over":
            return [rows_.append_column(WEIGHT_COLUMN, weights)]
        case "join":
            # The rows with an even value are those of the left.
            both = rows_.append_column(WEIGHT_COLUMN, weights)
            left = pa.array([v % 2 == 0 for _, v, _ in rows], pa.bool_())
            right = both.filter(pc.invert(left)).rename_columns(["p", "w", WEIGHT_COLUMN])
            return [both.filter(left), right]
        case "changelog_normalize":
            return [
                rows_.append_column(
                    KIND_COLUMN, pa.array(["+U" if w > 0 else "-D" for _, _, w in rows], pa.string())
                )
            ]
    return [rows_]


def key_of(kind: str, row: Row) -> tuple[Any, ...]:
    return row[:2] if kind == "distinct_values" else row[:1]


class Job:
    """An operator with its state, in one shard."""

    def __init__(self, spec: Keyed) -> None:
        self.operator = operator_of(spec)
        self.store = MemoryShardStore(spec.state)

    def run(self, tables: list[pa.Table], now: int) -> Counter[str]:
        context = OperatorContext(0, 1, 128, Watermarks(), self.store, DUCK, now)
        result = self.operator.process(tables, context)
        self.store.commit()
        assert result.metrics.get("emitted_rows", 0) == result.output.num_rows
        return Counter(map(repr, result.output.to_pylist()))


class Model:
    """A job without a time to live for each key, thrown away when the key was not touched for too long."""

    def __init__(self, spec: Keyed, ttl_us: int) -> None:
        self.spec, self.ttl_us = spec, ttl_us
        self.jobs: dict[tuple[Any, ...], Job] = {}
        self.touched: dict[tuple[Any, ...], int] = {}

    def run(self, rows: Sequence[Row], now: int) -> Counter[str]:
        step = granularity_us(self.ttl_us)
        now = now // step * step
        for key in [
            k for k, at in self.touched.items() if now - at > self.ttl_us and now - at >= self.ttl_us + step
        ]:
            del self.jobs[key], self.touched[key]
        output: Counter[str] = Counter()
        kind = name_of(self.spec)
        for key in dict.fromkeys(key_of(kind, row) for row in rows):
            job = self.jobs.setdefault(key, Job(self.spec))
            mine = [row for row in rows if key_of(kind, row) == key]
            output += job.run(inputs(kind, mine), 0)
            self.touched[key] = max(now, self.touched.get(key, now))
        return output


rows_of_an_epoch = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2), st.sampled_from([1, 1, 1, -1])),
    max_size=4,
)
epochs = st.lists(st.tuples(st.integers(0, 9), rows_of_an_epoch), min_size=1, max_size=7)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", SPECS)
@settings(max_examples=examples(4))
@given(epochs, st.sampled_from([2, 3, 5, 200]))
@example([(0, [("a", 1, 1)]), (4, [("b", 1, 1)]), (4, [("a", 2, 1)]), (1, [("a", 1, -1)])], 3)
def test_a_key_that_nothing_touches_starts_from_nothing(
    kind: str, epochs: list[tuple[int, list[Row]]], ttl_s: int
) -> None:
    plain, ttl_us = SPECS[kind], ttl_s * SECOND
    spec = replace(plain, state=with_ttl(plain.state), ttl_us=ttl_us)
    job, model = Job(spec), Model(plain, ttl_us)
    now = 1_700_000_000 * SECOND
    for seconds, rows in epochs:
        now += seconds * (SECOND if ttl_s < 100 else 30 * SECOND) + 123_456
        rows = [(p, v, 1 if kind in APPENDED else w) for p, v, w in rows]
        assert job.run(inputs(kind, rows), now) == model.run(rows, now)
        # What is kept is what the model keeps, and a note of each key.
        for each in plain.state.tables:
            kept = sum(other.store.scan_all(each.name).num_rows for other in model.jobs.values())
            assert job.store.scan_all(each.name).num_rows == kept
        assert (
            job.store.scan_all(TOUCHED).num_rows == job.store.scan_all(EXPIRY).num_rows == len(model.touched)
        )
    job.run(inputs(kind, []), now + 4 * ttl_us + 2 * SECOND)
    assert not job.store.has_rows()


def test_a_key_is_kept_for_its_time_and_not_much_longer() -> None:
    spec = replace(KEEP, state=with_ttl(KEEP.state), ttl_us=640 * SECOND)  # a granularity of 10 s
    job, start = Job(spec), 1_000 * SECOND
    row = inputs("first_row", [("a", 1, 1)])
    assert sum(job.run(row, start + 9 * SECOND).values()) == 1
    assert sum(job.run(row, start + 649 * SECOND).values()) == 0  # 640 s later, and touched again
    assert sum(job.run(row, start + 649 * SECOND + 640 * SECOND).values()) == 0
    assert sum(job.run(row, start + 649 * SECOND + 640 * SECOND + 661 * SECOND).values()) == 1


def test_the_work_is_in_proportion_to_what_is_touched() -> None:
    """A key that is touched all the time is noted once a granularity."""
    spec = replace(KEEP, state=with_ttl(KEEP.state), ttl_us=640 * SECOND)
    job = Job(spec)
    for second in range(20):
        job.run(inputs("first_row", [("a", 1, 1)]), second * SECOND)
        assert job.store.scan_all(EXPIRY).num_rows == 1
    [noted] = job.store.scan_all(TOUCHED).to_pylist()
    assert noted["$at"] == 10 * SECOND


def test_groups_that_exist_from_the_start_are_never_forgotten() -> None:
    seeded = replace(
        GROUP,
        state=with_ttl(GROUP.state),
        seed="SELECT CAST(NULL AS VARCHAR) AS p, CAST(0 AS BIGINT) AS n",
        ttl_us=2 * SECOND,
    )
    job = Job(seeded)
    assert sum(job.run(inputs("group_aggregate", []), 10 * SECOND).values()) == 1
    both: list[Row] = [(None, 1, 1), ("a", 1, 1)]
    assert sum(job.run(inputs("group_aggregate", both), 20 * SECOND).values()) == 3
    assert job.run(inputs("group_aggregate", []), 90 * SECOND) == Counter()
    assert [row["p"] for row in job.store.scan_all("acc").to_pylist()] == [None]


def test_a_clock_that_goes_back_forgets_nothing() -> None:
    job = Job(replace(KEEP, state=with_ttl(KEEP.state), ttl_us=5 * SECOND))
    row = inputs("first_row", [("a", 1, 1)])
    job.run(row, 100 * SECOND)
    job.run(row, 50 * SECOND)
    assert job.run(row, 101 * SECOND) == Counter()
    assert job.store.scan_all(EXPIRY).num_rows == 1


def test_a_state_without_the_tables_is_refused() -> None:
    with pytest.raises(InternalError):
        TimeToLive(
            operator_of(KEEP),
            replace(with_ttl(KEEP.state), tables=(table("row", key=[P]), table("x", key=[V]))),
            1,
        )
    with pytest.raises(InternalError):
        TimeToLive(operator_of(KEEP), with_ttl(KEEP.state), 0)
