"""A normalised changelog against a dict that takes the changes one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InternalError
from sqlstream_operators.operators.changelog.changelog_normalize import ChangelogNormalize
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.plan.changelog_normalize_spec import ChangelogNormalizeSpec
from sqlstream_operators.plan.schema import KIND_COLUMN, WEIGHT_COLUMN, Column
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import parse_type
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.memory import MemoryShardStore
from tests.examples import examples
from tests.operators.arrow_strategies import any_types, values

DUCK = DuckSession()
KINDS = ["+I", "-U", "+U", "-D"]
COLUMNS = (
    Column("name", parse_type("VARCHAR")),
    Column("k", parse_type("BIGINT")),
    Column("tags", parse_type("MAP(VARCHAR, INTEGER)")),
    Column("j", parse_type("VARCHAR")),
    Column("at", parse_type("STRUCT(x DOUBLE, y HUGEINT)")),
)
#: (kind, k, j, name, a number for the nested columns)
Change = tuple[str, int | None, str | None, str | None, int | None]


def spec_of(
    columns: tuple[Column, ...], keys: tuple[str, ...], output: Sequence[str] = ()
) -> ChangelogNormalizeSpec:
    fields = {column.name: StateField(column.name, column.type, column.name) for column in columns}
    table = StateTable.of(
        "row",
        "key",
        key=[fields[name] for name in keys],
        value=[f for name, f in fields.items() if name not in keys],
    )
    by_name = {column.name: column for column in columns}
    return ChangelogNormalizeSpec(
        StateSchema("n1", "ChangelogNormalize", "for tests", (table,)),
        keys,
        columns,
        tuple(by_name[name] for name in output) or columns,
    )


SPEC = spec_of(COLUMNS, ("k", "j"), ("k", "name", "at", "j", "tags"))


@dataclass
class Runner:
    """One shard, epoch by epoch."""

    spec: ChangelogNormalizeSpec = SPEC
    store: MemoryShardStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryShardStore(self.spec.state)

    def run(self, table: pa.Table) -> OperatorResult:
        context = OperatorContext(0, 1, 128, Watermarks(), self.store, DUCK)
        result = ChangelogNormalize(self.spec).process([table], context)
        self.store.commit()
        return result

    def answer(self) -> pa.Table:
        """The answer that the state has."""
        return ChangelogNormalize(self.spec).answer(
            OperatorContext(0, 1, 128, Watermarks(), self.store, DUCK)
        )


def nested(number: int | None) -> tuple[Any, Any]:
    if number is None:
        return None, None
    return [("n", number), ("m", None)], {"x": float(number), "y": None if number % 2 else number * 10**20}


def table_of(changes: Sequence[Change]) -> pa.Table:
    data: dict[str, list[Any]] = {c.name: [] for c in COLUMNS}
    for _, k, j, name, number in changes:
        tags, at = nested(number)
        row = {"name": name, "k": k, "tags": tags, "j": j, "at": at}
        for column, value in row.items():
            data[column].append(value)
    arrays = {c.name: pa.array(data[c.name], to_arrow(c.type)) for c in COLUMNS}
    return pa.table({KIND_COLUMN: pa.array([c[0] for c in changes], pa.string()), **arrays})


class Model:
    """Every key has one row or none."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def apply(self, changes: Sequence[Change]) -> dict[str, int]:
        unknown = duplicates = 0
        for kind, k, j, name, number in changes:
            key = (k, j)
            if kind in ("-U", "-D"):
                unknown += kind == "-D" and key not in self.rows
                self.rows.pop(key, None)
            else:
                duplicates += kind == "+I" and key in self.rows
                self.rows[key] = (name, number)
        return {"unknown_deletes": unknown, "duplicate_inserts": duplicates}

    def folded(self) -> dict[str, int]:
        """Each row of the operator's output as text, once."""
        found = {}
        for (k, j), (name, number) in self.rows.items():
            tags, at = nested(number)
            found[repr((k, name, at, j, tags))] = 1
        return found


def fold(total: dict[str, int], output: pa.Table) -> None:
    """Add an output's weights to a multiset of rows."""
    assert output.column_names == [*(c.name for c in SPEC.output), WEIGHT_COLUMN]
    seen = set()
    for row in output.to_pylist():
        weight = row.pop(WEIGHT_COLUMN)
        text = repr(tuple(int_decimals(value) for value in row.values()))
        assert weight in (-1, 1)
        assert text not in seen, "a row that goes and comes in one epoch is not consolidated"
        seen.add(text)
        total[text] = total.get(text, 0) + weight
        if total[text] == 0:
            del total[text]


