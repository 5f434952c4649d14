"""Rules proven alone: the old state with some data, what a rule makes of it, and the new operator's state over that data.

No Spark and no files: tasks run in this process, with state in memory.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, lru_cache
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import Phase
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.codec.keys import key_groups, shard_of
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.operators.window.windows import closed_upto, window_ends_of_slice
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.schema import KIND_COLUMN, Column, Schema
from sqlstream_operators.plan.spec import OperatorSpec, OperatorStep, PhysicalPlan
from sqlstream_operators.plan.state_schema import TIME, StateSchema, StateTable
from sqlstream_operators.plan.state_ttl import EXPIRY, TOUCHED
from sqlstream_operators.plan.types import BIGINT
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import NOW_US, DerivedTable, StateEdit, Verdict
from sqlstream_planner.pipeline import Planned
from tests.operators.pipelines import Driver, MemoryStores
from tests.rows_given import note

GROUPS = 16
#: The clock of every epoch, µs.
NOW = 1_704_067_199_999_999
DUCK = DuckSession()
COLUMNS = {
    "k": "INT",
    "g": "STRING",
    "v": "INT",
    "w": "BIGINT",
    "d": "DECIMAL(8, 2)",
    "x": "DOUBLE",
    "ts": "TIMESTAMP(3)",
}
_WATERMARK = "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
#: Rows that only come, and rows that come and go.
APPEND, CHANGES = "json", "changelog-json"

#: Shrinking runs pipelines for minutes, and a failing example is small as it is.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)

Row = tuple[Any, ...]
#: Rows, each with +1 or -1, one list an epoch.
Epochs = Sequence[Sequence[tuple[Row, int]]]


def table(format_: str = APPEND, **types: str) -> str:
    """The source's declaration; `types` are other types of columns."""
    columns = {**COLUMNS, **types}
    listed = [f"{name} {type_}" for name, type_ in columns.items()]
    if format_ == APPEND:
        listed.append(_WATERMARK)
    return (
        f"CREATE TABLE bid ({', '.join(listed)}) "
        f"WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = '{format_}');\n"
    )


def planned(query: str, format_: str = APPEND, **types: str) -> Planned:
    """A pipeline of one query over the source; SET statements may stand before it, each ended by `;`."""
    return _planned(query, format_, tuple(types.items()))


@cache
def _planned(query: str, format_: str, types: tuple[tuple[str, str], ...]) -> Planned:
    *settings, select = query.split(";")
    before = "".join(f"{s.strip()};\n" for s in settings)
    sink = "CREATE TABLE o WITH ('connector' = 'print') AS "
    return plan_file(f"{before}{table(format_, **dict(types))}{sink}{select};", file="p.sql")


def edits(old: Planned, new: Planned, forgetful: Sequence[str] = ()) -> tuple[StateEdit, ...]:
    """What is decided about an edit; `forgetful` are the ids of old states that have forgotten keys."""
    return decide(old.physical, new.physical, new.state_nodes, forgetful=forgetful)


def needed(old: Planned, new: Planned, forgetful: Sequence[str] = ()) -> list[StateEdit]:
    """The same without what is dropped."""
    return [edit for edit in edits(old, new, forgetful) if edit.new is not None]


# ------------------------------------------------------------------------------------------------------- data


def appended(*, spread_s: int = 120) -> st.SearchStrategy[Epochs]:
    """Epochs of append-only rows."""
    return _SEEDS.map(lambda seed: _appended(random.Random(seed), spread_s))


def changing() -> st.SearchStrategy[Epochs]:
    """Epochs of rows that come, and go again, sometimes before they come."""
    return _SEEDS.map(lambda seed: _changing(random.Random(seed)))


#: What rows are made of: the simplest list, which hypothesis tries first, has no rows; the simplest seed has some.
_SEEDS = st.integers(0, 1 << 32)


def _row(chance: random.Random, spread_s: int) -> Row:
    """Few keys and values, so that they meet; NULLs, negatives, times in any order."""
    return (
        chance.choice([None, -1, 1, 2, 3]),
        chance.choice([None, "", "a", "A", "b"]),
        chance.choice([None, *range(-3, 4)]),
        chance.choice([None, 0, 1, chance.randint(-(10**12), 10**12)]),
        chance.choice([None, Decimal(chance.randint(-900, 900)).scaleb(-2)]),
        chance.choice([None, 0.0, -0.0, 0.5, -1.25, 3.0]),
        dt.datetime(2024, 1, 1) + dt.timedelta(seconds=chance.randint(0, spread_s)),
    )


