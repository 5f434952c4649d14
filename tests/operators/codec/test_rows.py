"""The row codec gives back exactly what it was given, also under another schema."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.codec.fields import as_array
from sqlstream_operators.codec.rows import (
    decode_lists,
    decode_rows,
    encode_lists,
    encode_rows,
    missing_fields,
    packed_rows,
)
from sqlstream_operators.codec.runs import decode_stored, encode_runs, row_count
from sqlstream_operators.errors import StateError
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import SqlType
from tests.examples import examples
from tests.numbered_times import without_nanoseconds
from tests.operators.arrow_strategies import any_types, columns

SLOW = settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def fields(types: list[SqlType]) -> list[StateField]:
    return [StateField(f"c{i}", type_, f"p{i}") for i, type_ in enumerate(types)]


def table(data: st.DataObject, wanted: list[StateField], rows: int) -> pa.Table:
    arrays = [data.draw(columns(field.type, rows)) for field in wanted]
    schema = pa.schema([pa.field(field.name, to_arrow(field.type)) for field in wanted])
    return pa.Table.from_arrays(arrays, schema=schema)


def plain(value: Any) -> Any:
    """Comparable: NaN equals NaN, and nothing else changes."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def values_of(rows: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = without_nanoseconds(rows).to_pylist()
    return found


@SLOW
@given(st.data())
def test_rows_come_back(data: st.DataObject) -> None:
    wanted = fields(data.draw(st.lists(any_types(), min_size=1, max_size=9)))
    given_ = table(data, wanted, data.draw(st.integers(0, 6)))
    version = data.draw(st.sampled_from([0, 1, 127, 128, 300]))
    found = decode_rows(encode_rows(given_, wanted, version), wanted, {version: wanted})
    found.validate(full=True)
    assert found.schema == given_.schema
    assert plain(values_of(found)) == plain(values_of(given_))
    sliced = given_.slice(1)
    assert encode_rows(sliced, wanted, version) == encode_rows(given_, wanted, version)[1:]


@SLOW
@given(st.data())
def test_runs_come_back_beside_single_rows(data: st.DataObject) -> None:
    every = fields(data.draw(st.lists(any_types(), min_size=1, max_size=4)))
    old = every[: data.draw(st.integers(1, len(every)))]
    pieces, tables, counts = [], [], []
    for wanted, version in ((old, 0), (every, 300)):
        sizes = np.array(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)), np.int64)
        together, single = (table(data, wanted, n) for n in (int(sizes.sum()), 2))
        pieces += [
            encode_runs(together, sizes, wanted, version),
            as_array(packed_rows(single, wanted, version)),
        ]
        tables += [together, single]
        counts += [*sizes.tolist(), 1, 1]
    bounds = np.cumsum([0, *counts])
    rows = [row for one in tables for row in values_of(one)]
    order = data.draw(st.permutations(range(len(counts))))
    values = pa.concat_arrays(pieces).take(pa.array(order))
    found, lengths = decode_stored(values, every, {0: old, 300: every})
    found.validate(full=True)
    assert lengths is not None
    assert lengths.tolist() == [counts[i] for i in order]
    assert row_count(values) == len(rows)
    unknown = {field.name: None for field in every}
    expected = [unknown | row for i in order for row in rows[bounds[i] : bounds[i + 1]]]
    assert plain(values_of(found)) == plain(expected)
    cut = pa.array([value.as_py()[:-1] for value in pieces[0]], pa.large_binary())
    with pytest.raises(StateError, match="not well formed"):
        decode_stored(cut, every, {0: old, 300: every})


@SLOW
@given(st.data())
def test_lists_of_rows_come_back(data: st.DataObject) -> None:
    every = fields(data.draw(st.lists(any_types(), min_size=1, max_size=4)))
    old = every[: data.draw(st.integers(1, len(every)))]
    sizes = [np.array(data.draw(st.lists(st.integers(0, 3), max_size=4)), np.int64) for _ in range(2)]
    tables = [table(data, wanted, int(n.sum())) for wanted, n in zip((old, every), sizes, strict=True)]
    values = [*encode_lists(tables[0], sizes[0], old, 0), *encode_lists(tables[1], sizes[1], every, 300)]
    found, lengths = decode_lists(values, every, {0: old, 300: every})
    found.validate(full=True)
    assert lengths.tolist() == np.concatenate(sizes).tolist()
    unknown = {field.name: None for field in every}
    expected = [unknown | row for row in (*values_of(tables[0]), *values_of(tables[1]))]
    assert plain(values_of(found)) == plain(expected)