def int_decimals(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: int(v) if name == "y" and v is not None else v for name, v in value.items()}
    return value


CHANGES: st.SearchStrategy[list[Change]] = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from([None, 1, 2, -(2**63)]),
        st.sampled_from([None, "", "a\0", "é"]),
        st.sampled_from([None, "", "x"]),
        st.sampled_from([None, 0, 1, 2]),
    ),
    max_size=40,
)


@settings(max_examples=examples(25))
@given(st.lists(CHANGES, max_size=4))
@example([[("+I", 1, "", "x", 0), ("-U", 1, "", "x", 0)], [("+U", 1, "", "y", 0)]])
def test_every_key_has_the_row_of_its_last_change(epochs: list[list[Change]]) -> None:
    runner, model, total = Runner(), Model(), dict[str, int]()
    for changes in epochs:
        before = len(model.rows)
        expected = model.apply(changes)
        result = runner.run(table_of(changes))
        fold(total, result.output)
        assert total == model.folded()
        kept: dict[str, int] = {}
        fold(kept, runner.answer())
        assert kept == total
        assert {name: result.metrics.get(name, 0) for name in expected} == expected
        assert result.metrics["emitted_rows"] == result.output.num_rows
        grown = result.metrics.get("state_rows_added", 0) - result.metrics.get("state_rows_removed", 0)
        assert grown == len(model.rows) - before
        assert runner.store.scan_all("row").num_rows == len(model.rows)
    keys = sorted(model.rows, key=repr)
    result = runner.run(table_of([("-D", k, j, None, None) for k, j in keys]))
    fold(total, result.output)
    assert total == {}
    assert result.metrics.get("unknown_deletes", 0) == 0
    assert runner.store.scan_all("row").num_rows == 0


@settings(max_examples=examples(20))
@given(CHANGES, st.lists(st.integers(0, 40), max_size=5))
def test_cuts_into_epochs_do_not_matter(changes: list[Change], cuts: list[int]) -> None:
    whole, total = Runner(), dict[str, int]()
    fold(total, whole.run(table_of(changes)).output)
    parts, cut_total = Runner(), dict[str, int]()
    ends = [0, *sorted(min(cut, len(changes)) for cut in cuts), len(changes)]
    for start, end in itertools.pairwise(ends):
        fold(cut_total, parts.run(table_of(changes[start:end])).output)
    assert cut_total == total
    assert parts.store.scan_all("row").equals(whole.store.scan_all("row"))


@settings(max_examples=examples(20))
@given(CHANGES, st.data())
def test_chunks_of_the_input_do_not_matter(changes: list[Change], data: st.DataObject) -> None:
    table = table_of(changes)
    cut = data.draw(st.integers(0, len(changes)))
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    assert Runner().run(chunked).output.equals(Runner().run(table).output)


def _readable(table: pa.Table) -> bool:
    """Whether DuckDB takes the values: it refuses a map with a key twice."""
    try:
        DUCK.query("SELECT * FROM t", {"t": table})
    except DataError:
        return False
    return True


@settings(max_examples=examples(20))
@given(st.data())
def test_any_types(data: st.DataObject) -> None:
    """The second row of a key replaces the first exactly if DuckDB tells them apart."""
    key_type, type_ = data.draw(any_types()), data.draw(any_types())
    columns = (Column("k", key_type), Column("v", type_))
    spec = spec_of(columns, ("k",))
    key, first, second = data.draw(values(key_type)), data.draw(values(type_)), data.draw(values(type_))

    def change(kind: str, value: Any) -> pa.Table:
        arrays = [pa.array([key], to_arrow(key_type)), pa.array([value], to_arrow(type_))]
        return pa.table([pa.array([kind]), *arrays], names=[KIND_COLUMN, "k", "v"])

    assume(_readable(change("+I", first)) and _readable(change("+I", second)))
    runner = Runner(spec)
    inserted = runner.run(change("+I", first)).output
    assert inserted.column(WEIGHT_COLUMN).to_pylist() == [1]
    differ = DUCK.query(
        "SELECT a.v IS DISTINCT FROM b.v AS d FROM a, b",
        {"a": inserted, "b": change("+I", second)},
    )
    output = runner.run(change("+U", second)).output
    assert output.column(WEIGHT_COLUMN).to_pylist() == ([-1, 1] if differ["d"].to_pylist() == [True] else [])
    gone = runner.run(change("-D", None)).output
    assert gone.column(WEIGHT_COLUMN).to_pylist() == [-1]
    assert runner.store.scan_all("row").num_rows == 0