def _appended(chance: random.Random, spread_s: int) -> Epochs:
    sizes = [chance.randint(4, 12), *(chance.randint(0, 12) for _ in range(chance.randrange(3)))]
    return [[(_row(chance, spread_s), 1) for _ in range(size)] for size in sizes]


def _changing(chance: random.Random) -> Epochs:
    few = [_row(chance, 120) for _ in range(chance.randint(2, 8))]
    sizes = [chance.randint(4, 14), *(chance.randint(0, 14) for _ in range(chance.randrange(3)))]
    return [[(chance.choice(few), chance.choice([1, 1, 1, -1])) for _ in range(size)] for size in sizes]


def data(format_: str) -> st.SearchStrategy[Epochs]:
    """Epochs as the format has them."""
    return appended() if format_ == APPEND else changing()


def drawn(seed: int, format_: str, *, spread_s: int = 120) -> Epochs:
    """Three epochs of the same kinds of rows, by a seed: never none. Of those that go, some go before they come."""
    random = Random(seed)

    def row() -> Row:
        return (
            random.choice([None, -1, 1, 2, 3]),
            random.choice([None, "", "a", "A", "b"]),
            random.choice([None, *range(-3, 4)]),
            random.choice([None, 0, 1, random.randint(-(10**12), 10**12)]),
            random.choice([None, Decimal(random.randint(-900, 900)) / 100]),
            random.choice([None, 0.0, -0.0, 0.5, -1.25, 3.0]),
            dt.datetime(2024, 1, 1) + dt.timedelta(seconds=random.randint(0, spread_s)),
        )

    if format_ == APPEND:
        return [[(row(), 1) for _ in range(random.randint(3, 14))] for _ in range(3)]
    few = [row() for _ in range(8)]
    return [[(random.choice(few), random.choice([1, 1, 1, -1])) for _ in range(14)] for _ in range(3)]


def _split(epoch: Sequence[tuple[Row, int]], plan: PhysicalPlan) -> pa.Table:
    [source] = plan.sources
    names = list(COLUMNS)
    arrays, fields = [], []
    for column in source.physical:
        type_ = to_arrow(column.type)
        values = [_valued(row[names.index(column.name)], type_) for row, _ in epoch]
        arrays.append(pa.array(values, type_))
        fields.append(column.name)
    if plan_changes(plan):
        arrays.append(pa.array(["+I" if sign > 0 else "-D" for _, sign in epoch], pa.string()))
        fields.append(KIND_COLUMN)
    return pa.table(arrays, names=fields)


def _valued(value: Any, type_: pa.DataType) -> Any:
    if value is not None and pa.types.is_decimal(type_):
        return Decimal(value).quantize(Decimal(1).scaleb(-type_.scale))
    return value


def plan_changes(plan: PhysicalPlan) -> bool:
    """Whether the source's rows come and go."""
    return plan.sources[0].options["format"] == CHANGES


# ------------------------------------------------------------------------------------------------------ states


@dataclass
class Loaded:
    """A plan run over some epochs: the stores of its states by id, a shard each."""

    driver: Driver
    stores: MemoryStores

    def rows(self, state_id: str, table_: StateTable) -> list[pa.Table]:
        """A table's rows, a shard each."""
        found = [self.stores.stores.get((state_id, shard)) for shard in range(self.stores.shards)]
        return [empty(table_) if store is None else store.scan_all(table_.name) for store in found]


def loaded(plan: Planned, epochs: Epochs, *, shards: int = 2) -> Loaded:
    """Run a plan over some epochs."""
    stores = MemoryStores(shards, GROUPS)
    driver = Driver(plan.physical, shards, stores, GROUPS, duck=DUCK, context={"now_us": NOW})
    for epoch in epochs:
        driver.run([_split(epoch, plan.physical)])
    return Loaded(driver, stores)


@lru_cache(200)
def _loaded_once(plan: _Same, epochs: _Same, shards: int) -> Loaded:
    return loaded(plan.value, epochs.value, shards=shards)


@dataclass(frozen=True)
class _Same:
    """A value that stands for itself and for others with the same name."""

    name: Any
    value: Any = field(compare=False)


def _left_alone(plan: Planned, epochs: Epochs, *, shards: int) -> Loaded:
    """As `loaded`, for who only looks at it: cases share their old queries and, as draws are fixed, their rows."""
    note(sum(map(len, epochs)))
    return _loaded_once(_Same(id(plan), plan), _Same(repr(epochs), epochs), shards)


def columns_of(table_: StateTable) -> Schema:
    """The columns of a table, its time included."""
    time = (Column(TIME, BIGINT),) if table_.layout == "time" else ()
    return (*time, *(Column(f.name, f.type) for f in (*table_.key, *table_.sub_key, *table_.value)))