@pytest.mark.parametrize("change", [lambda v: v[:-1], lambda v: v + b"x", lambda v: v[:3], lambda v: b""])
def test_a_list_that_is_cut_or_longer_is_refused(change: Callable[[bytes], bytes]) -> None:
    wanted = fields([t.BIGINT, t.VARCHAR])
    rows = pa.table({"c0": [1, 2], "c1": ["a", "bc"]})
    [value] = encode_lists(rows, np.array([2]), wanted)
    with pytest.raises(StateError, match="not well formed"):
        decode_lists([change(value)], wanted)


def test_rows_without_fields_are_counted() -> None:
    rows = pa.table({"x": pa.nulls(3)}).select([])
    found, sizes = decode_lists(encode_lists(rows, np.array([1, 2]), []), [])
    assert (found.num_rows, sizes.tolist()) == (3, [1, 2])


@SLOW
@given(st.data())
def test_old_values_are_projected_by_fingerprint(data: st.DataObject) -> None:
    every = fields(data.draw(st.lists(any_types(), min_size=1, max_size=4)))
    old = [field for field in every if data.draw(st.booleans())]
    new = [StateField(f"new {field.name}", field.type, field.fingerprint) for field in reversed(every)]
    full, part = table(data, every, 3), table(data, every, 2)
    values = [*encode_rows(full, every, 1), *encode_rows(part, old, 0)]
    order = data.draw(st.permutations(range(len(values))))
    found = values_of(decode_rows([values[i] for i in order], new, {0: old, 1: every}))
    kept = {field.fingerprint for field in old}
    expected = [
        {f"new {name}": value for name, value in row.items()}
        for row in values_of(full.select(range(len(every))))
    ] + [
        {f"new {field.name}": row[field.name] if field.fingerprint in kept else None for field in every}
        for row in values_of(part)
    ]
    assert plain(found) == plain([expected[i] for i in order])
    lacking = {f"new {field.name}" for field in every if field.fingerprint not in kept}
    assert set(missing_fields(old, new)) == lacking


def test_no_columns_is_a_value_too() -> None:
    rows = pa.table({"x": [1, 2]})
    values = encode_rows(rows, [])
    assert values == [b"\x00", b"\x00"]
    assert decode_rows(values, []).num_rows == 2


def test_the_bytes_of_a_value_are_pinned() -> None:
    wanted = fields([t.INTEGER, t.VARCHAR, t.array(t.SMALLINT), t.BOOLEAN])
    rows = pa.table({"c0": pa.array([7], pa.int32()), "c1": ["hi"], "c2": [[1, None]], "c3": [None]})
    (value,) = encode_rows(rows, wanted, 5)
    assert value.hex(" ", 1) == (
        "05 08 07 00 00 00 00 02 00 00 00 12 00 00 00 68 69 "
        "02 00 00 00 03 00 00 00 03 00 00 00 00 01 00 01 00 00"
    )


@pytest.mark.parametrize(
    "damage", [b"", b"\x01\x00aaaa", b"\x00\x00\x09\x00\x00\x00ab", b"\x00\x00\x01\x00\x00\x00ab", b"\x80"]
)
def test_damaged_values_are_refused(damage: bytes) -> None:
    with pytest.raises(StateError):
        decode_rows([damage], fields([t.VARCHAR]))


@given(st.permutations(range(4)))
def test_the_order_of_columns_does_not_change_a_schema(order: list[int]) -> None:
    every = [StateField(f"c{i}", t.BIGINT, f"p{i}") for i in range(4)]
    renamed = [StateField(f"d{i}", t.BIGINT, f"p{i}") for i in order]
    first = StateSchema("s", "Op", "", (StateTable.of("t", "key", key=every[:1], value=every[1:]),))
    keys = [field for field in renamed if field.fingerprint == "p0"]
    others = [field for field in renamed if field.fingerprint != "p0"]
    second = StateSchema("s", "Op", "other text", (StateTable.of("t", "key", key=keys, value=others),))
    assert first.schema_id == second.schema_id
    assert StateSchema.from_json(second.to_json()) == second
    with pytest.raises(ValueError, match="ordered by fingerprint"):
        StateTable("t", "key", (), (), tuple(reversed(every)))
