"""The group aggregate against DuckDB's batch answer after every epoch: any cut, any shards, any deletes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.aggregate.group_aggregate import GroupAggregate
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.group_aggregate_spec import ExpirySpec, GroupAggregateSpec, MultisetSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import SqlType
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from tests.examples import examples
from tests.operators.weighted_cases import (
    Folded,
    Multiset,
    Shards,
    batch,
    partials,
    rows_of,
    table,
    weighted_table,
)

INPUT: Schema = (Column("k", t.INTEGER), Column("j", t.VARCHAR), Column("v", t.INTEGER))
KEYS = {"k": t.INTEGER, "j": t.VARCHAR}
HUGEINT = t.parse_type("HUGEINT")
INTS = t.array(t.INTEGER)


def fields(columns: dict[str, SqlType]) -> list[StateField]:
    return [StateField(name, type_, name) for name, type_ in columns.items()]


def schema(columns: dict[str, SqlType]) -> Schema:
    return tuple(Column(name, type_) for name, type_ in columns.items())


def multiset(name: str, pick: str, columns: dict[str, SqlType], *aggregates: str) -> MultisetSpec:
    return MultisetSpec(name, (Column("x", t.INTEGER),), pick, schema(columns), aggregates)


LOWS = multiset("lows", "first", {"lo": t.INTEGER}, "min(x)")
HIGHS = multiset("highs", "last", {"hi": t.INTEGER}, "max(x)")
ALL = multiset(
    "values",
    "all",
    {"l": INTS, "d": t.BIGINT, "o": INTS},
    'flatten(list(repeat([x], "count") ORDER BY x))',
    "count(*)",
    "list(x)",
)
SUMS = {"c": t.BIGINT, "n": t.BIGINT, "s": HUGEINT}
SUM_PARTIALS = (
    "SELECT {keys} sum(__weight)::BIGINT AS c, coalesce(sum(__weight) FILTER (v IS NOT NULL), 0)::BIGINT AS n, "
    "sum(v * __weight)::HUGEINT AS s FROM t {by}"
)
FINALS = "c, CASE WHEN n > 0 THEN s END AS s, CASE WHEN n > 0 THEN s::DOUBLE / n END AS a"
SUM_OUTPUT = {"c": t.BIGINT, "s": HUGEINT, "a": t.DOUBLE}
BATCH_SUMS = "count(*) AS c, sum(v) AS s, avg(v) AS a"
BATCH_VALUES = (
    "min(v) AS lo, max(v) AS hi, list(v ORDER BY v) FILTER (v IS NOT NULL) AS l, "
    "nullif(count(DISTINCT v), 0) AS d, list(DISTINCT v ORDER BY v) FILTER (v IS NOT NULL) AS o"
)


def spec_of(
    keys: dict[str, SqlType],
    accumulators: dict[str, SqlType],
    emit: str,
    output: dict[str, SqlType],
    *,
    multisets: tuple[MultisetSpec, ...] = (),
    merge: tuple[str, ...] | None = None,
    **more: Any,
) -> GroupAggregateSpec:
    layout: Any = "time" if "expiry" in more else "key"
    kept = more.pop("kept_keys", keys)
    tables = [StateTable.of("acc", layout, key=fields(kept), value=fields(accumulators))]
    for one in multisets:
        values = [StateField(c.name, c.type, c.name) for c in one.values]
        count = [StateField("count", t.BIGINT, "count")]
        tables.append(StateTable.of(one.name, layout, key=fields(kept), sub_key=values, value=count))
    return GroupAggregateSpec(
        state=StateSchema("g1", "group_aggregate", "test", tuple(tables)),
        keys=schema(keys),
        accumulators=schema(accumulators),
        merge=merge or tuple(f"sum({name})" for name in accumulators),
        emit=emit,
        output=schema(output),
        multisets=multisets,
        **more,
    )


def whole_spec(multisets: tuple[MultisetSpec, ...] = (LOWS, HIGHS, ALL), **more: Any) -> GroupAggregateSpec:
    """Sums and multisets values by two keys, over input that retracts."""
    columns = {c.name: c.type for one in multisets for c in one.columns}
    listed = ", ".join(["k", "j", FINALS, *columns])
    output = KEYS | SUM_OUTPUT | columns
    return spec_of(
        KEYS, SUMS, f"SELECT {listed} FROM merged", output, multisets=multisets, presence="c", **more
    )


WHOLE = whole_spec()
BATCH = f"SELECT k, j, {BATCH_SUMS}, {BATCH_VALUES} FROM t GROUP BY k, j"

Change = tuple[int | None, str | None, int | None, int]


def inputs_of(spec: GroupAggregateSpec, changes: Sequence[Change], chance: random.Random) -> list[pa.Table]:
    """What the stage before sends: partials of random splits, and multisets values as they come, shuffled."""
    by = ", ".join(column.name for column in spec.keys)
    sql = SUM_PARTIALS.format(keys=f"{by}," if by else "", by=f"GROUP BY {by}" if by else "")
    splits: list[list[Change]] = [[], []]
    for change in changes:
        splits[chance.randrange(2)].append(change)
    pieces = [partials(sql, INPUT, split) for split in splits if split]
    nothing = table((*spec.keys, *spec.accumulators), [])
    partial = pa.concat_tables([nothing, *(piece.cast(nothing.schema) for piece in pieces)])
    partial = partial.take(pa.array(chance.sample(range(partial.num_rows), partial.num_rows), pa.int64()))
    places = [[column.name for column in INPUT].index(column.name) for column in spec.keys]
    values = [(*(change[i] for i in places), *change[2:]) for change in changes if change[2] is not None]
    inputs = [partial]
    for one in spec.multisets:
        inputs.append(weighted_table((*spec.keys, *one.values), chance.sample(values, len(values))))
    return inputs


@st.composite
def histories(draw: st.DrawFn) -> list[list[Change]]:
    """Epochs of inserts, and of deletes of rows that are there; the last epoch may delete all that is left."""
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    keys, names, values = draw(st.integers(1, 4)), draw(st.integers(0, 2)), draw(st.integers(1, 5))
    deletes = draw(st.floats(0, 0.6))
    live: list[tuple[int | None, str | None, int | None]] = []
    epochs = []
    for size in draw(st.lists(st.integers(0, 25), min_size=1, max_size=6)):
        changes: list[Change] = []
        for _ in range(size):
            if live and chance.random() < deletes:
                changes.append((*live.pop(chance.randrange(len(live))), -1))
                continue
            k = chance.choice([None, *range(keys)])
            row = (k, chance.choice([None, "", "b"][: names + 1]), chance.choice([None, *range(-2, values)]))
            live.append(row)
            changes.append((*row, 1))
        epochs.append(changes)
    if draw(st.booleans()):
        epochs.append([(*row, -1) for row in live])
    return epochs


def add(rows: Multiset, changes: Sequence[Change]) -> None:
    for change in changes:
        rows[change[:-1]] += change[-1]


def run(
    spec: GroupAggregateSpec, sql: str, shards: Shards, epochs: list[list[Change]], chance: random.Random
) -> Multiset:
    """Run the epochs, compare with the batch answer after each, and give the rows that are left."""
    folded, rows = Folded(), Counter[tuple[Any, ...]]()
    for changes in epochs:
        add(rows, changes)
        for output in shards.run(inputs_of(spec, changes, chance)):
            folded.add(output)
        assert folded.rows == batch(sql, INPUT, rows)
    assert (shards.state_rows() == 0) == (not rows.total() and spec.seed is None)
    return rows


@settings(max_examples=examples(5))
@given(histories(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_after_every_epoch_the_fold_is_the_batch_answer(
    epochs: list[list[Change]], shards: int, chance: random.Random
) -> None:
    run(WHOLE, BATCH, Shards(WHOLE, shards, ["j", "k"]), epochs, chance)


@pytest.mark.parametrize("multisets", [(), (LOWS,), (HIGHS,), (ALL,)], ids=["none", "first", "last", "all"])
@settings(max_examples=examples(2))
@given(histories(), st.randoms(use_true_random=False))
@pytest.mark.sampled(2)
def test_each_kind_of_state_alone(
    multisets: tuple[MultisetSpec, ...], epochs: list[list[Change]], chance: random.Random
) -> None:
    spec = whole_spec(multisets)
    columns = ", ".join(column.name for column in spec.output)
    run(spec, f"SELECT {columns} FROM ({BATCH})", Shards(spec, 2, ["j", "k"]), epochs, chance)


@settings(max_examples=examples(2))
@given(histories(), st.lists(st.integers(1, 3), min_size=7, max_size=7), st.randoms(use_true_random=False))
def test_on_rocksdb_with_rescaling(
    tmp_path_factory: pytest.TempPathFactory,
    epochs: list[list[Change]],
    shards: list[int],
    chance: random.Random,
) -> None:
    rocks = Shards(WHOLE, 1, ["j", "k"], directory=tmp_path_factory.mktemp("job"))
    folded, rows = Folded(), Counter[tuple[Any, ...]]()
    for changes, parallelism in zip(epochs, shards, strict=False):
        rocks.rescale(parallelism)
        add(rows, changes)
        for output in rocks.run(inputs_of(WHOLE, changes, chance)):
            folded.add(output)
        assert folded.rows == batch(BATCH, INPUT, rows)
    assert (rocks.state_rows() == 0) == (not rows.total())


@settings(max_examples=examples(2))
@given(histories(), st.integers(0, 1 << 30))
def test_the_order_of_the_input_does_not_matter(epochs: list[list[Change]], seed: int) -> None:
    outputs: list[list[Multiset]] = []
    for number in range(2):
        shards, chance = Shards(WHOLE, 2, ["j", "k"]), random.Random(seed + number)
        outputs.append([])
        for changes in epochs:
            given_rows = inputs_of(WHOLE, chance.sample(changes, len(changes)), chance)
            outputs[-1] += [Counter(rows_of(out)) for out in shards.run(given_rows)]
    assert outputs[0] == outputs[1]


# ------------------------------------------------------------------------------------------ groups that always are

SEED = "SELECT {keys} 0 AS c, 0 AS n, NULL AS s"
GLOBAL_COLUMNS = {c.name: c.type for one in (LOWS, HIGHS, ALL) for c in one.columns}
GLOBAL = spec_of(
    {},
    SUMS,
    f"SELECT {FINALS}, {', '.join(GLOBAL_COLUMNS)} FROM merged",
    SUM_OUTPUT | GLOBAL_COLUMNS,
    multisets=(LOWS, HIGHS, ALL),
    presence="c",
    seed=SEED.format(keys=""),
)


@settings(max_examples=examples(4))
@given(histories(), st.integers(1, 3), st.randoms(use_true_random=False))
def test_a_global_aggregate_has_one_row_from_the_first_epoch_on(
    epochs: list[list[Change]], shards: int, chance: random.Random
) -> None:
    left = run(
        GLOBAL, f"SELECT {BATCH_SUMS}, {BATCH_VALUES} FROM t", Shards(GLOBAL, shards, []), epochs, chance
    )
    assert left.total() >= 0


def test_the_seed_is_emitted_once_and_by_its_shard_alone() -> None:
    shards = Shards(GLOBAL, 4, [])
    nothing = inputs_of(GLOBAL, [], random.Random(1))
    first = [output.num_rows for output in shards.run(nothing)]
    assert sorted(first) == [0, 0, 0, 1]
    assert [output.num_rows for output in shards.run(nothing)] == [0, 0, 0, 0]
    assert shards.state_rows() == 1
    outputs = shards.run(inputs_of(GLOBAL, [(1, None, 5, 1)], random.Random(1)))
    assert [output.num_rows for output in outputs] == [2 * there for there in first]


def test_a_global_aggregate_without_a_seed_and_without_rows_is_empty() -> None:
    spec = replace(GLOBAL, seed=None)
    shards, folded = Shards(spec, 2, []), Folded()
    for changes in ([], [(1, None, 5, 1), (None, None, None, 1)], [(1, None, 5, -1), (None, None, None, -1)]):
        for output in shards.run(inputs_of(spec, changes, random.Random(1))):
            folded.add(output)
        assert folded.rows.total() == (1 if changes and changes[0][-1] > 0 else 0)
    assert shards.state_rows() == 0


ROLLUP_KEYS = {"g": t.INTEGER, "k": t.INTEGER}
ROLLUP = spec_of(
    ROLLUP_KEYS,
    SUMS,
    f"SELECT g, k, {FINALS} FROM merged",
    ROLLUP_KEYS | SUM_OUTPUT,
    presence="c",
    seed=SEED.format(keys="1 AS g, NULL::INTEGER AS k,"),
)


@settings(max_examples=examples(4))
@given(histories(), st.integers(1, 4))
def test_the_grand_total_of_a_rollup_is_there_without_rows(epochs: list[list[Change]], shards: int) -> None:
    job, folded, rows = Shards(ROLLUP, shards, ["g", "k"]), Folded(), Counter[tuple[Any, ...]]()
    for changes in epochs:
        add(rows, changes)
        sums = SUM_PARTIALS.format(keys="grouping(k)::INTEGER AS g, k,", by="GROUP BY ROLLUP (k)")
        sent = partials(sums, INPUT, changes) if changes else table((*ROLLUP.keys, *ROLLUP.accumulators), [])
        for output in job.run([sent]):
            folded.add(output)
        sql = f"SELECT grouping(k)::INTEGER AS g, k, {BATCH_SUMS} FROM t GROUP BY ROLLUP (k)"
        assert folded.rows == batch(sql, INPUT, rows)


# --------------------------------------------------------------------------------------------------- other shapes

APPENDED = spec_of(
    {"k": t.INTEGER},
    {"c": t.BIGINT, "lo": t.INTEGER, "l": INTS},
    "SELECT c, lo, l FROM merged WHERE c <> 2",
    {"c": t.BIGINT, "lo": t.INTEGER, "l": INTS},
    merge=("sum(c)", "min(lo)", "flatten(list(l))"),
)


@settings(max_examples=examples(4))
@given(histories(), st.integers(1, 3))
def test_append_only_input_without_presence_and_output_without_keys(
    epochs: list[list[Change]], shards: int
) -> None:
    job, folded, rows = Shards(APPENDED, shards, ["k"]), Folded(), Counter[tuple[Any, ...]]()
    for changes in epochs:
        inserts = [change for change in changes if change[-1] > 0]
        add(rows, inserts)
        sent = [((k), 1, v, [v]) for k, _, v, _ in inserts]
        for output in job.run([table((*APPENDED.keys, *APPENDED.accumulators), sent)]):
            folded.add(output)
        # The same rows come in the same order, so lists have the order of arrival.
        sql = "SELECT count(*) AS c, min(v) AS lo, list(v) AS l FROM t GROUP BY k HAVING count(*) <> 2"
        found = Counter({(c, lo, tuple(sorted(l_, key=repr))): n for (c, lo, l_), n in folded.rows.items()})
        wanted = batch(sql, INPUT, rows)
        assert found.total() == wanted.total()
        assert found.keys() == {(c, lo, tuple(sorted(l_, key=repr))) for c, lo, l_ in wanted}


def test_lists_keep_the_order_of_arrival() -> None:
    job, folded = Shards(APPENDED, 1, ["k"]), Folded()
    for values in ([5, 3, 9], [1, 7], [2]):
        rows = [(1, 1, v, [v]) for v in values]
        [output] = job.run([table((*APPENDED.keys, *APPENDED.accumulators), rows)])
        folded.add(output)
    assert folded.rows == Counter({(6, 1, (5, 3, 9, 1, 7, 2)): 1})


def test_a_group_that_changes_only_in_a_counted_input_is_emitted_anew() -> None:
    spec = whole_spec((LOWS,))
    job, folded = Shards(spec, 1, ["j", "k"]), Folded()
    sums = table((*spec.keys, *spec.accumulators), [(1, "a", 2, 2, 7)])
    values = (*spec.keys, Column("x", t.INTEGER))
    folded.add(job.run([sums, weighted_table(values, [(1, "a", 3, 1), (1, "a", 4, 1)])])[0])
    assert folded.rows == Counter({(1, "a", 2, 7, 3.5, 3): 1})
    folded.add(job.run([sums.slice(0, 0), weighted_table(values, [(1, "a", 3, -1)])])[0])
    assert folded.rows == Counter({(1, "a", 2, 7, 3.5, 4): 1})
    # Without rows the group is gone, but its state stays while a value is multisets.
    gone = table((*spec.keys, *spec.accumulators), [(1, "a", -2, -2, -7)])
    folded.add(job.run([gone, weighted_table(values, [])])[0])
    assert folded.rows == Counter()
    assert job.state_rows() == 2
    folded.add(job.run([sums.slice(0, 0), weighted_table(values, [(1, "a", 4, -1)])])[0])
    assert job.state_rows() == 0


LISTS = replace(ALL, columns=ALL.columns[:1], aggregates=ALL.aggregates[:1])


def debts(*multisets: MultisetSpec) -> GroupAggregateSpec:
    columns = {column.name: column.type for one in multisets for column in one.columns}
    sums = {"c": t.BIGINT, "s": HUGEINT}
    output = {"k": t.INTEGER} | sums | columns
    emit = f"SELECT {', '.join(output)} FROM merged"
    return spec_of({"k": t.INTEGER}, sums, emit, output, multisets=multisets, presence="c")


@pytest.mark.parametrize("spec", [debts(), debts(LOWS, HIGHS, LISTS)], ids=["no values", "values"])
@settings(max_examples=examples(6))
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from([None, 1]), st.integers(0, 3), st.sampled_from([-2, -1, 1, 1])),
            max_size=12,
        ),
        max_size=6,
    ),
    st.integers(1, 2),
)
def test_deletes_of_what_never_came_are_owed_until_it_comes(
    spec: GroupAggregateSpec, epochs: list[list[tuple[int | None, int, int]]], shards: int
) -> None:
    """Without values the accumulators alone say that a group is owed rows: a negative count, or a sum beside a 0."""
    job, folded = Shards(spec, shards, ["k"]), Folded()
    counts: dict[int | None, Counter[int]] = {}
    epochs = [*epochs, []]
    for number, changes in enumerate(epochs, start=1):
        if number == len(epochs):  # pay all debts and take all rows away
            changes = [(k, v, -n) for k, values in counts.items() for v, n in values.items() if n]
        for k, v, weight in changes:
            counts.setdefault(k, Counter())[v] += weight
        sent = [table((*spec.keys, *spec.accumulators), [(k, w, v * w) for k, v, w in changes])]
        sent += [weighted_table((*spec.keys, *one.values), changes) for one in spec.multisets]
        for output in job.run(sent):
            folded.add(output)
        wanted: Multiset = Counter()
        for k, values in counts.items():
            seen = sorted(v for v, n in values.items() for _ in range(n))
            if (c := values.total()) > 0:
                total = sum(v * n for v, n in values.items())
                values_seen = min(seen, default=None), max(seen, default=None), tuple(seen) or None
                wanted[k, c, total, *values_seen[: len(spec.multisets)]] += 1
        assert folded.rows == wanted
    assert job.state_rows() == 0


FLOATS = spec_of(
    {"k": t.DOUBLE, "i": t.INTERVAL},
    {"c": t.BIGINT},
    "SELECT k::VARCHAR AS k, i::VARCHAR AS i, c FROM merged",
    {"k": t.VARCHAR, "i": t.VARCHAR, "c": t.BIGINT},
    presence="c",
)


def test_keys_that_are_equal_but_print_differently_are_one_group() -> None:
    job, folded = Shards(FLOATS, 1, ["i", "k"]), Folded()
    for zero, days, weight in (
        (-0.0, 30, 1),
        (0.0, 0, 1),
        (float("nan"), 0, 1),
        (-0.0, 30, -1),
        (0.0, 0, -1),
    ):
        interval = pa.scalar((0 if days else 1, days, 0), pa.month_day_nano_interval())
        row = {"k": pa.array([zero]), "i": pa.array([interval], pa.month_day_nano_interval())}
        [output] = job.run([pa.table(row | {"c": pa.array([weight])})])
        folded.add(output)
    assert folded.rows == Counter({("nan", "30 days", 1): 1})


# --------------------------------------------------------------------------------------------------------- expiry

EXPIRING_KEYS = {"w": t.TIMESTAMP, "k": t.INTEGER}
EPOCH = datetime(1970, 1, 1)


def expiring(kept: dict[str, SqlType], lateness: int = 0) -> GroupAggregateSpec:
    return spec_of(
        EXPIRING_KEYS,
        {"c": t.BIGINT},
        "SELECT w, k, c, lo FROM merged",
        EXPIRING_KEYS | {"c": t.BIGINT, "lo": t.INTEGER},
        multisets=(LOWS,),
        presence="c",
        kept_keys=kept,
        expiry=ExpirySpec("w", ("s",), tick_us=1, lateness_us=lateness),
    )


@pytest.mark.parametrize("kept", [EXPIRING_KEYS, {"k": t.INTEGER}], ids=["whole key", "time apart"])
@settings(max_examples=examples(4))
@given(
    st.lists(
        st.lists(st.tuples(st.integers(-5, 30), st.integers(0, 2), st.integers(0, 4)), max_size=12),
        max_size=6,
    ),
    st.integers(1, 3),
    st.sampled_from([0, 3]),
)
def test_groups_that_the_watermark_passed_have_no_state_but_their_result(
    kept: dict[str, SqlType], epochs: list[list[tuple[int, int, int]]], shards: int, lateness: int
) -> None:
    spec = expiring(kept, lateness)
    job, folded = Shards(spec, shards, sorted(kept)), Folded()
    counts: dict[tuple[datetime, int], list[int]] = {}
    mark = close = WATERMARK_MIN
    for number, rows in enumerate(epochs, start=1):
        previous, late = close, mark
        close = WATERMARK_MAX if number == len(epochs) else late
        in_time = [
            (EPOCH + timedelta(microseconds=w), k, v)
            for w, k, v in rows
            if late == WATERMARK_MIN or w + lateness > late + 1
        ]
        for time, k, v in in_time:
            counts.setdefault((time, k), []).append(v)
        sent = [
            table((*spec.keys, *spec.accumulators), [(*row[:2], 1) for row in in_time]),
            weighted_table((*spec.keys, *LOWS.values), [(*row, 1) for row in in_time]),
        ]
        for output in job.run(sent, Watermarks(previous, late, close)):
            folded.add(output)
        assert folded.rows == Counter({(*key, len(vs), min(vs)): 1 for key, vs in counts.items()})
        live = {
            key: set(vs)
            for key, vs in counts.items()
            if close == WATERMARK_MIN or (close < WATERMARK_MAX and _micros(key[0]) + lateness > close + 1)
        }
        assert job.state_rows() == len(live) + sum(map(len, live.values()))
        mark = max([mark, *(w for w, _, _ in rows)])


def _micros(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def test_rows_of_an_expired_group_are_refused() -> None:
    spec = expiring(EXPIRING_KEYS, lateness=5)
    values = weighted_table((*spec.keys, *LOWS.values), [])

    def sums(*times: int | None) -> pa.Table:
        rows = [(None if w is None else EPOCH + timedelta(microseconds=w), 1, 1) for w in times]
        return table((*spec.keys, *spec.accumulators), rows)

    job = Shards(spec, 1, ["k", "w"])
    marks = Watermarks(10, 14, 14)
    job.run([sums(11), values], marks)  # 11 + 5 - 1 > 14
    with pytest.raises(InternalError, match="expired"):
        job.run([sums(11, 10), values], marks)
    late = weighted_table((*spec.keys, *LOWS.values), [(EPOCH, 1, 3, 1)])
    with pytest.raises(InternalError, match="expired"):
        job.run([sums(), late], marks)
    with pytest.raises(InternalError, match="NULL"):
        job.run([sums(None), values], marks)


# -------------------------------------------------------------------------------------------------------- figures


def test_metrics_count_rows_of_state_and_of_output() -> None:
    spec = whole_spec((LOWS,))
    job, chance = Shards(spec, 1, ["j", "k"]), random.Random(3)
    job.run(inputs_of(spec, [(1, "a", 5, 1), (1, "a", 6, 1), (2, "a", None, 1)], chance))
    job.run(inputs_of(spec, [(1, "a", 5, -1), (2, "a", None, -1)], chance))
    job.run(inputs_of(spec, [(1, "a", 7, 1), (1, "a", 7, -1)], chance))
    figures = [(m["emitted_rows"], m["state_rows_added"], m["state_rows_removed"]) for m in job.metrics]
    assert figures == [(2, 4, 0), (3, 0, 2), (0, 0, 0)]
    assert {"merge_us", "state_us", "emit_us"} <= job.metrics[0].keys()


def test_work_is_proportional_to_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = whole_spec((LOWS, HIGHS))
    job = Shards(spec, 1, ["j", "k"])
    many: list[Change] = [(1, "a", v, 1) for v in range(500)]
    job.run(inputs_of(spec, many, random.Random(3)))
    [store] = job._memory
    job.compares = False
    for read in ("scan_prefix", "scan_all", "scan_time"):
        monkeypatch.setattr(store, read, lambda *_: pytest.fail("read"))
    [output] = job.run(inputs_of(spec, [(1, "a", 0, -1), (1, "a", 499, -1)], random.Random(3)))
    assert {row["lo"]: row["hi"] for row in output.to_pylist()} == {0: 499, 1: 498}


def test_state_of_another_shape_is_refused() -> None:
    other = StateTable.of("acc", "key", key=fields({"k": t.INTEGER}), value=fields(SUMS))
    state = StateSchema("g1", "group_aggregate", "test", (other, *WHOLE.state.tables[1:]))
    with pytest.raises(InternalError, match="columns"):
        Shards(replace(WHOLE, state=state), 1, ["j", "k"])
    with pytest.raises(InternalError, match="TimeToLive"):
        GroupAggregate(replace(WHOLE, ttl_us=1))
    assert WEIGHT_COLUMN not in {column.name for column in WHOLE.output}