def empty(table_: StateTable) -> pa.Table:
    """No rows of a table."""
    return pa.schema([(c.name, to_arrow(c.type)) for c in columns_of(table_)]).empty_table()


def derived_shards(derived: DerivedTable, edit: StateEdit, old: Loaded, *, shards: int) -> list[pa.Table]:
    """What a derivation gives for the shards of the new state."""
    assert edit.new is not None
    assert edit.old is not None
    table_ = edit.new.state.table(derived.table)
    schema = columns_of(table_)
    pieces = _from(derived.reads, derived.rows, edit.old.state, old, schema)
    for more in derived.also:
        if more.via is None:
            pieces += _from(more.reads, more.rows, more.state, old, schema)
            continue
        given = pa.concat_tables(_from(more.reads, more.rows, more.state, old, more.via.columns))
        by = [given.column(name) for name in more.via.keys]
        places = shard_of(key_groups(by, GROUPS, rows=given.num_rows), shards, GROUPS)
        for shard in range(shards):
            DUCK.register("rows", given.filter(pa.array(places == shard)), more.via.columns)
            pieces.append(_typed(DUCK.query(more.via.rows), schema))
            DUCK.drop("rows")
    together = pa.concat_tables(pieces)
    keys = [together.column(f.name) for f in table_.key]
    numbers = shard_of(key_groups(keys, GROUPS, rows=together.num_rows), shards, GROUPS)
    found = []
    for shard in range(shards):
        own = together.filter(pa.array(numbers == shard))
        if derived.merged is not None:
            DUCK.register("rows", own, schema)
            own = _typed(DUCK.query(derived.merged), schema)
            DUCK.drop("rows")
        found.append(own)
    return found


def _from(reads: Sequence[str], text: str, state: StateSchema, old: Loaded, schema: Schema) -> list[pa.Table]:
    """The rows of some SQL over each shard of an old state."""
    pieces = []
    tables = {name: state.table(name) for name in reads}
    for shard in range(old.stores.shards):
        for name, t in tables.items():
            DUCK.register(f"old.{name}", old.rows(state.state_id, t)[shard], columns_of(t))
        pieces.append(_typed(DUCK.query(text.replace(NOW_US, str(NOW))), schema))
        for name in tables:
            DUCK.drop(f"old.{name}")
    return pieces


def _typed(rows_: pa.Table, schema: Schema) -> pa.Table:
    """Rows whose columns are exactly those of a schema, in any order."""
    assert sorted(rows_.column_names) == sorted(c.name for c in schema)
    for c in schema:
        assert rows_.column(c.name).type == to_arrow(c.type), (c, rows_.column(c.name).type)
    return rows_.select([c.name for c in schema])


def spec_of(plan: Planned, state_id: str) -> OperatorSpec:
    """The operator that keeps a state."""
    return next(
        s.operator
        for stage in plan.physical.stages
        for s in stage.steps
        if isinstance(s, OperatorStep) and s.operator.state.state_id == state_id
    )


# ---------------------------------------------------------------------------------------------------- the proof


def assert_derived(
    old: Planned,
    new: Planned,
    epochs: Epochs,
    *,
    missing: Mapping[str, Sequence[str]] | None = None,
    whatever: bool = False,
) -> list[StateEdit]:
    """Every state of `new` that is not computed anew is what its operator has over the same data, table by table.

    `missing` are the columns, by table, that are to be backfilled; of others that is a mistake, unless `whatever` may be
    missing. Gives the edits.
    """
    before, after = _left_alone(old, epochs, shards=3), _left_alone(new, epochs, shards=2)
    found = needed(old, new)
    for edit in found:
        assert edit.new is not None
        reported = missing or {}
        if whatever:
            reported = {
                t.name: [f.name for f in edit.missing if f.table == t.name] for t in edit.new.state.tables
            }
        assert {(f.table, f.name) for f in edit.missing} == {
            (t.name, name) for t in edit.new.state.tables for name in reported.get(t.name, ())
        }, edit.fields
        if edit.derivation is None:
            continue
        if edit.derivation.inputs:
            run = _run_on_inputs(edit, before, shards=2)
            for table_ in edit.new.state.tables:
                theirs = after.rows(edit.new.state.state_id, table_)
                for mine, wanted in zip(run[table_.name], theirs, strict=True):
                    if names := _named(edit.new, table_):
                        mine, wanted = (_without_names(rows_, names) for rows_ in (mine, wanted))
                    same_rows(mine, wanted, table_, names, sums=False)
            continue
        derived = {d.table: d for d in edit.derivation.tables}
        for table_ in edit.new.state.tables:
            given = derived.get(table_.name)
            if given is None:
                assert reported.get(table_.name)
                continue
            left_out = set(reported.get(table_.name, ()))
            ours = derived_shards(given, edit, before, shards=2)
            theirs = after.rows(edit.new.state.state_id, table_)
            ours = [still_open(mine, edit.new, after.driver.previous) for mine in ours]
            for mine, wanted in zip(ours, theirs, strict=True):
                same_rows(mine, wanted, table_, left_out, sums=plan_changes(new.physical))
    return found


