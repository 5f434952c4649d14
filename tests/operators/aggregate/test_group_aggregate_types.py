"""The group aggregate with keys and multisets of values of every type: DuckDB's answers after every epoch."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from sqlstream_operators.codec.keys import decode_keys, encode_keys
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec, MultisetSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from tests.operators.weighted_cases import DUCK, Folded, Multiset, Shards, rows_of

SAMPLES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128", "0", "127"],
    "UBIGINT": ["0", "18446744073709551615"],
    "HUGEINT": ["-99999999999999999999999999", "0", "5"],
    "DOUBLE": ["'nan'", "'-inf'", "0.5", "-1.25"],
    "FLOAT": ["'nan'", "0.5", "-1.25"],
    "DECIMAL(5,2)": ["-1.25", "0", "7.5"],
    "DECIMAL(30,3)": ["-1.25", "0", "123456789012345678901.125"],
    "VARCHAR": ["''", "'a'", "'ä'", "'a' || chr(0)"],
    "BLOB": ["''", "'\\xFF'", "'\\x00a'"],
    "DATE": ["'1969-12-31'", "'2024-02-29'"],
    "TIME": ["'00:00:00'", "'23:59:59.999999'"],
    "TIMESTAMP": ["'1969-12-31 23:59:59.5'", "'2024-02-29 12:00:00'"],
    "TIMESTAMP WITH TIME ZONE": ["'1969-12-31 23:59:59.5+00'", "'2024-02-29 12:00:00+00'"],
    "INTERVAL": ["'1 day'", "'2 months'", "'-1 second'"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'", "'f0000000-0000-0000-0000-000000000001'"],
    "JSON": ["'{\"a\":1}'", "'[]'"],
    "INTEGER[]": ["[]", "[1, 2]", "[1]"],
    'STRUCT("a" INTEGER, "b" VARCHAR)': ["{'a': 1, 'b': 'x'}", "{'a': 1, 'b': 'y'}"],
    "MAP(VARCHAR, INTEGER)": ["MAP {'a': 1}", "MAP {}"],
    "HUGEINT[]": ["[]", "[99999999999999999999999999]"],
}
BATCH = (
    "SELECT k, sum(__weight)::BIGINT AS c, min(v) FILTER (n > 0) AS lo, max(v) FILTER (n > 0) AS hi, "
    "count(DISTINCT v) AS d FROM (SELECT k, v, sum(__weight) AS n, sum(__weight) AS __weight FROM t "
    "GROUP BY k, v HAVING n > 0) GROUP BY k"
)


def spec_of(type_: t.SqlType) -> tuple[GroupAggregateSpec, Schema]:
    """Rows of a group counted, and its least, greatest and number of distinct values."""
    nested = type_.kind in t.NESTED
    values = (Column("x", type_),)
    multisets = (
        # The order of nested values in the state is not DuckDB's where there are NULLs inside.
        MultisetSpec("lows", values, "all" if nested else "first", (Column("lo", type_),), ("min(x)",)),
        MultisetSpec("highs", values, "all" if nested else "last", (Column("hi", type_),), ("max(x)",)),
        MultisetSpec("values", values, "all", (Column("d", t.BIGINT),), ("count(*)",)),
    )
    key, count = [StateField("k", type_, "k")], [StateField("count", t.BIGINT, "count")]
    tables = [StateTable.of("acc", "key", key=key, value=[StateField("c", t.BIGINT, "c")])]
    for one in multisets:
        sub_key = [StateField("x", type_, "x")]
        tables.append(StateTable.of(one.name, "key", key=key, sub_key=sub_key, value=count))
    output = (
        Column("k", type_),
        Column("c", t.BIGINT),
        *(c for one in multisets for c in one.columns),
    )
    spec = GroupAggregateSpec(
        state=StateSchema("g1", "group_aggregate", "test", tuple(tables)),
        keys=(Column("k", type_),),
        accumulators=(Column("c", t.BIGINT),),
        merge=("sum(c)",),
        emit="SELECT k, c, lo, hi, coalesce(d, 0) AS d FROM merged",
        output=output,
        presence="c",
        multisets=multisets,
    )
    return spec, (Column("k", type_), Column("v", type_), Column(WEIGHT_COLUMN, t.BIGINT))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SAMPLES)
def test_keys_and_values_of_a_type(name: str) -> None:
    type_ = t.parse_type(name)
    spec, schema = spec_of(type_)
    samples = ["NULL", *SAMPLES[name]]
    chance = random.Random(name)
    job, folded = Shards(spec, 2, ["k"]), Folded()
    live: list[tuple[str, str]] = []
    epochs: list[list[tuple[str, str, int]]] = []
    for _ in range(4):
        changes = [(*live.pop(chance.randrange(len(live))), -1) for _ in range(len(live) // 3)]
        new = [(chance.choice(samples), chance.choice(samples)) for _ in range(9)]
        live += new
        epochs.append([*changes, *((*row, 1) for row in new)])
    epochs.append([(*row, -1) for row in live])
    everything: list[pa.Table] = []
    for changes in epochs:
        text = ", ".join(f"(({k})::{name}, ({v})::{name}, {n})" for k, v, n in changes)
        rows = conformed(DUCK.query(f"SELECT * FROM (VALUES {text}) AS r(k, v, __weight)"), schema, "rows")
        everything.append(rows)
        sums = rows.select(["k"]).append_column("c", rows.column(WEIGHT_COLUMN))
        values = rows.rename_columns(["k", "x", WEIGHT_COLUMN])
        values = values.filter(values.column("x").is_valid())
        for output in job.run([sums, values, values, values]):
            folded.add(conformed(output, spec.output, "output", [WEIGHT_COLUMN]))
        DUCK.register("t", pa.concat_tables(everything), schema)
        wanted: Multiset = Counter(rows_of(conformed(DUCK.query(BATCH), spec.output, "batch")))
        DUCK.drop("t")
        assert folded.rows == wanted
    assert job.state_rows() == 0


def test_intervals_come_back_in_days_as_the_difference_of_two_times_has_them() -> None:
    """60 days came back as 2 months, which is another time when it is added to a date."""
    nanos = (-1_000_000_000, -4000, 0, 3000)
    for written, days, rest in [(0, d, n) for d in (-719, -30, -3, 0) for n in nanos] + [(2, 3, 3000)]:
        column = pa.array([pa.MonthDayNano((written, days, abs(rest) if days > 0 else -abs(rest)))])
        [found] = decode_keys(encode_keys([column], [t.INTERVAL]), [t.INTERVAL])
        [value] = column.to_pylist()
        assert found.to_pylist() == [pa.MonthDayNano((0, 30 * value.months + value.days, value.nanoseconds))]