def test_what_comes_and_goes_in_an_epoch_never_leaves_it() -> None:
    changes: list[Change] = [("+I", 1, "a", "x", 1), ("+U", 1, "a", "y", 1), ("-D", 1, "a", None, None)]
    result = Runner().run(table_of(changes))
    assert result.output.num_rows == 0
    assert result.metrics["state_rows_added"] == 0


def test_before_images_are_not_trusted() -> None:
    runner = Runner()
    runner.run(table_of([("+I", 1, "a", "x", 1)]))
    output = runner.run(table_of([("-U", 1, "a", "wrong", 7), ("+U", 1, "a", "y", 1)])).output
    shown = [(row["name"], row[WEIGHT_COLUMN]) for row in output.to_pylist()]
    assert shown == [("x", -1), ("y", 1)]


def test_an_update_of_the_key_takes_the_old_row_away() -> None:
    runner = Runner()
    runner.run(table_of([("+I", 1, "a", "x", 1)]))
    result = runner.run(table_of([("-U", 1, "a", "x", 1), ("+U", 2, "a", "x", 1)]))
    assert [(row["k"], row[WEIGHT_COLUMN]) for row in result.output.to_pylist()] == [(1, -1), (2, 1)]
    assert (result.metrics["unknown_deletes"], result.metrics["duplicate_inserts"]) == (0, 0)


def test_the_same_row_again_changes_nothing() -> None:
    runner = Runner()
    runner.run(table_of([("+I", 1, "a", "x", 1)]))
    result = runner.run(table_of([("+I", 1, "a", "x", 1)]))
    assert (result.output.num_rows, result.metrics["duplicate_inserts"]) == (0, 1)


def test_a_table_of_nothing_but_its_key() -> None:
    spec = spec_of((Column("k", parse_type("BIGINT")),), ("k",))
    runner = Runner(spec)
    table = pa.table({"k": [1, 2, 1], KIND_COLUMN: ["+I", "+I", "+U"]})
    assert runner.run(table).output.to_pylist() == [{"k": 1, WEIGHT_COLUMN: 1}, {"k": 2, WEIGHT_COLUMN: 1}]
    gone = runner.run(pa.table({"k": [2, 1], KIND_COLUMN: ["-D", "+U"]}))
    assert gone.output.to_pylist() == [{"k": 2, WEIGHT_COLUMN: -1}]


def test_idle_without_changes() -> None:
    empty = table_of([])
    operator = operator_of(SPEC)
    assert operator.idle([empty], Watermarks(), stateless=False)
    assert not operator.idle([table_of([("+I", 1, "a", "x", 1)])], Watermarks(), stateless=True)
    assert Runner().run(empty).output.num_rows == 0


@pytest.mark.parametrize("kind", ["+X", None])
def test_an_unknown_kind_is_our_bug(kind: str | None) -> None:
    table = table_of([("+I", 1, "a", "x", 1)])
    wrong = table.set_column(0, KIND_COLUMN, pa.array([kind], pa.string()))
    with pytest.raises(InternalError, match="no kind of change"):
        Runner().run(wrong)


def test_forgetting_by_time_is_refused() -> None:
    with pytest.raises(InternalError, match="does not forget"):
        ChangelogNormalize(replace(SPEC, ttl_us=1))


def test_a_state_of_other_columns_is_our_bug() -> None:
    [table] = SPEC.state.tables
    wrong = [
        replace(table, layout="time"),
        replace(table, layout="list"),
        replace(table, key=table.key[:1]),
        replace(table, value=table.value[1:]),
        replace(table, value=(*table.value, StateField("more", parse_type("BIGINT"), "~"))),
    ]
    for other in wrong:
        with pytest.raises(InternalError, match="has not the columns"):
            ChangelogNormalize(replace(SPEC, state=replace(SPEC.state, tables=(other,))))
    with pytest.raises(InternalError, match="has not the columns"):
        ChangelogNormalize(replace(SPEC, keys=("k",)))


def test_the_order_of_keys_and_columns_in_the_state_means_nothing() -> None:
    backwards = replace(SPEC, keys=("j", "k"), columns=COLUMNS[::-1])
    runner = Runner(backwards)
    runner.run(table_of([("+I", 1, "a", "x", 1), ("+I", 2, "a", "y", 2)]))
    output = runner.run(table_of([("-D", 1, "a", "x", 1), ("+U", 2, "a", "z", 2)])).output
    found = {(row["k"], row["name"], row[WEIGHT_COLUMN]) for row in output.to_pylist()}
    assert found == {(1, "x", -1), (2, "y", -1), (2, "z", 1)}