def _run_on_inputs(edit: StateEdit, old: Loaded, *, shards: int) -> dict[str, list[pa.Table]]:
    """The new operator run on derived inputs: the rows of its tables, a shard each."""
    assert edit.new is not None
    assert edit.old is not None
    assert edit.derivation is not None
    inputs = []
    for given in edit.derivation.inputs:
        rows_ = pa.concat_tables(
            _from(given.reads, given.rows, given.state or edit.old.state, old, given.columns)
        )
        keys = [rows_.column(name) for name in given.keys]
        inputs.append((rows_, shard_of(key_groups(keys, GROUPS, rows=rows_.num_rows), shards, GROUPS)))
    found: dict[str, list[pa.Table]] = {t.name: [] for t in edit.new.state.tables}
    for shard in range(shards):
        store = MemoryShardStore(edit.new.state, shard, shards, GROUPS)
        own = [rows_.filter(pa.array(numbers == shard)) for rows_, numbers in inputs]
        context = OperatorContext(shard, shards, GROUPS, Watermarks(), store, DUCK, NOW)
        operator_of(edit.new).process(own, context)
        store.commit()
        for t in edit.new.state.tables:
            found[t.name].append(store.scan_all(t.name))
    return found


def _named(spec: OperatorSpec, table_: StateTable) -> set[str]:
    """The columns of a table that tell rows apart and are drawn anew: the names of rows that never go."""
    if not isinstance(spec, JoinSpec | IntervalJoinSpec):
        return set()
    side = spec.left if table_.name.endswith("left") else spec.right
    return set() if side.retracting else {f.name for f in table_.sub_key}


def _without_names(rows_: pa.Table, names: set[str]) -> pa.Table:
    """The rows under no name, as often as they are there: how many one name stands for is as they came."""
    times = rows_.column("__count").to_numpy()
    one = rows_.set_column(
        rows_.column_names.index("__count"), "__count", pa.array(np.ones(len(times), np.int64))
    )
    return one.take(pa.array(np.repeat(np.arange(len(times)), times))).drop_columns(list(names))


def still_open(rows_: pa.Table, spec: OperatorSpec, watermark: int) -> pa.Table:
    """Without slices that no window which is open needs: the old windows may have kept them for longer."""
    if not isinstance(spec, WindowAggregateSpec) or not rows_.num_rows:
        return rows_
    _, last = window_ends_of_slice(spec.window, rows_.column(TIME).to_numpy())
    return rows_.filter(pa.array(last > closed_upto(watermark, spec.tick_us)))


def same_rows(
    ours: pa.Table, theirs: pa.Table, table_: StateTable, left_out: set[str], *, sums: bool
) -> None:
    """Both have the same rows.

    With `sums`, over rows that come and go, values are sums: 0 may be NULL, as counts beside it say whether there are
    any; and rows of nothing but zeros may be there or not, as no operator sees them.
    """
    names = [c.name for c in columns_of(table_)]
    values = [f.name for f in table_.value if f.name not in left_out]
    keys = [name for name in names if name not in table_.value_columns and name not in left_out]

    def content(rows_: pa.Table) -> list[str]:
        listed = []
        for row in rows_.to_pylist():
            held = [_comparable(row[name]) for name in values]
            if sums:
                held = [0 if h is None or h == 0 else h for h in held]
            if sums and held and all(h == 0 for h in held):
                continue
            listed.append(repr(([_comparable(row[name]) for name in keys], held)))
        return sorted(listed)

    if sums and table_.name in (TOUCHED, EXPIRY):
        # A group that came and went was touched, and there is nothing of it to be forgotten.
        assert set(content(ours)) <= set(content(theirs))
        return
    assert content(ours) == content(theirs)


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9) + 0.0
    if isinstance(value, dict):
        return {name: _comparable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_comparable(inner) for inner in value]
    return value


def verdicts(found: Sequence[StateEdit]) -> list[Verdict]:
    """The verdict of each state."""
    return [edit.verdict for edit in found]
